"""A provider's bill by run: each with its charge in the ledger and the bill for that time.

A run holds GPUs for a time on a machine of ours. The bill says what an hour of this machine costs,
and the run's time there is billed at this rate instead of the ledger's. The rest of the machine's
bill is idle time, and time that the ledger does not have.

No part crosses the turn of a month, so that each month's report has its own.
"""

from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from fractions import Fraction
from functools import cache

from gpu_core.decisions.costs.billing.bill_lines import instance_key
from gpu_core.decisions.costs.billing.charges import months
from gpu_core.decisions.costs.billing.reconciliation import MachineBill, Reconciliation, billed_key
from gpu_core.decisions.costs.capacity.capacity_intervals import CapacityInterval
from gpu_core.decisions.costs.capacity.idle import counted_in, usage_on
from gpu_core.decisions.costs.usage.usage import Exact, apportioned, round_half_up
from gpu_core.decisions.costs.usage.usage_cost import RunCost, Window
from gpu_core.decisions.model.attempts import Attempt, RunRecord


@dataclass(frozen=True, slots=True, kw_only=True)
class AttemptBill:
    """The charge of an attempt on one machine of a bill in one month, and the bill for it."""

    flow_run_id: str
    attempt_id: str
    instance: str
    """The machine, as `instance_key` has it."""
    bill_start: datetime
    bill_end: datetime
    """The bill's time in this month."""
    charged_micro_usd: int
    """At the ledger's prices."""
    billed_micro_usd: int
    """At the effective rate of the bill: commitments count where they were used."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RunBill:
    """The sum of all bills of a run."""

    charged_micro_usd: int = 0
    """The part of its cost that is on bills."""
    billed_micro_usd: int = 0
    """The billed amount of that part."""
    parts: int = 0
    """How many parts it is a sum of."""

    def with_part(self, part: AttemptBill) -> "RunBill":
        """The same with one more part."""
        return RunBill(
            charged_micro_usd=self.charged_micro_usd + part.charged_micro_usd,
            billed_micro_usd=self.billed_micro_usd + part.billed_micro_usd,
            parts=self.parts + 1,
        )

    def covers(self, cost: RunCost) -> bool:
        """Is all that the run cost on bills?

        Args:
            cost: Of the run's whole life.
        """
        total = cost.total_micro_usd
        is_over = cost.run.final_state is not None and not any(
            attempt.released_at is None for attempt in cost.attempts
        )
        # Each part is rounded by itself, by less than a micro-dollar.
        return is_over and total is not None and abs(total - self.charged_micro_usd) <= self.parts


def run_bills(parts: Iterable[AttemptBill]) -> dict[str, RunBill]:
    """The bill of each run, from these parts."""
    found: dict[str, RunBill] = {}
    for part in parts:
        found[part.flow_run_id] = found.get(part.flow_run_id, RunBill()).with_part(part)
    return found


def attempt_bills(
    reconciled: Reconciliation,
    intervals: Iterable[CapacityInterval],
    records: Iterable[tuple[RunRecord, Sequence[Attempt]]],
    now: datetime,
) -> tuple[AttemptBill, ...]:
    """The charge of each attempt for each machine of this bill, and the billed amount of it.

    Of each machine the parts add up to what its runs are charged and billed, to the micro-dollar.
    Machines without a price in the ledger, or that are not on the bill, say nothing about runs.

    Args:
        reconciled: The bill.
        intervals: The ledger's capacity in the time of the bill.
        records: Runs that held GPUs in the time of the bill, with all their attempts.
        now: Attempts that hold their GPUs are charged up to here.
    """
    if reconciled.window is None:
        return ()
    rates = {machine.instance: rate for machine, rate in _rates(reconciled.machines)}
    machines, window = tuple(intervals), reconciled.window
    periods = [
        (period, _counted(machines, rates, period, now))
        for period in months(window.start, window.end)
    ]
    charged: dict[str, dict[_Stay, Exact]] = defaultdict(lambda: defaultdict(int))
    for attempt in (each for _, attempts in records for each in attempts):
        for period, counted in periods:
            stay = attempt.flow_run_id, attempt.attempt_id, period
            for instance, micro_usd in _charges(attempt, counted, now):
                charged[instance][stay] += micro_usd
    return tuple(
        part
        for instance, of_machine in sorted(charged.items())
        for part in _parts(instance, of_machine, rates[instance])
    )


def bills_around(
    window: Window,
    earlier: Iterable[AttemptBill],
    intervals: Sequence[CapacityInterval],
    records: Iterable[tuple[RunRecord, Sequence[Attempt]]],
    now: datetime,
) -> tuple[AttemptBill, ...]:
    """The bills of the time before and after this window, by earlier bills at their own rates.

    A later bill replaces what they say of its own time alone: one with a line over the end of its
    month leaves the rest of the next month as it is.

    Args:
        window: The time of the later bill.
        earlier: What bills say of attempts for a time that is partly in the window.
        intervals: The ledger's capacity in the time of these bills.
        records: Runs that held GPUs in the time of these bills, with all their attempts.
        now: Attempts that hold their GPUs are charged up to here.
    """
    bills = tuple(earlier)
    instances = {bill.instance for bill in bills}
    attempts = {each.attempt_id: each for _, of_run in records for each in of_run}

    @cache
    def counted(period: Window) -> _Counted:
        return _counted(intervals, instances, period, now)

    found = []
    for bill in bills:
        attempt = attempts.get(bill.attempt_id)
        for period in _around(window, Window(bill.bill_start, bill.bill_end)):
            if attempt is None or not bill.charged_micro_usd:
                continue
            of_machines = _charges(attempt, counted(period), now)
            charged = sum(micro_usd for key, micro_usd in of_machines if key == bill.instance)
            rate = Fraction(bill.billed_micro_usd, bill.charged_micro_usd)
            if charged:
                found.append(
                    replace(
                        bill,
                        bill_start=period.start,
                        bill_end=period.end,
                        charged_micro_usd=round_half_up(charged),
                        billed_micro_usd=round_half_up(charged * rate),
                    )
                )
    return tuple(found)


def _around(window: Window, period: Window) -> Iterator[Window]:
    """The parts of a period that are before and after the window."""
    if period.start < window.start:
        yield Window(period.start, min(period.end, window.start))
    if period.end > window.end:
        yield Window(max(period.start, window.end), period.end)


_Stay = tuple[str, str, Window]
"""A run, its attempt, and the time of the bill in one month."""

_Counted = Mapping[tuple[str, str], Sequence[tuple[str, Window]]]
"""By host and node: the machines that had this name, and when."""


def _rates(machines: Iterable[MachineBill]) -> Iterator[tuple[MachineBill, Fraction]]:
    """The billed amount for a micro-dollar of the ledger, for each machine where both are known."""
    for machine in machines:
        if machine.is_billed and machine.billed_hours and machine.hours and machine.micro_usd:
            billed_per_hour = machine.effective_micro_usd / machine.billed_hours
            yield machine, billed_per_hour / (machine.micro_usd / machine.hours)


def _counted(
    intervals: Iterable[CapacityInterval],
    instances: Collection[str],
    window: Window,
    now: datetime,
) -> _Counted:
    found: dict[tuple[str, str], list[tuple[str, Window]]] = defaultdict(list)
    for interval in intervals:
        instance = billed_key(instance_key(interval.instance_id or ""), instances)
        counted = counted_in(interval, window, now)
        if counted is not None and instance in instances:
            found[interval.host, interval.node].append((instance, counted))
    return found


def _charges(attempt: Attempt, counted: _Counted, now: datetime) -> Iterator[tuple[str, Exact]]:
    nodes = {share.node for share in attempt.held} or {attempt.node}
    for node in sorted(nodes):
        for instance, window in counted.get((attempt.host, node), ()):
            micro_usd = usage_on(attempt, node, window, now).exact_micro_usd
            if micro_usd:
                yield instance, micro_usd


def _parts(instance: str, charged: Mapping[_Stay, Exact], rate: Fraction) -> Iterator[AttemptBill]:
    billed = [micro_usd * rate for micro_usd in charged.values()]
    whole = zip(charged, apportioned(list(charged.values())), apportioned(billed), strict=True)
    for (flow_run_id, attempt_id, period), charged_micro_usd, billed_micro_usd in whole:
        yield AttemptBill(
            flow_run_id=flow_run_id,
            attempt_id=attempt_id,
            instance=instance,
            bill_start=period.start,
            bill_end=period.end,
            charged_micro_usd=charged_micro_usd,
            billed_micro_usd=billed_micro_usd,
        )
