"""What holds for every plan."""

import itertools
from collections import Counter
from dataclasses import replace
from datetime import timedelta

from hypothesis import event, given
from hypothesis import strategies as st

from gpu_core.decisions.model.reasons import Reason
from gpu_core.decisions.placement.cluster_info import ClusterInfo
from gpu_core.decisions.placement.diagnostics import never_fits
from gpu_core.decisions.scheduling.cycle.planner import plan_cycle
from gpu_core.decisions.scheduling.plan.plan import Admit, Preempt
from gpu_core.testing.builders.workloads import (
    LOW,
    NOW,
    ago,
    make_allocation,
    make_node,
    make_policy,
    make_snapshot,
    make_workload,
)
from tests import strategies
from tests.strategies import apply, shuffled

POLICY = make_policy()

# It starts now, or what it needs is on its way.
HAS_A_WAY = (Reason.STARTING, Reason.WAITING_FOR_VICTIMS)


def held(snapshot):
    return [
        (share.node, gpu_id)
        for allocation in snapshot.allocations
        for share in allocation.placement.shares
        for gpu_id in share.gpu_ids
    ]


def preempts(plan):
    return [c for c in plan.commands if isinstance(c, Preempt)]


def admits(plan):
    return [c for c in plan.commands if isinstance(c, Admit)]


def assert_unprotected(victim, now):
    """It has started, or has had its time to begin; and has had its minimum run time since, and
    the time to work for as long as its preemptions have cost it."""
    if victim.began_at is None and victim.begins_by is not None:
        assert victim.begins_by <= now
    else:
        began_at = victim.began_at or victim.admitted_at
        assert began_at + timedelta(seconds=victim.workload.min_runtime_s) <= now
        cost_s, most_s = victim.workload.preemption_cost_s, victim.workload.max_protection_s
        if cost_s is not None:
            restart_s = max(0.0, (began_at - victim.admitted_at).total_seconds())
            assert began_at + timedelta(seconds=min(most_s, restart_s + cost_s)) <= now


def check_plan(snapshot, plan, now):
    """The invariants of one plan."""
    workloads = {w.workload_id: w for w in snapshot.pending}
    running = {a.workload.workload_id: a for a in snapshot.allocations}
    nodes = {node.name: node for node in snapshot.nodes}
    taken = held(snapshot)
    for command in admits(plan):
        workload, placement = workloads[command.workload_id], command.placement
        assert workload.hold is None
        assert len(placement.shares) == (workload.shape.nodes if workload.shape.gpu_count else 0)
        assert len({s.node for s in placement.shares}) == len(placement.shares)
        for share in placement.shares:
            assert len(share.gpu_ids) == workload.shape.gpu_count
            assert share.node in ClusterInfo(snapshot.nodes).eligible(workload.shape)
            assert not nodes[share.node].unhealthy_gpu_ids.intersection(share.gpu_ids)
            taken += [(share.node, gpu_id) for gpu_id in share.gpu_ids]
    assert max(Counter(taken).values(), default=1) == 1, "a GPU is given out twice"
    for command in preempts(plan):
        victim, preemptor = running[command.workload_id], workloads[command.for_workload_id]
        assert victim.workload.priority < preemptor.priority
        assert victim.workload.is_preemptible
        assert not victim.is_draining
        assert_unprotected(victim, now)
    assert max(Counter(c.workload_id for c in preempts(plan)).values(), default=1) == 1
    check_explanations(snapshot, plan)


def check_explanations(snapshot, plan):
    """Exactly one for each pending workload, true to the commands."""
    explained = {e.workload_id: e for e in plan.explanations}
    assert len(explained) == len(plan.explanations)
    assert set(explained) == {w.workload_id for w in snapshot.pending}
    starting = {w for w, e in explained.items() if e.reason is Reason.STARTING}
    assert starting == {c.workload_id for c in admits(plan)}
    for command in preempts(plan):
        assert explained[command.for_workload_id].reason is Reason.WAITING_FOR_VICTIMS
    positions = [e.position for e in plan.explanations if e.position]
    assert positions == list(range(1, len(positions) + 1))
    for explanation in plan.explanations:
        assert explanation.summary.endswith(".")
        assert explanation.resolution.endswith(".")


@given(strategies.contests() | strategies.snapshots())
def test_a_plan_is_possible_and_explained(snapshot):
    """No GPU twice, gangs whole, only legal victims, one explanation each; inputs stay."""
    before = repr(snapshot)
    plan = plan_cycle(snapshot, POLICY, NOW)
    check_plan(snapshot, plan, NOW)
    assert repr(snapshot) == before


