"""The nodes of a replay: those that are there, on their way, or could still come."""

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace

from gpu_core.decisions.model.cluster import Node, Placement
from gpu_core.decisions.model.virtual_nodes import planned_kind
from gpu_core.decisions.simulation.cluster.trace import NodeEvent
from gpu_core.decisions.spot.node_avoidance import zone_of

_AT_ONCE = 10
"""A plan may use this many nodes of a kind more than exist or are on their way, as the worker does
with a NodePool. Nodes that were requested make room for more."""


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeStay:
    """One node from when it was asked for until it was gone: what a provider bills."""

    node: Node
    from_s: float
    until_s: float


class Nodes:
    """The nodes at one moment of a replay.

    A planned node (`Node.is_planned`) comes some time after something was placed on it, and once
    nothing has run on it for long enough it is only planned again. Others stay.

    Args:
        idle_s: How long a node that came so stays without work; None: it stays.
        max_gpus: GPUs that may be there or on their way at once; None: no cap.
    """

    def __init__(
        self,
        nodes: Iterable[Node],
        *,
        start_s: float = 0.0,
        idle_s: float | None = None,
        max_gpus: int | None = None,
    ) -> None:
        self._start_s = start_s
        self._idle_s = idle_s
        self._max_gpus = max_gpus
        self._nodes = {node.name: node for node in nodes}
        self._asked_s = {node.name: 0.0 for node in self._nodes.values() if not node.is_planned}
        """Since when the nodes that are there or on their way are paid for."""
        self._ready_s: dict[str, float] = {}
        """The moments at which the nodes on their way will be there."""
        self._holders: Counter[str] = Counter()
        self._idle_since_s: dict[str, float] = {}
        """Of the nodes that came because something was placed on them."""
        self._stays: list[NodeStay] = []
        self.has_changed = any(node.is_planned for node in self._nodes.values())
        """Are the nodes to plan with others than when that was last asked?"""
        self._plan_with: tuple[Node, ...] | None = None
        """Results that were computed since the last change."""

    def take_changed(self) -> bool:
        """`has_changed`, and from now on it means: than now."""
        has_changed, self.has_changed = self.has_changed, False
        return has_changed

    def all(self) -> Sequence[Node]:
        """All that are there or could come."""
        return tuple(self._nodes.values())

    def zone(self, placement: Placement) -> str | None:
        """The zone of the first node of a placement; None: its labels do not say."""
        return zone_of(self._nodes[placement.shares[0].node]) if placement.shares else None

    def to_plan_with(self) -> tuple[Node, ...]:
        """The nodes that exist or are on their way, and of each kind a few that may still come."""
        if self._plan_with is None:
            self._plan_with = tuple(self._worth_planning_with())
        return self._plan_with

    def _worth_planning_with(self) -> Iterator[Node]:
        gpus_left = self._gpus_left()
        planned: Counter[str | None] = Counter()
        for node in self._nodes.values():
            if node.name not in self._asked_s:
                kind = planned_kind(node.name)
                planned[kind] += 1
                most = _AT_ONCE if gpus_left is None else min(_AT_ONCE, gpus_left // _gpus(node))
                if planned[kind] > most:
                    continue
            yield node

    def _changes(self) -> None:
        self.has_changed = True
        self._plan_with = None

    def change(self, events: Iterable[NodeEvent], now_s: float) -> None:
        """Nodes come, change or go, with what runs on them."""
        for event in events:
            self._changes()
            name = event.name
            if event.node is None:
                self._end_stay(name, now_s)
                self._nodes.pop(name, None)
                continue
            is_there = name in self._asked_s and name not in self._ready_s
            self._nodes[name] = replace(event.node, is_planned=False) if is_there else event.node
            if not event.node.is_planned:
                self._asked_s.setdefault(name, now_s)

    def hold(self, placement: Placement, now_s: float) -> float | None:
        """The moment at which all nodes of these GPUs are there, for a job that gets them.

        Returns:
            None: not at all, because the nodes that would have to come are over the cap. Nothing
            was changed.
        """
        names = [share.node for share in placement.shares]
        missing = [name for name in names if name not in self._asked_s]
        gpus_left = self._gpus_left()
        if gpus_left is not None and sum(_gpus(self._nodes[name]) for name in missing) > gpus_left:
            return None
        for name in missing:
            self._asked_s[name] = now_s
            self._ready_s[name] = now_s + self._start_s
            self._changes()
        for name in names:
            self._holders[name] += 1
            self._idle_since_s.pop(name, None)
        return max([self._ready_s.get(name, now_s) for name in names], default=now_s)

    def release(self, placement: Placement, now_s: float) -> list[tuple[str, float]]:
        """A job released these GPUs.

        Returns:
            The nodes that are idle now, each with when it goes if that stays so.
        """
        idle = []
        for name in [share.node for share in placement.shares]:
            self._holders[name] -= 1
            if self._holders[name] or self._idle_s is None or name not in self._asked_s:
                continue
            if planned_kind(name) is not None:
                self._idle_since_s[name] = now_s
                idle.append((name, now_s + self._idle_s))
        return idle

    def arrive(self, name: str, now_s: float) -> None:
        """The moment has come at which this node should be there. It may have gone meanwhile."""
        if self._ready_s.get(name, now_s + 1) <= now_s:
            del self._ready_s[name]
            self._nodes[name] = replace(self._nodes[name], is_planned=False)
            self._changes()

    def let_go(self, name: str, now_s: float) -> None:
        """The moment has come at which this node goes if it has been idle for long enough."""
        since_s = self._idle_since_s.get(name)
        if self._idle_s is None or since_s is None or since_s + self._idle_s > now_s:
            return
        self._end_stay(name, now_s)
        self._nodes[name] = replace(self._nodes[name], is_planned=True)
        self._changes()

    def stays(self, end_s: float) -> tuple[NodeStay, ...]:
        """All stays, by their beginning; those that last end with the replay."""
        for name in list(self._asked_s):
            self._end_stay(name, end_s)
        return tuple(sorted(self._stays, key=lambda stay: (stay.from_s, stay.node.name)))

    def _end_stay(self, name: str, now_s: float) -> None:
        asked_s = self._asked_s.pop(name, None)
        if asked_s is not None:
            node = self._nodes[name]
            self._stays.append(NodeStay(node=node, from_s=asked_s, until_s=now_s))
        self._ready_s.pop(name, None)
        self._idle_since_s.pop(name, None)

    def _gpus_left(self) -> int | None:
        if self._max_gpus is None:
            return None
        return self._max_gpus - sum(_gpus(self._nodes[name]) for name in self._asked_s)


def _gpus(node: Node) -> int:
    return len(node.gpu_ids)
