"""The sharing of a GPU by several workloads: time-slicing, MPS or MIG.

A part is an integer, and so is the used amount of a GPU: the sum of its parts, 0 when it is unused.
The sum may exceed the GPU where uses overlap: then nothing else fits. For MIG the integer holds a
counter for each slice.
"""

from functools import cache
from typing import Protocol

from gpu_core.decisions.catalog.mig import (
    best_start,
    mig_part,
    mig_profile,
    mig_share_milli,
    profiles_left,
    slices_of,
)
from gpu_core.decisions.model.bit_set import numbers_in
from gpu_core.decisions.model.cluster import Node, NodeShare
from gpu_core.decisions.model.workload import WHOLE_GPU_MILLI, Shape, replica_milli


class GpuSharing(Protocol):
    """The rules of one way to share a GPU."""

    @property
    def whole(self) -> int:
        """The whole GPU, as a part."""

    def fits_shape(self, shape: Shape, in_use: int) -> bool:
        """Does the shape's part of one GPU fit with this in use?"""

    def starts(self, shape: Shape, in_use: list[int]) -> tuple[int, ...]:
        """The slice at which its MIG instance starts on each of these GPUs, on which it fits."""

    def share_milli(self, shape: Shape) -> int:
        """How many thousandths of each GPU would the shape get?"""

    def exact_part(self, shape: Shape) -> tuple[int, int] | None:
        """The exact part of each GPU that it pays for; None: the thousandths are exact."""

    def parts(self, shape: Shape, share: NodeShare) -> list[int] | None:
        """The part of each of its GPUs that the share uses; None: there are no such parts."""

    def fits(self, part: int, in_use: int) -> bool:
        """Is this part free?"""

    def contains(self, in_use: int, part: int) -> bool:
        """Is this part in use?"""

    def left_milli(self, in_use: int) -> int:
        """How many thousandths are left? Approximate for MIG."""

    def profiles_left(self, in_use: int) -> frozenset[str]:
        """The MIG profiles that fit on the free part of the GPU."""


class TimeSharing:
    """Thousandths of a GPU, by time-slicing or MPS.

    Args:
        shares_per_gpu: The replicas of a GPU, one for each workload; None: parts of any size.
    """

    whole = WHOLE_GPU_MILLI

    def __init__(self, shares_per_gpu: int | None = None) -> None:
        self._replicas = shares_per_gpu or 1
        self._replica_milli = replica_milli(shares_per_gpu)
        # Thousandths are rounded down: 48 replicas of 20 fill a GPU, though 50 would add up.
        self._most = self._replicas * self._replica_milli

    def fits_shape(self, shape: Shape, in_use: int) -> bool:
        """Does the shape's part of one GPU fit with this in use?"""
        return self.fits(self.share_milli(shape), in_use)

    def starts(self, shape: Shape, in_use: list[int]) -> tuple[int, ...]:  # noqa: ARG002
        """Time-slicing has no start."""
        return ()

    def share_milli(self, shape: Shape) -> int:
        """As many as requested, or one replica."""
        is_any = self._replica_milli == WHOLE_GPU_MILLI
        return shape.gpu_share_milli if is_any or shape.is_whole else self._replica_milli

    def exact_part(self, shape: Shape) -> tuple[int, int] | None:
        """One of the replicas; None: the thousandths that were requested."""
        is_replica = self._replica_milli != WHOLE_GPU_MILLI and not shape.is_whole
        return (1, self._replicas) if is_replica else None

    def parts(self, shape: Shape, share: NodeShare) -> list[int] | None:  # noqa: ARG002
        """The part of each of its GPUs that the share uses; None: it has MIG instances."""
        return None if share.mig_starts else [share.share_milli] * len(share.gpu_ids)

    def fits(self, part: int, in_use: int) -> bool:
        """Is this part free?"""
        return in_use + part <= (WHOLE_GPU_MILLI if part == WHOLE_GPU_MILLI else self._most)

    def contains(self, in_use: int, part: int) -> bool:
        """Is this part in use?"""
        return part <= in_use

    def left_milli(self, in_use: int) -> int:
        """How many thousandths are left?"""
        return max(0, self._most - in_use)

    def profiles_left(self, in_use: int) -> frozenset[str]:  # noqa: ARG002
        """No MIG profile, as the GPU is not partitioned."""
        return frozenset()


class MigInstances:
    """Memory slices of a GPU, at the starts that MIG allows.

    Args:
        gpu_type: The type of the node's GPUs.
    """

    def __init__(self, gpu_type: str) -> None:
        self._gpu_type = gpu_type
        self._slices = slices_of(gpu_type)
        self.whole = _counted((1 << self._slices) - 1)

    def fits_shape(self, shape: Shape, in_use: int) -> bool:
        """Does the shape's part of one GPU fit with this in use?"""
        return self._start(shape, in_use) is not None

    def starts(self, shape: Shape, in_use: list[int]) -> tuple[int, ...]:
        """The slice at which its instance starts on each of these GPUs, on which it fits."""
        starts = (self._start(shape, counts) for counts in in_use)
        return tuple(start for start in starts if start is not None)

    def share_milli(self, shape: Shape) -> int:
        """The thousandths of this GPU type in its instance."""
        if shape.mig_profile is None:
            return shape.gpu_share_milli
        return mig_share_milli(self._gpu_type, shape.mig_profile)

    def exact_part(self, shape: Shape) -> tuple[int, int] | None:
        """The compute slices of its instance."""
        return None if shape.mig_profile is None else mig_part(self._gpu_type, shape.mig_profile)

    def parts(self, shape: Shape, share: NodeShare) -> list[int] | None:
        """The part of each of its GPUs that the share uses; None: no instance fits there."""
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
        """How many thousandths are left, if any slices could be combined?"""
        left = self._slices - _slices_in(in_use).bit_count()
        return left * WHOLE_GPU_MILLI // self._slices

    def profiles_left(self, in_use: int) -> frozenset[str]:
        """The MIG profiles that fit on the free slices of the GPU."""
        return profiles_left(self._gpu_type, _slices_in(in_use))

    def _start(self, shape: Shape, in_use: int) -> int | None:
        if mig_profile(self._gpu_type, shape.mig_profile) is None or shape.mig_profile is None:
            return None
        return best_start(self._gpu_type, shape.mig_profile, _slices_in(in_use))


_COUNT_BITS = 16
"""The width of each slice's counter."""


@cache
def _counted(slices: int) -> int:
    """The counters of a set of slices, each 1."""
    return sum(1 << _COUNT_BITS * number for number in numbers_in(slices))


@cache
def _slices_in(counts: int) -> int:
    """The set of slices in use."""
    slices, number = 0, 0
    while counts >> _COUNT_BITS * number:
        slices |= bool(counts >> _COUNT_BITS * number & (1 << _COUNT_BITS) - 1) << number
        number += 1
    return slices


def gpu_sharing_of(node: Node) -> GpuSharing:
    """The way in which this node shares its GPUs."""
    return MigInstances(node.gpu_type) if node.is_mig else TimeSharing(node.shares_per_gpu)
