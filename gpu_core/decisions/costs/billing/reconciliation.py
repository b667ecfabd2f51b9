"""A provider's bill against the capacity in the ledger: where every dollar of the bill belongs.

From the ledger's cost to the bill's in steps that add up exactly: machines of ours at another price
or for another time, what commitments took off, and all that is no machine of ours.
"""

from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from enum import StrEnum
from fractions import Fraction

from gpu_core.decisions.costs.billing.bill_lines import (
    BillLine,
    LineKind,
    LineProblem,
    instance_key,
    period_hours,
)
from gpu_core.decisions.costs.capacity.capacity_intervals import CapacityInterval
from gpu_core.decisions.costs.capacity.idle import counted_in
from gpu_core.decisions.costs.usage.usage import Exact
from gpu_core.decisions.costs.usage.usage_cost import Window

_HOUR = timedelta(hours=1)
_MICROSECOND = timedelta(microseconds=1)
_US_PER_HOUR = _HOUR // _MICROSECOND


class Step(StrEnum):
    """The reasons why the bill differs from the ledger, in the order of a table."""

    PRICE = "price changes"
    """An hour of a machine of ours costs something else than the ledger says."""
    TIME = "time that the ledger does not have"
    """Hours before the worker saw the machine, and after; less than zero: hours not billed."""
    COMMITTED = "covered by commitments"
    """The amount that commitments took off the price of our machines."""
    UNPRICED = "machines without a price in the ledger"
    NOT_BILLED = "machines that are not on the bill"
    OTHER_NODES = "machines that are not in the ledger"
    COMMITMENT = "fees of commitments, and what was not used"
    DATA_TRANSFER = "data transfer"
    OTHER_SERVICE = "other services"
    TAX = "taxes"
    CREDIT = "credits"
    CORRECTION = "corrections and refunds"


_STEP_OF_KIND = {
    LineKind.COMMITMENT: Step.COMMITMENT,
    LineKind.DATA_TRANSFER: Step.DATA_TRANSFER,
    LineKind.OTHER_SERVICE: Step.OTHER_SERVICE,
    LineKind.TAX: Step.TAX,
    LineKind.CREDIT: Step.CREDIT,
    LineKind.CORRECTION: Step.CORRECTION,
}


@dataclass(frozen=True, slots=True, kw_only=True)
class MachineBill:
    """A machine of ours: what the ledger says that it cost, and what the bill says."""

    instance: str
    nodes: tuple[str, ...]
    hours: Fraction
    """In the ledger."""
    micro_usd: Fraction | None
    """In the ledger; None: a part of it is unpriced."""
    billed_hours: Fraction
    billed_micro_usd: Fraction
    effective_micro_usd: Fraction
    before_commitment_micro_usd: Fraction

    @property
    def is_billed(self) -> bool:
        """Is there a line of it?"""
        return bool(self.billed_hours or self.billed_micro_usd or self.effective_micro_usd)

    def steps(self) -> dict[Step, Fraction]:
        """From the ledger's cost of it to the bill's; they add up to the difference."""
        if not self.is_billed:
            return {Step.NOT_BILLED: -(self.micro_usd or Fraction(0))}
        committed = self.billed_micro_usd - self.before_commitment_micro_usd
        if self.micro_usd is None:
            return {Step.COMMITTED: committed, Step.UNPRICED: self.before_commitment_micro_usd}
        if not self.hours:  # it was last seen before the time of the bill
            return {Step.COMMITTED: committed, Step.TIME: self.before_commitment_micro_usd}
        # Lines by other units than time say nothing about it.
        at_our_price = self.micro_usd / self.hours * (self.billed_hours or self.hours)
        return {
            Step.PRICE: self.before_commitment_micro_usd - at_our_price,
            Step.TIME: at_our_price - self.micro_usd,
            Step.COMMITTED: committed,
        }


@dataclass(frozen=True, slots=True, kw_only=True)
class Reconciliation:
    """A bill, and where each dollar of it belongs."""

    window: Window | None
    """The time of the bill's lines; None: it has none."""
    machines: tuple[MachineBill, ...]
    """Matched machines, the one that differs most first."""
    lines: Mapping[int, Step | None]
    """The step of each line; None: it belongs to a machine of ours."""
    steps: Mapping[Step, Fraction]
    """From `ledger_micro_usd` to `billed_micro_usd`; only those that are not zero."""
    billed_micro_usd: Fraction
    problems: tuple[LineProblem, ...]
    """Lines that are in no sum."""

    @property
    def ledger_micro_usd(self) -> Exact:
        """The ledger's cost of the machines with a price and a provider's id."""
        return sum((m.micro_usd for m in self.machines if m.micro_usd is not None), Fraction(0))


