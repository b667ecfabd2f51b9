"""The records of the usage ledger: runs, their attempts, and the reason for each attempt's end."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum
from fractions import Fraction
from typing import Any, NamedTuple

from gpu_core.decisions.model.attempt_exit import Exit
from gpu_core.decisions.model.cluster import NodeShare
from gpu_core.decisions.model.gpu_summary import GpuSummary
from gpu_core.decisions.model.host_summary import HostSummary
from gpu_core.decisions.model.prices import PriceChange, Rates

SettlementValue = str | int | bool | list[str] | None
"""A value of the judgment of an end that the ledger keeps as JSON."""


class EndReason(StrEnum):
    """The reason why an attempt released its GPUs. A stable contract: reports and alerts match on
    it."""

    COMPLETED = "Completed"
    """The flow finished."""
    FAILED = "Failed"
    """The flow raised; charged to the run."""
    CRASHED = "Crashed"
    """The process died by itself (exit code, out of memory); charged to the run."""
    CANCELLED = "Cancelled"
    """A person cancelled the run."""
    PREEMPTED = "Preempted"
    """Our scheduler took the GPUs for a more urgent run."""
    INTERRUPTED = "Interrupted"
    """The provider or the machine took the GPUs: a signal from outside, a reboot, a lost node."""
    TIMED_OUT = "TimedOut"
    """The run's longest duration was over."""
    BUDGET_SPENT = "BudgetSpent"
    """The run's own budget was used up, and the policy stops such runs."""
    BUDGET_HELD = "BudgetHeld"
    """A budget of its pool, team, user, project or deployment was used up; the run resumes when the
    budget has room."""
    IDLE = "Idle"
    """It held its GPUs and did not use them, and the policy stops such runs."""
    HUNG = "Hung"
    """It made no progress, and the policy restarts such runs; charged to the run."""
    REFUSED = "Refused"
    """Its infrastructure is refused at each try: a right, a rule or a value is wrong."""
    POSTPONED = "Postponed"
    """It is tried later, and its flow did not begin: the cluster takes it only when, for one, its
    ResourceQuota has room, or the platform was unavailable."""
    SUSPENDED = "Suspended"
    """The flow suspended itself to continue later."""

    @property
    def is_requested(self) -> bool:
        """Is the attempt terminated by the worker for this reason, which overrides its own end?"""
        return _TRAITS[self].is_requested

    @property
    def resumes(self) -> bool:
        """Does another attempt continue the run, unless a limit of the run forbids it?"""
        return _TRAITS[self].resumes

    @property
    def is_excusable(self) -> bool:
        """May an outage of the platform explain it? Without an outage it is what it seems."""
        return _TRAITS[self].is_excusable

    @property
    def has_run(self) -> bool:
        """Was the attempt an execution of the run, with a cost, a wait and a retry of its own?"""
        return _TRAITS[self].has_run


class _Traits(NamedTuple):
    is_requested: bool
    resumes: bool
    is_excusable: bool
    has_run: bool


# A new reason needs a row here, and its settlement in decisions/attempts/settlement.py.
_TRAITS: Mapping[EndReason, _Traits] = {
    #                              requested  resumes  excusable  has run
    EndReason.COMPLETED:    _Traits(False,    False,   False,     True),
    EndReason.FAILED:       _Traits(False,    False,   True,      True),
    EndReason.CRASHED:      _Traits(False,    False,   True,      True),
    EndReason.CANCELLED:    _Traits(True,     False,   False,     True),
    EndReason.PREEMPTED:    _Traits(True,     True,    False,     True),
    EndReason.INTERRUPTED:  _Traits(True,     True,    True,      True),
    EndReason.TIMED_OUT:    _Traits(True,     False,   False,     True),
    EndReason.BUDGET_SPENT: _Traits(True,     False,   False,     True),
    EndReason.BUDGET_HELD:  _Traits(True,     True,    False,     True),
    EndReason.IDLE:         _Traits(True,     False,   False,     True),
    EndReason.HUNG:         _Traits(True,     True,    False,     True),
    EndReason.REFUSED:      _Traits(False,    False,   False,     True),
    EndReason.POSTPONED:    _Traits(True,     True,    False,     False),
    EndReason.SUSPENDED:    _Traits(False,    True,    False,     True),
}  # fmt: skip


class Provenance(StrEnum):
    """The origin of a record, so that generated data can never pass for measured data."""

    MEASURED = "measured"
    GENERATED = "generated"


