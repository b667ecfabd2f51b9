"""Victims against every possible set: gangs over nodes, quotas, cohorts, shares of GPUs, CPU."""

import os
from dataclasses import replace

from hypothesis import event, given, settings
from hypothesis import strategies as st

from gpu_core.decisions.scheduling.plan import Admit, Preempt
from gpu_core.decisions.scheduling.planner import plan_cycle
from gpu_core.testing.builders.workloads import NOW, make_policy
from tests.gpu_core.decisions.scheduling.victim_oracle import Oracle, contest
from tests.support.examples import examples

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
@given(SEEDS)
def test_no_victim_of_a_large_pool_can_be_spared(seed):
    """Also where the search has more candidates than it can compare all sets of."""
    oracle = Oracle(contest(seed, most_running=40, most_nodes=16))
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
    best = next(oracle.sets(), None)
    chosen = victims_of(plan_cycle(oracle.pool.snapshot, oracle.pool.policy, NOW))
    if best is not None and oracle.wanted.shape.is_whole and not oracle.wanted.shape.cpu_milli:
        span = max((a.workload.shape.nodes for a in oracle.pool.snapshot.allocations), default=1)
        assert oracle.loss(chosen)[0] <= span * best[0][0]


def victims_of(plan):
    return frozenset(c.workload_id for c in plan.commands if isinstance(c, Preempt))