def reconcile(
    lines: Sequence[BillLine],
    problems: Iterable[LineProblem],
    intervals: Iterable[CapacityInterval],
    now: datetime,
) -> Reconciliation:
    """The differences of this bill from the ledger, dollar by dollar, each with its reason.

    Args:
        lines: The bill.
        problems: Lines that cannot be counted, for the record.
        intervals: The ledger's capacity in `window_of` the bill; machines without a provider's id
            are on no bill, and left out.
        now: Machines that are there are counted up to here.
    """
    window = window_of(lines)
    named = {line.instance for line in lines if line.kind is LineKind.INSTANCE_TIME}
    ours: dict[str, list[CapacityInterval]] = defaultdict(list)
    for interval in intervals:
        if interval.instance_id:
            ours[billed_key(instance_key(interval.instance_id), named)].append(interval)
    billed: dict[str, list[BillLine]] = defaultdict(list)
    where: dict[int, Step | None] = {}
    steps: dict[Step, Fraction] = defaultdict(Fraction)
    for line in lines:
        if line.kind is LineKind.INSTANCE_TIME and line.instance in ours:
            billed[line.instance].append(line)
            where[line.number] = None
            continue
        step = _STEP_OF_KIND.get(line.kind, Step.OTHER_NODES)
        where[line.number] = step
        steps[step] += line.billed_micro_usd
    machines = [
        _machine(key, found, billed[key], window, now)
        for key, found in ours.items()
        if window is not None
    ]
    machines = [machine for machine in machines if machine.hours or machine.is_billed]
    for machine in machines:
        for step, micro_usd in machine.steps().items():
            steps[step] += micro_usd
    machines.sort(key=lambda m: (-abs(m.billed_micro_usd - (m.micro_usd or 0)), m.instance))
    return Reconciliation(
        window=window,
        machines=tuple(machines),
        lines=where,
        steps={step: steps[step] for step in Step if steps[step]},
        billed_micro_usd=sum((line.billed_micro_usd for line in lines), Fraction(0)),
        problems=tuple(problems),
    )


def window_of(lines: Sequence[BillLine]) -> Window | None:
    """The time that this bill is about: that of its lines for machines; None: there are none.

    Lines with hours count, if there are some: a fee that names a machine may be for a month, of
    which the bill has a day.
    """
    of_machines = [line for line in lines if line.kind is LineKind.INSTANCE_TIME]
    with_hours = [line for line in of_machines if line.hours or line.gpu_hours]
    of_time = [line.period for line in with_hours or of_machines]
    if not of_time:
        return None
    return Window(min(period.start for period in of_time), max(period.end for period in of_time))


def billed_key(key: str, named: Collection[str | None]) -> str:
    """The id under which the bill has this machine. Azure bills a scale set as one resource.

    >>> billed_key("/subscriptions/1/x/s/virtualmachines/0", {"/subscriptions/1/x/s"})
    '/subscriptions/1/x/s'
    """
    scale_set = key.rpartition("/virtualmachines/")[0]
    return scale_set if key not in named and scale_set in named else key


def _billed_hours(lines: Sequence[BillLine], machines: int, gpus: int) -> Fraction:
    """For how long was it billed? Its cores, memory and GPUs may each have a line for one hour."""
    by_period: dict[Window, list[BillLine]] = defaultdict(list)
    for line in lines:
        by_period[line.period].append(line)
    billed = Fraction(0)
    for period, of_period in by_period.items():
        gpu_hours = sum((line.gpu_hours for line in of_period), Fraction(0))
        hours = sum((line.hours for line in of_period), Fraction(0))
        if gpu_hours and gpus:
            billed += gpu_hours / gpus
        elif len(of_period) > 1 and period.start < period.end:
            billed += min(hours, period_hours(period) * machines)
        else:
            billed += hours
    return billed


def _machine(
    key: str,
    intervals: Sequence[CapacityInterval],
    lines: Sequence[BillLine],
    window: Window,
    now: datetime,
) -> MachineBill:
    hours, micro_usd = Fraction(0), Fraction(0)
    is_unpriced = False
    for interval in intervals:
        counted = counted_in(interval, window, now)
        if counted is None:
            continue
        of_interval = Fraction((counted.end - counted.start) // _MICROSECOND, _US_PER_HOUR)
        hours += of_interval
        micro_usd += of_interval * (interval.micro_usd_per_hour or 0)
        is_unpriced = is_unpriced or interval.micro_usd_per_hour is None
    return MachineBill(
        instance=key,
        nodes=tuple(dict.fromkeys(interval.node for interval in intervals)),
        hours=hours,
        micro_usd=None if is_unpriced else micro_usd,
        billed_hours=_billed_hours(
            lines,
            machines=len({interval.instance_id for interval in intervals}),
            gpus=max(interval.gpus for interval in intervals),
        ),
        billed_micro_usd=sum((line.billed_micro_usd for line in lines), Fraction(0)),
        effective_micro_usd=sum((line.effective_micro_usd for line in lines), Fraction(0)),
        before_commitment_micro_usd=sum(
            (line.before_commitment_micro_usd for line in lines), Fraction(0)
        ),
    )
