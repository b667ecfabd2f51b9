"""The GPUs that a cycle saw, counted for the metrics."""

from collections import Counter
from collections.abc import Collection, Iterable

from gpu_core.decisions.model.cluster import Node
from gpu_core.decisions.telemetry.metrics import GpuGroup, GpuState


def gpu_groups(nodes: Iterable[Node], held: Collection[tuple[str, str]]) -> Counter[GpuGroup]:
    """How many GPUs are held, free or unhealthy, by type and capacity type?

    Args:
        nodes: The nodes that are there.
        held: Node and id of each GPU of which an attempt holds a part. A GPU that is held and
            unhealthy counts as held.
    """
    found: Counter[GpuGroup] = Counter()
    for node in nodes:
        for gpu_id in node.gpu_ids:
            state: GpuState = "unhealthy" if gpu_id in node.unhealthy_gpu_ids else "free"
            if (node.name, gpu_id) in held:
                state = "held"
            found[GpuGroup(node.gpu_type, node.capacity_type, state)] += 1
    return found