@given(strategies.contests() | strategies.snapshots(), st.integers())
def test_the_order_of_the_input_does_not_matter(snapshot, seed):
    """The same plan for the same facts."""
    assert plan_cycle(shuffled(snapshot, seed), POLICY, NOW) == plan_cycle(snapshot, POLICY, NOW)


def room_of(snapshot, allocations):
    """What these leave of the snapshot's nodes."""
    cluster = ClusterInfo(snapshot.nodes)
    for allocation in allocations:
        cluster.allocate(allocation.workload.shape, allocation.placement)
    return cluster


@given(strategies.contests() | strategies.snapshots())
def test_no_victim_can_be_spared(snapshot):
    """Without any one of its victims the preemptor would not fit on what is free and coming."""
    plan = plan_cycle(snapshot, POLICY, NOW)
    workloads = {w.workload_id: w for w in snapshot.pending}
    for workload_id in {c.for_workload_id for c in preempts(plan)}:
        # The first preemptor is alone in the queue; the others share with those ahead of them.
        alone = replace(snapshot, pending=(workloads[workload_id],))
        victims = [c.workload_id for c in preempts(plan_cycle(alone, POLICY, NOW))]
        for spared in victims:
            leaving = replace(
                snapshot,
                allocations=tuple(
                    replace(a, is_draining=a.is_draining or a.workload.workload_id in victims)
                    if a.workload.workload_id != spared
                    else a
                    for a in snapshot.allocations
                ),
            )
            staying = [a for a in leaving.allocations if not a.is_draining]
            assert room_of(leaving, staying).find(workloads[workload_id].shape) is None


@given(strategies.snapshots(), strategies.workloads("x"))
def test_no_run_of_the_same_shape_is_overtaken(snapshot, shape):
    """Of equal shapes, those ahead in the queue start first."""
    alike = tuple(replace(shape, workload_id=f"x{i}", submitted_at=ago(100 - i)) for i in range(3))
    plan = plan_cycle(replace(snapshot, pending=(*snapshot.pending, *alike)), POLICY, NOW)
    started = {c.workload_id for c in admits(plan)}
    is_started = [w.workload_id in started for w in alike]
    assert is_started == sorted(is_started, reverse=True)


@given(strategies.snapshots())
def test_who_waits_with_nothing_on_its_way_keeps_its_hardware(snapshot):
    """Without backfill none behind a blocked workload starts on a node that it could use."""
    plan = plan_cycle(snapshot, make_policy(backfill={"mode": "none"}), NOW)
    workloads = {w.workload_id: w for w in snapshot.pending}
    placed = {c.workload_id: c.placement for c in admits(plan)}
    blocked = (Reason.WAITING_FOR_GPUS, Reason.MIN_RUNTIME_PROTECTS, Reason.BEHIND_OTHERS)
    kept: set[str] = set()
    for explanation in plan.explanations:
        if explanation.reason in blocked:
            workload = workloads[explanation.workload_id]
            kept.update(ClusterInfo(snapshot.nodes).eligible(workload.shape))
        elif explanation.workload_id in placed:
            shares = placed[explanation.workload_id].shares
            assert kept.isdisjoint(share.node for share in shares)


@given(strategies.contests() | strategies.snapshots())
def test_the_head_of_the_line_waits_only_if_it_does_not_fit(snapshot):
    """The first who waits would not fit on what those ahead of it have left free."""
    plan = plan_cycle(snapshot, POLICY, NOW)
    for index, explanation in enumerate(plan.explanations):
        if explanation.position != 1:
            continue
        ahead = {e.workload_id for e in plan.explanations[:index]}
        commands = tuple(c for c in admits(plan) if c.workload_id in ahead)
        after = apply(snapshot, replace(plan, commands=commands), NOW)
        [head] = [w for w in snapshot.pending if w.workload_id == explanation.workload_id]
        assert room_of(after, after.allocations).find(head.shape) is None


