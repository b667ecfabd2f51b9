"""A provider's bill by run: each with its charge in the ledger and the bill for that time.

A run holds GPUs for a time on a machine of ours. The bill says what an hour of this machine costs,
and the run's time there is billed at this rate instead of the ledger's. The rest of the machine's
bill is idle time, and time that the ledger does not have.
"""

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from fractions import Fraction

from gpu_core.decisions.costs.billing.bill_lines import instance_key
from gpu_core.decisions.costs.billing.reconciliation import MachineBill, Reconciliation, billed_key
from gpu_core.decisions.costs.capacity.capacity_intervals import CapacityInterval
from gpu_core.decisions.costs.capacity.idle import counted_in, held_on
from gpu_core.decisions.costs.usage.usage import Exact, apportioned
from gpu_core.decisions.costs.usage.usage_cost import RunCost, Window
from gpu_core.decisions.model.attempts import Attempt, RunRecord


@dataclass(frozen=True, slots=True, kw_only=True)
class AttemptBill:
    """The charge of an attempt on one machine of a bill, and the bill for it."""

    flow_run_id: str
    attempt_id: str
    instance: str
    """The machine, as `instance_key` has it."""
    bill_start: datetime
    bill_end: datetime
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
    """What that part is billed."""
    parts: int = 0
    """How many machines of attempts it is a sum of."""

    def with_part(self, part: AttemptBill) -> "RunBill":
        """The same with one more machine of an attempt."""
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
    """What do these parts say of each run?"""
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
    """What was each attempt charged for each machine of this bill, and what is that billed?

    Of each machine the parts add up to no more than it is charged and billed, to the micro-dollar.
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
    counted = _counted(intervals, rates, reconciled.window, now)
    charged: dict[str, dict[_Ids, Exact]] = defaultdict(lambda: defaultdict(int))
    for attempt in (each for _, attempts in records for each in attempts):
        ids = attempt.flow_run_id, attempt.attempt_id
        for instance, micro_usd in _charges(attempt, counted, now):
            charged[instance][ids] += micro_usd
    return tuple(
        part
        for instance, of_machine in sorted(charged.items())
        for part in _parts(instance, of_machine, rates[instance], reconciled.window)
    )


_Ids = tuple[str, str]
"""Of a run and its attempt."""

_Counted = Mapping[tuple[str, str], Sequence[tuple[str, Window]]]
"""By host and node: the machines that had this name, and when."""


def _rates(machines: Iterable[MachineBill]) -> Iterator[tuple[MachineBill, Fraction]]:
    """What a micro-dollar of the ledger is on the bill, for each machine of which both know it."""
    for machine in machines:
        if machine.is_billed and machine.billed_hours and machine.hours and machine.micro_usd:
            billed_per_hour = machine.effective_micro_usd / machine.billed_hours
            yield machine, billed_per_hour / (machine.micro_usd / machine.hours)


def _counted(
    intervals: Iterable[CapacityInterval],
    rates: Mapping[str, Fraction],
    window: Window,
    now: datetime,
) -> _Counted:
    found: dict[tuple[str, str], list[tuple[str, Window]]] = defaultdict(list)
    for interval in intervals:
        instance = billed_key(instance_key(interval.instance_id or ""), rates)
        counted = counted_in(interval, window, now)
        if counted is not None and instance in rates:
            found[interval.host, interval.node].append((instance, counted))
    return found


def _charges(attempt: Attempt, counted: _Counted, now: datetime) -> Iterator[tuple[str, Exact]]:
    nodes = {share.node for share in attempt.held} or {attempt.node}
    for node in sorted(nodes):
        for instance, window in counted.get((attempt.host, node), ()):
            micro_usd = held_on(attempt, node, window, now).exact_micro_usd
            if micro_usd:
                yield instance, micro_usd


def _parts(
    instance: str, charged: Mapping[_Ids, Exact], rate: Fraction, window: Window
) -> Iterator[AttemptBill]:
    billed = [micro_usd * rate for micro_usd in charged.values()]
    whole = zip(charged, apportioned(list(charged.values())), apportioned(billed), strict=True)
    for (flow_run_id, attempt_id), charged_micro_usd, billed_micro_usd in whole:
        yield AttemptBill(
            flow_run_id=flow_run_id,
            attempt_id=attempt_id,
            instance=instance,
            bill_start=window.start,
            bill_end=window.end,
            charged_micro_usd=charged_micro_usd,
            billed_micro_usd=billed_micro_usd,
        )
