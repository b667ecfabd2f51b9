"""Faults are drawn evenly, the same from the same seed; and how far an attempt is."""

from collections import Counter

import pytest

from gpu_core.testing.builders.attempts import at, make_attempt
from tests.support.faults import Kind, Phase, agenda, phases_of


@pytest.mark.parametrize("seed", range(1, 4))
def test_every_kind_comes_as_often_as_the_others_or_once_less(seed):
    of_kind = Counter(fault.kind for fault in agenda(seed, 33))
    assert set(of_kind) == set(Kind)
    assert max(of_kind.values()) - min(of_kind.values()) <= 1


def test_the_same_seed_gives_the_same_story():
    assert agenda(7, 20) == agenda(7, 20)
    assert agenda(7, 20) != agenda(8, 20)


def test_over_three_stories_the_worker_is_killed_in_every_phase():
    faults = [fault for seed in range(1, 4) for fault in agenda(seed, 33)]
    assert {f.phase for f in faults if f.kind is Kind.WORKER_KILLED} == set(Phase)


@pytest.mark.parametrize(
    ("facts", "want"),
    [
        pytest.param({}, {Phase.ADMITTED}, id="written down"),
        pytest.param({"number": 2, "started_at": at(0)}, {Phase.STARTED}, id="its Job is there"),
        pytest.param({"started_at": at(0)}, {Phase.RUNNING}, id="it noted its begin"),
        pytest.param(
            {"started_at": at(0), "drain_requested_at": at(0)}, {Phase.STOP_REQUESTED}, id="drained"
        ),
        pytest.param(
            {"started_at": at(0), "drain_requested_at": at(0), "settlement": {"message": "over"}},
            {Phase.JUDGED},
            id="judged after it was drained",
        ),
        pytest.param({"started_at": at(0), "released_at": at(1)}, set(), id="closed"),
    ],
)
def test_an_attempt_is(facts, want):
    attempt = make_attempt("r", **{"number": 1, "started_at": None, "released_at": None} | facts)
    assert phases_of([attempt], {("r", 1)}) == want
