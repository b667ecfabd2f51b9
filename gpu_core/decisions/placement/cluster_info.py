"""Free resources of all nodes, and where a shape fits."""

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import reduce
from operator import or_

from gpu_core.decisions.model.bit_set import bits_of, numbers_in
from gpu_core.decisions.model.cluster import Flavor, Node, Placement
from gpu_core.decisions.model.errors import InvalidInput
from gpu_core.decisions.model.measurements import NodeLoad
from gpu_core.decisions.model.workload import Shape, replica_milli
from gpu_core.decisions.placement.diagnostics import NeverFits, NotPlaced, diagnose, never_fits
from gpu_core.decisions.placement.filters import (
    is_avoided,
    is_large_enough,
    needs_no_node,
    suits,
)
from gpu_core.decisions.placement.fragmentation import LeastLossOrder
from gpu_core.decisions.placement.node_classes import NodeClasses
from gpu_core.decisions.placement.node_info import NodeInfo
from gpu_core.decisions.placement.order import NodeOrder, PlacementOrder
from gpu_core.decisions.placement.topology_groups import Group, group_key, preference
from gpu_core.decisions.policy.placement import Strategy

Allows = Callable[[str], bool]
"""Returns whether the node of this name may be used."""


@dataclass(frozen=True, slots=True)
class _Tier:
    """Groups of equal preference."""

    groups: tuple[tuple[Flavor, int], ...]
    """Each with its node set."""
    node_set: int
    """The union of the groups' node sets."""


@dataclass(frozen=True, slots=True)
class _Fit:
    """The nodes that suit a shape, regardless of allocations."""

    groups: tuple[Group, ...]
    tiers: tuple[_Tier, ...]
    """In the order in which they are tried: existing nodes before planned ones, then by preference
    of GPU type, then preferred nodes."""
    eligible: int
    """The node set of all groups."""
    names: tuple[str, ...]
    """The same nodes, by name."""


