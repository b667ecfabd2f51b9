"""The order in which nodes are tried, updated incrementally."""

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from itertools import chain
from math import inf
from typing import Protocol

from gpu_core.decisions.catalog.mig import MIG_PROFILES, plain_profile
from gpu_core.decisions.model.cluster import NodeShare
from gpu_core.decisions.model.workload import WHOLE_GPU_MILLI, Shape
from gpu_core.decisions.placement.bucket_index import BucketIndex
from gpu_core.decisions.placement.node_info import NodeInfo
from gpu_core.decisions.policy.placement import Strategy

_CPU_STEP_MILLI = 4_000
"""CPU is indexed in steps, so that few nodes are tried that cannot hold it."""
_PROFILE_NUMBERS = {
    name: number
    for number, name in enumerate(sorted({name for p in MIG_PROFILES.values() for name in p}))
}


class PlacementOrder(Protocol):
    """The order of nodes under one strategy."""

    def set_workload_mix(self, mix: Mapping[Shape, float]) -> None:
        """Sets the expected mix of requests."""

    def changed(self, node: int, node_info: NodeInfo) -> None:
        """Reads the free resources of a node again."""

    def candidates(self, shape: Shape, among: int) -> Iterator[tuple[float, int]]:
        """The nodes that may fit, with their rank, least first, ties by position."""

    def share(self, shape: Shape, node: int, node_info: NodeInfo) -> NodeShare:
        """The GPUs of the node that the shape gets, if it fits."""


