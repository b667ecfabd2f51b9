"""Known facts about future costs: planned activity, and the budgets of teams."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from gpu_core.decisions.costs.anomalies.detection.new_series import team_budgets_micro_usd_per_day
from gpu_core.decisions.costs.anomalies.detection.planned import PlannedActivity, planned_by
from gpu_core.decisions.policy.policy import Policy


@dataclass(frozen=True, slots=True, kw_only=True)
class Known:
    """The planned days and budgets that a day is judged by, in addition to its history."""

    planned: Sequence[PlannedActivity] = ()
    """Announced days are neither judged nor learned from."""
    budgets_micro_usd_per_day: Mapping[str, int] = field(default_factory=dict)
    """The amount that each team's budget allows in a day: a team without a history is judged by
    it."""

    @classmethod
    def by(cls, policy: Policy, planned: Sequence[PlannedActivity] = ()) -> "Known":
        """Known facts by the policy, and further announced activity."""
        return cls(
            planned=(*planned, *planned_by(policy.calendar.planned)),
            budgets_micro_usd_per_day=team_budgets_micro_usd_per_day(policy.budgets),
        )
