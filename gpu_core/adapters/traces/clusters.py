"""Clusters in shorthand: `80x8` is 80 nodes of 8 GPUs, `count:640` one node with all of them."""

import re

from gpu_core.decisions.cluster import Node
from gpu_core.decisions.errors import InvalidInput

GPU_TYPE = "gpu"
"""The GPU type of clusters whose trace names none."""

_ALLOWED = "NODESxGPUS such as 80x8, or count:GPUS such as count:640"


def shorthand_nodes(text: str) -> tuple[Node, ...]:
    """Which cluster does this shorthand mean?

    Raises:
        InvalidInput: None.
    """
    match = re.fullmatch(r"(?:(\d{1,6})x|count:)(\d{1,7})", text)
    if match is None:
        raise InvalidInput("nodes", "is not a cluster", got=text, allowed=_ALLOWED)
    nodes, gpus = int(match[1] or 1), int(match[2])
    if not nodes * gpus:
        raise InvalidInput("nodes", "has no GPU", got=text, allowed=_ALLOWED)
    width = len(str(nodes - 1))
    return tuple(_node(f"node-{i:0{width}}", gpus) for i in range(nodes))


def _node(name: str, gpus: int) -> Node:
    return Node(name=name, gpu_type=GPU_TYPE, gpu_ids=tuple(str(i) for i in range(gpus)))