class NodeOrder:
    """Nodes in the order of a strategy that depends on free resources only.

    `changed` must follow each change of a node; other nodes are not read again. A node is read when
    it is asked for next: a pool that is loaded changes each node many times before.

    Args:
        strategy: Which node comes first.
        node_infos: The nodes; a node is known by its position among them.
    """

    def __init__(self, strategy: Strategy, node_infos: Sequence[NodeInfo]) -> None:
        rank = _RANKS.get(strategy)
        self._free = _Index(node_infos, _free_gpus)
        self._parts = _Index(node_infos, _parts_left_milli)
        self._profiles = _Index(node_infos, _profiles_left)
        self._cpu = _Index(node_infos, _cpu_steps)
        self._ranked = None if rank is None else _Index(node_infos, rank)
        kept = [self._free]
        # Resources that no node counts never change.
        if any(node_info.node.is_shareable or node_info.node.is_mig for node_info in node_infos):
            kept += [self._parts, self._profiles]
        if any(node_info.node.cpu_milli is not None for node_info in node_infos):
            kept.append(self._cpu)
        self._kept = kept if self._ranked is None else [*kept, self._ranked]
        self._unread: dict[int, NodeInfo] = {}

    def set_workload_mix(self, mix: Mapping[Shape, float]) -> None:
        """The mix makes no difference here."""

    def share(self, shape: Shape, node: int, node_info: NodeInfo) -> NodeShare:  # noqa: ARG002
        """The GPUs of the node that the shape gets, if it fits."""
        return node_info.share(shape)

    def changed(self, node: int, node_info: NodeInfo) -> None:
        """Reads the free resources of a node again."""
        self._unread[node] = node_info

    def candidates(self, shape: Shape, among: int) -> Iterator[tuple[float, int]]:
        """The nodes that may fit, best first, ties by position.

        No node that fits is missing; some may not fit.

        Args:
            shape: The shape to place.
            among: The set of nodes that suit it.

        Yields:
            The rank, less is better, and the node.
        """
        self._refresh()
        if shape.cpu_milli:
            among &= self._cpu.buckets.at_least(shape.cpu_milli // _CPU_STEP_MILLI)
        if self._ranked is not None:
            return self._ranked.buckets.from_bucket(-inf, among & self._may_fit(shape))
        if shape.is_whole or not shape.gpu_count:
            return self._free.buckets.from_bucket(shape.gpu_count, among)
        return self._tightest(shape, among)

    def _refresh(self) -> None:
        for node, node_info in self._unread.items():
            for index in self._kept:
                index.update(node, node_info)
        self._unread.clear()

    def _may_fit(self, shape: Shape) -> int:
        if shape.is_whole or not shape.gpu_count:
            return self._free.buckets.at_least(shape.gpu_count)
        return self._free.buckets.at_least(1) | self._shared(shape)

    def _shared(self, shape: Shape) -> int:
        """The nodes with a shared GPU that fits the shape's part of one."""
        if shape.mig_profile is None:
            return self._parts.buckets.at_least(shape.gpu_share_milli)
        return self._profiles.buckets.at(_PROFILE_NUMBERS.get(plain_profile(shape.mig_profile), -1))

    def _tightest(self, shape: Shape, among: int) -> Iterator[tuple[float, int]]:
        """By what is left of the GPU to share, then by unused GPUs."""
        free = self._free.buckets
        if shape.gpu_count > 1:
            return free.from_bucket(0, among & self._may_fit(shape))
        # Whether an instance fits depends on which slices are left, not on how many.
        least_milli = 1 if shape.mig_profile is not None else shape.gpu_share_milli
        shared = self._parts.buckets.from_bucket(least_milli, among & self._shared(shape))
        return chain(
            shared, ((gpus * WHOLE_GPU_MILLI, node) for gpus, node in free.from_bucket(1, among))
        )


class _Index:
    """Nodes by some of their numbers, with the numbers last read."""

    def __init__(
        self, node_infos: Sequence[NodeInfo], buckets_of: Callable[[NodeInfo], Collection[float]]
    ) -> None:
        self.buckets = BucketIndex()
        self._buckets_of = buckets_of
        self._seen = [buckets_of(node_info) for node_info in node_infos]
        for node, seen in enumerate(self._seen):
            for bucket in seen:
                self.buckets.add(bucket, node)

    def update(self, node: int, node_info: NodeInfo) -> None:
        before, now = self._seen[node], self._buckets_of(node_info)
        if now == before:
            return
        self._seen[node] = now
        for bucket in before:
            self.buckets.remove(bucket, node)
        for bucket in now:
            self.buckets.add(bucket, node)


def _free_gpus(node_info: NodeInfo) -> Collection[float]:
    return (node_info.free_gpus,)


def _parts_left_milli(node_info: NodeInfo) -> Collection[float]:
    return node_info.parts_left_milli


def _profiles_left(node_info: NodeInfo) -> Collection[float]:
    return frozenset(map(_PROFILE_NUMBERS.__getitem__, node_info.profiles_left))


def _cpu_steps(node_info: NodeInfo) -> Collection[float]:
    left = node_info.cpu_milli_left
    # Infinity has no steps.
    return (left if left == inf else left // _CPU_STEP_MILLI,)


def _load(node_info: NodeInfo) -> Collection[float]:
    if not node_info.usable_gpus:
        return (1.0,)
    if node_info.measured is None:
        return (1 - node_info.free_gpus / node_info.usable_gpus,)
    # What came since the measurement is not part of it, so that one plan does not load one node.
    later_milli = max(0, node_info.held_milli - node_info.measured.held_milli)
    later = later_milli / (node_info.usable_gpus * WHOLE_GPU_MILLI)
    return (min(1.0, node_info.measured.load_ratio + later),)


def _holders(node_info: NodeInfo) -> Collection[float]:
    return (node_info.holders,)


def _fewest_in_use(node_info: NodeInfo) -> Collection[float]:
    return (-node_info.free_gpus,)


_RANKS: Mapping[Strategy, Callable[[NodeInfo], Collection[float]]] = {
    Strategy.LEAST_LOADED: _load,
    Strategy.ROUND_ROBIN: _holders,
    Strategy.SPREAD: _fewest_in_use,
}
