"""Deadline and budget before a run starts, and its budget while it runs."""

from typing import Any

import pytest

from gpu_core.decisions.policy.capacity import CapacityPolicy
from gpu_core.decisions.spot.deadline_feasibility import (
    BudgetStage,
    FeasibilityVerdict,
    budget_stage,
    feasibility,
    needs_spot,
    next_look_micro_usd,
)
from gpu_core.decisions.spot.state import Capacity, CapacityState
from gpu_core.decisions.spot.survival import SpotRecord

USD = 1_000_000
SUBMITTED = CapacityState(
    work_s=9.8 * 3600,
    remaining_work_s=9.8 * 3600,
    elapsed_s=0.0,
    time_left_s=12 * 3600.0,
    changeover_s=720.0,
    look_s=60.0,
    current=Capacity.IDLE,
    spot=SpotRecord(is_up=True),
    spot_micro_usd_per_hour=1 * USD,
    on_demand_micro_usd_per_hour=3 * USD,
)
"""10 hours with its changeover: 10 USD on spot, 30 on on-demand."""


@pytest.mark.parametrize(
    ("changes", "want_verdict", "want_text"),
    [
        pytest.param(
            {}, FeasibilityVerdict.FEASIBLE, "Feasible: $10.00 at least, $30.00", id="no budget"
        ),
        pytest.param(
            {"budget_left_micro_usd": 30 * USD}, FeasibilityVerdict.FEASIBLE, "$30.00", id="enough"
        ),
        pytest.param(
            {"budget_left_micro_usd": 20 * USD},
            FeasibilityVerdict.NEEDS_SPOT,
            "at least 5h 00m of its work must run on spot",
            id="half of it must be on spot",
        ),
        pytest.param(
            {"budget_left_micro_usd": 9_999_999},
            FeasibilityVerdict.OVER_BUDGET,
            "$10.00 at least, $30.00 on on-demand, budget $10.00",
            id="not even on spot",
        ),
        pytest.param(
            {"budget_left_micro_usd": 29 * USD, "time_left_s": 10.1 * 3600},
            FeasibilityVerdict.OVER_BUDGET,
            "$30.00 at least",
            id="too little slack for spot",
        ),
        pytest.param(
            {"time_left_s": 9 * 3600.0},
            FeasibilityVerdict.DEADLINE_TOO_EARLY,
            "1h 00m late at the earliest",
            id="too late",
        ),
        pytest.param(
            {"time_left_s": 9.9 * 3600, "current": Capacity.ON_DEMAND},
            FeasibilityVerdict.FEASIBLE,
            "$29.40 at least",
            id="on-demand runs and needs no changeover",
        ),
        pytest.param(
            {"budget_left_micro_usd": 9_800_000, "current": Capacity.SPOT},
            FeasibilityVerdict.NEEDS_SPOT,
            "$9.80 at least, $30.00 on on-demand",
            id="spot runs and needs no changeover",
        ),
        pytest.param(
            {"budget_left_micro_usd": 20 * USD, "usual_remaining_work_s": 6 * 3600.0},
            FeasibilityVerdict.FEASIBLE,
            "$6.20 at least, $18.60 on on-demand",
            id="money is reckoned with what is usual",
        ),
        pytest.param(
            {"time_left_s": None}, FeasibilityVerdict.FEASIBLE, "Feasible", id="no deadline"
        ),
        pytest.param(
            {"budget_left_micro_usd": USD, "spot_micro_usd_per_hour": None},
            FeasibilityVerdict.PRICES_UNKNOWN,
            "unpriced at least, $30.00 on on-demand",
            id="the spot price is unknown",
        ),
        pytest.param(
            {"budget_left_micro_usd": 30 * USD, "spot_micro_usd_per_hour": None},
            FeasibilityVerdict.FEASIBLE,
            "$30.00 on on-demand",
            id="on-demand is within the budget, whatever spot costs",
        ),
    ],
)
def test_feasibility(
    changes: dict[str, Any], want_verdict: FeasibilityVerdict, want_text: str
) -> None:
    """The cheapest way within the deadline, and what it means for the budget."""
    found = feasibility(SUBMITTED._replace(**changes))
    assert found.verdict is want_verdict
    assert want_text in found.reason
    assert found.is_refusal is (
        want_verdict in (FeasibilityVerdict.OVER_BUDGET, FeasibilityVerdict.DEADLINE_TOO_EARLY)
    )


@pytest.mark.parametrize(
    ("changes", "at_budget", "want"),
    [
        pytest.param({"budget_left_micro_usd": 20 * USD}, "stop", (20, 10, 30), id="spot only"),
        pytest.param({"budget_left_micro_usd": 30 * USD}, "stop", None, id="on-demand, too"),
        pytest.param({"budget_left_micro_usd": 9 * USD}, "stop", None, id="not even spot"),
        pytest.param({"budget_left_micro_usd": 20 * USD}, "continue", None, id="it may overspend"),
        pytest.param({}, "stop", None, id="no budget"),
        pytest.param(
            {"budget_left_micro_usd": 20 * USD, "time_left_s": 9.0 * 3600},
            "stop",
            (20, 10, 30),
            id="whatever the deadline",
        ),
        pytest.param(
            {"budget_left_micro_usd": 20 * USD, "on_demand_micro_usd_per_hour": None},
            "stop",
            None,
            id="a price is unknown",
        ),
    ],
)
def test_who_can_pay_for_spot_only(changes: dict[str, Any], at_budget: Any, want: Any) -> None:
    """In dollars: what is left, the rest on spot, the rest on on-demand."""
    found = needs_spot(SUBMITTED._replace(**changes), CapacityPolicy(at_budget=at_budget))
    assert (found and tuple(money / USD for money in found)) == want


@pytest.mark.parametrize(
    ("spent", "next_look", "at_budget", "want"),
    [
        pytest.param(79, 1, "stop", BudgetStage.WITHIN, id="under the mark"),
        pytest.param(80, 1, "stop", BudgetStage.WARNING, id="at the mark"),
        pytest.param(99, 1, "stop", BudgetStage.WARNING, id="it just reaches"),
        pytest.param(99, 2, "stop", BudgetStage.STOP, id="the next look would overspend"),
        pytest.param(99, 2, "continue", BudgetStage.OVER, id="and the policy lets it"),
    ],
)
def test_stages_of_a_budget(spent: int, next_look: int, at_budget: Any, want: BudgetStage) -> None:
    """Of 100."""
    assert budget_stage(spent, next_look, 100, CapacityPolicy(at_budget=at_budget)) is want


def test_the_cost_of_a_look() -> None:
    """A minute; waiting is free, and so is what has no price, as far as is known."""
    costs = [next_look_micro_usd(SUBMITTED, capacity) for capacity in Capacity]
    assert costs == [0, 16_667, 50_000]
    unpriced = SUBMITTED._replace(spot_micro_usd_per_hour=None)
    assert next_look_micro_usd(unpriced, Capacity.SPOT) == 0
