"""The cost of a day, a week or a month, by up to three keys; rows add up to the total."""

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, date, datetime, timedelta
from fractions import Fraction
from types import MappingProxyType
from typing import NamedTuple

from gpu_core.decisions.costs.usage.scale import Scale
from gpu_core.decisions.costs.usage.time_use import USES, Tariff, TimeUse, UsesUs
from gpu_core.decisions.costs.usage.usage import NO_USAGE, Usage, apportioned_parts, sum_usage
from gpu_core.decisions.costs.usage.usage_cost import Window
from gpu_core.decisions.model.errors import InvalidInput, listed, nearest_name

COLUMNS_OF_RUNS: Mapping[str, str] = MappingProxyType(
    {
        "run": "flow_run_id",
        "parent_run": "parent_flow_run_id",
        "team": "team",
        "project": "project",
        "user": "user",
        "deployment": "deployment",
        "experiment": "experiment",
        "model": "model",
        "workload_type": "workload_type",
    }
)
"""Keys of a run, and the ledger's columns."""

COLUMNS_OF_ATTEMPTS: Mapping[str, str] = MappingProxyType(
    {
        "attempt": "number",
        "gpu_type": "gpu_type",
        "capacity_type": "capacity_type",
        "zone": "zone",
    }
)
"""Keys of an attempt, and the ledger's columns."""

COST_KEYS = (*COLUMNS_OF_RUNS, *COLUMNS_OF_ATTEMPTS)
"""The keys by which costs can be grouped."""

_KEY_NAMES = tuple(key.replace("_", "-") for key in COST_KEYS)
MOST_KEYS = 3
PERIODS = ("day", "week", "month")

Keys = tuple[str | int | None, ...]
"""A group's values, in the order of the keys; an attempt's is its number."""


class CostSlice(NamedTuple):
    """The use of a part of a group at one tariff."""

    keys: Keys
    tariff: Tariff
    uses_us: UsesUs
    """The held time, by its use."""
    attempts: int
    """Attempts that are in no other slice."""

    @property
    def held_us(self) -> int:
        """The time that it was held, in microseconds."""
        queued, restart, useful, lost = self.uses_us
        return queued + restart + useful + lost


class BillSum(NamedTuple):
    """The amounts of providers' bills for a group of runs."""

    charged_micro_usd: int
    """The part of its cost that is on bills."""
    billed_micro_usd: int
    """The billed amount of that part."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CostRow:
    """The cost of one group. The rows of a report add up to its total, to the micro-dollar."""

    keys: Keys
    runs: int
    attempts: int
    micro_usd: int
    """The cost of what has a price."""
    parts: tuple[CostSlice, ...]
    scale: Scale
    scaled_cost: int
    """The cost of what has a price, in `cost_denominator`-ths of a micro-dollar."""
    idle: Usage = NO_USAGE
    """Its share of idle capacity, which is not in `usage`."""
    idle_micro_usd: int = 0
    bill: BillSum | None = None
    """The part that is on providers' bills; None: none is."""

    @property
    def exact_micro_usd(self) -> Fraction:
        """The cost of what has a price, to the last fraction of a micro-dollar."""
        return Fraction(self.scaled_cost, self.scale.cost_denominator)

    @property
    def usage(self) -> Usage:
        """The usage and cost of it."""
        return self.scale.usage(self._held())

    def gpu_hours(self, use: TimeUse) -> float:
        """GPU-hours of this use."""
        return self.scale.gpu_hours(self._used(use))

    def micro_usd_by_use(self) -> dict[TimeUse, int]:
        """The cost by what the time was used for; it adds up to the row's."""
        parts = [self.scale.cost(self._used(use)) for use in USES]
        return dict(zip(USES, self._whole(parts), strict=True))

    def micro_usd_by_resource(self) -> dict[str, int]:
        """The cost of GPUs, CPU and memory; it adds up to the row's."""
        parts = self.scale.costs(self._held())
        return dict(zip(("gpu", "cpu", "memory"), self._whole(parts), strict=True))

    def _whole(self, parts: Sequence[int]) -> list[int]:
        return apportioned_parts(parts, self.scale.cost_denominator, self.micro_usd)

    def _held(self) -> Iterator[tuple[Tariff, int]]:
        return ((part.tariff, part.held_us) for part in self.parts)

    def _used(self, use: TimeUse) -> Iterator[tuple[Tariff, int]]:
        place = USES.index(use)
        return ((part.tariff, part.uses_us[place]) for part in self.parts)


@dataclass(frozen=True, slots=True, kw_only=True)
class CostReport:
    """The usage of a window and its cost."""

    window: Window
    keys: tuple[str, ...]
    rows: tuple[CostRow, ...]
    """The dearest first."""
    runs: int
    """All runs, each once; one can be in several rows, such as of two GPU types."""
    idle: Usage = NO_USAGE
    """Idle capacity that is in no row."""
    idle_micro_usd: int = 0
    faults: Usage = NO_USAGE
    """The part of all idle capacity that was held because its GPUs are not well."""
    faults_micro_usd: int = 0
    beyond_micro_usd: int = 0
    """The amount that runs paid beyond the cost of their machines, as attempts overlap; it is in
    the rows."""

    @property
    def total(self) -> CostRow:
        """All rows together."""
        return replace(together(self.rows), runs=self.runs)


