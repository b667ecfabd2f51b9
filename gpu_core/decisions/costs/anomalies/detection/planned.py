"""Activity that was announced: its days are neither judged nor learned from."""

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import date

from gpu_core.decisions.costs.reports.cost_history import Scope
from gpu_core.decisions.model.errors import InvalidInput
from gpu_core.decisions.policy.calendar import PlannedRule


@dataclass(frozen=True, slots=True, kw_only=True)
class PlannedActivity:
    """A range of days on which you expect to spend more or less than usual.

    Attributes:
        name: What it is, such as `holidays` or `training of the new model`.
        first_day: The first day of the range, in UTC.
        last_day: Its last UTC day, the first or later.
        team: The team to which the range applies. If not set, the range applies to all teams.
    """

    name: str
    first_day: date
    last_day: date
    team: str | None = None

    def __post_init__(self) -> None:
        if self.last_day < self.first_day:
            raise InvalidInput(
                "planned.last_day",
                "is before the first day",
                got=self.last_day.isoformat(),
                allowed=f"{self.first_day.isoformat()} or later",
            )

    def concerns(self, scope: Scope) -> bool:
        """Does it change this part of the cost? A team's does not change another team's."""
        is_other_team = scope.dimension == "team" and scope.value != self.team
        return self.team is None or not is_other_team


def planned_by(rules: Iterable[PlannedRule]) -> tuple[PlannedActivity, ...]:
    """The activities that the policy's calendar announces."""
    return tuple(
        PlannedActivity(
            name=rule.name, first_day=rule.first_day, last_day=rule.last_day, team=rule.team
        )
        for rule in rules
    )


def planned_on(
    day: date, scope: Scope, activities: Iterable[PlannedActivity]
) -> PlannedActivity | None:
    """The announced activity that changes this part of the cost on this day.

    None: there is none.
    """
    return next(
        (a for a in activities if a.first_day <= day <= a.last_day and a.concerns(scope)), None
    )