class ClusterInfo:
    """Free resources of all nodes.

    Read or copy the `NodeInfo` of one node by its name; allocate, observe and release through this
    class only, which keeps the nodes in the order of the strategy.

    Args:
        nodes: The nodes of the empty cluster, in any order.
        strategy: Which node comes first among those that fit.
    """

    def __init__(self, nodes: Sequence[Node], strategy: Strategy = Strategy.BEST_FIT) -> None:
        self._nodes = tuple(sorted(nodes, key=lambda node: node.name))
        # A node is known by its position here, so that the least of several is the first by name.
        self._node_infos = [NodeInfo(node) for node in self._nodes]
        self._position_of = {node.name: position for position, node in enumerate(self._nodes)}
        self._node_classes = NodeClasses(self._node_infos)
        self._planned = bits_of(
            [position for position, node in enumerate(self._nodes) if node.is_planned]
        )
        self._order: PlacementOrder = (
            LeastLossOrder(self._node_infos, self._node_classes)
            if strategy is Strategy.FRAGMENTATION_AWARE
            else NodeOrder(strategy, self._node_infos)
        )
        self._fits: dict[Shape, _Fit] = {}
        self._group_numbers: dict[Shape, Mapping[str, int]] = {}
        self._named: dict[int, tuple[str, ...]] = {}
        self._never: dict[Shape, NeverFits | None] = {}

    def __getitem__(self, node: str) -> NodeInfo:
        return self._node_infos[self._position_of[node]]

    def __contains__(self, node: str) -> bool:
        return node in self._position_of

    def find(
        self,
        shape: Shape,
        *,
        flavors: Collection[Flavor] | None = None,
        allows: Allows | None = None,
    ) -> Placement | None:
        """The placement of the shape on what is free now; None: it fits nowhere.

        Existing nodes come before planned ones, then the preferred GPU type, preferred nodes, the
        order of the strategy, and the name. A gang gets all its nodes in one group, or nothing.

        Args:
            shape: The shape to place.
            flavors: The flavors that it may use; None: all.
            allows: Which nodes it may use; None: all.
        """
        if needs_no_node(shape):
            return Placement(gpu_type=None, capacity_type="on-demand", shares=())
        if not shape.gpu_count:
            flavors = None
        for tier in self._fit(shape).tiers:
            choices = [
                choice
                for node_set in _choices(shape, tier, flavors)
                if (choice := self._choose(shape, node_set, allows)) is not None
            ]
            if choices:
                return self._placement(shape, min(choices)[1])
        return None

    def set_workload_mix(self, mix: Mapping[Shape, float]) -> None:
        """Sets the expected mix of requests, in any unit, for strategies that use it.

        The initial mix is empty.
        """
        self._order.set_workload_mix(mix)

    def set_loads(self, loads: Mapping[str, NodeLoad]) -> None:
        """Sets how loaded nodes are, by name; those with whole GPUs or MIG do not depend on it.

        Initially no load is known.
        """
        for position, node_info in enumerate(self._node_infos):
            node = node_info.node
            load = loads.get(node.name) if node.is_shareable and not node.is_mig else None
            if load != node_info.measured:
                node_info.measured = load
                self._order.changed(position, node_info)

    def observe(self, shape: Shape, placement: Placement) -> None:
        """Counts an allocation that exists, even where it exceeds the node.

        `allocate` is for decisions. Shares on unknown nodes are ignored.
        """
        for share in placement.shares:
            position = self._position_of.get(share.node)
            if position is not None:
                self._node_infos[position].observe(shape, share)
                self._order.changed(position, self._node_infos[position])

    def allocate(self, shape: Shape, placement: Placement) -> None:
        """Allocates the placement. Shares on unknown nodes are ignored.

        Raises:
            InvalidInput: Not all of it is free; nothing has changed.
        """
        done = 0
        try:
            for share in placement.shares:
                position = self._position_of.get(share.node)
                if position is not None:
                    self._node_infos[position].allocate(shape, share)
                    self._order.changed(position, self._node_infos[position])
                done += 1
        except InvalidInput:
            self._release(shape, placement, done)
            raise

    def release(self, shape: Shape, placement: Placement) -> None:
        """Releases the placement.

        Raises:
            InvalidInput: Some of it is not in use.
        """
        self._release(shape, placement, len(placement.shares))

    def groups(self, shape: Shape) -> tuple[Group, ...]:
        """The groups of nodes that could hold the shape if they were empty."""
        return self._fit(shape).groups

    def group_numbers(self, shape: Shape) -> Mapping[str, int]:
        """The number of each node's group among `groups`, by the node's name.

        Nodes of no group are missing.
        """
        numbers = self._group_numbers.get(shape)
        if numbers is None:
            groups = enumerate(self.groups(shape))
            numbers = {node: number for number, group in groups for node in group.nodes}
            self._group_numbers[shape] = numbers
        return numbers

    def with_room(self, shape: Shape) -> Iterator[str]:
        """The nodes on which one node's part of the shape fits now. Some may come twice."""
        for _, position in self._order.candidates(shape, self._fit(shape).eligible):
            node_info = self._node_infos[position]
            if node_info.has_left(shape):
                yield node_info.node.name

    def eligible(self, shape: Shape) -> tuple[str, ...]:
        """The nodes that could hold a part of the shape if they were empty, by name."""
        return self._fit(shape).names

    def overlaps(self, one: Shape, other: Shape) -> bool:
        """Could both shapes use the same node?"""
        return one == other or bool(self._fit(one).eligible & self._fit(other).eligible)

    def never_fits(self, shape: Shape) -> NeverFits | None:
        """The reason why the shape never fits this cluster; None: it could."""
        if self._fit(shape).groups:
            return None
        if shape not in self._never:
            self._never[shape] = never_fits(shape, self._nodes)
        return self._never[shape]

    def diagnose(self, shape: Shape) -> NotPlaced:
        """How many suitable GPUs exist, and are free, for a shape that does not fit now?"""
        return diagnose(self._heeded(shape), self._node_infos)

    def _choose(
        self, shape: Shape, among: int, allows: Allows | None
    ) -> tuple[float, list[int]] | None:
        """The best nodes among these, and the sum of their ranks."""
        total = 0.0
        chosen: list[int] = []
        for badness, position in self._order.candidates(shape, among):
            node_info = self._node_infos[position]
            if not node_info.has_left(shape) or position in chosen:
                continue
            if allows is not None and not allows(node_info.node.name):
                continue
            total += badness
            chosen.append(position)
            if len(chosen) == shape.nodes:
                return total, chosen
        return None

    def _placement(self, shape: Shape, positions: list[int]) -> Placement:
        node = self._nodes[positions[0]]
        return Placement(
            gpu_type=node.gpu_type if shape.gpu_count else None,
            capacity_type=node.capacity_type,
            shares=tuple(
                self._order.share(shape, position, self._node_infos[position])
                for position in positions
            ),
        )

    def _release(self, shape: Shape, placement: Placement, count: int) -> None:
        for share in placement.shares[:count]:
            position = self._position_of.get(share.node)
            if position is not None:
                self._node_infos[position].release(shape, share)
                self._order.changed(position, self._node_infos[position])

    def _fit(self, shape: Shape) -> _Fit:
        fit = self._fits.get(shape)
        if fit is None:
            fit = self._new_fit(shape)
            if shape.avoided_nodes and not fit.groups:
                # All nodes are avoided: a failed node is better than none.
                fit = self._fit(shape._replace(avoided_nodes=frozenset()))
            self._fits[shape] = fit
        return fit

    def _heeded(self, shape: Shape) -> Shape:
        """The shape without avoided nodes where avoiding them leaves no node."""
        plain = shape._replace(avoided_nodes=frozenset())
        return plain if self._fit(shape) is self._fit(plain) else shape

    def _new_fit(self, shape: Shape) -> _Fit:
        members: dict[tuple[Flavor, str, str], int] = {}
        by_replica: dict[int, int] = {}
        for node_class in self._node_classes.of(shape):
            node = node_class.example
            if suits(shape, node) and is_large_enough(shape, node, node_class.usable_gpus):
                key = group_key(shape, node)
                members[key] = members.get(key, 0) | self._not_avoided(shape, node_class.node_set)
                milli = replica_milli(node.shares_per_gpu)
                by_replica[milli] = by_replica.get(milli, 0) | node_class.node_set
        groups = []
        sets: dict[int, list[tuple[Flavor, int]]] = {}
        for (flavor, _, _), node_set in sorted(members.items()):
            if node_set.bit_count() >= shape.nodes:
                wanted = preference(shape, flavor.gpu_type)
                groups.append(Group(wanted, flavor, self._names(node_set)))
                sets.setdefault(wanted, []).append((flavor, node_set))
        tiers = [_tier(sets[wanted]) for wanted in sorted(sets)]
        eligible = _union(tier.node_set for tier in tiers)
        if len(by_replica) > 1 and not shape.is_whole:
            # The smallest replica that is enough: the run is charged for all of it.
            sizes = sorted(by_replica)
            tiers = [
                part
                for tier in tiers
                # A gang may also need nodes of several sizes.
                for part in (
                    *(_among(tier, by_replica[milli]) for milli in sizes),
                    *((tier,) if shape.nodes > 1 else ()),
                )
            ]
        if eligible & self._planned:
            tiers = [*(_among(tier, ~self._planned) for tier in tiers), *tiers]
        if shape.preferred_nodes:
            preferred = self._node_set(shape.preferred_nodes)
            tiers = [part for tier in tiers for part in (_among(tier, preferred), tier)]
        return _Fit(tuple(groups), tuple(tiers), eligible, self._names(eligible))

    def _not_avoided(self, shape: Shape, node_set: int) -> int:
        """The nodes of the set that the shape does not avoid."""
        if not shape.avoided_nodes:
            return node_set
        kept = (n for n in numbers_in(node_set) if not is_avoided(shape, self._nodes[n]))
        return bits_of(kept)

    def _node_set(self, names: Collection[str]) -> int:
        """The set of known nodes of these names."""
        return bits_of([self._position_of[name] for name in names if name in self._position_of])

    def _names(self, node_set: int) -> tuple[str, ...]:
        """The names of the node set, ascending; cached, as many shapes share a set."""
        names = self._named.get(node_set)
        if names is None:
            names = tuple(self._nodes[position].name for position in numbers_in(node_set))
            self._named[node_set] = names
        return names


def _choices(shape: Shape, tier: _Tier, flavors: Collection[Flavor] | None) -> list[int]:
    """The node sets, one of which must hold the whole shape."""
    if flavors is None and shape.nodes == 1:
        return [tier.node_set]
    sets = [node_set for flavor, node_set in tier.groups if flavors is None or flavor in flavors]
    return sets if shape.nodes > 1 else [_union(sets)]


def _tier(groups: Sequence[tuple[Flavor, int]]) -> _Tier:
    return _Tier(tuple(groups), _union(node_set for _, node_set in groups))


def _among(tier: _Tier, node_set: int) -> _Tier:
    return _tier([(flavor, members & node_set) for flavor, members in tier.groups])


def _union(sets: Iterable[int]) -> int:
    return reduce(or_, sets, 0)
