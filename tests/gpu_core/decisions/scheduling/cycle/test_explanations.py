"""Explanations that are made when they are read, and are a tuple's equal otherwise."""

import copy
import pickle

from gpu_core.decisions.model.reasons import Reason
from gpu_core.decisions.scheduling.cycle.planner import Planner, plan_cycle
from gpu_core.testing.builders.workloads import (
    NOW,
    make_allocation,
    make_node,
    make_policy,
    make_snapshot,
    make_workload,
)

NODES = (make_node("n1", 2),)
RUNNING = make_allocation(make_workload("running", 2), {"n1": "0 1"})
PENDING = tuple(make_workload(f"p{i}", 1) for i in range(3))


def explanations():
    return plan_cycle(make_snapshot(NODES, (RUNNING,), PENDING), make_policy(), NOW).explanations


def test_they_are_read_like_a_tuple():
    """By index, from the end, in slices, all; a place that is not there is an error."""
    reported = explanations()
    assert [e.workload_id for e in reported] == ["p0", "p1", "p2"]
    assert len(reported) == 3
    assert reported[-1].workload_id == "p2"
    assert reported[1:] == (reported[1], reported[2])
    assert reported[0] is reported[0]


def test_equal_ones_are_equal_also_to_a_tuple_and_when_copied():
    """A plan is compared, copied and kept like any other value."""
    reported = explanations()
    assert reported == explanations()
    assert reported == tuple(reported)
    assert tuple(reported) == reported
    assert reported != tuple(reported)[1:]
    assert pickle.loads(pickle.dumps(reported)) == reported  # noqa: S301 - our own
    assert copy.deepcopy(reported) == reported
    assert repr(reported) == repr(tuple(reported))


def test_what_is_read_late_is_what_was_so_at_the_moment_of_the_plan():
    """Workloads that have left the queue since are in it, and new ones are not."""
    planner = Planner(make_policy(), NODES)
    planner.allocate(RUNNING)
    for workload in PENDING:
        planner.submit(workload)
    plan = planner.plan(NOW)
    planner.withdraw("p0")
    planner.submit(make_workload("p9", 1))
    planner.release("running")
    assert plan.explanations == explanations()
    assert plan.explanations[0].reason is Reason.WAITING_FOR_GPUS
