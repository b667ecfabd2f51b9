"""Which nodes the calendar closes, and when."""

from collections.abc import Iterable, Sequence
from datetime import datetime, timedelta
from typing import NamedTuple

from gpu_core.decisions.model.cluster import Node
from gpu_core.decisions.model.units import epoch_s
from gpu_core.decisions.policy.calendar import CalendarPolicy
from gpu_core.decisions.scheduling.calendar import Closure, windows_between

_HORIZON = timedelta(days=35)
"""Closures that begin later are not looked at yet: longer runs than this are rare."""


class NodeClosure(NamedTuple):
    """Between these moments the node is there for this team only; None: for nobody."""

    node: str
    from_s: float
    until_s: float
    team: str | None


def node_closures(
    policy: CalendarPolicy, nodes: Sequence[Node], now: datetime
) -> tuple[NodeClosure, ...]:
    """Which nodes are closed, and when, as far as it matters now?

    A closure of some GPUs of a type takes whole nodes, first by name, until they have so many.
    """
    if not policy.closures:
        return ()
    by_name = sorted(nodes, key=lambda node: node.name)
    return tuple(
        NodeClosure(name, epoch_s(closure.starts_at), epoch_s(closure.ends_at), closure.for_team)
        for closure in windows_between(policy, now, now + _HORIZON)
        for name in _nodes_of(closure, by_name)
    )


def _nodes_of(closure: Closure, nodes: Iterable[Node]) -> list[str]:
    if closure.nodes:
        return [node.name for node in nodes if node.name in closure.nodes]
    names: list[str] = []
    missing = closure.gpus or 0
    for node in nodes:
        if missing > 0 and node.flavor == closure.flavor:
            names.append(node.name)
            missing -= len(node.gpu_ids)
    return names
