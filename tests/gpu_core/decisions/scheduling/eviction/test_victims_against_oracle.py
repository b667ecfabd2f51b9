"""Victims against every possible set: gangs over nodes, quotas, cohorts, shares of GPUs, CPU."""

import os
from dataclasses import replace

import pytest
from hypothesis import event, given, settings
from hypothesis import strategies as st

from gpu_core.decisions.scheduling.cycle.planner import plan_cycle
from gpu_core.decisions.scheduling.eviction import preemption
from gpu_core.decisions.scheduling.eviction.cost import Loss, PreemptionCandidate
from gpu_core.decisions.scheduling.eviction.victim_search import (
    CYCLE_STEPS,
    EXACT_CANDIDATES,
    SEARCH_STEPS,
    NodeOption,
    VictimProblem,
    VictimSearch,
)
from gpu_core.decisions.scheduling.plan.plan import Admit, Preempt
from gpu_core.decisions.scheduling.queue.ordering import WorkloadOrder
from gpu_core.decisions.scheduling.state.allocations import holding_of
from gpu_core.testing.builders.workloads import (
    NOW,
    make_allocation,
    make_node,
    make_policy,
    make_snapshot,
    make_workload,
)
from tests.gpu_core.decisions.scheduling.eviction.victim_oracle import Oracle, contest
from tests.gpu_core.decisions.scheduling.scenarios import Scenario
from tests.support.examples import examples

ORDER = WorkloadOrder(make_policy().ordering)
SEEDS = st.integers(0, 2**32 - 1)
# `make bench` asks for 20,000 and more.
many = settings(max_examples=examples(int(os.environ.get("PREFECT_GPU_EXAMPLES", "600"))))


@many
@given(SEEDS)
def test_victims_are_the_cheapest_of_all_legal_sets(seed):
    """No legal preemption is missed, no victim is needless, and no other set loses less."""
    oracle = Oracle(contest(seed))
    plan = plan_cycle(oracle.pool.snapshot, oracle.pool.policy, NOW)
    chosen = victims_of(plan)
    starts = any(isinstance(c, Admit) for c in plan.commands)
    best = next(oracle.sets(), None)
    event(f"{len(chosen)} victims")
    if best is None:
        assert not chosen
        assert not starts
        return
    want_loss, want_victims = best
    assert starts == (not want_victims)
    assert oracle.is_legal(chosen)
    assert oracle.is_enough(chosen)
    assert oracle.loss(chosen) == want_loss


@many
@given(SEEDS, st.sampled_from([None, 4, 6]), st.sampled_from([0, CYCLE_STEPS]))
def test_no_victim_of_a_large_pool_can_be_spared(seed, gang_nodes, steps):
    """Also where sets of victims are too many to compare, or none is, as the steps are used up."""
    pool = contest(seed, most_running=40, most_nodes=16)
    if gang_nodes is not None:
        [wanted] = pool.snapshot.pending
        gang = replace(wanted, shape=wanted.shape._replace(nodes=gang_nodes))
        pool = replace(pool, snapshot=replace(pool.snapshot, pending=(gang,)))
    oracle = Oracle(pool)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(preemption, "CYCLE_STEPS", steps)
        chosen = victims_of(plan_cycle(oracle.pool.snapshot, oracle.pool.policy, NOW))
    event("many" if len(chosen) > 3 else "few")
    if chosen:
        assert oracle.is_legal(chosen)
        assert oracle.is_enough(chosen)
        assert not [v for v in chosen if oracle.is_enough(chosen - {v})]


@many
@given(SEEDS)
def test_without_quotas_a_preemption_is_found_in_pools_of_any_size(seed):
    """Where all less urgent workloads together leave enough, a set of them is preempted."""
    pool = contest(seed, most_running=40, most_nodes=16)
    oracle = Oracle(replace(pool, policy=make_policy()))
    plan = plan_cycle(oracle.pool.snapshot, oracle.pool.policy, NOW)
    starts = any(isinstance(c, Admit) for c in plan.commands)
    is_possible = oracle.is_enough(oracle.candidates)
    assert is_possible == (starts or bool(victims_of(plan)))


@many
@given(SEEDS)
def test_a_gang_of_any_size_loses_at_most_its_span_times_the_least(seed):
    """Where victims span nodes, a large pool has the bound of DESIGN.md: the most nodes of one."""
    pool = contest(seed, most_running=13, most_nodes=6)
    oracle = Oracle(replace(pool, policy=make_policy()))
    if not oracle.wanted.shape.is_whole or oracle.wanted.shape.cpu_milli:
        return  # before all sets of up to thirteen are compared
    best = next(oracle.sets(), None)
    if best is not None:
        chosen = victims_of(plan_cycle(oracle.pool.snapshot, oracle.pool.policy, NOW))
        span = max((a.workload.shape.nodes for a in oracle.pool.snapshot.allocations), default=1)
        assert oracle.loss(chosen)[0] <= span * best[0][0]


