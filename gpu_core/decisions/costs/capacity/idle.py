"""The cost of machines, the part that runs paid, and the idle part: the three always add up.

Idle is what a machine costs beyond what the runs on it paid (OpenCost specification v0.1: asset
cost less workload cost). It is exact: attributed and idle make the machine's cost to the last
fraction of a micro-dollar.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from enum import StrEnum
from fractions import Fraction
from functools import lru_cache
from types import MappingProxyType

from gpu_core.decisions.costs.capacity.capacity_intervals import CapacityInterval
from gpu_core.decisions.costs.reports.cost_report import CostReport
from gpu_core.decisions.costs.usage.usage import (
    NO_USAGE,
    US_PER_HOUR,
    Exact,
    Usage,
    apportioned,
    round_half_up,
    sum_usage,
)
from gpu_core.decisions.costs.usage.usage_cost import Held, Window, held_usage
from gpu_core.decisions.model.attempts import Attempt
from gpu_core.decisions.model.cluster import NodeShare
from gpu_core.decisions.model.errors import InvalidInput, listed, nearest_name
from gpu_core.decisions.model.workload import WHOLE_GPU_MILLI

_MICROSECOND = timedelta(microseconds=1)
_NOTHING_TWICE: Mapping[str, Usage] = MappingProxyType({})


class IdleRule(StrEnum):
    """The rule that says who pays for idle capacity in a report."""

    NONE = "none"
    """No group: it has a line of its own."""
    EVENLY = "evenly"
    """Each group the same."""
    BY_USE = "by-use"
    """Each group in proportion to its own cost."""
    RESERVATION = "reservation"
    """The team for which the calendar reserved the node; the rest has a line of its own."""


def parse_idle_rule(text: str) -> IdleRule:
    """The rule that a text names.

    Raises:
        InvalidInput: It is none (field `idle`).
    """
    names = tuple(rule.value for rule in IdleRule)
    try:
        return IdleRule(text)
    except ValueError:
        raise InvalidInput(
            "idle",
            "is not a valid rule for idle capacity",
            got=text,
            allowed=listed(names),
            nearest=nearest_name(text, names),
        ) from None


@dataclass(frozen=True, slots=True, kw_only=True)
class MachineCost:
    """One interval of capacity in a window. Its cost is `attributed` and `idle`, exactly."""

    interval: CapacityInterval
    capacity: Usage
    """All GPU time of the machine, and its price."""
    attributed: Usage
    """The amount that its runs paid, no more than the machine costs."""
    idle: Usage
    """The rest. Unpriced where the machine, or a run on it, has no price."""
    faults: Usage
    """The part of `idle` that no run could use, as its GPUs were held because they are not well."""
    beyond_micro_usd: Exact
    """The amount that its runs paid beyond that: attempts overlap because clocks or prices
    differed. 0 where the machine has no price."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CapacityCost:
    """All machines in a window."""

    machines: tuple[MachineCost, ...]

    @property
    def capacity(self) -> Usage:
        """The cost of all machines."""
        return sum_usage(machine.capacity for machine in self.machines)

    @property
    def attributed(self) -> Usage:
        """The part of it that runs paid."""
        return sum_usage(machine.attributed for machine in self.machines)

    @property
    def idle(self) -> Usage:
        """The part of it that no run paid."""
        return sum_usage(machine.idle for machine in self.machines)

    @property
    def faults(self) -> Usage:
        """The part of the idle cost that was paid for faulty GPUs."""
        return sum_usage(machine.faults for machine in self.machines)

    @property
    def beyond_micro_usd(self) -> int:
        """The amount that runs paid beyond the cost of their machines, as attempts overlap."""
        exact = sum((machine.beyond_micro_usd for machine in self.machines), Fraction(0))
        return round_half_up(exact)

    def by_node(self) -> Mapping[str, "CapacityCost"]:
        """The same by node, the one with the dearest idle time first."""
        groups: dict[str, list[MachineCost]] = {}
        for machine in self.machines:
            groups.setdefault(machine.interval.node, []).append(machine)
        nodes = {node: CapacityCost(machines=tuple(group)) for node, group in groups.items()}
        return dict(sorted(nodes.items(), key=lambda item: (_rank(item[1].idle), item[0])))


