"""The budget of one run, from its submission to its last dollar."""

from dataclasses import replace
from datetime import timedelta

import pytest

from gpu_core.decisions.model.attempts import EndReason
from gpu_core.decisions.model.reasons import Reason
from gpu_core.decisions.model.workload import RunTime, RunTimeSource
from gpu_core.decisions.policy.capacity import CapacityPolicy
from gpu_core.decisions.spot.capacity_view import CapacityView
from gpu_core.decisions.spot.deadline_feasibility import BudgetStage
from gpu_core.decisions.spot.next_attempt import NextAttempts
from gpu_core.decisions.spot.run_budget import run_budget_use, spent_micro_usd, why_unpayable
from gpu_core.testing.builders.attempts import at, make_attempt
from gpu_core.testing.builders.workloads import NOW, make_node, make_policy, make_workload

USD = 1_000_000
SPOT, STEADY = make_node("s1", capacity_type="spot"), make_node("o1")

# Two attempts on one GPU at 1 USD an hour: two hours, and since noon again.
BEFORE = make_attempt(admitted_at=at(-3), released_at=at(-1), end_reason=EndReason.PREEMPTED)
NOW_ON = make_attempt(number=2)


def test_what_all_attempts_cost_counts():
    assert spent_micro_usd([BEFORE, NOW_ON], at(1)) == 3 * USD
    unpriced = make_attempt(number=3, price_micro_usd_per_gpu_hour=None)
    assert spent_micro_usd([BEFORE, unpriced], at(1)) == 2 * USD


@pytest.mark.parametrize(
    ("hours", "at_budget", "want"),
    [
        pytest.param(1.9, "stop", BudgetStage.WITHIN, id="3.90 of 5 USD"),
        pytest.param(2.0, "stop", BudgetStage.WARNING, id="four fifths"),
        # A look of 60 s and 60 s of grace cost a thirtieth of a dollar.
        pytest.param(2.966, "stop", BudgetStage.WARNING, id="one more look fits"),
        pytest.param(2.967, "stop", BudgetStage.STOP, id="it would not fit"),
        pytest.param(2.967, "continue", BudgetStage.OVER, id="the policy lets it go on"),
    ],
)
def test_stages(hours, at_budget, want):
    found = run_budget_use(
        [BEFORE, NOW_ON],
        budget_micro_usd=5 * USD,
        grace_s=60,
        policy=CapacityPolicy(at_budget=at_budget),
        now=at(hours),
    )
    assert found.stage is want


def test_a_run_that_is_stopped_in_time_never_overspends():
    """Stopped at the look at which it has to be, it ends within its grace before the limit."""
    policy = CapacityPolicy()
    look, stopped_at = at(0), None
    while stopped_at is None:
        look += timedelta(seconds=60)
        found = run_budget_use(
            [BEFORE, NOW_ON], budget_micro_usd=3 * USD, grace_s=45, policy=policy, now=look
        )
        stopped_at = look if found.stage is BudgetStage.STOP else None
    assert spent_micro_usd([BEFORE, NOW_ON], stopped_at + timedelta(seconds=45)) <= 3 * USD
    assert stopped_at > at(0.95)


def submitted(budget_usd, hours=10.0, source=RunTimeSource.STATED, **fields):
    return make_workload(
        budget_micro_usd=None if budget_usd is None else round(budget_usd * USD),
        run_time=RunTime(median_s=hours * 3600, upper_s=2 * hours * 3600, source=source),
        **fields,
    )


@pytest.mark.parametrize(
    ("workload", "nodes", "want"),
    [
        pytest.param(submitted(14.9), (SPOT, STEADY), "OverBudget", id="10 h of spot cost $15"),
        pytest.param(submitted(15), (SPOT, STEADY), None, id="spot alone holds it"),
        pytest.param(submitted(35), (STEADY,), "OverBudget", id="without spot $36"),
        pytest.param(submitted(14), (SPOT,), "OverBudget", id="spot only"),
        pytest.param(
            submitted(35, capacity_type="on-demand"), (SPOT, STEADY), "OverBudget", id="its wish"
        ),
        pytest.param(submitted(None), (STEADY,), None, id="no budget"),
        pytest.param(submitted(1, group="lr"), (SPOT, STEADY), None, id="a rung of a sweep"),
        pytest.param(submitted(1, source=RunTimeSource.LIMIT), (STEADY,), None, id="unknown time"),
        pytest.param(submitted(29, gpus=2), (SPOT,), "OverBudget", id="two GPUs"),
        pytest.param(
            submitted(1, gpu_types=("l4",)), (make_node(gpu_type="l4"),), None, id="unpriced"
        ),
        pytest.param(
            submitted(1), (STEADY, make_node(gpu_type="l4")), None, id="some of it unpriced"
        ),
        pytest.param(
            make_workload(deadline_at=NOW - timedelta(minutes=2)),
            (STEADY,),
            "must be later than the submission",
            id="a deadline in the past",
        ),
        pytest.param(make_workload(deadline_at=NOW), (STEADY,), None, id="it was submitted before"),
    ],
)
def test_what_is_refused_at_submission(workload, nodes, want):
    found = why_unpayable(workload, CapacityView(nodes, make_policy(), NOW))
    assert (found is None) if want is None else (want in found)


def test_a_refusal_has_its_numbers_and_a_remedy():
    found = why_unpayable(submitted(14.9), CapacityView((SPOT, STEADY), make_policy(), NOW))
    assert found == (
        "OverBudget: $15.00 at least, $36.00 on on-demand, budget $14.90. The estimated "
        "duration of the work is 10h 00m. You can increase the `budget_usd` job variable or "
        "reduce the amount of work."
    )


@pytest.mark.parametrize(
    ("budget_usd", "at_budget", "is_held"),
    [(2, "stop", True), (2.01, "stop", False), (2, "continue", False), (None, "stop", False)],
)
def test_a_spent_run_does_not_begin_again(budget_usd, at_budget, is_held):
    """A user retried it: it waits for a higher budget."""
    policy = make_policy(capacity={"at_budget": at_budget})
    asking = NextAttempts(CapacityView((STEADY,), policy, at(1)))
    hold = asking.of(submitted(budget_usd), [BEFORE]).hold
    assert (hold is not None) is is_held
    if hold is not None:
        assert hold.reason == Reason.BUDGET_EXCEEDED
        assert "have cost $2.00, and the budget is $2.00" in hold.summary


@pytest.mark.parametrize(
    ("reason", "budget_usd", "is_held"),
    [
        pytest.param(EndReason.BUDGET_SPENT, 2.02, True, id="stopped just below its budget"),
        pytest.param(EndReason.BUDGET_SPENT, 2.1, False, id="with a higher budget"),
        pytest.param(EndReason.PREEMPTED, 2.02, False, id="stopped for another reason"),
    ],
)
def test_a_run_that_its_budget_has_stopped_waits_for_a_higher_one(reason, budget_usd, is_held):
    """The minute until the next poll and 120 s of grace cost $0.05."""
    policy = make_policy(preemption={"grace_period": "120s"})
    asking = NextAttempts(CapacityView((STEADY,), policy, at(1)))
    hold = asking.of(submitted(budget_usd), [replace(BEFORE, end_reason=reason)]).hold
    assert (hold is not None) is is_held
    if hold is not None:
        assert (
            "$2.00 of the run budget of $2.02 has been spent, and $0.0500 would be added"
            in hold.summary
        )
