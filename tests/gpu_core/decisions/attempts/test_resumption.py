"""The deployments that have shown that their runs resume."""

import pytest

from gpu_core.decisions.attempts.resumption import SHOWN_BY, ResumptionHistory, resumptions
from gpu_core.testing.builders.attempts import at, make_attempt


def attempt(number, *, restored=None, saved=None, step=True, run="run-1"):
    return make_attempt(
        run,
        number,
        restored_from=restored,
        checkpoint=saved,
        admitted_at=at(number),
        first_step_at=at(number + number / 60) if step else None,
    )


@pytest.mark.parametrize(
    ("attempts", "want"),
    [
        pytest.param([], [], id="no attempt"),
        pytest.param([attempt(1, saved="c1")], [], id="the first continues nothing"),
        pytest.param(
            [attempt(1, saved="c1"), attempt(2, restored="c1")], [True], id="the newest checkpoint"
        ),
        pytest.param(
            [attempt(1, saved="c2"), attempt(2, restored="c1")], [False], id="an older one"
        ),
        pytest.param([attempt(1, saved="c1"), attempt(2)], [False], id="it started over"),
        pytest.param([attempt(1), attempt(2)], [False], id="nothing was saved"),
        pytest.param(
            [attempt(1, step=False), attempt(2)], [], id="no work was done that could be resumed"
        ),
        pytest.param(
            [attempt(1, saved="c1"), attempt(2, restored="c1", step=False)],
            [],
            id="it read the checkpoint, and did no new step",
        ),
        pytest.param(
            [
                attempt(1, saved="c1"),
                attempt(2, restored="c1", step=False),
                attempt(3, restored="c1", saved="c5"),
                attempt(4, restored="c5"),
            ],
            [True, True],
            id="over several attempts",
        ),
    ],
)
def test_resumptions(attempts, want):
    """An attempt that continued from the newest checkpoint, and worked, resumed."""
    assert [found.has_resumed for found in resumptions(attempts).values()] == want


def resumed(run):
    return [attempt(1, saved="c1", run=run), attempt(2, restored="c1", run=run)]


def test_three_runs_show_it():
    """Each counts once, however often it is read; another deployment shows nothing by it."""
    history = ResumptionHistory()
    for number in range(SHOWN_BY):
        assert not history.has_resumed("train/gpu")
        for _ in range(2):
            history.observe("train/gpu", resumed(f"run-{number}"))
    assert history.has_resumed("train/gpu")
    assert history.restart_s("train/gpu") == 120
    assert history.restart_s("other/gpu") is None
    assert not history.has_resumed("other/gpu")
    assert not history.has_resumed(None)


def test_one_that_started_over_takes_it_back():
    """Until twenty have resumed since."""
    history = ResumptionHistory()
    history.observe("train/gpu", [attempt(1, run="lost"), attempt(2, run="lost")])
    for number in range(19):
        history.observe("train/gpu", resumed(f"run-{number}"))
    assert not history.has_resumed("train/gpu")
    history.observe("train/gpu", resumed("run-20"))
    assert history.has_resumed("train/gpu")
