"""What a run has behind it, along the checkpoints of its attempts."""

import pytest

from gpu_core.decisions.attempts.progress import (
    attained_gpu_s,
    completed_s,
    preemption_cost_s,
    saved_s,
)
from gpu_core.decisions.model.attempts import EndReason
from gpu_core.testing.builders.attempts import at, make_attempt

HOUR_S = 3_600


def attempt(number, start, end, *, saved=None, saved_at=None, began_with=None, **fields):
    return make_attempt(
        number=number,
        admitted_at=at(start),
        released_at=None if end is None else at(end),
        checkpoint=saved,
        checkpointed_at=None if saved_at is None else at(saved_at),
        restored_from=began_with,
        **({"end_reason": None if end is None else EndReason.PREEMPTED} | fields),
    )


LOST = attempt(1, 0, 2)
SAVED = attempt(1, 0, 3, saved="a", saved_at=2)
WENT_ON = attempt(2, 5, 9, saved="b", saved_at=8, began_with="a")
WENT_ON_WITHOUT_A_SAVE = attempt(2, 5, 9, began_with="a")
WENT_ON_AFTER_A_SLOW_START = attempt(
    2, 5, 9, saved="b", saved_at=8, began_with="a", first_step_at=at(6)
)
STARTED_AGAIN = attempt(2, 5, 9, saved="b", saved_at=6)
FROM_NOWHERE = attempt(2, 5, 9, saved="b", saved_at=8, began_with="x")


@pytest.mark.parametrize(
    ("attempts", "hours"),
    [
        pytest.param([], None, id="no attempts"),
        pytest.param([LOST], 0, id="nothing saved"),
        pytest.param([SAVED], 2, id="up to the checkpoint"),
        pytest.param([SAVED, WENT_ON], 5, id="both parts, without what was lost"),
        pytest.param([SAVED, WENT_ON_AFTER_A_SLOW_START], 4, id="a repeated start-up is no work"),
        pytest.param(
            [SAVED, WENT_ON_WITHOUT_A_SAVE], 2, id="the old checkpoint is still the newest"
        ),
        pytest.param([SAVED, STARTED_AGAIN], 1, id="from the beginning once more"),
        pytest.param([SAVED, FROM_NOWHERE], None, id="an unknown checkpoint"),
    ],
)
def test_saved_is_what_need_not_be_repeated(attempts, hours):
    """Unknown is not zero."""
    assert saved_s(attempts) == (None if hours is None else hours * HOUR_S)


def done(number, start, end, began_with=None):
    return attempt(number, start, end, began_with=began_with, end_reason=EndReason.COMPLETED)


@pytest.mark.parametrize(
    ("attempts", "hours"),
    [
        pytest.param([done(1, 0, 4)], 4, id="at one go"),
        pytest.param([LOST, done(2, 5, 9)], 4, id="the second go"),
        pytest.param([SAVED, done(2, 5, 9, "a")], 6, id="in two parts"),
        pytest.param([SAVED, done(2, 5, 9, "x")], None, id="from an unknown checkpoint"),
        pytest.param([LOST], None, id="not complete"),
        pytest.param([attempt(1, 0, None)], None, id="it runs"),
        pytest.param([], None, id="it never ran"),
    ],
)
def test_a_completed_run_took_what_was_not_lost(attempts, hours):
    """Repeated work would teach that such runs are longer than they are."""
    assert completed_s(attempts) == (None if hours is None else hours * HOUR_S)


def test_a_chain_of_checkpoints_that_bites_its_tail_is_unknown():
    """Not endless."""
    first = attempt(1, 0, 1, saved="a", saved_at=1, began_with="b")
    second = attempt(2, 2, 3, saved="b", saved_at=3, began_with="a")
    assert saved_s([first, second]) is None


def test_what_was_held_counts_as_attained_whatever_came_of_it():
    """An attempt that runs is counted where it runs."""
    gang = attempt(1, 0, 2, gpu_ids=("0", "1"))
    assert attained_gpu_s([gang, attempt(2, 3, None)]) == 4 * HOUR_S


def test_a_running_attempt_is_not_an_earlier_one():
    """What it has had and saved is the scheduler's own reckoning."""
    running = attempt(2, 5, None, saved="b", saved_at=8, began_with="a")
    assert saved_s([running]) is None
    assert saved_s([SAVED, running]) == 2 * HOUR_S
    assert attained_gpu_s([SAVED, running]) == 3 * HOUR_S


@pytest.mark.parametrize(
    ("attempts", "hours"),
    [
        pytest.param([], None, id="no attempts"),
        pytest.param([LOST], 2, id="all of an attempt that saved nothing"),
        pytest.param([SAVED], 1, id="what came after the checkpoint"),
        pytest.param([SAVED, WENT_ON], 2, id="each of two preemptions"),
        pytest.param(
            [SAVED, WENT_ON_AFTER_A_SLOW_START], 3, id="and the time until it resumed, once"
        ),
        pytest.param(
            [SAVED, attempt(2, 5, None, began_with="a", first_step_at=at(6))],
            1,
            id="what runs has cost nothing yet",
        ),
        pytest.param(
            [attempt(1, 0, 3, end_reason=EndReason.INTERRUPTED), done(2, 5, 9)],
            None,
            id="an interruption is none",
        ),
        pytest.param(
            [attempt(1, 0, 3, end_reason=EndReason.FAILED), attempt(2, 5, 9, first_step_at=at(6))],
            3,
            id="nor is a restart that none caused",
        ),
        pytest.param([attempt(1, 0, 2, first_step_at=at(1))], 1, id="a start is no lost work"),
    ],
)
def test_what_preemptions_have_cost(attempts, hours):
    """Lost work, and restarts: in time on the GPUs."""
    assert preemption_cost_s(attempts) == (None if hours is None else hours * HOUR_S)
