"""Plans compare dollars at the prices that runs pay now."""

from collections.abc import Iterable
from typing import Any

import pytest

from gpu_core.decisions.catalog.offerings import Catalog
from gpu_core.decisions.costs.prices.planning_prices import with_prices_of_now
from gpu_core.decisions.costs.prices.price_book import PriceBook, PricedCapacity
from gpu_core.decisions.model.cluster import Machine, Node
from gpu_core.decisions.policy.policy import Policy, parse_policy
from gpu_core.decisions.scheduling.cycle.planner import plan_cycle
from gpu_core.decisions.scheduling.plan.plan import Preempt
from gpu_core.testing.builders.attempts import at
from gpu_core.testing.builders.workloads import (
    HIGH,
    LOW,
    NOW,
    make_allocation,
    make_node,
    make_policy,
    make_snapshot,
    make_workload,
)
from tests.gpu_core.decisions.costs.prices.test_price_book import OWN, POLICY_PRICES, catalog, price

NOTHING = Catalog()
WHERE = {
    "node.kubernetes.io/instance-type": "p4de.24xlarge",
    "topology.kubernetes.io/region": "us-east-1",
}


def node(name: str, zone: str | None = None, **fields: Any) -> Node:
    """A machine with 8 A100 in this zone."""
    labels = WHERE if zone is None else WHERE | {"topology.k8s.aws/zone-id": zone}
    machine = Machine(gpus=8, cpu_milli=96_000, memory_mib=1_152 * 1024)
    return make_node(name, labels=labels, machine=machine, **fields)


def at_prices(
    policy: Policy, nodes: Iterable[Node], known: Catalog = NOTHING, hours: float = 0
) -> Policy:
    """The policy with the prices of so many hours after noon."""
    book = PriceBook(policy=policy, catalog=known)
    return with_prices_of_now(
        policy,
        nodes,
        lambda n, machine: book.machine_price(PricedCapacity.of_node(n), machine, at(hours)),
    )


def priced(
    nodes: list[Node], *sections: dict[str, Any], known: Catalog = NOTHING, hours: float = 0
) -> tuple[int | None, int | None]:
    """The price of an A100 on demand and on spot."""
    policy = parse_policy({"version": 1} | {k: v for one in sections for k, v in one.items()})
    found = at_prices(policy, nodes, known, hours)
    return (
        found.price_micro_usd_per_gpu_hour("a100-80gb", "on-demand"),
        found.price_micro_usd_per_gpu_hour("a100-80gb", "spot"),
    )


def test_without_a_catalog_and_rates_the_policy_is_the_same_object() -> None:
    policy = parse_policy({"version": 1} | POLICY_PRICES)
    assert at_prices(policy, [node("a")]) is policy


def test_the_price_of_the_catalog_at_that_time_counts() -> None:
    """$16 for 8 GPUs until an hour from now, then $32.01; a part of a micro-dollar counts whole."""
    changes = catalog(price(16, as_of=at(-5).isoformat()), price(32.01, as_of=at(1).isoformat()))
    assert priced([node("a")], POLICY_PRICES, known=changes)[0] == 2_000_000
    assert priced([node("a")], POLICY_PRICES, known=changes, hours=2)[0] == 4_001_250


def test_own_rates_count_with_the_machine_around_a_gpu() -> None:
    """$2 for the GPU, 12 cores at $0.03 and 144 GiB at $0.004."""
    want = 2_000_000 + 12 * 30_000 + 144 * 4_000
    assert priced([node("a")], OWN, POLICY_PRICES)[0] == want


def test_of_two_zones_of_spot_the_dearer_counts() -> None:
    zones = catalog(price(8, "use1-az1", "spot"), price(12, "use1-az2", "spot"))
    spot = {"capacity_type": "spot"}
    both = [node("a", "use1-az1", **spot), node("b", "use1-az2", **spot)]
    assert priced(both, POLICY_PRICES, known=zones) == (3_000_000, 1_500_000)


@pytest.mark.parametrize("names", [("use1-az1", "use1-az9"), ("use1-az9", "use1-az1")])
def test_an_unknown_price_of_one_node_leaves_the_policys(names: tuple[str, str]) -> None:
    zones = catalog(price(8, "use1-az1", "spot"))
    nodes = [node(name, name, capacity_type="spot") for name in names]
    assert priced(nodes, POLICY_PRICES, known=zones) == (3_000_000, None)


def test_the_victim_is_who_loses_the_least_at_the_prices_of_now() -> None:
    """By the policy, work on the t4 is worth less; by the catalog, that on the A100 is."""
    policy = make_policy()
    nodes = (node("n1"), make_node("n2", gpu_type="t4"))
    holders = (
        make_allocation(make_workload("on-a100", 8, priority=LOW), {"n1": "0 1 2 3 4 5 6 7"}),
        make_allocation(
            make_workload("on-t4", 8, priority=LOW), {"n2": "0 1 2 3 4 5 6 7"}, gpu_type="t4"
        ),
    )
    snapshot = make_snapshot(nodes, holders, (make_workload("new", 8, priority=HIGH),))
    cheap = at_prices(policy, nodes, catalog(price(0.8)))
    victims = [
        [c.workload_id for c in plan_cycle(snapshot, each, NOW).commands if isinstance(c, Preempt)]
        for each in (policy, cheap)
    ]
    assert victims == [["on-t4"], ["on-a100"]]
