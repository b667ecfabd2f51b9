"""Nodes that should come or go, published where a provisioner or a person sees it.

An event of Prefect's, for automations, where a hint is new: its numbers move in every cycle.
"""

import json
import logging
from collections.abc import Iterable, Mapping
from dataclasses import asdict
from datetime import datetime

from prefect.events import emit_event

from gpu_core.decisions.model.cluster import Allocation, Node
from gpu_core.decisions.scheduling.plan.plan import Command, ScaleDown, ScaleHint, ScaleUp

_log = logging.getLogger("prefect.gpu.scale")


class ScaleHints:
    """The hints of one pool.

    Args:
        pool: The pool's name.
    """

    def __init__(self, pool: str) -> None:
        self._pool = pool
        self._idle_since: dict[str, datetime] = {}
        self._published: frozenset[object] = frozenset()

    def idle_since(
        self, nodes: Iterable[Node], allocations: Iterable[Allocation], now: datetime
    ) -> Mapping[str, datetime]:
        """The moment since when each node without work has had none, as far as this worker saw.

        A worker that starts anew counts from its start: nodes stay longer then, never shorter.
        """
        busy = {share.node for held in allocations for share in held.placement.shares}
        self._idle_since = {
            node.name: self._idle_since.get(node.name, now)
            for node in nodes
            if node.name not in busy
        }
        return self._idle_since

    def publish(self, commands: Iterable[Command]) -> None:
        """Log the hints that are new, each with an event."""
        hints = {_essence(c): c for c in commands if isinstance(c, ScaleUp | ScaleDown)}
        for essence, hint in hints.items():
            if essence not in self._published:
                self._emit(hint)
        self._published = frozenset(hints)

    def _emit(self, hint: ScaleHint) -> None:
        direction = "up" if isinstance(hint, ScaleUp) else "down"
        _log.info("Scale %s: %s", direction, hint.reason)
        emit_event(
            event=f"prefect-gpu.scale.{direction}",
            resource={
                "prefect.resource.id": f"prefect-gpu.pool.{self._pool}",
                "prefect.resource.name": self._pool,
            },
            payload=_payload(hint),
        )


def _payload(hint: ScaleHint) -> dict[str, object]:
    values = asdict(hint)
    if isinstance(hint, ScaleUp):
        # A JSON list would not say which is which.
        values["flavor"] = hint.flavor._asdict()
    found: dict[str, object] = json.loads(json.dumps(values, default=str))
    return found


def _essence(hint: ScaleHint) -> object:
    """The part of a hint that a person or a provisioner acts upon."""
    return (hint.flavor, hint.target_nodes) if isinstance(hint, ScaleUp) else hint.node
