"""Reserved capacity in place of on-demand: for machines that are there nearly all the time."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta

import numpy as np
from numpy.typing import NDArray

from gpu_core.decisions.costs.capacity.capacity_intervals import CapacityInterval
from gpu_core.decisions.costs.prices.price_book import PriceBook
from gpu_core.decisions.costs.savings.kind_costs import KindCost, kind_costs
from gpu_core.decisions.costs.savings.price_steps import MachineKind
from gpu_core.decisions.costs.usage.usage_cost import Window
from gpu_core.decisions.optimization.proposals.drafts import saving_between
from gpu_core.decisions.optimization.proposals.interruption_model import Numbers
from gpu_core.decisions.optimization.proposals.kinds import ProposalKind
from gpu_core.decisions.optimization.proposals.period import Period
from gpu_core.decisions.optimization.proposals.prediction_interval import predicted_mean
from gpu_core.decisions.optimization.proposals.proposal import (
    Change,
    Proposal,
    Saving,
    proposal_id,
)

_DAY = timedelta(days=1)
_DAY_US = _DAY // timedelta(microseconds=1)
_WEEK_DAYS = 7


@dataclass(frozen=True, slots=True, kw_only=True)
class MachineHistory:
    """The machines of the period, with their prices on other terms."""

    intervals: Sequence[CapacityInterval]
    """Those with a time in the period."""
    recorded_since: datetime | None
    """From when on the ledger has machines; None: it has none."""
    book: PriceBook


@dataclass(frozen=True, slots=True, kw_only=True)
class MachineDays:
    """The machines of one kind, by day. Money in micro-USD."""

    kind: MachineKind
    held: NDArray[np.float64]
    """By day and number: the part of the day with at least that many machines on demand."""
    on_demand: Numbers
    """The price of a machine for each day."""
    committed: Numbers
    """The same with a commitment."""

    @property
    def gains(self) -> NDArray[np.float64]:
        """By day and number: what a commitment for that machine saves, negative for a loss."""
        gains: NDArray[np.float64] = self.held * self.on_demand[:, None] - self.committed[:, None]
        return gains

    @property
    def cost(self) -> Numbers:
        """The cost of the machines on demand for each day."""
        cost: Numbers = (self.held * self.on_demand[:, None]).sum(axis=1)
        return cost


def reserved_proposals(history: MachineHistory, period: Period, now: datetime) -> list[Proposal]:
    """For how many machines of each kind would a commitment have paid off in this period?

    Args:
        history: Machines and prices.
        period: The days that are judged; the ledger must have machines from its beginning on.
        now: Machines that are there are counted up to here.
    """
    recorded = history.recorded_since
    if recorded is None or recorded > period.window.start or now < period.window.end:
        return []
    pool = ", ".join(sorted({interval.pool for interval in history.intervals}))
    found = [_proposal(days, pool, period) for days in _by_kind(history, period, now)]
    return [proposal for proposal in found if proposal is not None]


def _by_kind(history: MachineHistory, period: Period, now: datetime) -> list[MachineDays]:
    starts = [period.window.start + number * _DAY for number in range(period.days)]
    by_kind: dict[MachineKind, dict[int, KindCost]] = {}
    for number, start in enumerate(starts):
        window = Window(start, start + _DAY)
        for cost in kind_costs(history.intervals, history.book, window, now):
            by_kind.setdefault(cost.kind, {})[number] = cost
    found = (_days(kind, costs, period.days) for kind, costs in sorted(by_kind.items(), key=str))
    return [days for days in found if days is not None]


def _days(kind: MachineKind, costs: dict[int, KindCost], days: int) -> MachineDays | None:
    """The days of one kind; None: none was on demand, or a price is unknown."""
    most = max(len(cost.on_demand_curve_us) for cost in costs.values())
    on_demand = [cost.on_demand_price for cost in costs.values()]
    committed = [cost.committed_price for cost in costs.values()]
    if not most or None in on_demand or None in committed:
        return None
    held = np.zeros((days, most))
    # On a day without such a machine its prices are those of the mean day.
    prices = [
        np.full(days, float(sum(p for p in known if p is not None)) / len(known))
        for known in (on_demand, committed)
    ]
    for number, cost in costs.items():
        curve = np.array(cost.on_demand_curve_us, dtype=np.float64) / _DAY_US
        held[number, : curve.size] = curve
        prices[0][number] = float(cost.on_demand_price or 0)
        prices[1][number] = float(cost.committed_price or 0)
    return MachineDays(kind=kind, held=held, on_demand=prices[0], committed=prices[1])


def _proposal(days: MachineDays, pool: str, period: Period) -> Proposal | None:
    count = _committed(days, period)
    saving = _saving(days, count, period) if count else None
    if saving is None:
        return None
    kind, name = ProposalKind.RESERVED, str(days.kind)
    change = Change(
        variable="reserved machines",
        observed=f"up to {days.held.shape[1]} on demand",
        proposed=count,
    )
    return Proposal(
        proposal_id=proposal_id(kind, name, pool, {change.variable: count}, period.last),
        kind=kind,
        deployment=name,
        pool=pool,
        changes=(change,),
        why="These machines are in use almost continuously.",
        evidence=_evidence(days, count),
        first_day=period.first,
        last_day=period.last,
        unit=kind.rule.unit,
        cost_per_unit_micro_usd=round(days.on_demand.mean() / 24),
        verify_days=period.verify_days,
        saving=saving,
        waits=None,
        risk=(
            "A commitment has to be paid for its entire term (typically one year) and cannot be "
            "canceled. The demand may change after the four-week analysis period."
        ),
        has_generated=False,
    )


def _committed(days: MachineDays, period: Period) -> int:
    """For how many machines does a commitment pay off in 90% of the cases?"""
    pays_off = predicted_mean(_by_week(days.gains), _future_weeks(period)).low > 0
    # Of the first, second, … machine each is there for at most as long as the one before it.
    return int(np.argmin(pays_off)) if not pays_off.all() else pays_off.size


def _saving(days: MachineDays, count: int, period: Period) -> Saving | None:
    """The saving of this number of commitments; None: too small, or it may be a loss."""
    cost = _by_week(days.cost)
    if not cost.all():
        return None
    savings = _by_week(days.gains)[:, :count].sum(axis=1) / cost
    low, expected, high = map(float, predicted_mean(savings, _future_weeks(period)))
    # With all machines committed and always there.
    most = 1 - float(days.committed.sum() / days.on_demand.sum())
    return saving_between(low, expected, min(high, most), round(days.cost.sum()), period)


def _by_week(values: Numbers) -> Numbers:
    """The sums of whole weeks, in which each weekday counts the same."""
    by_day = values.reshape(-1, _WEEK_DAYS, *values.shape[1:])
    sums: Numbers = by_day.sum(axis=1)
    return sums


def _future_weeks(period: Period) -> int:
    return period.verify_days // _WEEK_DAYS


def _evidence(days: MachineDays, count: int) -> tuple[str, ...]:
    ratio = days.committed.sum() / days.on_demand.sum()
    held = days.held[:, count - 1].mean()
    return (
        f"At least {count} of {days.kind} were in use on demand for {held:.0%} of the time.",
        f"A commitment costs {ratio:.0%} of the on-demand price, which is worthwhile for "
        "machines that are in use for a larger percentage of the time.",
    )
