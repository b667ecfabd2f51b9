"""The gain for a team if runs that resume take turns, and the runs that wait longer for it."""

from collections.abc import Mapping, Sequence

from gpu_core.decisions.model.units import format_duration
from gpu_core.decisions.simulation.cluster.trace import TraceJob
from gpu_core.decisions.simulation.policies.metrics import LONG_OVER_GPU_H, Metrics
from gpu_core.decisions.simulation.policies.named_policies import DEFAULT_POLICY, RESUMABLE_POLICY


def share_that_resumes(jobs: Sequence[TraceJob]) -> float:
    """The part of all GPU-hours that is of deployments whose runs have shown that they resume."""
    total = sum(job.duration_s * job.total_gpus for job in jobs)
    shown = sum(job.duration_s * job.total_gpus for job in jobs if job.has_resumed)
    return shown / total if total else 0.0


def gain_text(jobs: Sequence[TraceJob], replayed: Mapping[str, Metrics]) -> str | None:
    """What the team would gain, and what long runs would pay. None: the two were not compared.

    Args:
        jobs: The jobs of the replay.
        replayed: The metrics by the policy's name.
    """
    by_default, taking_turns = replayed.get(DEFAULT_POLICY), replayed.get(RESUMABLE_POLICY)
    if by_default is None or taking_turns is None:
        return None
    before, after = by_default.wait_s, taking_turns.wait_s
    if before is None or after is None:
        return None
    text = (
        f"{share_that_resumes(jobs) * 100:.0f}% of the GPU-hours are of deployments whose runs "
        f"have resumed from complete checkpoints. Under '{RESUMABLE_POLICY}' the mean wait is "
        f"{format_duration(after.mean)} instead of {format_duration(before.mean)} "
        f"('{DEFAULT_POLICY}')"
    )
    long_before, long_after = by_default.long_wait_s, taking_turns.long_wait_s
    if long_before is None or long_after is None:
        return f"{text}."
    return (
        f"{text}, and {format_duration(long_after.mean)} instead of "
        f"{format_duration(long_before.mean)} for runs over {LONG_OVER_GPU_H:.0f} GPU-hours."
    )
