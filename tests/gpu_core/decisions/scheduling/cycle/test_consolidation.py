"""A few workloads move so that one starts that fits only into fragmented GPUs."""

from dataclasses import replace
from datetime import timedelta

import pytest
from hypothesis import event, given, settings
from hypothesis import strategies as st

from gpu_core.decisions.model.errors import InvalidInput
from gpu_core.decisions.model.reasons import Reason
from gpu_core.decisions.placement.cluster_info import ClusterInfo
from gpu_core.decisions.scheduling.cycle.planner import Planner, plan_cycle
from gpu_core.decisions.scheduling.plan.plan import Preempt
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
from tests.strategies import apply

NODES = tuple(make_node(name, 4) for name in "abc")


def runs(workload_id, gpus, **changes):
    """One that saved a minute ago, on these GPUs (`{"a": "0"}`)."""
    values = {"checkpointed_at": ago(60)} | {
        k: changes.pop(k) for k in list(changes) if k in ("checkpointed_at", "admitted_at")
    }
    count = len(next(iter(gpus.values())).split())
    return make_allocation(make_workload(workload_id, count, **changes), gpus, **values)


SMALL = runs("small", {"a": "0"})
OTHERS = (runs("other", {"b": "0 1"}, priority=HIGH), runs("third", {"c": "0 1"}, priority=HIGH))
BIG = make_workload("big", 4, submitted_at=ago(3_600))


def moved(small=SMALL, big=BIG, others=OTHERS, pending=(), nodes=NODES, **sections):
    """Who moves, and to which node."""
    on = {"consolidation": {"enabled": True} | sections.pop("consolidation", {})}
    snapshot = make_snapshot(nodes, (small, *others), (big, *pending))
    plan = plan_cycle(snapshot, make_policy(placement=on, **sections), NOW)
    moves = [c for c in plan.commands if isinstance(c, Preempt)]
    assert all(move.for_workload_id == big.workload_id for move in moves)
    return {m.workload_id: m.moves_to.shares[0].node for m in moves if m.moves_to is not None}


@pytest.mark.parametrize(
    "changes",
    [
        pytest.param({}, id="one GPU moves for four"),
        pytest.param({"consolidation": {"min_gain": 4.0}}, id="just enough gain"),
        pytest.param({"pending": (make_workload("next", 4),)}, id="also with others behind"),
        pytest.param({"backfill": {"mode": "conservative"}}, id="with reservations for all"),
        pytest.param({"preemption": {"enabled": False}}, id="also where no run is preempted"),
    ],
)
def test_who_moves(changes):
    """The one that is in the way, to the first node where it fits best."""
    assert moved(**changes) == {"small": "b"}


def test_a_run_that_moves_keeps_its_quota():
    """Once it has ended it is in the queue again: no other of its team gets what it used."""
    small = runs("small", {"a": "0"}, team="s")
    others = tuple(
        replace(other, workload=replace(other.workload, team="t", is_preemptible=False))
        for other in OTHERS
    )
    big = replace(BIG, team="t")
    next_of_team = make_workload("next", team="s")
    policy = make_policy(
        placement={"consolidation": {"enabled": True}},
        quotas={
            "strategy": "static",
            "teams": {"s": {"nominal_quota": {"*": 1}}, "t": {"nominal_quota": {"*": 11}}},
        },
    )
    snapshot = make_snapshot(NODES, (small, *others), (big, next_of_team))
    plan = plan_cycle(snapshot, policy, NOW)
    assert [c.workload_id for c in plan.commands if isinstance(c, Preempt)] == ["small"]
    reasons = {e.workload_id: e.reason for e in plan.explanations}
    assert reasons == {"big": Reason.WAITING_FOR_VICTIMS, "next": Reason.WAITING_FOR_QUOTA}


