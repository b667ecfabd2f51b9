"""Hints about nodes: published once, with what is needed to act on them."""

from datetime import timedelta

import pytest

from gpu_core.decisions.model.cluster import Flavor
from gpu_core.decisions.scheduling.plan.plan import ScaleDown, ScaleUp
from gpu_core.testing.builders.workloads import NOW, make_node
from gpu_core.worker.pending import scale_hints
from gpu_core.worker.pending.scale_hints import ScaleHints


def up(target_nodes=3, reason="10 wait"):
    return ScaleUp(
        flavor=Flavor("a10g", "spot"),
        nodes=1,
        target_nodes=target_nodes,
        workload_ids=("w1",),
        triggers=(),
        reason=reason,
    )


def down(node="n1"):
    return ScaleDown(node=node, idle_since=NOW, reason="idle for 10m")


@pytest.fixture
def events(monkeypatch):
    found = []
    monkeypatch.setattr(scale_hints, "emit_event", lambda **event: found.append(event))
    return found


def test_a_hint_is_logged_once_however_its_numbers_move(events):
    hints = ScaleHints("gpu")
    hints.publish([up(reason="10 wait"), down()])
    hints.publish([up(reason="11 wait"), down()])
    assert [event["event"] for event in events] == [
        "prefect-gpu.scale.up",
        "prefect-gpu.scale.down",
    ]
    assert events[0]["payload"]["target_nodes"] == 3
    assert events[0]["payload"]["flavor"] == {"gpu_type": "a10g", "capacity_type": "spot"}


def test_another_target_is_another_hint_and_one_that_went_may_come_again(events):
    hints = ScaleHints("gpu")
    hints.publish([up(3)])
    hints.publish([up(4)])
    hints.publish([])
    hints.publish([up(4)])
    assert [event["payload"]["target_nodes"] for event in events] == [3, 4, 4]


def test_a_node_is_idle_from_the_first_look_that_finds_it_so():
    hints = ScaleHints("gpu")
    hints.idle_since([make_node("n1")], [], NOW)
    later = NOW + timedelta(minutes=5)
    assert hints.idle_since([make_node("n1"), make_node("n2")], [], later) == {
        "n1": NOW,
        "n2": later,
    }
