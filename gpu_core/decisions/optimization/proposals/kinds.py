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
    "The costs of both groups, as far as they and their logarithms differ beyond noise: Welch's "
    "test, one false proposal in 1,000 nights, shared between all comparisons."
)

RULES: Mapping[ProposalKind, KindRule] = {
    ProposalKind.SPOT: KindRule(
        evidence="10 runs, all on-demand and on one GPU type, and a price of spot for that type.",
        change="`capacity_type: spot`",
        simulated="Interruptions at the rate that spot had in the ledger, else in public traces.",
        unit=WorkUnit.GPU_HOUR_OF_WORK,
    ),
    ProposalKind.GPU_TYPE: KindRule(
        evidence="10 runs of the deployment on each of two GPU types, with as many GPUs.",
        change="`gpu_type`",
        simulated=_CONFIGURATION,
        unit=WorkUnit.COMPLETED_RUN,
    ),
    ProposalKind.GPU_COUNT: KindRule(
        evidence="10 runs of the deployment on each of two numbers of GPUs, of one type.",
        change="`gpu_count`",
        simulated=_CONFIGURATION,
        unit=WorkUnit.COMPLETED_RUN,
        # `make bench-savings`, seeds 31001 to 31060, which no rule was developed on; 2026-11-28.
        too_narrow="19 of 28",
    ),
    ProposalKind.CHECKPOINT_INTERVAL: KindRule(
        evidence="10 runs with measured saves (`saves`, `save_stall_s`, `expected_loss_s` of their "
        "attempts), and 5 attempts that ended before their run.",
        change="`checkpoint_interval`, in seconds: the optimum of [checkpoints](checkpoints.md)",
        simulated="Stalls and lost work at both intervals, at the rate that attempts ended with; "
        "the old one must give the recorded cost to 5%. How much chance was in that cost counts.",
        unit=WorkUnit.GPU_HOUR_BETWEEN_SAVES,
    ),
    ProposalKind.SHARING: KindRule(
        evidence="10 runs on one whole GPU, all with measured utilisation and memory, under-used "
        "in the mean (`idle.under_used_below`, by default 30%), and a part of such a GPU that "
        "another run held, in 90% of whose memory all of them fit.",
        change="`gpu_fraction` (MPS, time-slicing) or `mig_profile`",
        simulated="Kernels take up to n times as long on the n-th part of a GPU. How busy the "
        "neighbours are is not known: from never to always, each as likely. Waits are not "
        "replayed.",
        unit=WorkUnit.COMPLETED_RUN,
    ),
    ProposalKind.RESERVED: KindRule(
        evidence="Machines recorded for all 28 days, and for their kind a price of `reserved` in "
        "the ledger, the catalog or the policy.",
        change="the number of reserved machines of a kind",
        simulated="Nothing: Student's prediction interval from four weeks. Each machine pays off "
        "at its lower end.",
        unit=WorkUnit.MACHINE_HOUR,
        by_hand="buy the commitment from the provider; `prefect-gpu cost savings` then shows what "
        "other terms, such as reserved, saved",
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
        why="They change what a run computes. The ledger has neither, so no history shows it.",
        instead="The [experiments](experiments.md#inference) `batch-size` and `precision` measure "
        "cost, latency and quality; a person sets what they show.",
    ),
    Unproposed(
        change="parallelism limit of a deployment",
        why="The same runs hold the same GPU-hours, later. It saves waits of others, not money.",
        instead="[Quotas and fair share](policy.md) of the policy bound what a team holds at once.",
    ),
    Unproposed(
        change="off-peak schedule",
        why="On-demand costs the same at each hour, and of spot the ledger has the price only "
        "while runs hold it: not at the hours that would be proposed.",
        instead="`capacity_type: auto` with a `deadline` waits for [spot](spot-and-budgets.md).",
    ),
    Unproposed(
        change="MIG partitions",
        why="The layout of a node is set in the cluster, by its GPU operator; the ledger has the "
        "instances that runs held, not those that runs waited for.",
        instead="The proposal `sharing`; the queue says which instance a waiting run lacks.",
    ),
    Unproposed(
        change="idle time-out",
        why="A summary has no order in time, and minutes are kept of process pools only: whether a "
        "run was done with its GPUs or waited for data is not known, nor which work would stop.",
        instead="`idle.action: stop` of the policy, which judges by five signals; `optimize` shows "
        "what held GPUs that did nothing cost.",
    ),
)
