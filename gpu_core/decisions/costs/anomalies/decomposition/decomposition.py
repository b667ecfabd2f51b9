"""A day's excess as contributions that add up to it, to the micro-dollar."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import date, timedelta
from fractions import Fraction

from gpu_core.decisions.costs.anomalies.decomposition.changes import changes_of
from gpu_core.decisions.costs.anomalies.decomposition.drivers import (
    CostDriver,
    Driver,
    Level,
    Number,
)
from gpu_core.decisions.costs.anomalies.decomposition.parts import Part
from gpu_core.decisions.costs.reports.cost_history import Scope
from gpu_core.decisions.costs.usage.usage import apportioned_parts
from gpu_core.decisions.model.errors import InvalidInput

DIMENSIONS = ("team", "deployment", "gpu_type", "capacity_type", "zone")
"""The keys by which the place of an excess is searched."""

REFERENCE_DAYS = 28
"""How many days before a day may be compared with it: four of each weekday."""

_WEEK_DAYS = 7
_ALIKE = 2
"""A day of less than half or more than twice what was expected is no example of it: the size of the
spikes that are looked for."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Contribution:
    """A cause, and its part of the excess."""

    driver: Driver
    subject: str
    """A deployment; for prices and places a GPU type and capacity type."""
    micro_usd: int
    sources: tuple[str, ...]
    """The deployments concerned, the most expensive first."""
    before: Level = None
    now: Level = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Decomposition:
    """The causes of an unexpected cost."""

    cost_micro_usd: int
    excess_micro_usd: int
    """Negative: less was spent than expected."""
    contributions: tuple[Contribution, ...]
    """They add up to the excess; those of its sign first, and the largest first."""
    where: Mapping[str, tuple[tuple[str | None, int], ...]]
    """By dimension its values with their part of the excess, the same way."""


def reference_days(
    day: date, cost_of: Mapping[date, Number], expected_micro_usd: int, since: date | None = None
) -> list[date]:
    """The days with which this one is compared.

    The same weekdays of four weeks if they cost about what was expected of this day, else all days
    that did, else all with a cost. Those of the anomaly itself do not count.

    Args:
        day: The day.
        cost_of: What each day cost; one that is not there cost nothing.
        expected_micro_usd: What was expected of the day.
        since: The anomaly's first day; None: the day.
    """
    first = min(since or day, day)
    spent = [
        before
        for before in (day - timedelta(days=back) for back in range(1, REFERENCE_DAYS + 1))
        if before < first and cost_of.get(before, 0) > 0
    ]
    alike = [
        before
        for before in spent
        if expected_micro_usd <= _ALIKE * cost_of[before]
        and cost_of[before] <= _ALIKE * expected_micro_usd
    ]
    same_weekday = [before for before in alike if (day - before).days % _WEEK_DAYS == 0]
    return same_weekday or alike or spent


def decompose(
    now: Sequence[Part], before: Sequence[Part], cost_micro_usd: int, expected_micro_usd: int
) -> Decomposition:
    """The causes for which the day cost more or less than expected.

    The days before are scaled to what was expected of the day, so that growth and weekdays are not
    causes.

    Args:
        now: What the day's cost is made of.
        before: The same of the days that it is compared with.
        cost_micro_usd: What the day cost.
        expected_micro_usd: What was expected of it, 0 or more.

    Raises:
        InvalidInput: The expected cost is negative.
    """
    if expected_micro_usd < 0:
        raise InvalidInput("expected_micro_usd", "is negative", got=expected_micro_usd)
    spent = sum(part.micro_usd for part in before)
    weight = Fraction(expected_micro_usd) / spent if spent else Fraction(0)
    if not weight:
        before = ()
    excess = cost_micro_usd - expected_micro_usd
    changes = [
        change
        for source, of_now, of_before in _by_source(now, before)
        for change in changes_of(source, of_before, of_now, weight)
    ]
    return Decomposition(
        cost_micro_usd=cost_micro_usd,
        excess_micro_usd=excess,
        contributions=_contributions(changes, excess),
        where={name: _where(name, now, before, weight, excess) for name in DIMENSIONS},
    )


