"""The trend of costs: a week against the week before, and the month up to its end."""

from calendar import monthrange
from collections.abc import Sequence
from datetime import date, timedelta
from fractions import Fraction

from gpu_core.decisions.costs.reports.cost_history import DailyCosts
from gpu_core.decisions.costs.usage.usage_cost import total
from gpu_core.decisions.model.units import format_usd

_WEEK_DAYS = 7


def cost_outlook(day: date, costs: DailyCosts) -> str | None:
    """The comparison of the last week, and the forecast of the month's cost.

    None: too little is known.

    The rest of the month is forecast at the mean of the last 7 days, so that weekends weigh as much
    as they do in a month. Only what has a price counts.

    Args:
        day: The last day that counts.
        costs: That day, the 13 days before it, and its month so far.
    """
    first = min((known for known, of_day in costs.items() if of_day), default=day)
    sentences = [*_week(day, first, costs), *_month(day, first, costs)]
    return " ".join(sentences) or None


def _week(day: date, first: date, costs: DailyCosts) -> list[str]:
    if first > day - timedelta(days=2 * _WEEK_DAYS - 1):
        return []
    last, before = _sum(_days_up_to(day), costs), _sum(_days_up_to(day, _WEEK_DAYS), costs)
    if not before:
        return [
            f"The last 7 days cost {format_usd(last)}, compared with no cost in the previous "
            "7 days."
        ]
    percent = round(Fraction(100 * (last - before), before))
    change = (
        f"{abs(percent)}% {'more' if percent > 0 else 'less'} than" if percent else "as much as"
    )
    return [
        f"The last 7 days cost {format_usd(last)}, {change} the 7 days before "
        f"({format_usd(before)})."
    ]


def _month(day: date, first: date, costs: DailyCosts) -> list[str]:
    if first > day - timedelta(days=_WEEK_DAYS - 1):
        return []
    so_far = _sum([day.replace(day=n) for n in range(1, day.day + 1)], costs)
    days_left = monthrange(day.year, day.month)[1] - day.day
    if not days_left:
        return [f"{day:%B} cost {format_usd(so_far)}."]
    week = _sum(_days_up_to(day), costs)
    expected = so_far + week * days_left // _WEEK_DAYS
    return [
        f"{day:%B} so far: {format_usd(so_far)}; at the mean of the last 7 days "
        f"({format_usd(week // _WEEK_DAYS)}) the whole month costs {format_usd(expected)}."
    ]


def _days_up_to(day: date, back: int = 0) -> list[date]:
    return [day - timedelta(days=back + n) for n in range(_WEEK_DAYS)]


def _sum(days: Sequence[date], costs: DailyCosts) -> int:
    return sum(total(costs.get(each, ())).usage.micro_usd for each in days)
