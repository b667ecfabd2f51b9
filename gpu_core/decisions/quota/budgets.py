"""Budgets: what a pool and its users may use in a day, a week or a month.

A run is admitted only if `spent + committed + expected(this run) <= limit`: what is over cannot be
unspent, so a run that would cross the limit does not start.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from fractions import Fraction
from math import ceil

from gpu_core.decisions.model.attempts import RunRecord
from gpu_core.decisions.model.cluster import PastUsage
from gpu_core.decisions.model.units import SECONDS_PER_HOUR, format_duration
from gpu_core.decisions.model.workload import Workload
from gpu_core.decisions.policy.budgets import BudgetPolicy, Mode, Scope

POLL_S = 60
"""Running runs are compared with budgets at least this often."""


def counts_in(budget: BudgetPolicy, run: RunRecord) -> bool:
    """Does what this run uses count in the budget?"""
    if budget.scope == "pool":
        return True
    holders = {
        "team": run.team,
        "user": run.user,
        "project": run.project,
        "deployment": run.deployment,
    }
    return holders[budget.scope] == budget.of


@dataclass(frozen=True, slots=True, kw_only=True)
class BudgetCheck:
    """The result of one budget's check of one run. Amounts are in its unit: micro-USD or
    GPU-seconds."""

    budget: BudgetPolicy
    mode: Mode
    """Of the run's queue."""
    spent: int
    """Used in this period before now."""
    committed: int
    """The amount that admitted runs are still expected to use."""
    expected: int | None
    """The amount that this run is expected to use; None: its GPUs have no price."""
    is_assumed: bool = False
    """Its length is unknown; the budget's `assumed_duration` counts."""
    is_unpriced: bool = False
    """It is counted in money, and the run's GPUs have no price."""

    @property
    def total(self) -> int:
        """The total with the run, as far as that is known."""
        return self.spent + self.committed + (self.expected or 0)

    @property
    def is_within(self) -> bool:
        """May the run start? Unpriced: never."""
        return not self.is_unpriced and self.total <= self.budget.limit

    @property
    def is_refusal(self) -> bool:
        """Does it keep the run from starting?"""
        return self.mode != "soft" and not self.is_within

    @property
    def is_permanent(self) -> bool:
        """Would the run be refused in an untouched period, too?"""
        return self.is_unpriced or (self.expected or 0) > self.budget.limit

    @property
    def summary(self) -> str:
        """One line with the numbers: `Over budget 'vision': $412.00 of $400.00 per month (…)`."""
        budget = self.budget
        if self.is_unpriced:
            return f"Budget {budget.name!r} is in USD, but no price is available for these GPUs"
        parts = f"{budget.text(self.spent)} spent, {budget.text(self.committed)} committed"
        this_run = budget.text(self.expected or 0)
        length = format_duration(budget.assumed_duration_s)
        why = (
            f", assuming a duration of {length} because the duration is unknown"
            if self.is_assumed
            else ""
        )
        word = "Within" if self.is_within else "Over"
        return (
            f"{word} budget {budget.name!r}: {budget.text(self.total)} of "
            f"{budget.text(budget.limit)} per {budget.period} "
            f"({parts}, {this_run} for this run{why})"
        )


class Budgets:
    """The rest of each budget in one cycle: first the past, then what the cycle admits.

    Call `commit` at the beginning with what running workloads are still expected to use.

    Args:
        policy: The budgets, without contradictions.
        usage: What was spent in the current period of each, by its name.
        grace_s: What a run that a budget stops may take to save.
    """

    def __init__(
        self, policy: Sequence[BudgetPolicy], usage: PastUsage, *, grace_s: float = 0.0
    ) -> None:
        self._least_s = POLL_S + grace_s
        self._by_holder: dict[tuple[Scope, str | None], list[BudgetPolicy]] = {}
        for budget in policy:
            self._by_holder.setdefault((budget.scope, budget.of), []).append(budget)
        self._spent = {
            budget.name: (
                usage.micro_usd_by_budget if budget.is_money else usage.gpu_s_by_budget
            ).get(budget.name, 0)
            for budget in policy
        }
        self._committed = dict.fromkeys(self._spent, 0)

    def checks(
        self,
        workload: Workload,
        gpus: float,
        price_micro_usd_per_gpu_hour: int | None,
        expected_s: float | None,
    ) -> tuple[BudgetCheck, ...]:
        """The checks of the budgets that this run counts in, one for each.

        Args:
            workload: Its team, user and project say which budgets it counts in.
            gpus: GPUs over all nodes, shares of GPUs as fractions. 0: it uses no budget.
            price_micro_usd_per_gpu_hour: Of the GPUs that it would get; None: unpriced.
            expected_s: How long it is thought to run; None: unknown, as each budget assumes.
        """
        if not gpus:
            return ()
        return tuple(
            BudgetCheck(
                budget=budget,
                mode=budget.mode_of(workload.queue),
                spent=self._spent[budget.name],
                committed=self._committed[budget.name],
                expected=self._expected(budget, gpus, price_micro_usd_per_gpu_hour, expected_s),
                is_assumed=expected_s is None,
                is_unpriced=budget.is_money and price_micro_usd_per_gpu_hour is None,
            )
            for budget in self._of(workload)
        )

    def refusal(
        self,
        workload: Workload,
        gpus: float,
        price_micro_usd_per_gpu_hour: int | None,
        expected_s: float | None,
    ) -> BudgetCheck | None:
        """The budget that keeps this run from starting; None: none does. Arguments as for `checks`.

        Of several, one that will never let it start comes first, then the pool's, the team's, the
        project's, the user's and the deployment's.
        """
        checks = self.checks(workload, gpus, price_micro_usd_per_gpu_hour, expected_s)
        refusals = [check for check in checks if check.is_refusal]
        return min(refusals, key=lambda check: not check.is_permanent, default=None)

    def commit(
        self,
        workload: Workload,
        gpus: float,
        price_micro_usd_per_gpu_hour: int | None,
        expected_s: float | None,
    ) -> None:
        """The run starts, or runs and is expected to go on so long. Arguments as for `checks`.

        For a run of unknown length a budget keeps its `assumed_duration` for as long as it runs.
        What has no price commits nothing: it counts once it is spent.
        """
        for check in self.checks(workload, gpus, price_micro_usd_per_gpu_hour, expected_s):
            self._committed[check.budget.name] += check.expected or 0

    def _of(self, workload: Workload) -> Iterator[BudgetPolicy]:
        yield from self._by_holder.get(("pool", None), ())
        holders: tuple[tuple[Scope, str | None], ...] = (
            ("team", workload.team),
            ("project", workload.project),
            ("user", workload.user),
            ("deployment", workload.deployment),
        )
        for scope, name in holders:
            yield from self._by_holder.get((scope, name), ())

    def _expected(
        self,
        budget: BudgetPolicy,
        gpus: float,
        price_micro_usd_per_gpu_hour: int | None,
        run_s: float | None,
    ) -> int | None:
        expected_s = budget.assumed_duration_s if run_s is None else run_s
        if budget.stops_runs:
            # A run that would be stopped at the next poll does not start.
            expected_s = max(expected_s, self._least_s)
        gpu_s = Fraction(gpus) * Fraction(expected_s)
        if not budget.is_money:
            return ceil(gpu_s)
        if price_micro_usd_per_gpu_hour is None:
            return None
        return ceil(gpu_s * price_micro_usd_per_gpu_hour / SECONDS_PER_HOUR)
