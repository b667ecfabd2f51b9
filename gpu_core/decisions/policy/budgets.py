"""Policy section `budgets`: what pools, teams, users, projects and deployments may use."""

from collections.abc import Collection, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from fractions import Fraction
from typing import Annotated, Literal
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

from pydantic import Field

from gpu_core.decisions.model.errors import InvalidInput, listed, nearest_name
from gpu_core.decisions.model.pydantic_errors import parsed_by
from gpu_core.decisions.model.section import Name, PositiveDuration, Section
from gpu_core.decisions.model.units import (
    SECONDS_PER_HOUR,
    as_number,
    format_usd,
    micro_usd,
    require_aware,
)
from gpu_core.decisions.policy.notification import unusable_blocks

Period = Literal["day", "week", "month"]


Scope = Literal["pool", "team", "user", "project", "deployment"]


Mode = Literal["soft", "hard", "stop"]


_LARGEST_AMOUNT = 1_000_000_000


_AMOUNT_HELP = f"a number, 0 to {_LARGEST_AMOUNT:,}"


def _amount(value: object, field: str) -> Fraction:
    if isinstance(value, bool) or not isinstance(value, int | float):
        remedy = as_number(value)
        raise InvalidInput(
            field, "is not an amount", got=value, allowed=_AMOUNT_HELP, remedy=remedy
        )
    try:
        amount = Fraction(str(value))
    except ValueError:
        raise InvalidInput(field, "is not finite", got=value, allowed=_AMOUNT_HELP) from None
    if amount < 0:
        raise InvalidInput(field, "is negative", got=value, allowed=_AMOUNT_HELP)
    if amount > _LARGEST_AMOUNT:
        raise InvalidInput(field, "is too large", got=value, allowed=_AMOUNT_HELP)
    return amount


def _gpu_s(value: object, field: str) -> int:
    return round(_amount(value, field) * SECONDS_PER_HOUR)


def _micro_usd(value: object, field: str) -> int:
    _amount(value, field)
    return micro_usd(str(value), field)


def _zone(value: object, field: str) -> str:
    try:
        if isinstance(value, str):
            return ZoneInfo(value).key
    except (ZoneInfoNotFoundError, ValueError, OSError):
        pass
    raise InvalidInput(
        field, "is not a time zone", got=value, allowed="a name such as 'UTC' or 'Europe/Berlin'"
    )


class BudgetPolicy(Section):
    """A spending limit for a pool, team, user, project or deployment in each period."""

    name: Name
    """The name of the budget, as shown in messages."""
    scope: Scope
    """The kind of object to which the budget applies."""
    of: Name | None = None
    """The name of the team, user, project or deployment (`FLOW/DEPLOYMENT`). Must not be set if the
    scope is `pool`."""
    period: Period
    """The period after which the usage is reset to 0."""
    time_zone: Annotated[str, parsed_by(_zone)] = "UTC"
    """The time zone of the period. A period starts at midnight in this time zone, and a week starts
    on Monday."""
    limit_micro_usd: Annotated[int, parsed_by(_micro_usd)] | None = Field(default=None, alias="usd")
    """The limit in USD. You must specify either `usd` or `gpu_hours`, but not both."""
    limit_gpu_s: Annotated[int, parsed_by(_gpu_s)] | None = Field(default=None, alias="gpu_hours")
    """The limit in GPU-hours. Cannot be combined with `usd`."""
    mode: Mode = "hard"
    """What happens when the limit is reached. `soft` only sends a warning. `hard` prevents new runs
    from starting. `stop` also stops the running ones: they save a checkpoint, return to the queue,
    and resume when the budget allows it."""
    queues: Mapping[Name, Mode] = Field(default={})
    """Overrides the mode for specific work queues, for example `critical: soft`. All other queues
    use `mode`."""
    assumed_duration_s: PositiveDuration = Field(default=3600, alias="assumed_duration")
    """The duration that is assumed for a run of unknown length, both when the run starts and while
    it is running."""
    warn_at: Annotated[float, Field(ge=0, le=1)] = 0.8
    """The fraction of the limit at which a warning is sent."""
    notify: Sequence[Name] = ()
    """A list of Prefect notification blocks to which alerts are sent, for example
    `slack-webhook/gpu-budgets`."""

    @property
    def limit(self) -> int:
        """The limit in the budget's unit: micro-USD or GPU-seconds."""
        return self.limit_micro_usd if self.limit_micro_usd is not None else self.limit_gpu_s or 0

    @property
    def is_money(self) -> bool:
        """Is it counted in micro-USD, not in GPU-seconds?"""
        return self.limit_micro_usd is not None

    def mode_of(self, queue: str | None) -> Mode:
        """The action at the limit for runs of this work queue."""
        return self.mode if queue is None else self.queues.get(queue, self.mode)

    @property
    def stops_runs(self) -> bool:
        """Does it stop running runs, of any queue?"""
        return "stop" in (self.mode, *self.queues.values())

    def text(self, amount: int) -> str:
        """An amount in the budget's unit as people read it: `$412.00`, `36.0 GPU-hours`."""
        return (
            format_usd(amount) if self.is_money else f"{amount / SECONDS_PER_HOUR:,.1f} GPU-hours"
        )