def test_victims_that_are_legal_in_one_order_only_are_found():
    """The larger first: what `a` has beyond its own 2, which it never lends, is one GPU of `x`'s.

    After `small` the cohort would be within its quota, and keep what it holds. After `large` it
    still borrows one.
    """
    quotas = {
        "reserved_ratio": 0,
        "teams": {
            "a": {"nominal_quota": {"*": 2}, "lending_limit": {"*": 0}, "cohort": "x"},
            "b": {"nominal_quota": {"*": 0}, "cohort": "x"},
            "c": {"nominal_quota": {"*": 2}},
        },
        "cohorts": {"x": {"nominal_quota": {"*": 1}}},
    }
    held = (
        make_allocation(make_workload("large", 3, team="a"), {"n1": "0 1 2"}),
        make_allocation(make_workload("small", 2, team="b"), {"n2": "0 1"}),
    )
    nodes = (make_node("n1", 3), make_node("n2", 2))
    wanted = make_workload("w", 1, nodes=2, team="c")
    pool = Scenario(make_snapshot(nodes, held, (wanted,)), make_policy(quotas=quotas))
    [(_, want_victims)] = Oracle(pool).sets()
    assert victims_of(plan_cycle(pool.snapshot, pool.policy, NOW)) == want_victims


@many
@given(SEEDS, st.integers(0, 60))
def test_a_search_that_reaches_its_limit_says_not_found_and_never_that_there_is_none(seed, steps):
    """Where a legal set exists, and none was found, the run's page says that there may be one."""
    oracle = Oracle(contest(seed))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(preemption, "CYCLE_STEPS", steps)
        plan = plan_cycle(oracle.pool.snapshot, oracle.pool.policy, NOW)
    chosen = victims_of(plan)
    starts = any(isinstance(c, Admit) for c in plan.commands)
    if chosen:
        assert oracle.is_legal(chosen)
        assert oracle.is_enough(chosen)
    elif not starts and next(oracle.sets(), None) is not None:
        event("not found")
        assert plan.explanations[0].numbers["preemption"] == "not found"
        assert "but some may exist" in plan.explanations[0].resolution


def any_of_them(candidates, enough, *, group=0):
    """A problem in which quota opens the group without any so many of the candidates."""
    running = [
        PreemptionCandidate(
            workload_id=f"r{i:02}",
            holding=holding_of(make_allocation(make_workload(f"r{i:02}"), {"n1": str(i)}), ORDER),
            lost_milli_gpu_s=1,
            price_micro_usd_per_gpu_hour=None,
            loss=Loss(lost=1, victims=1, ids=(f"r{i:02}",)),
        )
        for i in range(candidates)
    ]
    return VictimProblem(
        candidates=running,
        options=[NodeOption(group, "n1", 0)],
        nodes=1,
        fits=lambda _option, _victims: True,
        missing_gpus=None,
        gpus=lambda _option, _number: 1,
        open_groups=lambda victims: frozenset({group} if victims.bit_count() >= enough else ()),
        quota_helpers=(1 << candidates) - 1,
        is_legal=lambda _victims: True,
    )


@pytest.mark.parametrize("enough", range(1, EXACT_CANDIDATES + 1))
def test_a_search_among_twelve_candidates_always_ends(enough):
    """Equal losses, and no bound that knows how many are needed: hardly a set is ruled out."""
    search = VictimSearch(any_of_them(EXACT_CANDIDATES, enough), None, SEARCH_STEPS)
    assert search.run().bit_count() == enough
    assert search.is_complete
    assert search.steps <= SEARCH_STEPS


def test_a_search_takes_no_more_steps_than_it_may():
    """Beyond twelve candidates it stops, and says so."""
    search = VictimSearch(any_of_them(24, 12), None, SEARCH_STEPS)
    search.run()
    assert search.steps == SEARCH_STEPS
    assert not search.is_complete


@many
@given(SEEDS, st.integers(1, 200))
def test_the_searches_of_a_cycle_take_no_more_steps_than_it_may(seed, limit):
    """However many preemptors there are; the steps of each search are counted as it ends."""
    pool = contest(seed)
    [wanted] = pool.snapshot.pending
    pending = tuple(replace(wanted, workload_id=f"w{i}", user=f"u{i}") for i in range(4))
    taken = []

    class Counted(VictimSearch):
        def run(self):
            found = super().run()
            taken.append(self.steps)
            return found

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(preemption, "CYCLE_STEPS", limit)
        patch.setattr(preemption, "VictimSearch", Counted)
        plan_cycle(replace(pool.snapshot, pending=pending), pool.policy, NOW)
    event(f"{len(taken)} searches")
    assert sum(taken) <= limit


def victims_of(plan):
    return frozenset(c.workload_id for c in plan.commands if isinstance(c, Preempt))
