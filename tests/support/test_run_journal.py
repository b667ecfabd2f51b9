"""What is found wrong with the lives of runs, and what is not."""

import pytest

from gpu_core.decisions.model.attempts import EndReason
from gpu_core.decisions.model.cluster import NodeShare
from gpu_core.testing.builders.attempts import at, make_attempt
from tests.support.run_journal import (
    faults_of_gangs,
    faults_of_ledger,
    faults_of_lives,
    lives_of,
)

ONE_LIFE = ["1.0 begin r 1 pod-a 0", "1.5 step r 1 pod-a 1", "2.0 end r 1 pod-a 1"]
RESUMED = [
    *("1.0 begin r 1 pod-a 0", "1.5 step r 1 pod-a 1", "1.7 stopped r 1 pod-a 1"),
    *("3.0 begin r 2 pod-b 1", "3.5 step r 2 pod-b 2", "3.6 end r 2 pod-b 2"),
]

GANG = [
    *("1.0 begin r 1 pod-a 0 0", "1.1 begin r 1 pod-b 0 1", "1.6 step r 1 pod-b 1 1"),
    *("2.0 end r 1 pod-a 1 0", "2.1 end r 1 pod-b 1 1"),
]


def test_a_life_goes_from_its_first_line_to_its_last_one():
    (life,) = lives_of(ONE_LIFE)
    assert (life.run, life.attempt, life.pod) == ("r", 1, "pod-a")
    assert (life.began_s, life.last_s) == (1.0, 2.0)
    assert (life.began_at, life.step, life.has_ended) == (0, 1, True)


@pytest.mark.parametrize(
    "lines",
    [
        pytest.param(ONE_LIFE, id="one attempt"),
        pytest.param(RESUMED, id="a second attempt goes on where the first one was"),
        pytest.param(
            [*RESUMED[:3], "3.0 begin r 2 pod-b 2", "3.6 end r 2 pod-b 2"],
            id="killed after it had saved and before it could note it",
        ),
        pytest.param(
            [*RESUMED[:3], "3.0 begin r 1 pod-b 1", "3.6 end r 1 pod-b 2"],
            id="an attempt whose pod Kubernetes replaced once it had ended",
        ),
        pytest.param(GANG, id="two nodes of a gang at a time, of which the first saves"),
    ],
)
def test_nothing_is_wrong_with(lines):
    assert faults_of_lives(lives_of(lines), ["r"], ["r"]) == []


@pytest.mark.parametrize(
    ("lines", "want_fault"),
    [
        pytest.param([], "r never came to its end", id="a run that did not run"),
        pytest.param(ONE_LIFE[:2], "r never came to its end", id="a run that did not end"),
        pytest.param(
            [*ONE_LIFE, "1.8 begin r 2 pod-b 1", "2.6 end r 2 pod-b 1"],
            "r ran twice for 0.2 s: attempts 1 and 2",
            id="two attempts at a time",
        ),
        pytest.param(
            [*ONE_LIFE, "1.8 begin r 1 pod-b 1", "2.6 end r 1 pod-b 1"],
            "r ran twice for 0.2 s: attempts 1 and 1",
            id="two pods of one attempt at a time",
        ),
        pytest.param(
            [*GANG, "2.05 begin r 2 pod-c 1 0", "2.6 end r 2 pod-c 1 0"],
            "r ran twice for 0.1 s: attempts 1 and 2",
            id="the first node of an attempt while the second one of another lives",
        ),
        pytest.param(
            [*GANG[:3], "2.1 end r 1 pod-b 1 1"],
            "r never came to its end",
            id="a gang of which the second node alone came to its end",
        ),
        pytest.param(
            [*RESUMED[:3], "3.0 begin r 2 pod-b 0", "3.6 end r 2 pod-b 2"],
            "r, attempt 2 began at step 0, where attempt 1 had saved 1",
            id="a checkpoint that was forgotten",
        ),
    ],
)
def test_it_is_found_that(lines, want_fault):
    assert faults_of_lives(lives_of(lines), ["r"], ["r"]) == [want_fault]


def closed(number=1, began_h=0.0, ended_h=1.0, reason=EndReason.COMPLETED):
    return make_attempt(
        "r", number, admitted_at=at(began_h), started_at=at(began_h), released_at=at(ended_h),
        end_reason=reason,
    )  # fmt: skip


INTERRUPTED = closed(reason=EndReason.INTERRUPTED)


def test_a_ledger_that_has_what_happened_is_right():
    attempts = {"r": [INTERRUPTED, closed(2, 1, 2)]}
    assert faults_of_ledger(lives_of(RESUMED), attempts, ["r"]) == []


@pytest.mark.parametrize(
    ("attempts", "want_fault"),
    [
        pytest.param([closed(2, 1, 2)], "r has the attempts [2] in the ledger", id="a gap"),
        pytest.param(
            [closed(), closed(2, 1, 2)],
            "r completed in [1, 2] of its attempts [1, 2]",
            id="completed twice",
        ),
        pytest.param(
            [INTERRUPTED, closed(2, 0.5, 2)],
            "r, attempt 2 got GPUs before attempt 1 gave them back",
            id="two at a time",
        ),
        pytest.param(
            [INTERRUPTED, closed(2, 1, 2), closed(3, 2, 3)],
            "r, attempt 3 completed and never ran",
            id="an attempt that was not observed",
        ),
        pytest.param(
            [INTERRUPTED],
            "r, attempt 2 ran and was not found in the ledger",
            id="an attempt that was not written down",
        ),
    ],
)
def test_it_is_found_of_the_ledger_that(attempts, want_fault):
    assert want_fault in faults_of_ledger(lives_of(RESUMED), {"r": attempts}, ["r"])


def test_an_attempt_that_was_never_closed_is_found():
    attempts = {"r": [make_attempt("r", started_at=at(0), end_reason=EndReason.COMPLETED)]}
    want_fault = "r, attempt 1 still holds its GPUs"
    assert faults_of_ledger(lives_of(ONE_LIFE), attempts, ["r"]) == [want_fault]


def test_a_run_of_which_no_attempt_completed_is_found():
    want_fault = "r completed in [] of its attempts [1]"
    assert faults_of_ledger(lives_of(ONE_LIFE), {"r": [INTERRUPTED]}, ["r"]) == [want_fault]


@pytest.mark.parametrize(
    ("lines", "want_faults"),
    [
        pytest.param(GANG, [], id="all its nodes worked"),
        pytest.param(
            GANG[:4],
            ["r, attempt 1 completed without the work of node 1"],
            id="the second node did not end",
        ),
        pytest.param(
            [line for line in GANG if "pod-b" in line],
            ["r, attempt 1 completed without the work of node 0"],
            id="the first node never began",
        ),
    ],
)
def test_a_gang_that_completed_is_held_against_its_nodes_work(lines, want_faults):
    shares = tuple(NodeShare(node=name, gpu_ids=("0",)) for name in ("node-1", "node-2"))
    attempts = {"r": [make_attempt("r", shares=shares, end_reason=EndReason.COMPLETED)]}
    assert faults_of_gangs(lives_of(lines), attempts, ["r"]) == want_faults
