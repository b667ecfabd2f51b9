"""Node events, as JSON lines next to the file of jobs: one object per line.

    {"at_s": 3600, "node": "node-3", "event": "failure"}
    {"at_s": 5400, "node": "node-3", "event": "recovery"}
    {"at_s": 7200, "node": "spot-0", "event": "interruption", "notice_s": 120}

`failure`: the node is gone at once, and with it what its jobs did since their last checkpoints.
`interruption`: the provider takes it back at `at_s`, and says so `notice_s` before: nothing starts
there any more, and jobs that can save in that time do. `recovery`: the same node is there again.
The lines may be in any order.
"""

from collections.abc import Iterator, Sequence
from itertools import groupby
from pathlib import Path
from typing import Annotated, Literal, NamedTuple

from pydantic import Field

from gpu_core.adapters.traces.json_lines import read_lines
from gpu_core.decisions.model.cluster import Node
from gpu_core.decisions.model.errors import InvalidInput, listed, nearest_name
from gpu_core.decisions.model.section import Name, Section
from gpu_core.decisions.simulation.cluster.trace import MOST_S, NodeEvent, interruption

_Seconds = Annotated[float, Field(ge=0, le=MOST_S, allow_inf_nan=False)]


class _Line(Section):
    at_s: _Seconds
    node: Name
    event: Literal["failure", "interruption", "recovery"]
    notice_s: _Seconds = 0.0


class _Located(NamedTuple):
    where: str
    line: _Line


def read_node_events(path: Path, nodes: Sequence[Node]) -> tuple[NodeEvent, ...]:
    """The events of the nodes, by time.

    Raises:
        InvalidInput: The file cannot be used: a node is not there, fails when it is gone, recovers
            when it is there, or a notice comes before the node; the message names the line.
    """
    known = {node.name: node for node in nodes}
    located = [_Located(where, line) for where, line in read_lines(path, _Line)]
    for where, line in located:
        if line.node not in known:
            raise InvalidInput(
                f"{where}: node",
                "is no node of the cluster",
                got=line.node,
                allowed=listed(sorted(known)),
                nearest=nearest_name(line.node, known),
            )
    located.sort(key=lambda entry: (entry.line.node, entry.line.at_s))
    events = [
        event
        for name, of_node in groupby(located, key=lambda entry: entry.line.node)
        for event in _events(known[name], of_node)
    ]
    return tuple(sorted(events, key=lambda event: (event.at_s, event.name)))


def _events(node: Node, located: Iterator[_Located]) -> Iterator[NodeEvent]:
    """One node's events, given in order of time."""
    is_there, since_s = True, 0.0
    for where, line in located:
        if line.event == "recovery":
            if is_there:
                raise InvalidInput(f"{where}: event", f"finds {node.name} there", got=line.event)
            if line.notice_s:
                raise InvalidInput(f"{where}: notice_s", "has no effect", got=line.event)
            yield NodeEvent(at_s=line.at_s, name=node.name, node=node)
        else:
            if not is_there:
                raise InvalidInput(f"{where}: event", f"finds {node.name} gone", got=line.event)
            yield from _going(node, where, line, since_s)
        is_there, since_s = not is_there, line.at_s


def _going(node: Node, where: str, line: _Line, since_s: float) -> Iterator[NodeEvent]:
    if line.notice_s:
        noticed_s = line.at_s - line.notice_s
        if line.event == "failure":
            raise InvalidInput(
                f"{where}: notice_s",
                "has no effect",
                got=line.event,
                remedy="a failure comes without notice. An interruption may have one",
            )
        if noticed_s < since_s:
            raise InvalidInput(
                f"{where}: notice_s",
                "begins before the node is there",
                got=line.notice_s,
                allowed=f"at most {line.at_s - since_s:g}",
            )
    yield from interruption(node, line.at_s, line.notice_s)
