"""The input and the output of the choice between spot and on-demand."""

from enum import StrEnum
from typing import NamedTuple

from gpu_core.decisions.model.units import format_duration, format_usd
from gpu_core.decisions.model.workload import Changeover
from gpu_core.decisions.spot.survival import SpotRecord


class Capacity(StrEnum):
    """The capacity that a workload uses."""

    IDLE = "idle"
    """Nothing: it waits."""
    SPOT = "spot"
    ON_DEMAND = "on-demand"


class Rule(StrEnum):
    """The rule that decided. Public: names are added, never changed."""

    DONE = "Done"
    """No work is left (the thrifty rule)."""
    BUDGET_SPENT = "BudgetSpent"
    """The run's budget does not reach to the next look, and the policy stops it."""
    BUDGET_NEEDS_SPOT = "BudgetNeedsSpot"
    """The rest of the run's budget pays for the rest of its work on spot, not on on-demand."""
    CRITICAL = "Critical"
    """The policy keeps critical work on on-demand."""
    SPOT_NOT_CHEAPER = "SpotNotCheaper"
    """Spot costs as much as on-demand or more: that is how a provider says that it has none."""
    STAY_ON_SPOT = "StayOnSpot"
    """Spot is used until it is taken away (the exploitation rule)."""
    SPOT_TOO_SHORT = "SpotTooShort"
    """Spot is up, but recently it went before a stay had saved what its start costs."""
    ON_DEMAND_FULL = "OnDemandFull"
    """The deadline asks for on-demand, none is available, and a stay on spot makes progress."""
    TAKE_SPOT = "TakeSpot"
    """Spot is there, and nothing else runs."""
    SAFETY_NET = "SafetyNet"
    """More waiting, or another change, could miss the deadline."""
    TOO_LATE = "TooLate"
    """The deadline cannot be met any more; on-demand comes nearest to it."""
    BEHIND = "Behind"
    """There is less progress than the line asks for: on-demand."""
    AHEAD = "Ahead"
    """There is as much progress as the line asks for: it can wait for spot, or change to it."""
    WAIT_FOR_SPOT = "WaitForSpot"
    """Spot has been unavailable for less than the patience with a gap."""
    OUT_OF_PATIENCE = "OutOfPatience"
    """Spot has been unavailable for longer than the patience with a gap."""
    SPOT_UNPROVEN = "SpotUnproven"
    """Spot is back, but too young to leave on-demand for."""
    SPOT_PROVEN = "SpotProven"
    """Spot has been up for long enough to leave on-demand for it."""
    STAY_ON_DEMAND = "StayOnDemand"
    """Changing would not pay, or there is nothing to change to."""


class RemainingWork(NamedTuple):
    """The cost of the rest of the work without an interruption, and the budget that is left."""

    left_micro_usd: int
    spot_micro_usd: int
    on_demand_micro_usd: int

    @property
    def reason(self) -> str:
        """The numbers as part of a sentence."""
        return (
            f"{format_usd(self.left_micro_usd)} of the budget remains, with "
            f"{format_usd(self.spot_micro_usd)} required on spot and "
            f"{format_usd(self.on_demand_micro_usd)} on on-demand"
        )


class CapacityState(NamedTuple):
    """One workload, and what is known of its capacity, at one moment.

    Durations are seconds. A gang of several nodes is one workload: spot is up when all its nodes
    are available, and prices are of all of them together.
    """

    work_s: float
    """All of the work, in seconds of undisturbed running."""
    remaining_work_s: float
    elapsed_s: float
    """Since the deadline was promised."""
    time_left_s: float | None
    """Until the deadline; negative: it has passed; None: there is none."""
    changeover_s: float
    """The loss of a start on other capacity: launch, set-up, loading the checkpoint, and the work
    since that checkpoint in the mean."""
    look_s: float
    """Until the next decision, if nothing happens."""
    current: Capacity
    """The capacity in use now. Spot that was taken away: idle."""
    spot: SpotRecord
    """Whether spot is up, since when, and how it has come and gone."""
    spot_micro_usd_per_hour: int | None = None
    """None: unknown."""
    on_demand_micro_usd_per_hour: int | None = None
    """None: unknown."""
    has_notice: bool = False
    """The provider has said that it takes the running spot capacity away."""
    is_critical: bool = False
    budget_left_micro_usd: int | None = None
    """The rest of its budget; None: it has no budget."""
    changeover: Changeover | None = None
    """The source of `changeover_s`; None: it is certain, as in a replay."""
    can_have_on_demand: bool = True
    """False: it has asked for on-demand and got none."""
    usual_remaining_work_s: float | None = None
    """The work that is usually left, by which money is reckoned. A deadline is to hold even for
    `remaining_work_s`, which is seldom needed; None: the two are the same."""

    @property
    def slack_s(self) -> float | None:
        """The time that can be lost without missing the deadline; None if there is no deadline."""
        return None if self.time_left_s is None else self.time_left_s - self.remaining_work_s

    @property
    def price_ratio(self) -> float | None:
        """On-demand by spot price (k in the papers); None: one of them is unknown."""
        if not self.spot_micro_usd_per_hour or self.on_demand_micro_usd_per_hour is None:
            return None
        return self.on_demand_micro_usd_per_hour / self.spot_micro_usd_per_hour


