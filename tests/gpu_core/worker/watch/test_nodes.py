"""The nodes of a pool as its worker shows and plans with them."""

from types import SimpleNamespace

import anyio
import pytest

from gpu_core.decisions.model.cluster import ZONE_LABEL
from gpu_core.testing.builders.workloads import make_node, make_policy
from gpu_core.worker.attempts.run_faults import RunFaults
from gpu_core.worker.watch.nodes import PoolNodes


class Infrastructure:
    """Has these nodes, and counts how often it is asked for them."""

    def __init__(self, nodes, is_fixed):
        self.nodes, self.is_fixed = nodes, is_fixed
        self.looks = 0

    async def refresh(self, _attempts):
        """No run has saved anything."""

    def allocations(self, _attempts, _policy):
        self.looks += 1
        return (f"look {self.looks}",)

    async def observe(self, _policy, _allocations):
        return self.nodes


class Others:
    """All else that hears of the nodes."""

    def __init__(self, holding, moves):
        self.holding = lambda: list(holding)
        self.moves = moves
        self.recorded = ()

    def current(self):
        return make_policy()

    async def bind(self, _policy):
        self.moves -= 1
        return self.moves >= 0

    async def reprice(self, _policy, _now):
        """Nothing has a price."""

    async def refresh(self, _nodes, _now):
        """Nothing has a price."""

    async def observe(self, nodes, _policy, _now):
        self.recorded = nodes


def observed(nodes, holding=(), *, is_fixed=True, moves=0):
    """The nodes after a first look, what was held on them, and who heard of them."""
    others = Others(holding, moves)
    found = PoolNodes(
        infrastructure=Infrastructure(tuple(nodes), is_fixed),
        attempts=others,
        binder=others,
        faults=RunFaults(),
        policies=others,
        forecasts=SimpleNamespace(observe=lambda _nodes: None),
        prices=others,
        capacity=others,
    )
    return found, anyio.run(found.observe, make_policy()), others


@pytest.mark.parametrize(
    ("nodes", "want"),
    [
        pytest.param([], "no GPUs: none were found or declared in the policy", id="none"),
        pytest.param([make_node("n1", gpus=8, gpu_type="h100")], "8 × h100 on n1", id="one"),
        pytest.param(
            [make_node(f"n{number}", gpus=1, gpu_type="t4") for number in range(10)],
            ", ".join([*(f"1 × t4 on n{number}" for number in range(8)), "2 more nodes"]),
            id="more than are named",
        ),
    ],
)
def test_the_log_names_what_a_pool_has(nodes, want):
    assert observed(nodes)[0].describe() == want


@pytest.mark.parametrize(
    ("nodes", "is_fixed", "want"),
    [
        pytest.param([make_node("n1")], True, True, id="a machine"),
        pytest.param([], True, False, id="its driver is at fault"),
        pytest.param([make_node("n1")], False, False, id="a cluster"),
    ],
)
def test_a_pool_is_complete_where_no_node_will_come(nodes, is_fixed, want):
    assert observed(nodes, is_fixed=is_fixed)[0].is_complete is want


def test_the_zone_of_each_node_is_known_where_it_states_one():
    nodes = [make_node("n1", labels={ZONE_LABEL: "b"}), make_node("n2")]
    assert observed(nodes)[0].zones() == {"n1": "b", "n2": None}


def test_what_was_bound_is_observed_once_more():
    assert observed([make_node("n1")])[1] == ("look 1",)
    assert observed([make_node("n1")], moves=1)[1] == ("look 2",)


def test_a_node_whose_held_gpus_are_unknown_is_recorded_and_not_planned_with():
    attempt = SimpleNamespace(node="n1", gpu_type="h100", held=())
    nodes = (make_node("n1"), make_node("n2"))
    found, _, others = observed(nodes, [SimpleNamespace(attempt=attempt, flow_run_id="r")])
    assert [node.name for node in found.seen] == ["n2"]
    assert others.recorded == nodes
