"""An anomaly in one sentence: what was expected, what it was, how unusual that is, since when."""

from datetime import date

from gpu_core.decisions.costs.anomalies.detection.detector import AnomalyKind
from gpu_core.decisions.costs.anomalies.detection.judgment import describe_change
from gpu_core.decisions.costs.anomalies.detection.new_series import DailyAllowance
from gpu_core.decisions.costs.reports.cost_history import Scope
from gpu_core.decisions.model.units import MICRO_USD_PER_USD, count, format_usd

_NOUNS = {
    AnomalyKind.SPIKE: "spike",
    AnomalyKind.DROP: "drop",
    AnomalyKind.LEVEL_SHIFT: "level shift",
    AnomalyKind.SLOW_RISE: "slow rise",
}
_WHOLE_DOLLARS_FROM = 10 * MICRO_USD_PER_USD


def describe_anomaly(
    scope: Scope,
    kind: AnomalyKind,
    cost_micro_usd: int,
    expected_micro_usd: int,
    sigmas: float,
    *,
    since: date,
    day: date,
) -> str:
    """`Daily cost spike: expected $40, actual $55 (37% over); 6.2 standard deviations ...`"""
    above = "above" if sigmas >= 0 else "below"
    days = (day - since).days + 1
    lasting = f"; since {since.isoformat()} ({count(days, 'day')})" if days > 1 else ""
    return (
        f"Daily cost {_NOUNS[kind]}{_of(scope)}: expected {_usd(expected_micro_usd)}, "
        f"actual {_usd(cost_micro_usd)} ({describe_change(cost_micro_usd, expected_micro_usd)}); "
        f"{abs(sigmas):.1f} standard deviations {above} the expected cost{lasting}"
    )


def describe_new(scope: Scope, cost_micro_usd: int, allowance: DailyAllowance) -> str:
    """A part without a history, compared with its budget or its peers."""
    reference = _usd(allowance.reference_micro_usd)
    compared = (
        f"the most expensive of {count(allowance.peers, 'peer')} typically costs {reference}"
        if allowance.peers
        else f"its budget allows {reference} a day"
    )
    return f"Daily cost of new {scope}: actual {_usd(cost_micro_usd)}; {compared}"


def describe_usual(scope: Scope, cost_micro_usd: int, expected_micro_usd: int) -> str:
    """A day on which nothing was unusual."""
    return (
        f"{scope}: {format_usd(cost_micro_usd)}, "
        f"{describe_change(cost_micro_usd, expected_micro_usd)} "
        f"(expected {format_usd(expected_micro_usd)})"
    )


def _of(scope: Scope) -> str:
    return f" of {scope}" if scope.dimension else ""


def _usd(micro_usd: int) -> str:
    """Whole dollars from $10 on: a forecast is not exact to the cent."""
    if micro_usd < _WHOLE_DOLLARS_FROM:
        return format_usd(micro_usd)
    return f"${round(micro_usd / MICRO_USD_PER_USD):,}"