def counted_in(interval: CapacityInterval, window: Window, now: datetime) -> Window | None:
    """The time of the interval that counts in this window; None: no time of it does."""
    start = max(interval.since, window.start)
    end = min(interval.counted_until(now), window.end, now)
    return Window(start, end) if start < end else None


def usage_on(attempt: Attempt, node: str, window: Window, now: datetime) -> Usage:
    """What does the attempt pay for its share of this node, in this window?

    CPU and memory of a gang are shared over its nodes as its GPUs are.
    """
    if not (attempt.has_run and attempt.is_placed):
        return NO_USAGE
    return held_usage(attempt, held_part(attempt, node), window, now)


def held_part(attempt: Attempt, node: str) -> Held:
    """The resources that the attempt holds on this node."""
    part = parts_by_node(attempt.held, attempt.node).get(node, Fraction(0))
    whole = Held.by(attempt)
    return Held(
        gpus=whole.gpus * part,
        priced_gpus=whole.priced_gpus * part,
        cpu_milli=None if whole.cpu_milli is None else whole.cpu_milli * part,
        memory_mib=None if whole.memory_mib is None else whole.memory_mib * part,
    )


def parts_by_node(held: Sequence[NodeShare], node: str) -> dict[str, Fraction]:
    """The part of an attempt's resources on each of its nodes. They add up to 1.

    Args:
        held: What it holds on each of its nodes.
        node: Its first node.
    """
    if len(held) < 2:
        return {held[0].node if held else node: Fraction(1)}
    amounts = tuple((len(s.gpu_ids), s.share_milli, s.exact_part) for s in held)
    parts: dict[str, Fraction] = {}
    for share, part in zip(held, _parts_of(amounts), strict=True):
        parts[share.node] = parts[share.node] + part if share.node in parts else part
    return parts


@lru_cache(maxsize=256)
def _parts_of(shares: tuple[tuple[int, int, tuple[int, int] | None], ...]) -> tuple[Fraction, ...]:
    """The part of each share in all of them: gangs of a month have few shapes.

    Args:
        shares: The GPUs of each share, with its `share_milli` and `exact_part`.
    """
    amounts = [
        count * Fraction(*(exact_part or (share_milli, WHOLE_GPU_MILLI)))
        for count, share_milli, exact_part in shares
    ]
    total = sum(amounts, Fraction(0))
    return tuple(amount / total if total else Fraction(1, len(shares)) for amount in amounts)


def machine_cost(
    interval: CapacityInterval, held: Usage, counted: Window, twice: Usage = NO_USAGE
) -> MachineCost:
    """The cost of a machine, and the part of it that runs paid.

    Args:
        interval: The machine.
        held: What runs on it held and paid in `counted`.
        counted: See `counted_in`.
        twice: The part of `held` that is beyond the whole of a GPU (`held_twice`).
    """
    held_us = (counted.end - counted.start) // _MICROSECOND
    price = interval.micro_usd_per_hour
    gpu_us = held_us * interval.gpus
    cost = Fraction(held_us * (price or 0), US_PER_HOUR)
    once = held - twice if twice.gpu_us else held
    paid = min(cost, once.exact_micro_usd)
    idle_us = max(0, gpu_us - once.gpu_us)
    is_known = price is not None and not held.unpriced_gpu_us
    idle = Usage(
        gpu_us=idle_us,
        gpu_micro_usd=cost - paid,
        unpriced_gpu_us=0 if is_known else idle_us,
    )
    # A run with a notice to leave such a GPU may still hold it, and pays for it.
    faulty_us = min(idle_us, held_us * (interval.faulty_gpus or 0))
    return MachineCost(
        interval=interval,
        capacity=Usage(
            gpu_us=gpu_us,
            gpu_micro_usd=cost,
            unpriced_gpu_us=gpu_us if price is None else 0,
        ),
        attributed=Usage(gpu_us=gpu_us - idle_us, gpu_micro_usd=paid),
        idle=idle,
        faults=_part(idle, Fraction(faulty_us, idle_us)) if faulty_us else NO_USAGE,
        # What a machine without a price costs is unknown, and so is what was paid beyond it.
        beyond_micro_usd=0 if price is None else held.exact_micro_usd - paid,
    )


