"""What a search asks again and again is answered as if it were asked once, from the beginning."""

import random

from hypothesis import given, settings
from hypothesis import strategies as st

from gpu_core.decisions.model.bit_set import numbers_in
from gpu_core.decisions.model.units import epoch_s
from gpu_core.decisions.placement.cluster_info import ClusterInfo
from gpu_core.decisions.scheduling.cycle.planner import Planner
from gpu_core.decisions.scheduling.eviction.candidates import PreemptionIndex, PreemptionScope
from gpu_core.decisions.scheduling.eviction.cost import Candidates
from gpu_core.decisions.scheduling.eviction.nodes_without import NodesWithout
from gpu_core.decisions.scheduling.eviction.victim_problem import QuotaCheck, victim_problem
from gpu_core.decisions.scheduling.queue.ordering import WorkloadOrder
from gpu_core.decisions.scheduling.state.allocations import holding_of
from gpu_core.decisions.scheduling.state.quota_usage import Entitlements
from gpu_core.testing.builders.workloads import (
    HIGH,
    LOW,
    NOW,
    make_allocation,
    make_node,
    make_policy,
    make_workload,
)
from tests.gpu_core.decisions.scheduling.eviction.victim_oracle import contest
from tests.gpu_core.decisions.scheduling.scenarios import scenario
from tests.support.examples import examples

SEEDS = st.integers(0, 2**32 - 1)
many = settings(max_examples=examples(500))


def cluster_with(nodes, holdings):
    cluster = ClusterInfo(nodes)
    for holding in holdings:
        cluster.observe(holding.shape, holding.allocation.placement)
    return cluster


@many
@given(SEEDS)
def test_a_shape_fits_without_some_holdings_as_in_a_cluster_that_never_had_them(seed):
    pool, rng = scenario(seed), random.Random(seed)
    nodes = pool.snapshot.nodes
    order = WorkloadOrder(pool.policy.ordering)
    holdings = [holding_of(allocation, order) for allocation in pool.snapshot.allocations]
    shapes = [w.shape for w in pool.snapshot.pending if w.shape.gpu_count]
    if not holdings or not shapes:
        return
    shape, gone = rng.choice(shapes), []
    allowed = {node.name for node in nodes if rng.random() < 0.8}
    without = NodesWithout(cluster_with(nodes, holdings), shape, allowed.__contains__)
    for _ in range(6):
        holding = rng.choice(holdings)
        if holding in gone:
            gone.remove(holding)
            without.remove(holding)
        else:
            gone.append(holding)
            without.add(holding)
        left = cluster_with(nodes, [h for h in holdings if h not in gone])
        for flavor in {node.flavor for node in nodes}:
            found = left.find(shape, flavors={flavor}, allows=allowed.__contains__)
            assert without.fits(frozenset({flavor})) == (found is not None)


@many
@given(SEEDS)
def test_quota_without_a_set_of_holdings_does_not_depend_on_what_was_asked_before(seed):
    pool, rng = scenario(seed), random.Random(seed)
    planner = Planner(pool.policy, pool.snapshot.nodes)
    for allocation in pool.snapshot.allocations:
        planner.allocate(allocation)
    if not pool.snapshot.pending:
        return
    entitlements = planner._state.after_draining.entitlements
    workload = rng.choice(pool.snapshot.pending)
    scope = PreemptionScope(priority=workload.priority, team=workload.team)
    quota = QuotaCheck(entitlements, workload.team, workload.shape, scope)
    running = [each for each in pool.snapshot.allocations if not each.is_draining]
    order = WorkloadOrder(pool.policy.ordering)
    holdings = [holding_of(allocation, order) for allocation in running]
    open_flavors = quota.open_flavors_of_sets(holdings)
    for _ in range(8):
        victims = rng.getrandbits(len(holdings)) if holdings else 0
        chosen = [holdings[number] for number in numbers_in(victims)]
        assert open_flavors(victims) == quota.open_flavors(chosen)


def test_sets_that_free_as_much_quota_of_each_account_are_asked_about_once(monkeypatch):
    """Six runs of one team and size: 64 sets of victims, and seven numbers of GPUs to free."""
    quotas = {"teams": {"a": {"nominal_quota": {"*": 6}}}}
    planner = Planner(make_policy(quotas=quotas), [make_node("n0", 6)])
    held = [
        make_allocation(make_workload(f"r{i}", 1, priority=LOW, team="a"), {"n0": str(i)})
        for i in range(6)
    ]
    planner.load(held)
    holdings = list(planner._state.holdings)
    wanted, asked, answer = (
        make_workload("w", 3, priority=HIGH, team="a"),
        [],
        Entitlements.allowance,
    )
    monkeypatch.setattr(
        Entitlements, "allowance", lambda self, *of: asked.append(of) or answer(self, *of)
    )
    scope = PreemptionScope(priority=HIGH, team="a")
    quota = QuotaCheck(planner._state.after_draining.entitlements, "a", wanted.shape, scope)
    open_flavors = quota.open_flavors_of_sets(holdings)
    is_open = [bool(open_flavors(victims)) for victims in range(64)]
    assert is_open == [victims.bit_count() >= 3 for victims in range(64)]
    assert len(asked) == 7


@many
@given(SEEDS)
def test_the_groups_that_quota_opens_are_the_same_in_any_order_of_questions(seed):
    """Sets that free as much quota of each account share an answer."""
    pool, rng = contest(seed), random.Random(seed)
    planner = Planner(pool.policy, pool.snapshot.nodes)
    for allocation in pool.snapshot.allocations:
        planner.allocate(allocation)
    view = planner._state.after_draining
    [wanted] = pool.snapshot.pending
    scope = PreemptionScope(priority=wanted.priority, team=wanted.team)
    quota = QuotaCheck(view.entitlements, wanted.team, wanted.shape, scope)
    found = Candidates(planner._state.holdings, pool.policy, epoch_s(NOW))
    candidates = [found[workload_id] for workload_id in sorted(found)]
    groups = view.cluster.groups(wanted.shape)
    index = PreemptionIndex(
        found, planner._state.holdings, view.cluster, view.entitlements, epoch_s(NOW)
    )
    problem = victim_problem(wanted.shape, groups, (), candidates, index, quota)
    for _ in range(16):
        victims = rng.getrandbits(len(candidates)) if candidates else 0
        flavors = quota.open_flavors(candidates[i].holding for i in numbers_in(victims))
        want = {number for number, group in enumerate(groups) if group.flavor in flavors}
        assert problem.open_groups(victims) == want