def in_scope(scope: Scope, parts: Iterable[Part]) -> tuple[Part, ...]:
    """The parts of this part of the cost."""
    return tuple(part for part in parts if scope.has(part.run, part.attempt))


def _by_source(
    now: Iterable[Part], before: Iterable[Part]
) -> list[tuple[str, list[Part], list[Part]]]:
    found: dict[str, tuple[list[Part], list[Part]]] = {}
    for place, parts in enumerate((now, before)):
        for part in parts:
            found.setdefault(part.source, ([], []))[place].append(part)
    return [(source, *both) for source, both in sorted(found.items())]


def _contributions(changes: Sequence[CostDriver], excess: int) -> tuple[Contribution, ...]:
    """One for each driver and subject, in whole micro-dollars."""
    groups: dict[tuple[Driver, str], list[CostDriver]] = {}
    for change in changes:
        groups.setdefault((change.driver, change.subject), []).append(change)
    exact = {key: sum(each.exact_micro_usd for each in group) for key, group in groups.items()}
    other = (Driver.OTHER, "")
    rest = excess - sum(exact.values())
    if _size(rest) >= 1:
        groups[other], exact[other] = [], rest
    keys = sorted(groups, key=lambda key: (-_size(exact[key]), key))
    whole = _whole([exact[key] for key in keys], excess)
    found = [
        _contribution(key, groups[key], micro_usd)
        for key, micro_usd in zip(keys, whole, strict=True)
    ]
    return tuple(sorted(found, key=lambda each: _rank(each.micro_usd, excess)))


def _contribution(
    key: tuple[Driver, str], changes: Sequence[CostDriver], micro_usd: int
) -> Contribution:
    ranked = sorted(changes, key=lambda change: (-_size(change.exact_micro_usd), change.source))
    first = ranked[0] if ranked else None
    return Contribution(
        driver=key[0],
        subject=key[1],
        micro_usd=micro_usd,
        sources=tuple(dict.fromkeys(change.source for change in ranked)),
        before=None if first is None else first.before,
        now=None if first is None else first.now,
    )


def _where(
    dimension: str, now: Sequence[Part], before: Sequence[Part], weight: Number, excess: int
) -> tuple[tuple[str | None, int], ...]:
    exact: dict[str | None, Number] = {}
    for parts, factor in ((now, 1), (before, -weight)):
        for part in parts:
            value = _value(dimension, part)
            exact[value] = exact.get(value, 0) + factor * part.micro_usd
    rest = excess - sum(exact.values())
    if not exact or _size(rest) >= 1:
        exact[None] = exact.get(None, 0) + rest
    whole = zip(exact, _whole(list(exact.values()), excess), strict=True)
    return tuple(sorted(whole, key=lambda item: (*_rank(item[1], excess), item[0] or "")))


def _value(dimension: str, part: Part) -> str | None:
    if dimension == "deployment":
        return part.source
    value: str | None = getattr(part.run if dimension == "team" else part.attempt, dimension)
    return value


def _whole(amounts: Sequence[Number], excess: int) -> list[int]:
    """The amounts in micro-dollars, by largest remainder, so that they add up to the excess."""
    # Thousandths of a micro-dollar suffice to order remainders, and keep denominators small.
    thousandths = [int(amount * 1000 // 1) for amount in amounts]
    return apportioned_parts(thousandths, 1000, excess)


def _rank(micro_usd: int, excess: int) -> tuple[bool, int]:
    return (micro_usd * (1 if excess >= 0 else -1) < 0, -abs(micro_usd))


def _size(amount: Number) -> Number:
    return amount if amount >= 0 else -amount
