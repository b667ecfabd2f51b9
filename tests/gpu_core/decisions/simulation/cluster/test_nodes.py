"""Nodes that come when something is placed on them: timelines worked out by hand."""

from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gpu_core.decisions.model.cluster import Node
from gpu_core.decisions.model.virtual_nodes import planned_name
from gpu_core.decisions.policy.policy import parse_policy
from gpu_core.decisions.scheduling.cycle.planner import Planner
from gpu_core.decisions.simulation.cluster.engine import SimulationOptions, simulate
from gpu_core.decisions.simulation.cluster.outcomes import Simulation
from gpu_core.decisions.simulation.cluster.run_time_oracle import (
    NoRunTimes,
    RunTimeOracle,
    TrueRunTimes,
)
from gpu_core.decisions.simulation.cluster.trace import NodeEvent, Trace, TraceJob, interruption
from gpu_core.decisions.simulation.policies.named_policies import named_policy
from gpu_core.decisions.spot.capacity_view import LOOK_S
from gpu_core.testing.builders.workloads import make_node
from tests.support.examples import examples

POLICY = parse_policy({"version": 1})
HOUR_S = 3600.0


def planned(kind: str, number: int = 0, gpus: int = 2, **changes: Any) -> Node:
    return make_node(planned_name(kind, number), gpus, is_planned=True, **changes)


def job(job_id: str, submit_s: float, duration_s: float, gpus: int = 1) -> TraceJob:
    return TraceJob(job_id=job_id, submit_s=submit_s, duration_s=duration_s, gpu_count=gpus)


def replay(
    *jobs: TraceJob,
    nodes: tuple[Node, ...],
    events: tuple[NodeEvent, ...] = (),
    run_times: RunTimeOracle | None = None,
    **options: Any,
) -> Simulation:
    trace = Trace(jobs=jobs, nodes=nodes, events=events)
    options = {"node_start_s": 100.0, "node_idle_s": 50.0} | options
    planner = Planner(named_policy("greedy"), nodes)
    return simulate(trace, planner, run_times or NoRunTimes(), SimulationOptions(**options))


def stays(simulation: Simulation) -> list[tuple[str, float, float]]:
    return [(stay.node.name, stay.from_s, stay.until_s) for stay in simulation.node_stays]


def test_a_planned_node_comes_for_a_job_and_goes_when_it_is_idle() -> None:
    found = replay(job("a", 10, 300), nodes=(planned("big"),))
    (outcome,) = found.outcomes
    (held,) = outcome.attempts
    assert (held.start_s, held.end_s) == (10, 410)
    assert (held.nodes_came_after_s, held.lost_s) == (100, 100)
    assert stays(found) == [("new/big/0", 10, 460)]


def test_a_second_job_shares_a_node_on_its_way_and_one_that_is_there() -> None:
    found = replay(job("a", 0, 300), job("b", 40, 100), job("c", 250, 10), nodes=(planned("big"),))
    ends = {o.job.job_id: o.finished_s for o in found.outcomes}
    assert ends == {"a": 400, "b": 200, "c": 260}
    assert stays(found) == [("new/big/0", 0, 450)]


def test_a_node_that_gets_work_before_its_time_is_up_stays() -> None:
    found = replay(job("a", 0, 100), job("b", 240, 10), nodes=(planned("big"),))
    assert [o.finished_s for o in found.outcomes] == [200, 250]
    assert stays(found) == [("new/big/0", 0, 300)]


def test_a_node_that_has_gone_comes_again() -> None:
    found = replay(job("a", 0, 100), job("b", 251, 10), nodes=(planned("big"),))
    assert [o.finished_s for o in found.outcomes] == [200, 361]
    assert stays(found) == [("new/big/0", 0, 250), ("new/big/0", 251, 411)]


def test_nodes_that_are_there_come_before_planned_ones_and_never_go() -> None:
    found = replay(job("a", 0, 10, 2), job("b", 5, 10), nodes=(make_node("n1", 2), planned("big")))
    assert stays(found) == [("n1", 0, 165), ("new/big/0", 5, 165)]


def test_no_more_nodes_come_than_the_cap_allows() -> None:
    nodes = tuple(planned(kind, number) for kind in ("a", "b") for number in range(2))
    found = replay(*(job(str(number), 0, 100, 2) for number in range(4)), nodes=nodes, max_gpus=4)
    ends = sorted(o.finished_s or 0.0 for o in found.outcomes)
    # The second two are on the nodes of the first two, which are there by then.
    assert ends == [200, 200, 300, 300]
    assert stays(found) == [("new/a/0", 0, 350), ("new/a/1", 0, 350)]


