"""The reason why a run was preempted, for its page."""

from gpu_core.decisions.model.units import count
from gpu_core.decisions.model.workload import Workload


def why_preempted(victim: Workload, preemptor: Workload) -> str:
    """The reason as one sentence.

    Args:
        victim: The run that held the GPUs.
        preemptor: The run that they were taken for.
    """
    needs = f"needs {count(preemptor.shape.total_gpus, 'GPU')}"
    if preemptor.priority > victim.priority:
        return (
            f"{preemptor.name!r} has a higher priority ({preemptor.priority:,} points instead of "
            f"{victim.priority:,}) and {needs}."
        )
    if preemptor.team != victim.team:
        return f"{preemptor.name!r} reclaims quota of team {preemptor.team!r} and {needs}."
    return f"{preemptor.name!r} is ahead in the order of the policy and {needs}."
