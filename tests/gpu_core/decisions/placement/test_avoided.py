"""Nodes that failed a workload recently: left alone while there are others."""

from datetime import timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpu_core.decisions.model.reasons import Reason
from gpu_core.decisions.model.workload import Shape
from gpu_core.decisions.placement.cluster_info import ClusterInfo
from gpu_core.decisions.placement.workload_mix import rounded_mix
from gpu_core.decisions.policy.placement import Strategy
from gpu_core.decisions.scheduling.cycle.planner import plan_cycle
from gpu_core.testing.builders.workloads import (
    NOW,
    make_allocation,
    make_node,
    make_policy,
    make_snapshot,
    make_workload,
)

NODES = (make_node("a", 2), make_node("b", 8), make_node("t", 8, gpu_type="t4"))


def avoiding(*names, **fields):
    return Shape(**fields)._replace(avoided_nodes=frozenset(names))


@pytest.mark.parametrize("strategy", Strategy)
@pytest.mark.parametrize(
    ("shape", "want_nodes"),
    [
        pytest.param(avoiding("a", "t"), {"b"}, id="one is left"),
        pytest.param(avoiding("b", gpu_count=4, gpu_types=("a100-80gb",)), {"b"}, id="none other"),
        pytest.param(
            avoiding("b", nodes=2, gpu_types=("a100-80gb",)), {"a", "b"}, id="a gang needs both"
        ),
        pytest.param(avoiding("a", "b", "gone"), {"t"}, id="a name that is not there"),
    ],
)
def test_avoided_nodes_are_used_only_where_nothing_else_could_be(strategy, shape, want_nodes):
    placement = ClusterInfo(NODES, strategy).find(shape)
    assert placement is not None
    assert {share.node for share in placement.shares} == want_nodes


@given(
    avoided=st.frozensets(st.sampled_from("abt")),
    gpus=st.integers(1, 9),
    nodes=st.integers(1, 3),
    strategy=st.sampled_from(Strategy),
)
def test_avoiding_never_makes_a_shape_impossible(avoided, gpus, nodes, strategy):
    plain = Shape(gpu_count=gpus, nodes=nodes)
    cluster = ClusterInfo(NODES, strategy)
    found = cluster.find(plain._replace(avoided_nodes=avoided))
    assert (found is None) == (cluster.find(plain) is None)
    assert cluster.never_fits(plain) == cluster.never_fits(plain._replace(avoided_nodes=avoided))


def test_a_run_that_waits_because_of_it_says_so():
    holder = make_allocation(make_workload("holder", is_preemptible=False), {"a": "0 1"})
    wants = make_workload(
        gpus=2,
        gpu_types=("a100-80gb",),
        avoided_nodes=frozenset({"b"}),
        avoided_until=NOW + timedelta(minutes=10),
    )
    plan = plan_cycle(make_snapshot(NODES, (holder,), (wants,)), make_policy(), NOW)
    (explanation,) = plan.explanations
    assert explanation.reason is Reason.WAITING_FOR_GPUS
    assert explanation.numbers["avoided_free_gpus"] == 8
    until = NOW + timedelta(minutes=10)
    assert explanation.numbers["avoided_until"] == until.isoformat()
    assert (
        f"8 free on nodes where this run recently failed, excluded until {until:%H:%M:%S} "
        "UTC" in explanation.summary
    )


def test_what_is_expected_of_others_does_not_depend_on_it():
    mix = rounded_mix({Shape(): 3, avoiding("a"): 1, avoiding("b"): 2})
    assert mix == {Shape(): 6}