def test_a_node_taken_back_on_its_way_is_paid_until_then() -> None:
    spot = planned("a-spot", capacity_type="spot")
    events = (*interruption(spot, 60, 20), NodeEvent(at_s=500, name=spot.name, node=spot))
    found = replay(job("a", 0, 100), nodes=(spot, planned("b")), events=events)
    (outcome,) = found.outcomes
    assert [held.was_interrupted for held in outcome.attempts] == [True, False]
    assert outcome.finished_s == 60 + 100 + 100
    assert stays(found) == [("new/a-spot/0", 0, 60), ("new/b/0", 60, 310)]


def test_nothing_is_placed_on_a_planned_node_that_will_be_taken_back() -> None:
    spot = planned("a-spot", capacity_type="spot")
    found = replay(job("a", 45, 100), nodes=(spot, planned("b")), events=interruption(spot, 60, 20))
    assert stays(found) == [("new/b/0", 45, 295)]


@pytest.mark.parametrize(
    ("most", "want_kinds"),
    [
        pytest.param(2, ["spot-1", "spot-2", "steady"], id="on-demand after two in a row"),
        pytest.param(None, ["spot-1", "spot-2", "spot-3"], id="spot for ever"),
    ],
)
def test_a_job_that_spot_keeps_failing_goes_on_on_demand(
    most: int | None, want_kinds: list[str]
) -> None:
    spot = [planned(f"spot-{number}", capacity_type="spot") for number in (1, 2, 3)]
    policy = parse_policy({"version": 1, "capacity": {"max_spot_interruptions": most}})
    events = (*interruption(spot[0], 200, 0), *interruption(spot[1], 400, 0))
    found = replay(
        job("a", 0, 1000), nodes=(*spot, planned("steady")), events=events, capacity_policy=policy
    )
    assert [name for name, _, _ in stays(found)] == [f"new/{kind}/0" for kind in want_kinds]


def test_an_interrupted_job_leaves_that_zone_alone_though_spot_is_back_at_once() -> None:
    spot = planned("spot", capacity_type="spot")
    events = (*interruption(spot, 200, 0), NodeEvent(at_s=200, name=spot.name, node=spot))
    nodes = (spot, planned("steady"))
    plain = replay(job("a", 0, 1000), nodes=nodes, events=events)
    by_policy = replay(job("a", 0, 1000), nodes=nodes, events=events, capacity_policy=POLICY)
    assert [name for name, _, _ in stays(plain)] == ["new/spot/0", "new/spot/0"]
    assert [name for name, _, _ in stays(by_policy)] == ["new/spot/0", "new/steady/0"]


PRICED = parse_policy({"version": 1, "prices": {"a100-80gb": {"on-demand": 4.0, "spot": 1.0}}})


def test_a_job_without_a_deadline_takes_cheaper_spot_before_nodes_that_come_first_by_name() -> None:
    nodes = (planned("a-steady"), planned("b-spot", capacity_type="spot"))
    plain = replay(job("a", 0, 10), nodes=nodes)
    by_policy = replay(job("a", 0, 10), nodes=nodes, capacity_policy=PRICED)
    assert [name for name, _, _ in stays(plain)] == ["new/a-steady/0"]
    assert [name for name, _, _ in stays(by_policy)] == ["new/b-spot/0"]


def test_a_job_that_went_to_on_demand_goes_back_to_spot_that_has_proved_itself() -> None:
    spot = planned("spot", capacity_type="spot")
    events = (
        *interruption(spot, 5 * HOUR_S, 120),
        NodeEvent(at_s=6 * HOUR_S, name=spot.name, node=spot),
    )
    # Something has to happen now and then: the policy is asked at events.
    hourly = [job(f"{number}", number * HOUR_S, 60) for number in range(20)]
    long = replace(job("long", 1, 30 * HOUR_S), checkpoint_interval_s=600.0)
    found = replay(
        long,
        *hourly,
        nodes=(spot, planned("steady", number=1, gpus=2)),
        events=events,
        run_times=TrueRunTimes(),
        capacity_policy=PRICED,
    )
    (outcome,) = (outcome for outcome in found.outcomes if outcome.job is long)
    kinds = [held.flavor and held.flavor.capacity_type for held in outcome.attempts]
    assert kinds == ["spot", "on-demand", "spot"]
    assert outcome.attempts[1].end_s > 6 * HOUR_S
    assert outcome.preemptions == 0


