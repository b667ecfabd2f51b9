"""Files of failures, interruptions and recoveries: what they become, and what they may not say."""

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from gpu_core.adapters.traces.node_events import read_node_events
from gpu_core.decisions.model.errors import InvalidInput
from gpu_core.decisions.simulation.cluster.trace import NodeEvent
from gpu_core.testing.builders.workloads import make_node

NODE = make_node("n1", 1)
WITHDRAWN = replace(NODE, taints=frozenset({"interruption-notice"}))


def write(path: Path, *lines: dict[str, Any]) -> Path:
    path.write_text("\n".join(json.dumps(line) for line in lines))
    return path


def line(at_s: float, event: str, node: str = "n1", **more: Any) -> dict[str, Any]:
    return {"at_s": at_s, "node": node, "event": event, **more}


@pytest.mark.parametrize(
    ("lines", "want"),
    [
        pytest.param(
            [line(10, "failure"), line(20, "recovery")],
            [
                NodeEvent(at_s=10, name="n1", node=None),
                NodeEvent(at_s=20, name="n1", node=NODE),
            ],
            id="a failure and its repair",
        ),
        pytest.param(
            [line(20, "recovery"), line(10, "failure")],
            [
                NodeEvent(at_s=10, name="n1", node=None),
                NodeEvent(at_s=20, name="n1", node=NODE),
            ],
            id="in any order",
        ),
        pytest.param(
            [line(130, "interruption", notice_s=120)],
            [
                NodeEvent(at_s=10, name="n1", node=WITHDRAWN),
                NodeEvent(at_s=130, name="n1", node=None, notice_s=120),
            ],
            id="nothing starts on a node that is to go",
        ),
        pytest.param(
            [line(5, "interruption")],
            [NodeEvent(at_s=5, name="n1", node=None)],
            id="an interruption without notice",
        ),
    ],
)
def test_the_events_of_a_file(
    tmp_path: Path, lines: list[dict[str, Any]], want: list[NodeEvent]
) -> None:
    """By time."""
    assert list(read_node_events(write(tmp_path / "events", *lines), (NODE,))) == want


@pytest.mark.parametrize(
    ("lines", "message"),
    [
        pytest.param([line(1, "failure", "n2")], "events:1: node is no node", id="unknown node"),
        pytest.param([line(1, "fialure")], "Did you mean 'failure'", id="unknown event"),
        pytest.param([line(-1, "failure")], "events:1: at_s", id="before the trace"),
        pytest.param([line(1, "failure", lasts_s=3)], "lasts_s is not a known", id="unknown name"),
        pytest.param(
            [line(1, "failure"), line(2, "failure")], "events:2: event finds n1 gone", id="twice"
        ),
        pytest.param([line(1, "recovery")], "events:1: event finds n1 there", id="nothing failed"),
        pytest.param(
            [line(9, "failure", notice_s=5)], "events:1: notice_s has no effect", id="no warning"
        ),
        pytest.param(
            [line(9, "interruption", notice_s=10)], "Allowed: at most 9", id="too early a notice"
        ),
    ],
)
def test_a_wrong_line_is_named(tmp_path: Path, lines: list[dict[str, Any]], message: str) -> None:
    """With its file, line and field."""
    with pytest.raises(InvalidInput, match=message):
        read_node_events(write(tmp_path / "events", *lines), (NODE,))