def with_idle(
    report: CostReport, idle: Usage, rule: IdleRule, faults: Usage = NO_USAGE
) -> CostReport:
    """The report with idle capacity, in a line of its own or shared over its groups.

    Rows and idle add up to the micro-dollar. Without groups, idle stays in its line.

    Args:
        faults: The part of `idle` that was held because its GPUs are not well.
    """
    shares = _shares(report, rule)
    parts = [_part(idle, share) for share in shares]
    return with_parts(report, parts, NO_USAGE if shares else idle, faults)


def with_parts(
    report: CostReport, parts: Sequence[Usage], line: Usage, faults: Usage
) -> CostReport:
    """The report with the part of each row in idle capacity, and with what is in no row.

    Rows keep what they cost without idle capacity, as on the bill; with idle they add up to the
    micro-dollar.

    Args:
        parts: One for each row; none: no row has one.
    """
    rows = report.rows
    of_idle = [*(part.exact_micro_usd for part in parts), line.exact_micro_usd]
    of_rows = Fraction(
        sum(r.scaled_cost for r in rows), rows[0].scale.cost_denominator if rows else 1
    )
    both = round_half_up(of_rows + sum(of_idle, Fraction(0)))
    *shared, own_line = apportioned(of_idle, both - sum(row.micro_usd for row in rows))
    return replace(
        report,
        rows=tuple(
            replace(row, idle=part, idle_micro_usd=micro_usd)
            for row, part, micro_usd in zip(rows, parts, shared, strict=True)
        )
        if parts
        else rows,
        idle=line,
        idle_micro_usd=own_line,
        faults=faults,
        # Never more than the whole that it is a part of, however that was rounded.
        faults_micro_usd=min(faults.micro_usd, sum(shared) + own_line),
    )


def _shares(report: CostReport, rule: IdleRule) -> Sequence[Fraction]:
    """The part of idle capacity that each row gets. Empty: it is not shared."""
    rows = report.rows
    if rule in (IdleRule.NONE, IdleRule.RESERVATION) or not rows:
        return ()
    if rule is IdleRule.EVENLY:
        return [Fraction(1, len(rows))] * len(rows)
    weights = [row.exact_micro_usd for row in rows]
    if not any(weights):  # nothing has a price: by GPU time
        weights = [Fraction(row.usage.gpu_us) for row in rows]
    total = sum(weights)
    return [weight / total for weight in weights] if total else ()


def _part(usage: Usage, share: Fraction) -> Usage:
    return Usage(
        gpu_us=usage.gpu_us * share,
        gpu_micro_usd=usage.gpu_micro_usd * share,
        unpriced_gpu_us=usage.unpriced_gpu_us * share,
    )


def _rank(idle: Usage) -> tuple[Exact, Exact]:
    return -idle.exact_micro_usd, -idle.gpu_us


def capacity_cost(
    intervals: Iterable[CapacityInterval],
    held: Mapping[str, Usage],
    window: Window,
    now: datetime,
    twice: Mapping[str, Usage] = _NOTHING_TWICE,
) -> CapacityCost:
    """The cost of all machines in the window, and the part of it that runs paid.

    Args:
        intervals: Those with a time in the window.
        held: What runs held on each, by the interval's id.
        window: The time that counts.
        now: Machines that are there are counted up to here.
        twice: The part of `held` on each that is beyond the whole of a GPU (`held_twice`).
    """
    found = []
    for interval in intervals:
        counted = counted_in(interval, window, now)
        if counted is not None:
            of_runs, of_overlaps = (
                each.get(interval.interval_id, NO_USAGE) for each in (held, twice)
            )
            found.append(machine_cost(interval, of_runs, counted, of_overlaps))
    return CapacityCost(machines=tuple(found))
