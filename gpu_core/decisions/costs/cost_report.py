"""What a day, a week or a month cost, by up to three keys; rows add up to the total."""

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta
from types import MappingProxyType

from gpu_core.decisions.costs.usage import NO_USAGE, Usage, apportioned, sum_usage
from gpu_core.decisions.costs.usage_cost import Window
from gpu_core.decisions.model.errors import InvalidInput, listed, nearest_name

COLUMNS_OF_RUNS: Mapping[str, str] = MappingProxyType(
    {
        "run": "flow_run_id",
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

COST_KEYS = (*COLUMNS_OF_RUNS, "gpu_type", "capacity_type", "zone")
"""What costs can be grouped by."""

_KEY_NAMES = tuple(key.replace("_", "-") for key in COST_KEYS)
MOST_KEYS = 3
PERIODS = ("day", "week", "month")

Keys = tuple[str | None, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class CostSlice:
    """What a part of a group used and cost."""

    keys: Keys
    usage: Usage


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupCount:
    """How many runs and attempts a group has."""

    keys: Keys
    runs: int
    attempts: int


@dataclass(frozen=True, slots=True, kw_only=True)
class CostRow:
    """What one group cost. The rows of a report add up to its total, to the micro-dollar."""

    keys: Keys
    runs: int
    attempts: int
    usage: Usage
    micro_usd: int
    """The cost of what has a price."""
    idle: Usage = NO_USAGE
    """Its share of idle capacity, which is not in `usage`."""
    idle_micro_usd: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class CostReport:
    """What was used and what it cost in a window."""

    window: Window
    keys: tuple[str, ...]
    rows: tuple[CostRow, ...]
    """The dearest first."""
    idle: Usage = NO_USAGE
    """Idle capacity that is in no row."""
    idle_micro_usd: int = 0

    @property
    def usage(self) -> Usage:
        """What all rows used and cost."""
        return sum_usage(row.usage for row in self.rows)


def cost_report(
    window: Window,
    keys: Sequence[str],
    slices: Iterable[CostSlice],
    counts: Iterable[GroupCount],
) -> CostReport:
    """What did each group cost in the window?

    Args:
        window: The time that counts.
        keys: Names of `COST_KEYS`.
        slices: What each part of each group used.
        counts: The runs and attempts of each group.
    """
    groups: dict[Keys, list[Usage]] = defaultdict(list)
    for part in slices:
        groups[part.keys].append(part.usage)
    number = {count.keys: count for count in counts}
    # By run there are as many groups as runs, most of them of one part.
    usages = [
        (group, parts[0] if len(parts) == 1 else sum_usage(parts))
        for group, parts in groups.items()
    ]
    costs = [usage.exact_micro_usd for _, usage in usages]
    dearest = sorted(
        range(len(usages)),
        key=lambda i: (-costs[i], -usages[i][1].gpu_us, _text(usages[i][0])),
    )
    ranked = [usages[place] for place in dearest]
    whole = apportioned([costs[place] for place in dearest])
    rows = (
        CostRow(
            keys=group,
            runs=number[group].runs if group in number else 0,
            attempts=number[group].attempts if group in number else 0,
            usage=usage,
            micro_usd=micro_usd,
        )
        for (group, usage), micro_usd in zip(ranked, whole, strict=True)
    )
    return CostReport(
        window=window,
        keys=tuple(keys),
        rows=tuple(row for row in rows if row.usage != NO_USAGE),
    )


def parse_keys(names: Sequence[str]) -> tuple[str, ...]:
    """Which keys are these? Names with dashes, also several in one text with commas.

    Raises:
        InvalidInput: One is unknown, comes twice, or there are more than three.
    """
    parts = [part for name in names for part in name.split(",")]
    keys = tuple(part.strip().replace("-", "_") for part in parts)
    for key in keys:
        if key not in COST_KEYS:
            raise InvalidInput(
                "by",
                "is not a key of costs",
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
    """Which UTC day, week (from Monday) or month is this day in?

    Raises:
        InvalidInput: There is no such period.
    """
    if period not in PERIODS:
        raise InvalidInput(
            "period",
            "is not a period",
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
    return tuple(key or "" for key in keys)
