"""Alerts of budgets: at the warning mark and at the limit, each once in a period."""

from collections.abc import Collection, Iterator, Mapping
from datetime import datetime
from fractions import Fraction
from typing import NamedTuple

from gpu_core.decisions.costs.reports.budget_use import budget_use
from gpu_core.decisions.model.cluster import PastUsage
from gpu_core.decisions.policy.budgets import BudgetPolicy, Mode, period_start
from gpu_core.decisions.policy.policy import Policy


class AlertMark(NamedTuple):
    """One mark of one budget in one period: what is reported once."""

    budget: str
    period_start: datetime
    percent: int
    """Of the limit."""


class BudgetAlert(NamedTuple):
    """The message about a budget, and the marks that it covers."""

    policy: BudgetPolicy
    marks: tuple[AlertMark, ...]
    """Those that are reached and were not reported before, the highest last."""
    used: int
    """In the budget's unit: micro-USD or GPU-seconds."""
    forecast: int | None
    """The use at the end of the period if usage continues at its mean rate; None: the period has
    just started."""
    ends_at: datetime

    @property
    def subject(self) -> str:
        """One line: `Budget vision-monthly: 83% used`."""
        return f"Budget {self.policy.name}: {_percent(self.used, self.policy.limit)} used"

    @property
    def body(self) -> str:
        """The numbers, what follows, and until when."""
        policy = self.policy
        whose = "the pool" if policy.of is None else f"{policy.scope} {policy.of}"
        text = policy.text
        sentences = [
            f"{whose[0].upper()}{whose[1:]} has used {text(self.used)} of {text(policy.limit)} "
            f"in this {policy.period}, which ends {self.ends_at:%Y-%m-%d %H:%M} UTC."
        ]
        if self.forecast is not None:
            share = _percent(self.forecast, policy.limit)
            sentences.append(
                f"At the current rate, the usage will reach {text(self.forecast)} ({share})."
            )
        if self.marks[-1].percent >= 100:
            sentences += _what_follows(policy)
        return " ".join(sentences)


_AT_LIMIT: Mapping[Mode, str] = {
    "soft": "Runs can still start because the budget is soft.",
    "hard": "New runs in this budget are not started until the period ends.",
    "stop": "Active runs save a checkpoint and stop, resuming after the period ends. New "
    "runs are not started until then.",
}

_AT_LIMIT_OF_QUEUE: Mapping[Mode, str] = {
    "soft": "Runs in queue {} are not affected.",
    "hard": "Active runs in queue {} continue, but no new runs are started.",
    "stop": "Active runs in queue {} save a checkpoint and stop.",
}


def _what_follows(policy: BudgetPolicy) -> list[str]:
    others = {queue: mode for queue, mode in policy.queues.items() if mode != policy.mode}
    return [
        _AT_LIMIT[policy.mode],
        *(_AT_LIMIT_OF_QUEUE[mode].format(queue) for queue, mode in sorted(others.items())),
    ]


def due_alerts(
    policy: Policy,
    usage: PastUsage,
    sent: Collection[AlertMark],
    now: datetime,
    stopped: Collection[str] = (),
) -> Iterator[BudgetAlert]:
    """The alerts for budgets that have reached a mark that is not reported yet in this period.

    A budget that passes both marks at once is reported once, and counts as reported for both.

    Args:
        policy: With its budgets and their warning marks.
        usage: What was used in the current period of each.
        sent: The marks that were reported.
        now: Aware.
        stopped: Names of budgets that have stopped runs in this period. They do so before their
            limit is reached; it counts as reached.
    """
    for budget in policy.budgets:
        start = period_start(budget.period, now, budget.time_zone)
        use = budget_use(budget, usage, now)
        warn_at = Fraction(str(budget.warn_at))
        marks = {round(100 * warn_at): warn_at, 100: Fraction(1)}
        reached = [
            AlertMark(budget.name, start, percent)
            for percent, part in sorted(marks.items())
            # A budget of nothing is used up by anything.
            if (use.used and use.used >= part * budget.limit) or budget.name in stopped
        ]
        news = tuple(mark for mark in reached if mark not in sent)
        if news:
            yield BudgetAlert(budget, news, use.used, use.forecast, use.ends_at)


def _percent(amount: int, limit: int) -> str:
    return "all" if not limit else f"{100 * amount // limit:,}%"