@pytest.mark.parametrize(
    "changes",
    [
        pytest.param({"consolidation": {"enabled": False}}, id="the policy does not say so"),
        pytest.param({"big": replace(BIG, submitted_at=ago(600))}, id="it has not waited for long"),
        pytest.param({"big": replace(BIG, takes_free_only=True)}, id="it takes what is free"),
        pytest.param(
            {"small": replace(SMALL, checkpointed_at=None)}, id="what it did would be lost"
        ),
        pytest.param(
            {"small": runs("small", {"a": "0"}, is_preemptible=False)}, id="it may not be stopped"
        ),
        pytest.param(
            {"small": runs("small", {"a": "0"}, min_runtime_s=7_200)},
            id="it has not had its minimum run time",
        ),
        pytest.param({"small": replace(SMALL, begins_by=ago(-1))}, id="it starts"),
        pytest.param({"small": runs("small", {"a": "0"}, priority=HIGH)}, id="it is more urgent"),
        pytest.param({"consolidation": {"min_gain": 4.1}}, id="too little gain"),
        pytest.param({"nodes": NODES[:1], "others": ()}, id="it has no other place"),
        pytest.param(
            {"others": (*OTHERS, replace(runs("leaver", {"c": "2"}), is_draining=True))},
            id="one is leaving",
        ),
        pytest.param(
            {
                "nodes": (NODES[0], make_node("b", 4, capacity_type="spot")),
                "others": OTHERS[:1],
            },
            id="the free GPUs are of another kind",
        ),
        pytest.param(
            {
                "calendar": {
                    "closures": [
                        {
                            "name": "soon",
                            "nodes": ["b", "c"],
                            "starts_at": (NOW + timedelta(days=2)).isoformat(),
                            "ends_at": (NOW + timedelta(days=3)).isoformat(),
                        }
                    ]
                }
            },
            id="the calendar closes the other places soon",
        ),
        pytest.param(
            {
                "big": replace(BIG, team="t"),
                "quotas": {"strategy": "static", "teams": {"t": {"nominal_quota": {"*": 3}}}},
            },
            id="its quota keeps it from starting",
        ),
    ],
)
def test_who_stays(changes):
    """No workload moves in vain, or against the rules."""
    assert moved(**changes) == {}


@pytest.mark.parametrize(
    ("min_gain", "want"),
    [
        pytest.param(2.0, {"small", "mate"}, id="four start for two that move"),
        pytest.param(2.1, set(), id="enough for each alone, too little for both"),
    ],
)
def test_the_gain_is_that_of_all_who_move(min_gain, want):
    others = (*OTHERS, runs("mate", {"a": "1"}))
    assert moved(others=others, consolidation={"min_gain": min_gain}).keys() == want


@pytest.mark.parametrize("mode", ["auto", "none", "easy", "conservative"])
@pytest.mark.parametrize("ends_in_s", [None, 7_200])
def test_no_workload_moves_to_a_node_that_is_reserved_or_kept(mode, ends_in_s):
    """It would fit `b` best, for which a workload ahead waits; that one is not in its way on `a`.

    Where the end of `other` is unknown, the node is kept; otherwise it is reserved.
    """
    nodes = tuple(make_node(name, 4, labels={"rack": name}) for name in "abc")
    others = (
        runs("other", {"b": "0 1"}, priority=HIGH, expected_duration_s=ends_in_s),
        runs("third", {"c": "0"}, priority=HIGH),
    )
    ahead = with_labels(make_workload("ahead", 4, priority=HIGH, submitted_at=ago(60)), "b")
    found = moved(
        big=with_labels(BIG, "a"),
        others=others,
        pending=(ahead,),
        nodes=nodes,
        backfill={"mode": mode},
    )
    assert found == {"small": "c"}


def with_labels(workload, rack):
    """It runs on this rack only."""
    return replace(workload, shape=workload.shape._replace(node_labels=(("rack", rack),)))


