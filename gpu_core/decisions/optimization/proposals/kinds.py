"""The kinds of changes: what each needs to be proposed, and how it is changed and verified."""

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum


class WorkUnit(StrEnum):
    """The unit in which work is counted, so that costs before and after can be compared."""

    GPU_HOUR_OF_WORK = "GPU-hour of work"
    """Without what interruptions cost."""
    GPU_HOUR_BETWEEN_SAVES = "GPU-hour of work between saves"
    """Without what interruptions and saves cost."""
    COMPLETED_RUN = "completed run"
    MACHINE_HOUR = "machine-hour"


class ProposalKind(StrEnum):
    """The kind of a change. Stable: records and reports have it."""

    SPOT = "spot"
    """Spot in place of on-demand, from the interruptions that others had on spot."""
    GPU_TYPE = "gpu-type"
    """Another GPU type, on which the same deployment has run."""
    GPU_COUNT = "gpu-count"
    """Another number of GPUs, on which the same deployment has run."""
    CHECKPOINT_INTERVAL = "checkpoint-interval"
    """Saves more often or less often, from what they cost and what interruptions lost."""
    SHARING = "sharing"
    """A part of a GPU in place of a whole one, from what runs use of it."""
    RESERVED = "reserved"
    """A commitment in place of on-demand, for machines that are there nearly all the time."""

    @property
    def rule(self) -> "KindRule":
        """The rule of this kind."""
        return RULES[self]


@dataclass(frozen=True, slots=True, kw_only=True)
class KindRule:
    """The rule of a kind of proposal: when it is made, and what follows.

    Sentences for people, as docs have them.
    """

    evidence: str
    """The records that the ledger must have; without them nothing is proposed."""
    change: str
    """The part of the deployment that is changed, and set back by an undo."""
    simulated: str
    """The source of the saving's interval."""
    unit: WorkUnit
    """The unit that the cost before and after is divided by."""
    too_narrow: str | None = None
    """How often the interval held the measured saving in generated histories, where that was less
    often than the goal of 75 to 90%; None: it was not."""
    by_hand: str | None = None
    """How a person carries it out, where no API that is used here can: it is shown, neither asked
    for nor recorded nor verified by the flows. None: `apply-saving` does it."""


_CONFIGURATION = (
    "The costs of both groups, if the difference in costs and in their logarithms is "
    "statistically significant (Welch's t-test, with an overall false positive rate of one "
    "proposal in 1,000 nights)."
)

RULES: Mapping[ProposalKind, KindRule] = {
    ProposalKind.SPOT: KindRule(
        evidence="At least 10 runs, all of them on-demand and on the same GPU type, and a known "
        "spot price for this type.",
        change="`capacity_type: spot`",
        simulated="Interruptions at the rate recorded in the ledger for spot capacity, or the "
        "rate in public traces if there are no records.",
        unit=WorkUnit.GPU_HOUR_OF_WORK,
    ),
    ProposalKind.GPU_TYPE: KindRule(
        evidence="At least 10 runs of the deployment on each of two GPU types, with the same "
        "number of GPUs.",
        change="`gpu_type`",
        simulated=_CONFIGURATION,
        unit=WorkUnit.COMPLETED_RUN,
    ),
    ProposalKind.GPU_COUNT: KindRule(
        evidence="At least 10 runs of the deployment for each of two GPU counts, with the same "
        "GPU type.",
        change="`gpu_count`",
        simulated=_CONFIGURATION,
        unit=WorkUnit.COMPLETED_RUN,
        # `make bench-savings`, seeds 31001 to 31060, which no rule was developed on; 2026-11-28.
        too_narrow="19 of 28",
    ),
    ProposalKind.CHECKPOINT_INTERVAL: KindRule(
        evidence="At least 10 runs with measured checkpoint saves (`saves`, `save_stall_s` and "
        "`expected_loss_s` of their attempts) and 5 attempts that ended before their run "
        "completed.",
        change="`checkpoint_interval` in seconds, set to the optimal interval (see "
        "[checkpoints](checkpoints.md))",
        simulated="Stalls and lost work for both intervals, using the observed interruption "
        "rate. The simulated cost for the current interval must be within 5% of the recorded "
        "cost. The interval accounts for random variation in this cost.",
        unit=WorkUnit.GPU_HOUR_BETWEEN_SAVES,
    ),
    ProposalKind.SHARING: KindRule(
        evidence="At least 10 runs on a single full GPU with measured utilization and memory, a "
        "mean utilization below `idle.under_used_below` (30% by default), and a fraction of "
        "this GPU type that was used by another run and has enough memory for all of them "
        "(with a 10% margin).",
        change="`gpu_fraction` (MPS, time-slicing) or `mig_profile`",
        simulated="Kernels that are up to n times slower on 1/n of a GPU. The utilization by "
        "other runs on the same GPU is unknown and assumed to be uniformly distributed. Wait "
        "times are not simulated.",
        unit=WorkUnit.COMPLETED_RUN,
    ),
    ProposalKind.RESERVED: KindRule(
        evidence="Records of machines for all 28 days and a `reserved` price for this machine "
        "type in the ledger, the catalog or the policy.",
        change="the number of reserved machines of a specific type",
        simulated="Not simulated. The interval is a Student's t prediction interval over four "
        "weeks, and each machine must be worthwhile at its lower bound.",
        unit=WorkUnit.MACHINE_HOUR,
        by_hand="purchase the commitment from the provider. You can then view the savings with "
        "`prefect-gpu cost savings`",
    ),
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Unproposed:
    """A change that is not proposed, with the reason and what there is in its place."""

    change: str
    why: str
    instead: str


UNPROPOSED = (
    Unproposed(
        change="batch size, precision",
        why="These settings affect the results of a run and are not recorded in the ledger, so "
        "there is no history to compare.",
        instead="The [experiments](experiments.md#inference) `batch-size` and `precision` "
        "measure cost, latency and quality, allowing you to choose the best settings.",
    ),
    Unproposed(
        change="parallelism limit of a deployment",
        why="The same runs would use the same number of GPU-hours at a later time. This reduces "
        "the wait times of other runs but not the cost.",
        instead="[Quotas and fair share](policy.md) in the policy limit the number of GPUs used "
        "by a team.",
    ),
    Unproposed(
        change="off-peak schedule",
        why="On-demand prices are the same at all hours, and spot prices are only recorded in "
        "the ledger while runs are using spot capacity.",
        instead="`capacity_type: auto` with a `deadline` waits for [spot](spot-and-budgets.md) "
        "capacity.",
    ),
    Unproposed(
        change="MIG partitions",
        why="The MIG layout of a node is managed by the GPU operator of the cluster. The ledger "
        "only contains MIG instances that were used by runs, not those requested by pending "
        "runs.",
        instead="Use the `sharing` proposal. The queue displays the MIG instance requested by "
        "each pending run.",
    ),
    Unproposed(
        change="idle time-out",
        why="Telemetry summaries do not contain timestamps, and per-minute records are only "
        "available for process pools. It is therefore not possible to determine whether a "
        "run had finished using its GPUs or was waiting for data.",
        instead="Set `idle.action: stop` in the policy to stop idle runs based on five signals. "
        "The cost of idle GPUs is displayed by `prefect-gpu optimize`.",
    ),
)