@given(strategies.contests() | strategies.snapshots())
def test_planning_reaches_a_rest(snapshot):
    """Applied again and again, with victims pending at once, plans soon have no commands."""
    bound = 2 * (len(snapshot.pending) + len(snapshot.allocations)) + 2
    now = NOW
    for _ in range(bound):
        # Draining workloads have ended by the next cycle, and all minimum run times are over.
        now += timedelta(hours=1)
        left = tuple(a for a in snapshot.allocations if not a.is_draining)
        snapshot = replace(snapshot, allocations=left)
        plan = plan_cycle(snapshot, POLICY, now)
        check_plan(snapshot, plan, now)
        if not plan.commands:
            break
        snapshot = apply(snapshot, plan, now)
    assert not plan.commands
    for explanation in plan.explanations:
        assert explanation.reason in (
            Reason.WAITING_FOR_GPUS,
            Reason.BEHIND_OTHERS,
            Reason.RESERVED_AHEAD,
            Reason.EXCEEDS_CLUSTER,
        )


@given(strategies.snapshots())
def test_what_exceeds_the_cluster_exceeds_it_when_empty_too(snapshot):
    """No workload that an idle, healthy cluster would start is reported as never fitting."""
    plan = plan_cycle(snapshot, POLICY, NOW)
    reasons = {e.workload_id: e.reason for e in plan.explanations}
    healthy = tuple(replace(n, unhealthy_gpu_ids=frozenset()) for n in snapshot.nodes)
    for workload in snapshot.pending:
        alone = plan_cycle(make_snapshot(healthy, (), (workload,)), POLICY, NOW)
        is_in_vain = reasons[workload.workload_id] is Reason.EXCEEDS_CLUSTER
        assert (
            is_in_vain == (not alone.commands) == (never_fits(workload.shape, healthy) is not None)
        )


@given(strategies.contests(nodes_wanted=1))
def test_victims_are_the_cheapest_of_all_sets(snapshot):
    """On one node the choice is as good as trying every set of victims."""
    [wanted] = snapshot.pending
    plan = plan_cycle(snapshot, POLICY, NOW)
    chosen = {c.workload_id for c in preempts(plan)}
    event(f"{len(chosen)} victims")
    possible = list(sets_that_make_room(snapshot, wanted))
    assert bool(possible) == (plan.explanations[0].reason in HAS_A_WAY)
    if possible:
        assert loss_of(snapshot, chosen) == min(loss_of(snapshot, ids) for ids in possible)


@given(st.lists(st.integers(0, 4), min_size=9, max_size=9), st.integers(1, 3), st.integers(1, 3))
def test_a_gang_takes_the_cheapest_nodes(saved_steps, gpus, node_count):
    """Where no victim spans nodes the choice for a gang is exact too."""
    allocations = tuple(
        make_allocation(
            make_workload(f"r{i}", priority=LOW),
            {f"n{i // 3}": str(i % 3)},
            checkpointed_at=ago(100 * steps),
        )
        for i, steps in enumerate(saved_steps)
    )
    wanted = make_workload("w", gpus, nodes=node_count)
    nodes = tuple(make_node(f"n{i}", 3) for i in range(3))
    snapshot = make_snapshot(nodes, allocations, (wanted,))
    chosen = {c.workload_id for c in preempts(plan_cycle(snapshot, POLICY, NOW))}
    best = min(loss_of(snapshot, ids) for ids in sets_that_make_room(snapshot, wanted))
    assert loss_of(snapshot, chosen) == best


def sets_that_make_room(snapshot, wanted):
    """Every set of legal victims with which `wanted` fits."""
    candidates = [
        a
        for a in snapshot.allocations
        if a.workload.is_preemptible
        and not a.is_draining
        and a.admitted_at + timedelta(seconds=a.workload.min_runtime_s) <= NOW
    ]
    for size in range(len(candidates) + 1):
        for chosen in itertools.combinations(candidates, size):
            ids = {a.workload.workload_id for a in chosen}
            rest = tuple(
                a
                for a in snapshot.allocations
                if a.workload.workload_id not in ids and not a.is_draining
            )
            if room_of(snapshot, rest).find(wanted.shape) is not None:
                yield ids


def loss_of(snapshot, ids):
    """Lost work in micro-USD × s / h, and how many lose it."""
    lost = 0
    for a in snapshot.allocations:
        if a.workload.workload_id in ids:
            saved_at = max(a.checkpointed_at or a.admitted_at, a.admitted_at)
            price = POLICY.price_micro_usd_per_gpu_hour(
                a.placement.gpu_type, a.placement.capacity_type
            )
            lost += len(a.placement.gpu_ids) * price * int((NOW - saved_at).total_seconds())
    return lost, len(ids)
