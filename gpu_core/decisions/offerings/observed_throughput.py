"""The throughput that a deployment has shown, by its own finished runs.

The ledger knows how long a run worked, not how much it did. So each run is taken to have done the
same, and that is stated or the amount of the job that is planned.
"""

from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from gpu_core.decisions.catalog.gpu_types import GPU_TYPES
from gpu_core.decisions.model.attempts import Attempt, EndReason, RunRecord
from gpu_core.decisions.model.errors import InvalidInput, listed, nearest_name
from gpu_core.decisions.model.work_done import work_s
from gpu_core.decisions.model.workload import WHOLE_GPU_MILLI
from gpu_core.decisions.offerings.estimates import observed_on
from gpu_core.decisions.requests.requirements.estimates.duration import ObservedThroughput
from gpu_core.decisions.requests.requirements.jobs.number_words import short_count

_NEWEST = 20
"""Runs that count: code and data change, and older ones say less."""

Records = Iterable[tuple[RunRecord, Sequence[Attempt]]]


@dataclass(frozen=True, slots=True, kw_only=True)
class DeploymentThroughput:
    """The throughput that a deployment's runs reached, and the hardware that they ran on."""

    deployment: str
    runs: int
    observed: ObservedThroughput

    def reason(self, unit: str) -> str:
        """The runs and their throughput as one sentence.

        Args:
            unit: What the job counts: tokens, prompts, images.
        """
        hardware, speeds = self.observed.hardware, self.observed.units_per_s
        runs = "1 run" if self.runs == 1 else f"{self.runs} runs"
        slowest, fastest = short_count(min(speeds)), short_count(max(speeds))
        speed = slowest if slowest == fastest else f"{slowest} to {fastest}"
        where = f"{hardware.gpus} × {hardware.gpu.name}"
        return f"{runs} of {self.deployment} on {where}: {speed} {unit} per second"


def shown_by(records: Records, deployment: str, amount_each: float) -> DeploymentThroughput:
    """The throughput that the runs of this deployment show.

    Completed runs on one node, on GPUs that are known. Of several kinds of hardware that with the
    most such runs counts, and of two with as many the one used last.

    Args:
        records: Runs with all their attempts, by number, in the order of submission.
        deployment: Its name, as `flow/deployment`.
        amount_each: Tokens, prompts or images that each run did; over 0.

    Raises:
        InvalidInput: It has no run that says anything.
    """
    speeds: dict[tuple[str, int], list[float]] = defaultdict(list)
    names: set[str] = set()
    for run, attempts in records:
        names |= {run.deployment} if run.deployment is not None else set()
        hardware = _hardware(attempts)
        worked_s = work_s(attempts)
        if run.deployment == deployment and hardware is not None and worked_s > 0:
            # Taken out and put back, so that the hardware that was used last is the last one.
            speeds[hardware] = [*speeds.pop(hardware, []), amount_each / worked_s]
    if not speeds:
        raise InvalidInput(
            "deployment",
            "has no completed run on one node with known GPUs",
            got=deployment,
            allowed=listed(sorted(names)) if names else None,
            nearest=None if deployment in names else nearest_name(deployment, names),
        )
    gpu_type, gpus = max(reversed(speeds), key=lambda hardware: len(speeds[hardware]))
    newest = tuple(speeds[gpu_type, gpus][-_NEWEST:])
    observed = observed_on(gpu_type, gpus, newest)
    return DeploymentThroughput(deployment=deployment, runs=len(newest), observed=observed)


def _hardware(attempts: Sequence[Attempt]) -> tuple[str, int] | None:
    """The hardware that a run ran on; None if it is not recorded, or the run did not complete."""
    last = attempts[-1]
    kinds = {(attempt.gpu_type, attempt.gpu_count) for attempt in attempts}
    if last.end_reason is not EndReason.COMPLETED or len(kinds) > 1:
        return None
    if last.gpu_type is None or last.gpu_type not in GPU_TYPES:
        return None
    if not all(map(_is_whole_on_one_node, attempts)):
        return None
    return last.gpu_type, last.gpu_count


def _is_whole_on_one_node(attempt: Attempt) -> bool:
    if len(attempt.held) != 1:
        return False
    (share,) = attempt.held
    return share.share_milli == WHOLE_GPU_MILLI and not share.mig_starts
