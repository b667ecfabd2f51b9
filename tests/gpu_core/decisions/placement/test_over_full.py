"""Nodes on which more is held than there is: other people's pods, a node that shrank."""

from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gpu_core.decisions.model.cluster import NodeShare, Placement
from gpu_core.decisions.model.workload import Shape
from gpu_core.decisions.placement.cluster_info import ClusterInfo
from gpu_core.decisions.placement.node_info import NodeInfo
from gpu_core.decisions.policy.preemption import TakesFrom
from gpu_core.decisions.scheduling.cycle.planner import plan_cycle
from gpu_core.decisions.scheduling.plan.plan import Admit, Preempt
from gpu_core.testing.builders.workloads import (
    LOW,
    NOW,
    make_allocation,
    make_node,
    make_policy,
    make_snapshot,
    make_workload,
    with_shape,
)
from tests.strategies import snapshots
from tests.support.examples import examples

WHOLE, HALF = Shape(), Shape(gpu_share_milli=500)
MOST, SLICE = Shape(gpu_share_milli=700), Shape(mig_profile="1g.10gb")
THREE_SLICES = Shape(mig_profile="3g.40gb")


def share(ids="0", milli=1000, starts=()):
    return NodeShare(node="n", gpu_ids=tuple(ids.split()), share_milli=milli, mig_starts=starts)


SHARED, MIG = {"is_shareable": True}, {"is_mig": True}


@pytest.mark.parametrize(
    ("node", "held", "want_fits"),
    [
        pytest.param(
            {"cpu_milli": 4000},
            [(Shape(cpu_milli=5000), share())],
            {WHOLE: False, Shape(gpu_count=0, cpu_milli=1): False},
            id="more CPU than it has: not even who asks for none",
        ),
        pytest.param(
            {"memory_mib": 10},
            [(Shape(memory_mib=11), share())],
            {WHOLE: False},
            id="more memory than it has",
        ),
        pytest.param(
            SHARED,
            [(MOST, share(milli=700)), (MOST, share(milli=700))],
            {WHOLE: True, Shape(gpu_count=2): False},
            id="parts that are more than a GPU: the other one is left",
        ),
        pytest.param(
            SHARED,
            [(WHOLE, share()), (WHOLE, share())],
            {HALF: True, Shape(gpu_count=2, gpu_share_milli=500): False},
            id="one GPU for two",
        ),
        pytest.param(
            SHARED,
            [(HALF, share(milli=500)), (Shape(gpu_count=2), share("0 1"))],
            {Shape(gpu_share_milli=1): False},
            id="a whole one that another run has a part of",
        ),
        pytest.param(
            MIG,
            [(THREE_SLICES, share(starts=(4,))), (SLICE, share(starts=(6,)))],
            {Shape(mig_profile="4g.40gb"): True, Shape(gpu_count=3, mig_profile="3g.40gb"): False},
            id="instances that overlap: the other slices are left",
        ),
        pytest.param(
            SHARED,
            [(SLICE, share(starts=(0,)))],
            {WHOLE: True, Shape(gpu_count=2): False},
            id="an instance of a GPU that is not partitioned any more",
        ),
        pytest.param(
            MIG,
            [(WHOLE, share()), (Shape(mig_profile="1g.5gb"), share("1", starts=(0,)))],
            {SLICE: False},
            id="a whole GPU, and an instance that cannot be, where there are instances now",
        ),
        pytest.param(
            {}, [(Shape(gpu_count=2), share("0 7"))], {WHOLE: True}, id="a GPU that is gone"
        ),
        pytest.param(
            {"unhealthy_gpu_ids": frozenset("0")},
            [(WHOLE, share()), (WHOLE, share())],
            {WHOLE: True},
            id="one that is unhealthy, twice",
        ),
    ],
)
def test_what_fits_beside_it(node, held, want_fits):
    """Nothing fits on an overcommitted node; after the releases all is as before."""
    node_info = NodeInfo(make_node("n", 2, **node))
    fresh = {shape: node_info.fits(shape) for shape in want_fits}
    for shape, part in held:
        node_info.observe(shape, part)
    assert {shape: node_info.fits(shape) for shape in want_fits} == want_fits
    assert node_info.free_gpus >= 0
    for shape, part in held:
        node_info.release(shape, part)
    assert {shape: node_info.fits(shape) for shape in want_fits} == fresh
    assert node_info.free_gpus == node_info.usable_gpus


NODES = st.builds(
    make_node,
    st.just("n"),
    st.integers(0, 2),
    unhealthy_gpu_ids=st.sampled_from([frozenset(), frozenset("0")]),
    cpu_milli=st.sampled_from([None, 4000]),
    is_shareable=st.booleans(),
    is_mig=st.booleans(),
)
HELD = st.sampled_from(
    [
        (WHOLE, share("0")),
        (Shape(cpu_milli=3000), share("1")),
        (Shape(gpu_count=2), share("0 1")),
        (Shape(gpu_count=2), share("0 0")),
        (Shape(gpu_count=3), share("0 1 2")),
        (HALF, share("0", 500)),
        (MOST, share("1", 700)),
        (Shape(gpu_count=2, gpu_share_milli=500), share("0 1", 500)),
        (SLICE, share("0", starts=(0,))),
        (THREE_SLICES, share("0", starts=(4,))),
        (THREE_SLICES, share("1", starts=(3,))),
        (Shape(gpu_count=0, cpu_milli=3000), share("")),
    ]
)
PROBES = (WHOLE, Shape(gpu_count=2), HALF, Shape(gpu_share_milli=300), SLICE, THREE_SLICES)