def test_the_large_one_starts_and_the_small_one_goes_on_elsewhere():
    """In the next cycle, once what was in the way has left."""
    policy = make_policy(placement={"consolidation": {"enabled": True}})
    before = make_snapshot(NODES, (SMALL, *OTHERS), (BIG,))
    plan = plan_cycle(before, policy, NOW)
    [explanation] = plan.explanations
    assert explanation.reason is Reason.WAITING_FOR_VICTIMS
    after = replace(apply(before, plan, NOW), preemptors=frozenset({"big"}))
    next_plan = plan_cycle(after, policy, NOW + timedelta(seconds=30))
    placed = {c.workload_id: c.placement.shares[0].node for c in next_plan.commands}
    assert placed == {"big": "a", "small": "b"}


def test_the_new_place_is_kept_in_this_cycle():
    """Workloads behind get only what is left then."""
    nodes = NODES[:2]
    others = (runs("other", {"b": "0 1 2"}, priority=HIGH),)
    snapshot = make_snapshot(nodes, (SMALL, *others), (BIG, make_workload("late")))
    policy = make_policy(
        placement={"consolidation": {"enabled": True}}, backfill={"mode": "greedy"}
    )
    plan = plan_cycle(snapshot, policy, NOW)
    assert [c.workload_id for c in plan.commands] == ["small"]


def test_a_policy_that_makes_no_sense_is_refused():
    """Moving more GPUs than are gained."""
    with pytest.raises(InvalidInput, match=r"placement\.consolidation\.min_gain"):
        make_policy(placement={"consolidation": {"min_gain": 0.5}})


@st.composite
def scattered(draw):
    """Small runs on many nodes, and large ones in the queue."""
    nodes = tuple(make_node(name, 4) for name in "abcd")
    held = [
        runs(f"{node.name}{n}", {node.name: str(n)}, checkpointed_at=draw(SAVED))
        for node in nodes
        for n in range(draw(st.integers(0, 3)))
    ]
    pending = tuple(
        make_workload(
            f"p{i}",
            draw(st.integers(1, 4)),
            nodes=draw(st.sampled_from([1, 1, 2])),
            submitted_at=ago(3_600 + i),
        )
        for i in range(draw(st.integers(1, 4)))
    )
    return make_snapshot(nodes, tuple(held), pending)


SAVED = st.sampled_from([None, ago(60), ago(600)])


@settings(deadline=None)
@given(scattered(), st.integers(1, 4), st.sampled_from(["easy", "greedy", "conservative"]))
def test_all_that_a_plan_gives_away_is_free_at_once(snapshot, max_moves, backfill):
    """Starts and new places take no GPU that another has or gets; planning leaves no trace."""
    consolidation = {"enabled": True, "min_gain": 1.0, "max_moves": max_moves}
    policy = make_policy(placement={"consolidation": consolidation}, backfill={"mode": backfill})
    planner, cluster, shapes = Planner(policy, snapshot.nodes), ClusterInfo(snapshot.nodes), {}
    for allocation in snapshot.allocations:
        planner.allocate(allocation)
        cluster.allocate(allocation.workload.shape, allocation.placement)
        shapes[allocation.workload.workload_id] = allocation.workload.shape
    for workload in snapshot.pending:
        planner.submit(workload)
        shapes[workload.workload_id] = workload.shape
    plan = planner.plan(NOW)
    assert planner.plan(NOW) == plan
    moves = [c for c in plan.commands if isinstance(c, Preempt)]
    assert len(moves) <= max_moves
    for command in plan.commands:
        to = command.moves_to if isinstance(command, Preempt) else command.placement
        cluster.allocate(shapes[command.workload_id], to)
    after = apply(snapshot, plan, NOW)
    later = plan_cycle(
        replace(after, preemptors=frozenset(c.for_workload_id for c in moves)), policy, NOW
    )
    started = {c.workload_id for c in later.commands if not isinstance(c, Preempt)}
    assert started >= {c.for_workload_id for c in moves}
    event(f"{len(moves)} moves")