def period_start(period: Period, now: datetime, time_zone: str = "UTC") -> datetime:
    """The start of the period that `now` is in, in UTC.

    Args:
        period: Days and months begin at midnight of the zone, weeks on Monday (ISO 8601).
        now: Aware.
        time_zone: A name such as `Europe/Berlin`.
    """
    zone = ZoneInfo(time_zone)
    today = require_aware(now, "now").astimezone(zone).date()
    match period:
        case "day":
            first = today
        case "week":
            first = today - timedelta(days=today.weekday())
        case "month":
            first = today.replace(day=1)
    return datetime(first.year, first.month, first.day, tzinfo=zone).astimezone(UTC)


def period_end(period: Period, now: datetime, time_zone: str = "UTC") -> datetime:
    """The start of the next period, in UTC, from which the budget is whole again."""
    # To noon of one of the next period's first days, by the wall clock: days have 23 to 25 hours.
    longest_days = {"day": 1, "week": 7, "month": 31}[period]
    start = period_start(period, now, time_zone).astimezone(ZoneInfo(time_zone))
    return period_start(period, start + timedelta(days=longest_days, hours=12), time_zone)


def budget_contradictions(
    budgets: Sequence[BudgetPolicy],
    queues: Collection[str] | None = None,
    teams: Collection[str] | None = None,
) -> list[InvalidInput]:
    """The budgets that contradict themselves or each other.

    Args:
        queues: The work queues that there may be; None: any.
        teams: The teams that runs can start for; None: any.

    Returns:
        An error for each, with field paths from `budgets` on; none: they can be used.
    """
    errors = []
    names: set[str] = set()
    for place, budget in enumerate(budgets):
        path = f"budgets.{place}"
        if budget.name in names:
            errors.append(InvalidInput(f"{path}.name", "is used twice", got=budget.name))
        names.add(budget.name)
        if (budget.limit_micro_usd is None) == (budget.limit_gpu_s is None):
            errors.append(InvalidInput(path, "needs one limit", allowed="either usd or gpu_hours"))
        errors += _unknown_names(path, budget, queues, teams)
        errors += unusable_blocks(path, budget.notify)
        if budget.scope == "pool" and budget.of is not None:
            errors.append(
                InvalidInput(f"{path}.of", "has no effect with scope pool", got=budget.of)
            )
        if budget.scope != "pool" and budget.of is None:
            errors.append(InvalidInput(f"{path}.of", "is missing", allowed=f"a {budget.scope}"))
    return errors


def _unknown_names(
    path: str,
    budget: BudgetPolicy,
    queues: Collection[str] | None,
    teams: Collection[str] | None,
) -> list[InvalidInput]:
    found = [
        (f"{path}.queues.{name}", "is not a queue of the policy", name, queues)
        for name in budget.queues
        if queues is not None and name not in queues
    ]
    if budget.scope == "team" and budget.of and teams is not None and budget.of not in teams:
        found.append(
            (f"{path}.of", "is a team that is rejected by quotas.unlisted", budget.of, teams)
        )
    return [
        InvalidInput(
            field,
            what,
            got=name,
            allowed=listed(known or ()),
            nearest=nearest_name(name, known or ()),
        )
        for field, what, name, known in found
    ]