def placed(part):
    return Placement(gpu_type="a100-80gb", capacity_type="on-demand", shares=(part,))


def places(cluster):
    return [cluster.find(shape) for shape in PROBES]


@given(NODES, st.lists(HELD, max_size=6), st.data())
def test_what_is_left_depends_on_who_holds_what_alone(node, held, data):
    """Not on the order in which they came, nor on who was there before; nothing is refused."""
    order, leaving = data.draw(st.permutations(held)), data.draw(st.integers(0, len(held)))
    one, other, rest = ClusterInfo([node]), ClusterInfo([node]), ClusterInfo([node])
    for shape, part in held:
        one.observe(shape, placed(part))
    for shape, part in order:
        other.observe(shape, placed(part))
    assert places(one) == places(other)
    for shape, part in order[:leaving]:
        one.release(shape, placed(part))
    for shape, part in order[leaving:]:
        rest.observe(shape, placed(part))
    assert places(one) == places(rest)
    assert one["n"].free_ids == rest["n"].free_ids


@given(NODES, st.lists(HELD, max_size=6), st.sampled_from(PROBES))
def test_no_run_gets_what_another_holds(node, held, shape):
    """What is found next to the holders, whatever they hold, can be taken from what is free."""
    cluster = ClusterInfo([node])
    for wanted, part in held:
        cluster.observe(wanted, placed(part))
    found = cluster.find(shape)
    if found is None:
        return
    cluster.allocate(shape, found)
    in_whole = {g for _, part in held if not part.mig_starts for g in part.gpu_ids}
    if shape.is_whole or shape.mig_profile is not None:
        assert not in_whole.intersection(found.gpu_ids)
    assert sum(wanted.cpu_milli for wanted, _ in held) <= (node.cpu_milli or 10**9)


@st.composite
def shrunk(draw):
    """A snapshot whose nodes lost GPUs, CPU or themselves while all was held."""
    snapshot = draw(snapshots())
    kept = [
        replace(
            node,
            gpu_ids=node.gpu_ids[: draw(st.integers(0, len(node.gpu_ids)))],
            cpu_milli=draw(st.sampled_from([None, 500])),
        )
        for node in snapshot.nodes
        if draw(st.integers(0, 4))
    ]
    allocations = [
        replace(a, workload=with_shape(a.workload, cpu_milli=draw(st.sampled_from([0, 400, 600]))))
        for a in snapshot.allocations
    ]
    # Others, whom we know as parts, are on the GPUs too.
    for node in draw(st.lists(st.sampled_from(kept), unique_by=lambda n: n.name)) if kept else ():
        if node.gpu_ids:
            other = make_workload(f"other-{node.name}", priority=LOW, gpu_share_milli=900)
            part = NodeShare(node=node.name, gpu_ids=node.gpu_ids[:1], share_milli=900)
            placement = Placement(
                gpu_type=node.gpu_type, capacity_type=node.capacity_type, shares=(part,)
            )
            allocations.append(replace(make_allocation(other, {}), placement=placement))
    return make_snapshot(tuple(kept), tuple(allocations), snapshot.pending)


@settings(max_examples=examples(60))
@given(shrunk(), st.sampled_from(["easy", "conservative"]), st.sampled_from(TakesFrom))
def test_a_cycle_over_a_shrunk_pool(snapshot, backfill, takes_from):
    """It plans, starts none on a node with too little CPU, and explains each wait."""
    policy = make_policy(
        backfill={"mode": backfill},
        preemption={"takes_from": takes_from.value},
        ordering={"keys": ["priority", "least-attained-service"]},
    )
    plan = plan_cycle(snapshot, policy, NOW)
    assert len(plan.explanations) == len(snapshot.pending)
    leaving = {c.workload_id for c in plan.commands if isinstance(c, Preempt)}
    cpu_left = {n.name: n.cpu_milli for n in snapshot.nodes if n.cpu_milli is not None}
    held = set()
    for allocation in snapshot.allocations:
        for part in allocation.placement.shares:
            held.update((part.node, gpu) for gpu in part.gpu_ids)
            if part.node in cpu_left:
                cpu_left[part.node] -= allocation.workload.shape.cpu_milli
    for command in plan.commands:
        if isinstance(command, Admit):
            for part in command.placement.shares:
                assert cpu_left.get(part.node, 0) >= 0
                assert not held.intersection((part.node, gpu) for gpu in part.gpu_ids)
    assert not leaving.intersection(w.workload_id for w in snapshot.pending)


def test_a_victim_on_an_over_full_gpu_is_spared():
    """Its GPU would not be free without it, so another's is taken."""
    node = make_node("n", 2, is_shareable=True)
    other = make_workload("other", gpu_share_milli=500, is_preemptible=False)
    runs = [
        replace(make_allocation(other, {}), placement=placed(share("0", 500))),
        make_allocation(make_workload("last", attained_gpu_s=9_000), {"n": "0"}),
        make_allocation(make_workload("first", attained_gpu_s=10), {"n": "1"}),
    ]
    policy = make_policy(
        ordering={"keys": ["priority", "least-attained-service"]},
        preemption={"takes_from": "later-in-order"},
    )
    snapshot = make_snapshot((node,), tuple(runs), (make_workload("w"),))
    [command] = plan_cycle(snapshot, policy, NOW).commands
    assert isinstance(command, Preempt)
    assert command.workload_id == "first"
