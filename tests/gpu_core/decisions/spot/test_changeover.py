"""What a start on other capacity loses, by the attempts that the ledger knows."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpu_core.decisions.model.attempts import EndReason
from gpu_core.decisions.spot.changeover import (
    SHORTEST_S,
    ChangeoverHistory,
    changeover,
    start_losses_s,
)
from gpu_core.testing.builders.attempts import at, make_attempt

MINUTE_S = 60
TWELVE_MIN_S = 12 * MINUTE_S


def attempt(number, admitted, first_step, ended=None, saved=None, **fields):
    """All moments in minutes after noon; interrupted unless it says otherwise."""

    def moment(minutes):
        return None if minutes is None else at(minutes / 60)

    return make_attempt(
        number=number,
        admitted_at=moment(admitted),
        first_step_at=moment(first_step),
        released_at=moment(ended),
        checkpointed_at=moment(saved),
        **({"end_reason": None if ended is None else EndReason.INTERRUPTED} | fields),
    )


@pytest.mark.parametrize(
    ("attempts", "want_min"),
    [
        pytest.param([], [], id="no attempt"),
        pytest.param([attempt(1, 0, None, 5)], [], id="it ended before its first step"),
        pytest.param([attempt(1, 0, 4)], [4], id="it runs on: its start is known"),
        pytest.param(
            [attempt(1, 0, 4, expected_loss_s=150)],
            [9],
            id="an interruption may lose twice the mean",
        ),
        pytest.param(
            [attempt(1, 0, 4, 30, saved=20), attempt(2, 40, 45)],
            [4, 15],
            id="10 min were lost, 5 min are the start; waiting is neither",
        ),
        pytest.param(
            [attempt(1, 0, 4, 30), attempt(2, 40, 45)], [4, 31], id="nothing saved: all is lost"
        ),
        pytest.param(
            [attempt(1, 0, None, 3), attempt(2, 40, 45)], [5], id="nothing was done, nothing lost"
        ),
        pytest.param(
            [attempt(1, 0, 4, 30, saved=20, end_reason=EndReason.PREEMPTED), attempt(2, 40, 45)],
            [4, 5],
            id="who gives way by itself saves",
        ),
        pytest.param(
            [
                attempt(1, 0, 4, 54),
                attempt(2, 60, None, 70, end_reason=EndReason.PREEMPTED),
                attempt(3, 80, 85),
            ],
            [4, 55],
            id="preempted before its first step: 50 min are still lost",
        ),
        pytest.param(
            [
                attempt(1, 0, 4, 54),
                attempt(2, 60, None, 70),
                attempt(3, 80, None, 81, end_reason=EndReason.FAILED),
                attempt(4, 90, 95, 97),
                attempt(5, 100, 105),
            ],
            [4, 55, 7],
            id="what was lost counts once, in the first start that does a step",
        ),
        pytest.param(
            [
                attempt(1, 0, 4, 54),
                attempt(2, 60, None, 70, saved=69, end_reason=EndReason.PREEMPTED),
                attempt(3, 80, 85, expected_loss_s=60),
            ],
            [4, 7],
            id="one that saved did steps, whatever it reported",
        ),
        pytest.param(
            [attempt(1, 0, None, 3), attempt(2, 40, 45, expected_loss_s=150)],
            [10],
            id="no interruption lost work: the next one may",
        ),
    ],
)
def test_a_start_loses_time_until_its_first_step_and_unsaved_work(attempts, want_min):
    """For each attempt whose first step is known."""
    found = start_losses_s(attempts)
    assert list(found.values()) == pytest.approx([minutes * MINUTE_S for minutes in want_min])


_ENDS = st.sampled_from([end for end in EndReason if end is not EndReason.COMPLETED])
_WORKED = st.tuples(  # until its first step, between that and its save, until its interruption
    st.integers(0, 30), st.none() | st.integers(0, 60), st.integers(0, 60), st.none()
)
_WITHOUT_A_STEP = st.tuples(st.none(), st.none(), st.integers(0, 30), _ENDS)


@given(st.lists(_WORKED | _WITHOUT_A_STEP, max_size=12))
def test_what_is_measured_is_never_less_than_what_was_lost(runs):
    """The progress is followed minute by minute; attempts without a step lie anywhere."""
    attempts, true_min = [], []
    now = progress = saved_progress = before = 0
    for number, (first, until_save, until_end, end) in enumerate(runs, start=1):
        admitted, now = now, now + (first or 0)
        step = saved = None
        if first is not None:
            step = now
            true_min.append(first + before - progress)
            if until_save is not None:
                saved = now = now + until_save
                saved_progress = progress + until_save
            before = progress + (until_save or 0) + until_end
            progress = saved_progress
        now += until_end
        attempts.append(
            attempt(number, admitted, step, now, saved, end_reason=end or EndReason.INTERRUPTED)
        )
        now += 7
    found = list(start_losses_s(attempts).values())
    assert len(found) == len(true_min)
    for measured_s, true in zip(found, true_min, strict=True):
        assert measured_s >= true * MINUTE_S - 1e-3


@pytest.mark.parametrize(
    ("losses_min", "want_min"),
    [
        pytest.param([], 12, id="none: the policy's"),
        pytest.param([3, 3], 12, id="two: the policy's"),
        pytest.param([14, 18, 16], 22.5, id="three: a quarter more than the largest"),
        pytest.param([8] * 9, 8.8, id="nine: a tenth more"),
        pytest.param(list(range(1, 20)), 19, id="19: the largest is the 95% quantile"),
        pytest.param(list(range(1, 100)), 95, id="99: the 95th"),
        pytest.param([0.1] * 5, 1, id="never below the time between two looks"),
    ],
)
def test_few_starts_have_a_margin_and_many_a_quantile(losses_min, want_min):
    """Until three are measured the policy's number holds."""
    losses_s = [minutes * MINUTE_S for minutes in losses_min]
    assert changeover(losses_s, TWELVE_MIN_S).loss_s == pytest.approx(want_min * MINUTE_S)


@given(st.lists(st.floats(0, 1e6), min_size=3, max_size=18))
def test_with_few_starts_none_is_over_the_bound(losses_s):
    """And the bound is at most a quarter over the largest."""
    found = changeover(losses_s, TWELVE_MIN_S)
    assert found.is_measured
    assert max(losses_s) <= found.loss_s <= max(SHORTEST_S, 1.25 * max(losses_s))


def test_each_deployment_has_its_own_starts():
    """A run that is read again and again counts once."""
    history = ChangeoverHistory()
    for number in range(1, 4):
        run = [make_attempt(f"run-{number}", first_step_at=at(0.3))]
        for _ in range(3):
            history.observe("slow", run)
        history.observe(None, run)
    slow, other = (history.changeover(name, TWELVE_MIN_S) for name in ("slow", "other"))
    assert slow == (pytest.approx(22.5 * MINUTE_S), 3)
    assert other == (TWELVE_MIN_S, 0)
    assert history.changeover(None, TWELVE_MIN_S) == (TWELVE_MIN_S, 0)


@pytest.mark.parametrize(
    ("losses_s", "want"),
    [
        ([60, 60], "the deadline holds if a start loses at most 12m 00s (2 of 3 measured)"),
        ([1200] * 4, "a start loses at most 24m 00s by 4 measured starts"),
    ],
)
def test_what_the_deadline_rests_on_is_said(losses_s, want):
    """As part of a sentence."""
    assert changeover(losses_s, TWELVE_MIN_S).reason == want