def test_a_job_waits_for_spot_until_its_deadline_asks_for_on_demand() -> None:
    nodes = (make_node("spot", 2, capacity_type="spot"), make_node("steady", 2))
    long = job("long", 0, 100 * HOUR_S, gpus=2)
    due = replace(job("due", 10, 2 * HOUR_S), deadline_s=10 * HOUR_S)
    found = replay(long, due, nodes=nodes, run_times=TrueRunTimes(), capacity_policy=PRICED)
    (held,) = next(o.attempts for o in found.outcomes if o.job is due)
    assert held.flavor is not None
    assert held.flavor.capacity_type == "on-demand"
    assert held.start_s > HOUR_S, "spot was worth waiting for"
    assert held.end_s <= 10 * HOUR_S, "it is done in time"


def test_a_job_takes_spot_where_its_deadline_asks_for_on_demand_that_is_full() -> None:
    nodes = (make_node("spot", 2, capacity_type="spot"), make_node("steady", 2))
    long = replace(job("long", 0, 100 * HOUR_S, gpus=2), capacity_type="on-demand")
    due = replace(job("due", 10, 2 * HOUR_S), deadline_s=2.3 * HOUR_S)
    found = replay(long, due, nodes=nodes, run_times=TrueRunTimes(), capacity_policy=PRICED)
    (held,) = next(o.attempts for o in found.outcomes if o.job is due)
    assert held.flavor is not None
    assert held.flavor.capacity_type == "spot"
    assert held.start_s == 10 + LOOK_S
    assert held.end_s <= 2.3 * HOUR_S, "it is done in time"


def test_a_job_that_loses_on_demand_takes_spot_where_all_other_on_demand_is_full() -> None:
    other, own = make_node("a-steady", 2), make_node("b-steady", 2)
    nodes = (make_node("spot", 2, capacity_type="spot"), other, own)
    long = replace(job("long", 0, 100 * HOUR_S, gpus=2), capacity_type="on-demand")
    due = replace(job("due", 10, 2 * HOUR_S, gpus=2), deadline_s=2.3 * HOUR_S)
    found = replay(
        long,
        due,
        nodes=nodes,
        events=interruption(own, 1000, 0),
        run_times=TrueRunTimes(),
        capacity_policy=PRICED,
    )
    first, second = next(o.attempts for o in found.outcomes if o.job is due)
    kinds = [held.flavor and held.flavor.capacity_type for held in (first, second)]
    assert kinds == ["on-demand", "spot"]
    assert (first.end_s, second.start_s) == (1000, 1000 + LOOK_S)


@settings(max_examples=examples(50))
@given(
    jobs=st.lists(
        st.tuples(st.integers(0, 500), st.integers(1, 300), st.integers(1, 2)),
        min_size=1,
        max_size=12,
    ),
    cap=st.sampled_from([2, 4, 100]),
    gone_s=st.integers(1, 600),
)
def test_all_jobs_end_within_the_cap_and_on_nodes_that_are_paid_for(
    jobs: list[tuple[int, int, int]], cap: int, gone_s: int
) -> None:
    spot = tuple(planned("a-spot", number, capacity_type="spot") for number in range(3))
    nodes = (*spot, *(planned("b", number) for number in range(3)))
    events = tuple(event for node in spot for event in interruption(node, gone_s, 1))
    found = replay(
        *(job(str(n), *values) for n, values in enumerate(jobs)),
        nodes=nodes,
        events=events,
        max_gpus=cap,
        capacity_policy=POLICY,
    )
    assert all(outcome.finished_s is not None for outcome in found.outcomes)
    for stay in found.node_stays:
        at_once = [s for s in found.node_stays if s.from_s <= stay.from_s < s.until_s]
        assert sum(len(s.node.gpu_ids) for s in at_once) <= cap
    held_gpu_s = sum(
        (held.end_s - held.start_s) * o.job.total_gpus
        for o in found.outcomes
        for held in o.attempts
    )
    paid_gpu_s = sum(len(s.node.gpu_ids) * (s.until_s - s.from_s) for s in found.node_stays)
    assert held_gpu_s <= paid_gpu_s
