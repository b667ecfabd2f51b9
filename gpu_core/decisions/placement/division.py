"""How a GPU is divided among several holders, and what a part of it is.

A part is a whole number, and so is all that is in use of a GPU: the sum of its parts, 0 when it is
untouched. Thousandths add up to 1000 at most; memory slices of MIG instances are bits of which no
two parts have one in common.
"""

from typing import Protocol

from gpu_core.decisions.cluster import Node, NodeShare
from gpu_core.decisions.errors import InvalidInput
from gpu_core.decisions.placement.mig import best_start, mig_profile, slices_of
from gpu_core.decisions.workload import WHOLE_GPU_MILLI, Shape


class Division(Protocol):
    """The rules of one way to divide a GPU."""

    def has_room(self, shape: Shape, in_use: int) -> bool:
        """Would the shape's part of one GPU fit beside this?"""

    def starts(self, shape: Shape, in_use: list[int]) -> tuple[int, ...]:
        """Where does its MIG instance begin on each of these GPUs, on which it fits?"""

    def parts(self, shape: Shape, share: NodeShare) -> list[int]:
        """What does the share take of each of its GPUs?"""

    def fits(self, part: int, in_use: int) -> bool:
        """Is this part free?"""

    def contains(self, in_use: int, part: int) -> bool:
        """Is this part in use?"""

    def left_milli(self, in_use: int) -> int:
        """How much is left, roughly if it is no matter of thousandths?"""


class TimeSharing:
    """Thousandths of a GPU, by time-slicing or MPS: any that add up."""

    def has_room(self, shape: Shape, in_use: int) -> bool:
        """Would the shape's part of one GPU fit beside this?"""
        return self.fits(shape.gpu_share_milli, in_use)

    def starts(self, shape: Shape, in_use: list[int]) -> tuple[int, ...]:  # noqa: ARG002
        """Thousandths begin nowhere."""
        return ()

    def parts(self, shape: Shape, share: NodeShare) -> list[int]:  # noqa: ARG002
        """What does the share take of each of its GPUs?"""
        return [share.share_milli] * len(share.gpu_ids)

    def fits(self, part: int, in_use: int) -> bool:
        """Is this part free?"""
        return in_use + part <= WHOLE_GPU_MILLI

    def contains(self, in_use: int, part: int) -> bool:
        """Is this part in use?"""
        return part <= in_use

    def left_milli(self, in_use: int) -> int:
        """How much is left?"""
        return WHOLE_GPU_MILLI - in_use


class MigInstances:
    """Memory slices of a GPU, where MIG allows an instance to begin.

    Args:
        gpu_type: Of the node's GPUs.
    """

    def __init__(self, gpu_type: str) -> None:
        self._gpu_type = gpu_type
        self._slices = slices_of(gpu_type)

    def has_room(self, shape: Shape, in_use: int) -> bool:
        """Would the shape's part of one GPU fit beside this?"""
        return self._start(shape, in_use) is not None

    def starts(self, shape: Shape, in_use: list[int]) -> tuple[int, ...]:
        """Where does its instance begin on each of these GPUs, on which it fits?"""
        starts = (self._start(shape, slices) for slices in in_use)
        return tuple(start for start in starts if start is not None)

    def parts(self, shape: Shape, share: NodeShare) -> list[int]:
        """What does the share take of each of its GPUs?"""
        profile = mig_profile(self._gpu_type, shape.mig_profile)
        if profile is None:
            raise InvalidInput(f"nodes.{share.node}", "has no such profile", got=shape.mig_profile)
        if len(share.mig_starts) != len(share.gpu_ids) or not profile.allows(share.mig_starts):
            raise InvalidInput(
                f"nodes.{share.node}", "has no instances that begin there", got=share.mig_starts
            )
        return [profile.slices_from(start) for start in share.mig_starts]

    def fits(self, part: int, in_use: int) -> bool:
        """Is this part free?"""
        return not part & in_use

    def contains(self, in_use: int, part: int) -> bool:
        """Is this part in use?"""
        return not part & ~in_use

    def left_milli(self, in_use: int) -> int:
        """How much is left, as if any slices could be used together?"""
        return (self._slices - in_use.bit_count()) * WHOLE_GPU_MILLI // self._slices

    def _start(self, shape: Shape, in_use: int) -> int | None:
        if mig_profile(self._gpu_type, shape.mig_profile) is None or shape.mig_profile is None:
            return None
        return best_start(self._gpu_type, shape.mig_profile, in_use)


def division_of(node: Node) -> Division:
    """How are this node's GPUs divided, if they are?"""
    return MigInstances(node.gpu_type) if node.is_mig else TimeSharing()
