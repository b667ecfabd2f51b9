"""How a GPU is divided among several holders, and what a part of it is.

A part is a whole number, and so is all that is in use of a GPU: the sum of its parts, 0 when it is
untouched. The sum may be more than there is: then somebody has what others have too, and nothing
fits beside them. Of MIG the number counts, slice by slice, who has it.
"""

from functools import cache
from typing import Protocol

from gpu_core.decisions.catalog.mig import (
    best_start,
    mig_profile,
    mig_share_milli,
    profiles_left,
    slices_of,
)
from gpu_core.decisions.model.bit_set import numbers_in
from gpu_core.decisions.model.cluster import Node, NodeShare
from gpu_core.decisions.model.workload import WHOLE_GPU_MILLI, Shape


class GpuSharing(Protocol):
    """The rules of one way to divide a GPU."""

    @property
    def whole(self) -> int:
        """All of a GPU, as a part."""

    def fits_shape(self, shape: Shape, in_use: int) -> bool:
        """Would the shape's part of one GPU fit beside this?"""

    def starts(self, shape: Shape, in_use: list[int]) -> tuple[int, ...]:
        """Where does its MIG instance begin on each of these GPUs, on which it fits?"""

    def share_milli(self, shape: Shape) -> int:
        """How many thousandths of each GPU would it get?"""

    def parts(self, shape: Shape, share: NodeShare) -> list[int] | None:
        """What does the share take of each of its GPUs? None: they have no such parts."""

    def fits(self, part: int, in_use: int) -> bool:
        """Is this part free?"""

    def contains(self, in_use: int, part: int) -> bool:
        """Is this part in use?"""

    def left_milli(self, in_use: int) -> int:
        """How much is left, roughly if it is no matter of thousandths?"""

    def profiles_left(self, in_use: int) -> frozenset[str]:
        """Of which MIG profiles would an instance fit beside this?"""


class TimeSharing:
    """Thousandths of a GPU, by time-slicing or MPS.

    Args:
        shares_per_gpu: The replicas of a GPU, of which each holder gets one; None: any parts that
            add up.
    """

    whole = WHOLE_GPU_MILLI

    def __init__(self, shares_per_gpu: int | None = None) -> None:
        self._replica_milli = replica_milli(shares_per_gpu)
        # Thousandths are rounded down: 48 replicas of 20 are all there are, though 50 would add up.
        self._most = (shares_per_gpu or 1) * self._replica_milli

    def fits_shape(self, shape: Shape, in_use: int) -> bool:
        """Would the shape's part of one GPU fit beside this?"""
        return self.fits(self.share_milli(shape), in_use)

    def starts(self, shape: Shape, in_use: list[int]) -> tuple[int, ...]:  # noqa: ARG002
        """Thousandths begin nowhere."""
        return ()

    def share_milli(self, shape: Shape) -> int:
        """As many as it wants, or a replica."""
        is_any = self._replica_milli == WHOLE_GPU_MILLI
        return shape.gpu_share_milli if is_any or shape.is_whole else self._replica_milli

    def parts(self, shape: Shape, share: NodeShare) -> list[int] | None:  # noqa: ARG002
        """What does the share take of each of its GPUs? None: it has MIG instances."""
        return None if share.mig_starts else [share.share_milli] * len(share.gpu_ids)

    def fits(self, part: int, in_use: int) -> bool:
        """Is this part free?"""
        return in_use + part <= (WHOLE_GPU_MILLI if part == WHOLE_GPU_MILLI else self._most)

    def contains(self, in_use: int, part: int) -> bool:
        """Is this part in use?"""
        return part <= in_use

    def left_milli(self, in_use: int) -> int:
        """How much is left?"""
        return max(0, self._most - in_use)

    def profiles_left(self, in_use: int) -> frozenset[str]:  # noqa: ARG002
        """Of none: it is not partitioned."""
        return frozenset()


def replica_milli(shares_per_gpu: int | None) -> int:
    """How many thousandths of a GPU is one of so many replicas? None: all of it."""
    return WHOLE_GPU_MILLI // (shares_per_gpu or 1)


class MigInstances:
    """Memory slices of a GPU, where MIG allows an instance to begin.

    Args:
        gpu_type: Of the node's GPUs.
    """

    def __init__(self, gpu_type: str) -> None:
        self._gpu_type = gpu_type
        self._slices = slices_of(gpu_type)
        self.whole = _counted((1 << self._slices) - 1)

    def fits_shape(self, shape: Shape, in_use: int) -> bool:
        """Would the shape's part of one GPU fit beside this?"""
        return self._start(shape, in_use) is not None

    def starts(self, shape: Shape, in_use: list[int]) -> tuple[int, ...]:
        """Where does its instance begin on each of these GPUs, on which it fits?"""
        starts = (self._start(shape, counts) for counts in in_use)
        return tuple(start for start in starts if start is not None)

    def share_milli(self, shape: Shape) -> int:
        """What its instance is of this type of GPU."""
        if shape.mig_profile is None:
            return shape.gpu_share_milli
        return mig_share_milli(self._gpu_type, shape.mig_profile)

    def parts(self, shape: Shape, share: NodeShare) -> list[int] | None:
        """What does the share take of each of its GPUs? None: no instances can be there."""
        profile = mig_profile(self._gpu_type, shape.mig_profile)
        if profile is None or len(share.mig_starts) != len(share.gpu_ids):
            return None
        if not profile.allows(share.mig_starts):
            return None
        return [_counted(profile.slices_from(start)) for start in share.mig_starts]

    def fits(self, part: int, in_use: int) -> bool:
        """Is this part free?"""
        return not _slices_in(part) & _slices_in(in_use)

    def contains(self, in_use: int, part: int) -> bool:
        """Is this part in use?"""
        return not _slices_in(part) & ~_slices_in(in_use)

    def left_milli(self, in_use: int) -> int:
        """How much is left, as if any slices could be used together?"""
        left = self._slices - _slices_in(in_use).bit_count()
        return left * WHOLE_GPU_MILLI // self._slices

    def profiles_left(self, in_use: int) -> frozenset[str]:
        """Of which profiles would an instance fit beside this?"""
        return profiles_left(self._gpu_type, _slices_in(in_use))

    def _start(self, shape: Shape, in_use: int) -> int | None:
        if mig_profile(self._gpu_type, shape.mig_profile) is None or shape.mig_profile is None:
            return None
        return best_start(self._gpu_type, shape.mig_profile, _slices_in(in_use))


_COUNT_BITS = 16
"""Of the number that counts, for each slice, who has it."""


@cache
def _counted(slices: int) -> int:
    """These slices, as bits, each counted once."""
    return sum(1 << _COUNT_BITS * number for number in numbers_in(slices))


@cache
def _slices_in(counts: int) -> int:
    """The slices that anybody has, as bits."""
    slices, number = 0, 0
    while counts >> _COUNT_BITS * number:
        slices |= bool(counts >> _COUNT_BITS * number & (1 << _COUNT_BITS) - 1) << number
        number += 1
    return slices


def gpu_sharing_of(node: Node) -> GpuSharing:
    """How are this node's GPUs divided, if they are?"""
    return MigInstances(node.gpu_type) if node.is_mig else TimeSharing(node.shares_per_gpu)
