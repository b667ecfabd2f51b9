"""Which attempts may have objects that no watch has seen yet?"""

import pytest

from gpu_core.decisions.model.cluster import NodeShare
from gpu_core.testing.builders.attempts import NOON, make_attempt
from gpu_core.worker.kubernetes.jobs import creations as module
from gpu_core.worker.kubernetes.jobs.creations import Creations, may_be_partial

A = "a"


def after(monkeypatch, seconds, *notes):
    """What is known of an attempt this long after these notes, made at second 0."""
    now_s = 0.0
    monkeypatch.setattr(module.anyio, "current_time", lambda: now_s)
    creations = Creations()
    for note in notes:
        getattr(creations, note)(A)
    now_s = seconds
    return creations.is_just_asked_for(A), creations.is_over(make_attempt(attempt_id=A))


@pytest.mark.parametrize(
    ("notes", "seconds", "want_may_show", "want_over"),
    [
        pytest.param([], 0, False, False, id="never asked for"),
        pytest.param(["note_request"], 1, True, False, id="asked for a second ago"),
        pytest.param(["note_request"], 3600, False, False, id="asked for an hour ago"),
        pytest.param(["note_request", "note_seen"], 1, False, False, id="a watch has it"),
        pytest.param(["note_request", "note_refusal"], 1, False, True, id="refused"),
        pytest.param(["note_request", "note_request"], 1, True, False, id="no answer"),
        pytest.param(["note_impossible"], 1, False, True, id="its names are taken"),
        pytest.param(
            ["note_request", "note_impossible", "forget"], 1, False, False, id="it is settled"
        ),
    ],
)
def test_what_was_just_asked_for_may_show(monkeypatch, notes, seconds, want_may_show, want_over):
    assert after(monkeypatch, seconds, *notes) == (want_may_show, want_over)


def test_the_creation_of_an_attempt_whose_object_was_seen_is_over():
    assert Creations().is_over(make_attempt(started_at=NOON))


@pytest.mark.parametrize(
    ("nodes", "started_at", "want"),
    [
        pytest.param(1, None, False, id="one object is all of it"),
        pytest.param(2, None, True, id="a gang whose creation was not noted"),
        pytest.param(2, NOON, False, id="a gang that was noted"),
    ],
)
def test_of_a_gang_some_objects_may_be_missing(nodes, started_at, want):
    shares = tuple(NodeShare(node=f"n{number}", gpu_ids=("0",)) for number in range(nodes))
    assert may_be_partial(make_attempt(shares=shares, started_at=started_at)) is want
