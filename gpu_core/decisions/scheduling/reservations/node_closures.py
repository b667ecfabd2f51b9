"""The nodes that the calendar closes, and the times."""

from collections.abc import Iterable, Sequence
from datetime import datetime, timedelta
from typing import NamedTuple

from gpu_core.decisions.model.cluster import Node
from gpu_core.decisions.model.units import epoch_s
from gpu_core.decisions.policy.calendar import CalendarPolicy
from gpu_core.decisions.scheduling.reservations.calendar import Closure, windows_between

_HORIZON = timedelta(days=35)
"""Closures that begin later are ignored: longer runs are rare."""


class NodeClosure(NamedTuple):
    """Between these times only this team may use the node; None: no team."""

    node: str
    from_s: float
    until_s: float
    team: str | None


def node_closures(
    policy: CalendarPolicy, nodes: Sequence[Node], now: datetime
) -> tuple[NodeClosure, ...]:
    """The nodes that are closed within the horizon, each with its times.

    A closure of a number of GPUs takes whole nodes, by name, until they have that many.
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
