"""How much there is of what a shape wants, for saying why it does not fit now."""

from collections.abc import Iterable
from dataclasses import dataclass

from gpu_core.decisions.model.workload import Shape
from gpu_core.decisions.placement.node_room import NodeInfo
from gpu_core.decisions.placement.suitability import is_avoided, suits


@dataclass(frozen=True, slots=True, kw_only=True)
class NotPlaced:
    """It does not fit now; the numbers count healthy GPUs of the kind that it wants."""

    usable_gpus: int
    free_gpus: int
    most_free_on_one_node: int
    unhealthy_gpus: int
    """Those come on top: they are not usable."""
    avoided_free_gpus: int = 0
    """On nodes that failed it lately. Those come on top as well."""


def shortage(shape: Shape, rooms: Iterable[NodeInfo]) -> NotPlaced:
    """How many GPUs are there, and untouched, of the kind that the shape wants?"""
    suited = [room for room in rooms if suits(shape, room.node)]
    wanted = [room for room in suited if not is_avoided(shape, room.node)]
    return NotPlaced(
        usable_gpus=sum(room.usable_gpus for room in wanted),
        free_gpus=sum(room.free_gpus for room in wanted),
        most_free_on_one_node=max((room.free_gpus for room in wanted), default=0),
        unhealthy_gpus=sum(len(room.node.gpu_ids) - room.usable_gpus for room in wanted),
        avoided_free_gpus=sum(room.free_gpus for room in suited if is_avoided(shape, room.node)),
    )