class CapacityDecision(NamedTuple):
    """The capacity to use until the next look, the rule that chose it, and its numbers."""

    capacity: Capacity
    rule: Rule
    slack_s: float | None = None
    """The time that could still be lost when it was decided; None: no deadline."""
    progress_s: float = 0.0
    expected_progress_s: float | None = None
    """The progress that a line asks for; None: the rule has no line."""
    spot_age_s: float = 0.0
    """The time for which spot had been up, or away."""
    patience_s: float | None = None
    """The age that would change the decision; None: the rule has none, or no age would."""
    price_ratio: float | None = None
    """On-demand by spot price; None: unknown."""
    rest: RemainingWork | None = None
    """The money that decided; None: it did not."""
    changeover: Changeover | None = None
    """The source of the loss of a start; None: it is certain."""
    stay_work_s: float | None = None
    """The work that a stay on spot is expected to do; None: it did not decide."""

    @property
    def reason(self) -> str:
        """The decision and its numbers as one sentence."""
        parts = [f"{self.capacity}: {SENTENCES[self.rule]}"]
        if self.rest is not None:
            parts.append(self.rest.reason)
        if self.stay_work_s is not None:
            parts.append(
                f"an instance is expected to complete {format_duration(self.stay_work_s)} of work"
            )
        if self.patience_s is not None:
            age, patience = format_duration(self.spot_age_s), format_duration(self.patience_s)
            parts.append(f"{age} of {patience}")
        if self.expected_progress_s is not None:
            progress, expected = (
                format_duration(seconds) for seconds in (self.progress_s, self.expected_progress_s)
            )
            parts.append(f"progress {progress} of {expected} expected by now")
        if self.slack_s is not None:
            parts.append(f"slack {'-' * (self.slack_s < 0)}{format_duration(abs(self.slack_s))}")
        if self.price_ratio is None:
            parts.append("prices unknown, using the deadline only")
        else:
            parts.append(f"on-demand costs {self.price_ratio:.2f} times spot")
        if self.slack_s is not None and self.changeover is not None:
            parts.append(self.changeover.reason)
        return "; ".join(parts)


SENTENCES = {
    Rule.DONE: "no work remaining",
    Rule.BUDGET_SPENT: "the budget would be exceeded before the next poll",
    Rule.BUDGET_NEEDS_SPOT: "the budget is sufficient for spot only",
    Rule.CRITICAL: "critical work requires on-demand capacity",
    Rule.SPOT_NOT_CHEAPER: "spot is not cheaper",
    Rule.STAY_ON_SPOT: "remaining on spot until interrupted",
    Rule.SPOT_TOO_SHORT: "recently interrupted on spot before recovering the cost of starting",
    Rule.ON_DEMAND_FULL: "no on-demand GPUs available, using spot",
    Rule.TAKE_SPOT: "spot is up",
    Rule.SAFETY_NET: "waiting or switching again could cause the deadline to be missed",
    Rule.TOO_LATE: "the deadline can no longer be met",
    Rule.BEHIND: "progress is behind schedule",
    Rule.AHEAD: "progress is ahead of schedule",
    Rule.WAIT_FOR_SPOT: "spot is currently unavailable",
    Rule.OUT_OF_PATIENCE: "spot has been unavailable for too long",
    Rule.SPOT_UNPROVEN: "spot is available again but not yet considered stable",
    Rule.SPOT_PROVEN: "spot is considered stable",
    Rule.STAY_ON_DEMAND: "remaining on on-demand",
}
"""The text of each rule, as the second half of a sentence."""
