"""Clusters in shorthand: `80x8` is 80 nodes of 8 GPUs, `count:640` one node with all of them.

`16x8+64x8:spot` is 16 nodes on demand and 64 that the provider may take back.
"""

import re
from collections import Counter

from gpu_core.decisions.model.cluster import Node
from gpu_core.decisions.model.errors import InvalidInput

GPU_TYPE = "gpu"
"""The GPU type of clusters whose trace names none."""

MOST_GPUS = 1_000_000
"""Of a cluster that is replayed; ten times the largest that is known."""

MOST_GPUS_PER_NODE = 10_000

_PART = r"(?:(\d{1,6})x|count:)(\d{1,7})(?::(on-demand|spot|reserved))?"
_ALLOWED = "NODESxGPUS such as 80x8, count:GPUS, or several such as 16x8+64x8:spot"
_PREFIXES = {"on-demand": "node"}
"""The prefix of the nodes' names; where none is stated: their capacity type."""


def shorthand_nodes(text: str) -> tuple[Node, ...]:
    """The cluster that this shorthand means.

    Nodes are `node-0`, `node-1`, ... on demand, and `spot-0`, ... or `reserved-0`, ...; as many
    digits as the last one of its kind needs.

    Raises:
        InvalidInput: None.
    """
    kinds = [kind for part in text.split("+") for kind in _kinds(part, text)]
    if sum(gpus for _, gpus in kinds) > MOST_GPUS:
        raise InvalidInput("nodes", "has too many GPUs", got=text, allowed=f"up to {MOST_GPUS:,}")
    totals = Counter(capacity_type for capacity_type, _ in kinds)
    made: Counter[str] = Counter()
    nodes = []
    for capacity_type, gpus in kinds:
        width = len(str(totals[capacity_type] - 1))
        prefix = _PREFIXES.get(capacity_type, capacity_type)
        nodes.append(_node(f"{prefix}-{made[capacity_type]:0{width}}", gpus, capacity_type))
        made[capacity_type] += 1
    return tuple(nodes)


def _kinds(part: str, text: str) -> list[tuple[str, int]]:
    """The capacity type and GPUs of each node of a part."""
    match = re.fullmatch(_PART, part)
    if match is None:
        raise InvalidInput("nodes", "is not a cluster", got=text, allowed=_ALLOWED)
    nodes, gpus = int(match[1] or 1), int(match[2])
    if not nodes * gpus:
        raise InvalidInput("nodes", "has no GPU", got=text, allowed=_ALLOWED)
    return [(match[3] or "on-demand", gpus)] * nodes


def _node(name: str, gpus: int, capacity_type: str) -> Node:
    return Node(
        name=name,
        gpu_type=GPU_TYPE,
        gpu_ids=tuple(str(i) for i in range(gpus)),
        capacity_type=capacity_type,
    )
