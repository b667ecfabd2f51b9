"""What a preemption costs its victim, and what it costs to free so many GPUs: against every set."""

import itertools
from functools import reduce

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpu_core.decisions.model.units import epoch_s
from gpu_core.decisions.scheduling.cycle.planner import plan_cycle
from gpu_core.decisions.scheduling.eviction.cost import Loss, cheapest_covers, lost_s
from gpu_core.decisions.scheduling.plan.plan import Preempt
from gpu_core.decisions.scheduling.queue.ordering import WorkloadOrder
from gpu_core.decisions.scheduling.state.allocations import holding_of
from gpu_core.testing.builders.workloads import (
    HIGH,
    NOW,
    ago,
    make_allocation,
    make_node,
    make_policy,
    make_snapshot,
    make_workload,
)

OFFERS = st.lists(st.tuples(st.integers(0, 8), st.integers(0, 5)), max_size=6).map(
    lambda drawn: [
        (gpus, Loss(lost=lost, victims=1, ids=(f"r{i}",))) for i, (gpus, lost) in enumerate(drawn)
    ]
)


@given(OFFERS)
def test_each_number_of_gpus_is_covered_by_the_cheapest_of_all_sets(offers):
    """Up to all that the offers give together; sets that cost the same in order of their ids."""
    sets = [
        (sum(gpus for gpus, _ in chosen), reduce(Loss.plus, (loss for _, loss in chosen), Loss()))
        for size in range(len(offers) + 1)
        for chosen in itertools.combinations(offers, size)
    ]
    most = max(given_back for given_back, _ in sets)
    want_covers = [
        min(loss for given_back, loss in sets if given_back >= gpus) for gpus in range(most + 1)
    ]
    assert cheapest_covers(offers) == want_covers


@pytest.mark.parametrize(
    ("allocation", "want_s"),
    [
        pytest.param({}, 3_600, id="all of the attempt, if it saves nothing"),
        pytest.param(
            {"restart_s": 300.0}, 3_600, id="its start once, if it begins from the beginning"
        ),
        pytest.param({"checkpointed_at": ago(60)}, 60, id="the work since the newest checkpoint"),
        pytest.param(
            {"checkpointed_at": ago(60), "restart_s": 300.0}, 360, id="that, and a restart"
        ),
        pytest.param(
            {"save_s": 30.0, "restart_s": 300.0}, 300, id="a restart, if it saves by then"
        ),
        pytest.param({"save_s": 0.0}, 0, id="nothing known, if its restart is unknown"),
        pytest.param(
            {"save_s": 31.0, "restart_s": 300.0, "checkpointed_at": ago(60)},
            360,
            id="its work too, if a save takes longer than it may go on",
        ),
        pytest.param(
            {"checkpointed_at": ago(3_601), "restart_s": 300.0},
            3_600,
            id="all of the attempt, if the clock of its checkpoint is behind",
        ),
        pytest.param(
            {"checkpointed_at": ago(-60), "restart_s": 300.0},
            300,
            id="a restart, if that clock is ahead",
        ),
        pytest.param(
            {"admitted_at": ago(-60)}, 0, id="nothing, if the clock of its start is ahead"
        ),
    ],
)
def test_what_a_victim_repeats(allocation, want_s):
    """Admitted an hour ago, under a grace period of 30 s."""
    held = make_allocation(make_workload(), {"n1": "0"}, **allocation)
    holding = holding_of(held, WorkloadOrder(make_policy().ordering))
    assert lost_s(holding, epoch_s(NOW), 30.0) == want_s


def victims_of(*running):
    """The victims of one urgent workload that needs one of their GPUs."""
    nodes = tuple(make_node(f"n{i}", 1) for i in range(len(running)))
    held = tuple(
        make_allocation(
            make_workload(name, preemption_cost_s=cost_s), {f"n{i}": "0"}, save_s=0.0, **changes
        )
        for i, (name, cost_s, changes) in enumerate(running)
    )
    pending = (make_workload("w", 1, priority=HIGH),)
    plan = plan_cycle(make_snapshot(nodes, held, pending), make_policy(), NOW)
    return [c.workload_id for c in plan.commands if isinstance(c, Preempt)]


def test_of_equals_the_one_that_has_run_longest_is_preempted():
    """The other one has just had to wait for its GPUs."""
    first, last = {"admitted_at": ago(7_200)}, {"admitted_at": ago(60)}
    assert victims_of(("a", None, last), ("b", None, first)) == ["b"]


@pytest.mark.parametrize(
    ("cost_s", "want"),
    [
        pytest.param(1_799, ["long"], id="one restart more or less does not count"),
        pytest.param(1_800, ["short"], id="half an hour does"),
    ],
)
def test_of_equals_the_longest_is_spared_that_preemptions_have_cost_half_an_hour_more(cost_s, want):
    """Both have repaid their preemptions."""
    long, short = {"admitted_at": ago(7_200)}, {"admitted_at": ago(60)}
    assert victims_of(("long", cost_s, long), ("short", None, short)) == want


@pytest.mark.parametrize(
    ("worked_s", "want"),
    [
        pytest.param(899, ["other"], id="it has worked less than its preemptions have cost"),
        pytest.param(900, ["again"], id="it has worked as long"),
    ],
)
def test_a_run_is_preempted_again_when_it_has_repaid_its_preemptions(worked_s, want):
    """They cost 600 s and this restart, 300 s; until then that counts as lost, too."""
    again = {
        "admitted_at": ago(worked_s + 300),
        "works_since": ago(worked_s),
        "restart_s": 300.0,
    }
    other = {"admitted_at": ago(100), "restart_s": 300.0}
    assert victims_of(("again", 600.0, again), ("other", None, other)) == want


def test_a_run_that_has_not_repaid_is_preempted_where_it_is_the_only_one():
    """An urgent run never waits for it: only `max_protection` makes it wait."""
    assert victims_of(("again", 9_000.0, {"admitted_at": ago(60)})) == ["again"]