@dataclass(frozen=True, slots=True, kw_only=True)
class RunRecord:
    """The owner of a run, and what its cost is later grouped by."""

    flow_run_id: str
    name: str
    flow_name: str
    deployment: str | None
    pool: str
    queue: str | None
    team: str | None
    user: str | None
    project: str | None
    experiment: str | None
    """The MLflow experiment that the run logs to."""
    model: str | None
    workload_type: str | None
    priority: int
    submitted_at: datetime
    provenance: Provenance = Provenance.MEASURED
    final_state: str | None = None
    """Prefect's final state name; None while the run is not over."""
    parent_flow_run_id: str | None = None
    """The run that started it; None: none did, or none of its attempts has ended."""


MAX_EXCUSED = 10
"""How many ends in a row are excused and tried again soon; with the growing pauses between them
(`spot.retry_backoff`) they take 20 minutes at least. After that, a flow that had started is charged
with its end, since its own body may be what takes the platform down. An attempt that had not
started is not charged: the run is held, and tried rarely, until a person corrects the cause."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Attempt:
    """One stay of a run on its GPUs, from admission until the GPUs are free again."""

    attempt_id: str
    flow_run_id: str
    number: int
    """1 for the first; also the fencing token of checkpoints."""
    pool: str
    host: str
    node: str
    gpu_type: str | None
    """None for a run that asked for no GPU."""
    gpu_ids: tuple[str, ...]
    capacity_type: str
    price_micro_usd_per_gpu_hour: int | None
    """Of a whole GPU; None: no price is known, which is never the same as free."""
    admitted_at: datetime
    started_at: datetime | None = None
    """The moment at which the process was created; None until then."""
    released_at: datetime | None = None
    """The moment at which the last process was gone and the GPUs were free; None while they are
    held."""
    last_seen_at: datetime | None = None
    """The last moment at which the processes were seen alive: the bound of what a crash of the
    whole machine can hide."""
    pid: int | None = None
    pid_created_at: float | None = None
    """The operating system's start time of `pid`: a reused number is not mistaken for it."""
    drain_requested_at: datetime | None = None
    drain_reason: EndReason | None = None
    """`PREEMPTED`, `CANCELLED`, `TIMED_OUT`, `BUDGET_SPENT`, `BUDGET_HELD`, `IDLE`,
    `HUNG` or `INTERRUPTED`."""
    drain_deadline_at: datetime | None = None
    """The end of the grace period: processes alive after it are killed."""
    drain_message: str | None = None
    preempted_by: str | None = None
    """The flow run id that the GPUs were taken for."""
    end_reason: EndReason | None = None
    end_message: str | None = None
    exit_code: int | None = None
    is_charged_failure: bool = False
    is_end_estimated: bool = False
    """The end is `last_seen_at`, because nothing that saw the real end survived."""
    restored_from: str | None = None
    """The checkpoint that this attempt started with."""
    checkpoint: str | None = None
    """The newest checkpoint that this attempt committed."""
    checkpointed_at: datetime | None = None
    """The moment at which the save of that checkpoint began: what is in it was done until then."""
    shares: tuple[NodeShare, ...] | None = None
    """The GPUs that it holds on each of its nodes; None in records from before this was kept."""
    zone: str | None = None
    """The zone of its first node, in the provider's words; None: not stated."""
    infrastructure: str | None = None
    """The object that runs it where no process of this machine does: `namespace:job`."""
    settlement: Mapping[str, SettlementValue] | None = None
    """The judgment of its end, before Prefect is informed and the attempt is closed."""
    first_step_at: datetime | None = None
    """The moment at which the flow had done its first new step; None: it has done none, or does not
    say."""
    expected_loss_s: float | None = None
    """Work that an interruption without notice loses on average, as the flow measures its saves;
    None: it does not say."""
    saves: int | None = None
    """How many checkpoints it has committed; None: none, or from before this was kept."""
    save_stall_s: float | None = None
    """How long it stands still for a save, by the median of its latest; None: not measured, or
    from before this was kept."""
    job_variables: Mapping[str, Any] | None = None
    """The job variables that it was started with; the deployment or the pool's template may have
    changed since. Only while it is open. None in records from before this was kept."""
    gpu_quantity: Fraction | None = None
    """GPUs that it holds, parts of GPUs as exact fractions. None in records from before this was
    kept: the thousandths of `shares` count."""
    cpu_milli: int | None = None
    """Thousandths of CPU cores that it requested, over all nodes; None: unknown."""
    memory_mib: int | None = None
    """Memory that it requested, over all nodes; None: unknown."""
    price_micro_usd_per_cpu_hour: int | None = None
    """Of a CPU core. None with a price of GPUs: that price includes the rest of the machine."""
    price_micro_usd_per_gib_hour: int | None = None
    """Of a GiB of memory. None: as for CPU cores."""
    price_source: str | None = None
    """The source of its prices. None in records from before this was kept, whose price is that of
    the held part of a GPU."""
    price_as_of: datetime | None = None
    """Since when the source has had these prices; None: it does not say."""
    later_prices: tuple[PriceChange, ...] | None = None
    """Prices that changed while it held its GPUs, oldest first; None: none did."""
    gpu_summaries: tuple[GpuSummary, ...] | None = None
    """The activity of its GPUs; None: they were not sampled, or it is not over."""
    micro_batch_divisor: int | None = None
    """The divisor of its micro-batch; None: 1, or from before this was kept."""
    host_summary: HostSummary | None = None
    """The use of the machine by its processes; None: not sampled, or it is not over."""
    bound_at: datetime | None = None
    """Since when it is certain that it is on these nodes or on none: from its admission where its
    pods are pinned to them, else from when they were bound. None: its nodes are only planned, or
    the record is from before this was kept."""
    gone_at: datetime | None = None
    """Since when nothing of it lives and its GPUs are free, while its end is still to be judged.
    None: it may live, or it is over."""
    exit: Exit | None = None
    """The end as it was seen then; None: nothing saw it, or `gone_at` is None."""

    @property
    def is_excused(self) -> bool:
        """Did an outage of the platform end it, which is charged to no one?"""
        return self.excused_at is not None

    @property
    def excused_at(self) -> datetime | None:
        """The moment its end was attributed to an outage of the platform; None if it was not."""
        at = (self.settlement or {}).get("excused_at")
        return datetime.fromisoformat(at) if isinstance(at, str) else None

    @property
    def asked_for_micro_batch(self) -> bool | None:
        """Did its flow call `micro_batch()`? None: from before this was kept, or it is not over."""
        asked = (self.settlement or {}).get("asked_for_micro_batch")
        return asked if isinstance(asked, bool) else None

    @property
    def faulty_nodes(self) -> frozenset[str]:
        """The nodes of the attempt that are known to have failed it.

        Empty: each of them may have.
        """
        names = (self.settlement or {}).get("faulty_nodes")
        known = {share.node for share in self.held}
        return frozenset(known.intersection(map(str, names if isinstance(names, list) else ())))

    @property
    def has_run(self) -> bool:
        """Does it count as an execution of the run? One that is open, or has no reason, does."""
        return self.end_reason is None or self.end_reason.has_run

    @property
    def freed_at(self) -> datetime | None:
        """The moment since when its GPUs are free, and cost nothing more; None: it holds them."""
        return self.released_at or self.gone_at

    @property
    def is_placed(self) -> bool:
        """Are its nodes more than planned? Once it is over they are what is known of them."""
        return self.bound_at is not None or self.released_at is not None

    @property
    def lost_capacity(self) -> bool:
        """Did the provider or the machine take its GPUs?"""
        return self.end_reason is EndReason.INTERRUPTED and not self.is_excused

    @property
    def is_better_elsewhere(self) -> bool:
        """May the place be what ended it, so that the next attempt leaves it alone for a while?"""
        return self.lost_capacity or self.end_reason is EndReason.HUNG

    @property
    def gpu_count(self) -> int:
        """The number of GPUs that it is on.

        A part of a GPU counts as one; `gpus` is what it holds.
        """
        return len(self.gpu_ids)

    @property
    def gpus(self) -> Fraction:
        """How many GPUs does it hold? A part of a GPU counts as that part."""
        if self.gpu_quantity is not None:
            return self.gpu_quantity
        if self.shares is None:
            return Fraction(len(self.gpu_ids))
        return held_gpus(self.shares)

    @property
    def priced_gpus(self) -> Fraction:
        """How many times does it pay the price of a GPU?"""
        if self.price_source is None and self.price_micro_usd_per_gpu_hour is not None:
            return Fraction(len(self.gpu_ids))  # written by a version that kept a part's price
        return self.gpus

    @property
    def price_changes(self) -> tuple[PriceChange, ...]:
        """The prices of the attempt, each with its first moment: the admission for the first."""
        first = Rates(
            gpu_micro_usd_per_hour=self.price_micro_usd_per_gpu_hour,
            cpu_micro_usd_per_hour=self.price_micro_usd_per_cpu_hour,
            gib_micro_usd_per_hour=self.price_micro_usd_per_gib_hour,
            source=self.price_source or "",
            as_of=self.price_as_of,
        )
        return (PriceChange(since=self.admitted_at, rates=first), *(self.later_prices or ()))

    @property
    def held(self) -> tuple[NodeShare, ...]:
        """The resources that it holds on each of its nodes."""
        if self.shares is not None:
            return self.shares
        return (NodeShare(node=self.node, gpu_ids=self.gpu_ids),) if self.gpu_ids else ()


def held_gpus(shares: Iterable[NodeShare]) -> Fraction:
    """How many GPUs are these shares together? Exact: seven MIG `1g` instances are one."""
    return sum((len(share.gpu_ids) * share.part_of_gpu for share in shares), Fraction(0))
