"""The policy with the prices of now: what the planner, victim choice and spot compare dollars with.

They ask a policy for the price of a flavor. Runs pay what the price book says, so that is what the
policy says here: rates, then the catalog at this time, then the policy's own prices.
"""

from collections.abc import Callable, Iterable

from gpu_core.decisions.costs.prices.price_book import MachinePrice
from gpu_core.decisions.model.cluster import Flavor, Machine, Node
from gpu_core.decisions.policy.policy import Policy


def with_prices_of_now(
    policy: Policy, nodes: Iterable[Node], price_of: Callable[[Node, Machine], MachinePrice | None]
) -> Policy:
    """The policy, with the price of a GPU of each flavor of these nodes.

    A GPU is priced with its part of the machine around it. Of a flavor whose nodes have different
    prices, as zones of spot have, the highest counts: no budget is planned with less than runs pay.
    A flavor stays as the policy has it while a price of one of its nodes is unknown.

    Args:
        policy: The one in force.
        nodes: Those that are planned with.
        price_of: What an hour of a node's machine costs now, by the price book.
    """
    found: dict[Flavor, int | None] = {}
    for node in nodes:
        price = _per_gpu(node, price_of)
        before = found.get(node.flavor, price)
        found[node.flavor] = None if price is None or before is None else max(before, price)
    changed = {
        flavor: price
        for flavor, price in found.items()
        if price is not None and price != policy.price_micro_usd_per_gpu_hour(*flavor)
    }
    if not changed:
        return policy
    prices: dict[str, dict[str, int | None]] = {
        gpu_type: {str(terms): price for terms, price in by_terms.items()}
        for gpu_type, by_terms in policy.prices.items()
    }
    for flavor, price in changed.items():
        prices.setdefault(flavor.gpu_type, {})[flavor.capacity_type] = price
    return policy.model_copy(update={"prices": prices})


def _per_gpu(node: Node, price_of: Callable[[Node, Machine], MachinePrice | None]) -> int | None:
    """The price of a GPU of this node for an hour, rounded up, with its part of the machine."""
    machine = node.machine or Machine(gpus=len(node.gpu_ids))
    if not machine.gpus:
        return None
    whole = price_of(node, machine)
    return None if whole is None else -(-whole.micro_usd_per_hour // machine.gpus)