def together(rows: Sequence[CostRow]) -> CostRow:
    """The cost of several rows of a report together."""
    bills = [row.bill for row in rows if row.bill is not None]
    return CostRow(
        keys=(),
        runs=sum(row.runs for row in rows),
        attempts=sum(row.attempts for row in rows),
        micro_usd=sum(row.micro_usd for row in rows),
        parts=_by_tariff(part for row in rows for part in row.parts),
        scale=rows[0].scale if rows else Scale(()),
        scaled_cost=sum(row.scaled_cost for row in rows),
        idle=sum_usage(row.idle for row in rows if row.idle is not NO_USAGE),
        idle_micro_usd=sum(row.idle_micro_usd for row in rows),
        bill=BillSum(*map(sum, zip(*bills, strict=True))) if bills else None,
    )


def _by_tariff(parts: Iterable[CostSlice]) -> tuple[CostSlice, ...]:
    """One slice for each tariff: by run there are as many slices as runs."""
    sums: dict[Tariff, list[int]] = defaultdict(lambda: [0] * 5)
    for _, tariff, (queued, restart, useful, lost), attempts in parts:
        of_tariff = sums[tariff]
        of_tariff[0] += queued
        of_tariff[1] += restart
        of_tariff[2] += useful
        of_tariff[3] += lost
        of_tariff[4] += attempts
    return tuple(
        CostSlice(keys=(), tariff=tariff, uses_us=(queued, restart, useful, lost), attempts=count)
        for tariff, (queued, restart, useful, lost, count) in sums.items()
    )


def with_bills(report: CostReport, bills: Mapping[Keys, BillSum]) -> CostReport:
    """The report with what providers' bills say of its groups."""
    if not bills:
        return report
    rows = (replace(row, bill=bills.get(row.keys)) for row in report.rows)
    return replace(report, rows=tuple(rows))


def cost_report(
    window: Window,
    keys: Sequence[str],
    slices: Iterable[CostSlice],
    runs: Mapping[Keys, int],
) -> CostReport:
    """The cost of each group in the window.

    Args:
        window: The time that counts.
        keys: Names of `COST_KEYS`.
        slices: What each part of each group held.
        runs: The number of runs of each group, and of all groups together under `()`. A group
            that is not there has one.
    """
    groups: dict[Keys, list[CostSlice]] = defaultdict(list)
    for part in slices:
        if any(part.uses_us):
            groups[part.keys].append(part)
    # By run there are as many groups as runs: they are compared and rounded in whole numbers.
    scale = Scale(part.tariff for parts in groups.values() for part in parts)
    costs = {
        group: scale.cost([(part.tariff, part.held_us) for part in parts])
        for group, parts in groups.items()
    }
    ranked = sorted(groups, key=_text)
    ranked.sort(key=costs.__getitem__, reverse=True)
    whole = apportioned_parts([costs[group] for group in ranked], scale.cost_denominator)
    rows = tuple(
        CostRow(
            keys=group,
            runs=runs.get(group, 1),
            attempts=sum([part.attempts for part in groups[group]]),
            micro_usd=micro_usd,
            parts=tuple(groups[group]),
            scale=scale,
            scaled_cost=costs[group],
        )
        for group, micro_usd in zip(ranked, whole, strict=True)
    )
    return CostReport(
        window=window, keys=tuple(keys), rows=rows, runs=runs.get((), sum(r.runs for r in rows))
    )


def parse_keys(names: Sequence[str]) -> tuple[str, ...]:
    """The keys that the names mean: names with dashes, also several in one text with commas.

    Raises:
        InvalidInput: One is unknown, comes twice, or there are more than three.
    """
    parts = [part for name in names for part in name.split(",")]
    keys = tuple(part.strip().replace("-", "_") for part in parts)
    for key in keys:
        if key not in COST_KEYS:
            raise InvalidInput(
                "by",
                "is not one of the choices",
                got=key.replace("_", "-"),
                allowed=listed(_KEY_NAMES, limit=len(_KEY_NAMES)),
                nearest=nearest_name(key.replace("_", "-"), _KEY_NAMES),
            )
    if len(set(keys)) < len(keys):
        raise InvalidInput("by", "has a key twice", got=", ".join(keys))
    if len(keys) > MOST_KEYS:
        raise InvalidInput("by", "has too many keys", got=len(keys), allowed=f"1 to {MOST_KEYS}")
    return keys


def period_window(period: str, day: date) -> Window:
    """The UTC day, week (from Monday) or month that this day is in.

    Raises:
        InvalidInput: There is no such period.
    """
    if period not in PERIODS:
        raise InvalidInput(
            "period",
            "is not one of the choices",
            got=period,
            allowed=listed(PERIODS),
            nearest=nearest_name(period, PERIODS),
        )
    if period == "day":
        return Window.of_day(day)
    if period == "week":
        first = day - timedelta(days=day.weekday())
        return Window(_midnight(first), _midnight(first + timedelta(days=7)))
    first = day.replace(day=1)
    return Window(_midnight(first), _midnight((first + timedelta(days=31)).replace(day=1)))


def _midnight(day: date) -> datetime:
    return datetime(day.year, day.month, day.day, tzinfo=UTC)


def _text(keys: Keys) -> tuple[str, ...]:
    return tuple("" if key is None else str(key) for key in keys)
