"""Free resources of one node."""

from collections.abc import Iterator, Set
from itertools import islice, repeat
from math import inf

from gpu_core.decisions.model.bit_set import bits_of, numbers_in
from gpu_core.decisions.model.cluster import Node, NodeShare
from gpu_core.decisions.model.errors import InvalidInput
from gpu_core.decisions.model.measurements import NodeLoad
from gpu_core.decisions.model.workload import WHOLE_GPU_MILLI, Shape
from gpu_core.decisions.placement.filters import suits
from gpu_core.decisions.placement.gpu_sharing import gpu_sharing_of


class NodeInfo:
    """Free resources of one node: whole GPUs, parts of GPUs, CPU and memory.

    GPUs that the node does not list, or that are unhealthy, are not counted, nor is their use. A
    node may be overcommitted by other users, or because it shrank. What is left is then 0 or less,
    and nothing fits there.

    Args:
        node: The empty node.
    """

    __slots__ = (
        "_free",
        "_in_use",
        "_instances_held",
        "_position_of",
        "_sharing",
        "cpu_milli_left",
        "free_gpus",
        "holders",
        "measured",
        "memory_mib_left",
        "node",
        "usable_gpus",
    )

    def __init__(self, node: Node) -> None:
        self.node = node
        self._sharing = gpu_sharing_of(node)
        self._position_of = {
            gpu_id: position
            for position, gpu_id in enumerate(node.gpu_ids)
            if gpu_id not in node.unhealthy_gpu_ids
        }
        self._free = bits_of(self._position_of.values())
        """The set of unused GPUs, by position in `node.gpu_ids`."""
        self._in_use: dict[int, int] = {}
        """The part in use of each divided GPU, as its division counts. Those that are neither here
        nor untouched are in use whole."""
        self._instances_held: dict[str, int] = {}
        """Allocated instances of a static MIG partition, by profile."""
        self.free_gpus = self.usable_gpus = len(self._position_of)
        self.cpu_milli_left = inf if node.cpu_milli is None else node.cpu_milli
        self.memory_mib_left = inf if node.memory_mib is None else node.memory_mib
        self.holders = 0
        """The number of allocations on the node."""
        self.measured: NodeLoad | None = None
        """The load of its shared GPUs; None: not known, or it shares none."""

    def copy(self) -> "NodeInfo":
        """Returns a copy, for a what-if."""
        other = object.__new__(NodeInfo)
        other.node = self.node
        other._sharing = self._sharing
        other._position_of = self._position_of
        other._free = self._free
        other._in_use = self._in_use.copy()
        other._instances_held = self._instances_held.copy()
        other.free_gpus = self.free_gpus
        other.usable_gpus = self.usable_gpus
        other.cpu_milli_left = self.cpu_milli_left
        other.memory_mib_left = self.memory_mib_left
        other.holders = self.holders
        other.measured = self.measured
        return other

    @property
    def usable_ids(self) -> Set[str]:
        """The GPUs that the node lists and that are healthy."""
        return self._position_of.keys()

    @property
    def free_ids(self) -> tuple[str, ...]:
        """The unused GPUs, in the node's order."""
        return tuple(self.node.gpu_ids[position] for position in numbers_in(self._free))

    @property
    def held_milli(self) -> int:
        """How many thousandths of its GPUs are held? Of a node without MIG."""
        in_whole = self.usable_gpus - self.free_gpus - len(self._in_use)
        return in_whole * WHOLE_GPU_MILLI + sum(self._in_use.values())

    @property
    def parts_left_milli(self) -> frozenset[int]:
        """How much is left of each shared GPU that is not full?"""
        return frozenset(self._parts_left_milli())

    @property
    def profiles_left(self) -> frozenset[str]:
        """The MIG profiles that fit on the free part of a GPU in use."""
        if not self.node.is_mig:
            return frozenset()
        left = map(self._sharing.profiles_left, self._in_use.values())
        return frozenset().union(*left)

    def left_milli(self, places: int) -> tuple[int, ...]:
        """How much is left of each GPU, ascending? Padded with zeros.

        Args:
            places: The length of the result, at least the number of GPUs.
        """
        parts = sorted(self._parts_left_milli())
        untouched = (WHOLE_GPU_MILLI,) * self.free_gpus
        return (0,) * (places - len(parts) - self.free_gpus) + tuple(parts) + untouched

    def fits(self, shape: Shape) -> bool:
        """Does one node's part of the shape fit now?"""
        return suits(shape, self.node) and self.has_left(shape)

    def has_left(self, shape: Shape) -> bool:
        """Are enough resources left, on a node that suits?"""
        if self.cpu_milli_left < shape.cpu_milli or self.memory_mib_left < shape.memory_mib:
            return False
        if shape.mig_profile is not None and not self._has_instances(shape.mig_profile, shape):
            return False
        if self.free_gpus >= shape.gpu_count:
            return True
        return not shape.is_whole and len(self._divided(shape)) + self.free_gpus >= shape.gpu_count

    def share(self, shape: Shape, left_milli: int | None = None) -> NodeShare:
        """The GPUs that the shape gets, if it fits.

        First shared GPUs with the least left that is enough, then unused ones in the node's order.

        Args:
            shape: The shape to place.
            left_milli: Only shared GPUs with exactly this much left; None: any.
        """
        positions = [] if shape.is_whole else self._divided(shape, left_milli)[: shape.gpu_count]
        positions += islice(numbers_in(self._free), shape.gpu_count - len(positions))
        gpu_ids = tuple([self.node.gpu_ids[position] for position in positions])
        if shape.is_whole:
            return NodeShare(node=self.node.name, gpu_ids=gpu_ids)
        return NodeShare(
            node=self.node.name,
            gpu_ids=gpu_ids,
            share_milli=self._sharing.share_milli(shape),
            mig_starts=self._sharing.starts(shape, [self._in_use.get(p, 0) for p in positions]),
            exact_part=self._sharing.exact_part(shape),
        )

    def allocate(self, shape: Shape, share: NodeShare) -> None:
        """Allocates a share of the node.

        Raises:
            InvalidInput: Not all of it is free; nothing has changed.
        """
        if shape.cpu_milli > max(self.cpu_milli_left, 0):
            raise self._error("has not enough CPU left", shape.cpu_milli)
        if shape.memory_mib > max(self.memory_mib_left, 0):
            raise self._error("has not enough memory left", shape.memory_mib)
        if shape.mig_profile is not None and not self._has_instances(shape.mig_profile, shape):
            raise self._error("has too few free MIG instances", shape.mig_profile)
        whole = self._whole(share)
        if whole is None or whole & ~self._free:
            self._refuse_what_is_not_free(shape, share)
        self._observe(shape, share, whole)

    def observe(self, shape: Shape, share: NodeShare) -> None:
        """Counts a share that is in use, even where it exceeds the node."""
        self._observe(shape, share, self._whole(share))

    def release(self, shape: Shape, share: NodeShare) -> None:
        """Releases a share of the node.

        Raises:
            InvalidInput: Some of it is not in use; nothing has changed.
        """
        whole = self._whole(share)
        if whole is None or whole & (self._free | bits_of(self._in_use)):
            self._release_parts(shape, share)
        else:
            self._free |= whole
            self.free_gpus += whole.bit_count()
        self._count_instances(shape, share, -1)
        self.cpu_milli_left += shape.cpu_milli
        self.memory_mib_left += shape.memory_mib
        self.holders -= 1

    def _parts_left_milli(self) -> Iterator[int]:
        left = map(self._sharing.left_milli, self._in_use.values())
        return (milli for milli in left if milli > 0)

    def _divided(self, shape: Shape, left_milli: int | None = None) -> list[int]:
        """The shared GPUs that the shape fits on, the least left first."""
        left_of, fits_shape = self._sharing.left_milli, self._sharing.fits_shape
        enough = [
            (left_of(in_use), position)
            for position, in_use in self._in_use.items()
            if fits_shape(shape, in_use)
        ]
        return [
            position
            for left, position in sorted(enough)
            if left_milli is None or left == left_milli
        ]

    def _refuse_what_is_not_free(self, shape: Shape, share: NodeShare) -> None:
        if not _is_whole(share) and self._sharing.parts(shape, share) is None:
            raise self._error("has no such parts of GPUs", share.mig_starts or share.share_milli)
        parts = self._parts(shape, share)
        if len({position for position, _ in parts}) < len(parts):
            raise self._error("is to give the same GPU twice", share.gpu_ids)
        for position, part in parts:
            if not self._sharing.fits(part, self._in_use_of(position)):
                raise self._error("has not all of these GPUs free", share.gpu_ids)

    def _observe(self, shape: Shape, share: NodeShare, whole: int | None) -> None:
        if whole is None or whole & ~self._free:
            for position, part in self._parts(shape, share):
                self._set_in_use(position, self._in_use_of(position) + part)
        else:
            self._free ^= whole
            self.free_gpus -= whole.bit_count()
        self._count_instances(shape, share, 1)
        self.cpu_milli_left -= shape.cpu_milli
        self.memory_mib_left -= shape.memory_mib
        self.holders += 1

    def _has_instances(self, profile: str, shape: Shape) -> bool:
        """Are enough instances of a static MIG partition left?"""
        there = self.node.mig_instances
        if there is None:
            return True
        return there.get(profile, 0) - self._instances_held.get(profile, 0) >= shape.gpu_count

    def _count_instances(self, shape: Shape, share: NodeShare, sign: int) -> None:
        """Counts MIG instances; a share of an earlier partition is ignored."""
        if shape.mig_profile is None or not share.mig_starts:
            return
        held = self._instances_held.get(shape.mig_profile, 0)
        self._instances_held[shape.mig_profile] = held + sign * len(share.gpu_ids)

    def _release_parts(self, shape: Shape, share: NodeShare) -> None:
        left: dict[int, int] = {}
        for position, part in self._parts(shape, share):
            in_use = left.get(position, self._in_use_of(position))
            if not self._sharing.contains(in_use, part):
                raise self._error("has not all of these GPUs in use", share.gpu_ids)
            left[position] = in_use - part
        for position, in_use in left.items():
            self._set_in_use(position, in_use)

    def _whole(self, share: NodeShare) -> int | None:
        """The set of usable GPUs of a share. None: they are parts, or one is named twice."""
        if not _is_whole(share):
            return None
        positions = [self._position_of[g] for g in share.gpu_ids if g in self._position_of]
        bits = bits_of(positions)
        return bits if bits.bit_count() == len(positions) else None

    def _parts(self, shape: Shape, share: NodeShare) -> list[tuple[int, int]]:
        """The part of each usable GPU that the share uses, by position.

        Invalid parts, such as those of an earlier partition of the node, count as whole GPUs:
        nothing fits next to unknown use.
        """
        known = None if _is_whole(share) else self._sharing.parts(shape, share)
        parts = repeat(self._sharing.whole) if known is None else known
        return [
            (self._position_of[gpu_id], part)
            for gpu_id, part in zip(share.gpu_ids, parts, strict=False)
            if gpu_id in self._position_of
        ]

    def _in_use_of(self, position: int) -> int:
        if self._free >> position & 1:
            return 0
        return self._in_use.get(position, self._sharing.whole)

    def _set_in_use(self, position: int, in_use: int) -> None:
        was_free = bool(self._free >> position & 1)
        if was_free == bool(in_use):
            self._free ^= 1 << position
            self.free_gpus += -1 if was_free else 1
        if in_use and in_use != self._sharing.whole:
            self._in_use[position] = in_use
        else:
            self._in_use.pop(position, None)

    def _error(self, problem: str, got: object) -> InvalidInput:
        return InvalidInput(f"nodes.{self.node.name}", problem, got=got)


def _is_whole(share: NodeShare) -> bool:
    return share.share_milli == WHOLE_GPU_MILLI and not share.mig_starts
