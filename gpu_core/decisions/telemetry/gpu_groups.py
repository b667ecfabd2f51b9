"""The GPUs that a cycle saw, counted for the metrics."""

from collections import Counter
from collections.abc import Collection, Iterable

from gpu_core.decisions.model.cluster import Node
from gpu_core.decisions.telemetry.metrics import GpuGroup, GpuState


def gpu_groups(nodes: Iterable[Node], held: Collection[tuple[str, str]]) -> Counter[GpuGroup]:
    """How many GPUs are held, free, unhealthy or withheld, by type and capacity type?

    Args:
        nodes: The nodes that are there.
        held: Node and id of each GPU of which an attempt holds a part. A GPU that is held and
            unhealthy counts as held.
    """
    found: Counter[GpuGroup] = Counter()
    for node in nodes:
        states = Counter(_state(node, gpu_id, held) for gpu_id in node.gpu_ids)
        if node.machine is not None and node.machine.are_others_withheld:
            # Which one is not well the planner does not know, only how many.
            unhealthy = min(states["unhealthy"], node.machine.faulty_gpus)
            states["withheld"], states["unhealthy"] = states["unhealthy"] - unhealthy, unhealthy
        for state, count in states.items():
            if count:
                found[GpuGroup(node.gpu_type, node.capacity_type, state)] += count
    return found


def _state(node: Node, gpu_id: str, held: Collection[tuple[str, str]]) -> GpuState:
    if (node.name, gpu_id) in held:
        return "held"
    return "unhealthy" if gpu_id in node.unhealthy_gpu_ids else "free"
