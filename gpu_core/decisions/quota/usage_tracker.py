"""The usage for shares and budgets, kept up to date from the starts and ends of attempts."""

from collections.abc import Iterable, Sequence
from dataclasses import replace
from datetime import datetime, timedelta

from gpu_core.decisions.costs.reports.budget_use import BudgetUse, budget_use
from gpu_core.decisions.costs.usage.usage import NO_USAGE, Usage
from gpu_core.decisions.costs.usage.usage_cost import Window, attempt_usage
from gpu_core.decisions.model.attempts import Attempt, RunRecord
from gpu_core.decisions.model.cluster import PastUsage
from gpu_core.decisions.model.units import SECONDS_PER_HOUR
from gpu_core.decisions.policy.budgets import BudgetPolicy, period_start
from gpu_core.decisions.policy.ordering import OrderKey
from gpu_core.decisions.policy.policy import Policy
from gpu_core.decisions.quota.budgets import counts_in
from gpu_core.decisions.quota.fair_share import UsageMeter

_HALF_LIVES = 10
"""Older usage counts less than a thousandth of itself."""


class UsageTracker:
    """The usage that shares and budgets of one policy need, for as long as `serves` is true.

    After a change of the policy, and at the turn of a budget's period, a new one is opened and
    given every attempt since `since` again.

    Args:
        policy: The rules.
        now: When it is opened, aware.
    """

    def __init__(self, policy: Policy, now: datetime) -> None:
        self._rules = _rules(policy, now)
        self._measures_dollars = policy.fair_share.measure == "dollars"
        self._starts = {b.name: _period_start(b, now) for b in policy.budgets}
        self._budgets = tuple(policy.budgets)
        self._meter = (
            UsageMeter[tuple[str | None, str | None]](policy.fair_share.half_life_s)
            if OrderKey.FAIR_SHARE in policy.ordering.keys
            else None
        )
        self._open: dict[str, tuple[RunRecord, Attempt]] = {}
        self._spent = {budget.name: NO_USAGE for budget in policy.budgets}
        self.since = min([*self._starts.values(), *self._shares_since(policy, now)], default=now)
        """Attempts that ended before this moment do not count."""

    def serves(self, policy: Policy, now: datetime) -> bool:
        """Is it still the book for this policy, and for this period of each budget?"""
        return self._rules == _rules(policy, now)

    def start(self, run: RunRecord, attempt: Attempt) -> None:
        """An attempt holds GPUs since its admission. It may be over already: then `end` follows."""
        self._open[attempt.attempt_id] = run, attempt
        self._hold(run, attempt, attempt.admitted_at)
        if attempt.gone_at is not None:
            self._stop(run, attempt, attempt.gone_at)

    def update(self, run: RunRecord, attempt: Attempt) -> None:
        """A started attempt may have other prices now, or its GPUs are free before it is judged."""
        if attempt.attempt_id not in self._open:
            return
        _, known = self._open[attempt.attempt_id]
        new = replace(known, gone_at=attempt.gone_at, later_prices=attempt.later_prices)
        if new != known:
            self.withdraw(attempt.attempt_id)
            self.start(run, new)

    def end(self, run: RunRecord, attempt: Attempt) -> None:
        """A started attempt is over: its `released_at` is known now.

        One that was postponed costs nothing, in budgets as in reports.
        """
        if attempt.released_at is None:
            raise ValueError(f"attempt {attempt.attempt_id} is not over")
        if not attempt.has_run:
            self.withdraw(attempt.attempt_id)
            return
        self._reopen(attempt.attempt_id)
        self._stop(run, attempt, attempt.released_at)
        for budget in self._budgets:
            if counts_in(budget, run):
                used = self._used(budget, attempt, attempt.released_at)
                self._spent[budget.name] += used

    def withdraw(self, attempt_id: str) -> None:
        """A started attempt never was: its run was not started after all."""
        run, attempt = self._reopen(attempt_id)
        self._stop(run, attempt, attempt.admitted_at)

    def usage(self, now: datetime) -> PastUsage:
        """The usage by now, with that of the attempts that run at this moment.

        Args:
            now: Not before the last start or end.
        """
        spent = dict(self._spent)
        for run, attempt in self._open.values():
            for budget in self._budgets:
                if counts_in(budget, run):
                    spent[budget.name] += self._used(budget, attempt, now)
        return PastUsage(
            gpu_s_by_user={} if self._meter is None else self._meter.usage(now.timestamp()),
            gpu_s_by_budget={name: round(used.gpu_s) for name, used in spent.items()},
            micro_usd_by_budget={name: used.micro_usd for name, used in spent.items()},
        )

    def _reopen(self, attempt_id: str) -> tuple[RunRecord, Attempt]:
        """Take it from the open ones, as one that holds its GPUs until this moment."""
        run, attempt = self._open.pop(attempt_id)
        if attempt.gone_at is not None:
            self._hold(run, attempt, attempt.gone_at)
        return run, attempt

    def _hold(self, run: RunRecord, attempt: Attempt, at: datetime) -> None:
        if self._meter is not None:
            self._meter.start((run.team, run.user), self._worth(attempt), at.timestamp())

    def _stop(self, run: RunRecord, attempt: Attempt, at: datetime) -> None:
        if self._meter is not None:
            self._meter.stop((run.team, run.user), self._worth(attempt), at.timestamp())

    def _used(self, budget: BudgetPolicy, attempt: Attempt, now: datetime) -> Usage:
        start = self._starts[budget.name]
        return attempt_usage(attempt, now, Window(start, max(start, now)))

    def _worth(self, attempt: Attempt) -> float:
        if not self._measures_dollars:
            return float(attempt.gpus)
        price = attempt.price_micro_usd_per_gpu_hour or 0
        return float(attempt.priced_gpus * price / SECONDS_PER_HOUR)

    def _shares_since(self, policy: Policy, now: datetime) -> list[datetime]:
        if self._meter is None:
            return []
        return [now - timedelta(seconds=_HALF_LIVES * policy.fair_share.half_life_s)]


def budget_uses(
    policy: Policy, records: Iterable[tuple[RunRecord, Sequence[Attempt]]], now: datetime
) -> tuple[BudgetUse, ...]:
    """The past and the expected use of each budget, from the ledger's records.

    Args:
        policy: With its budgets.
        records: Runs with an attempt since `UsageTracker.since`, with all attempts.
        now: What came later does not count.
    """
    book = UsageTracker(policy, now)
    for run, attempts in records:
        for attempt in attempts:
            if attempt.has_run and attempt.admitted_at < now:
                book.start(run, attempt)
    usage = book.usage(now)
    return tuple(budget_use(budget, usage, now) for budget in policy.budgets)


def _rules(policy: Policy, now: datetime) -> tuple[object, ...]:
    starts = tuple(_period_start(budget, now) for budget in policy.budgets)
    return (OrderKey.FAIR_SHARE in policy.ordering.keys, policy.fair_share, policy.budgets, starts)


def _period_start(budget: BudgetPolicy, now: datetime) -> datetime:
    return period_start(budget.period, now, budget.time_zone)
