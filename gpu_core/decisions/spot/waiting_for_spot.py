"""The explanation of a run that waits for spot: the reason, its numbers, and the end of the
wait."""

from gpu_core.decisions.model.reasons import Reason
from gpu_core.decisions.model.units import format_duration
from gpu_core.decisions.model.workload import Hold
from gpu_core.decisions.spot.state import SENTENCES, CapacityDecision, Rule

_RESOLUTION = (
    "The run starts once spot is available, or on on-demand capacity if it can no longer wait."
)
_WHEN_IT_CAN_PAY = (
    "The run starts once spot is available. To use on-demand capacity, increase the "
    "`budget_usd` job variable."
)


def waiting_hold(decision: CapacityDecision) -> Hold:
    """The hold of a run that waits for spot, with the event that ends its waiting.

    Each of the two is one sentence of at most 120 characters; the log has all numbers.

    Args:
        decision: That it uses nothing now.
    """
    return Hold(
        reason=Reason.WAITING_FOR_SPOT,
        summary=f"Waiting for spot: {_why(decision)}.",
        resolution=_resolution(decision),
    )


def _why(decision: CapacityDecision) -> str:
    if decision.rest is not None:
        return decision.rest.reason
    parts = [_what(decision)]
    if decision.slack_s is not None:
        parts.append(f"slack {format_duration(decision.slack_s)}")
    if decision.price_ratio is not None:
        parts.append(f"on-demand costs {decision.price_ratio:.2f} times spot")
    return "; ".join(parts)


def _what(decision: CapacityDecision) -> str:
    """The rule with the number that can change it."""
    if decision.patience_s is not None:
        age, patience = format_duration(decision.spot_age_s), format_duration(decision.patience_s)
        return f"unavailable for {age} of at most {patience}"
    if decision.expected_progress_s is not None:
        done = format_duration(decision.progress_s)
        return f"progress {done} of {format_duration(decision.expected_progress_s)} expected by now"
    return SENTENCES[decision.rule]


def _resolution(decision: CapacityDecision) -> str:
    if decision.rule is Rule.BUDGET_NEEDS_SPOT:
        return _WHEN_IT_CAN_PAY
    if decision.slack_s is None or decision.changeover is None:
        return _RESOLUTION
    return f"The run starts on spot, or in time on on-demand; {decision.changeover.reason}."
