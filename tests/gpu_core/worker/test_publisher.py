"""When a run that waits is told so once more."""

from datetime import timedelta

import pytest

from gpu_core.decisions.plan import Explanation, Reason
from gpu_core.worker.publisher import Told, is_news, step
from tests.gpu_core.accounting_builders import NOON

GPUS, OTHERS = Reason.WAITING_FOR_GPUS, Reason.BEHIND_OTHERS


@pytest.mark.parametrize(
    ("told", "age_s", "want"),
    [
        pytest.param(None, 0, True, id="it has just come"),
        pytest.param((GPUS, 3), 3600, False, id="nothing has changed"),
        pytest.param((OTHERS, 3), 0, True, id="another reason, at once"),
        pytest.param((GPUS, 4), 29, False, id="it has moved up, a moment ago"),
        pytest.param((GPUS, 4), 30, True, id="it has moved up, and heard nothing for a while"),
    ],
)
def test_a_new_reason_is_told_at_once_and_a_new_place_now_and_then(told, age_s, want):
    explanation = Explanation(workload_id="run", reason=GPUS, summary="", resolution="", position=3)
    last = None if told is None else Told(*told, NOON)
    assert is_news(explanation, last, NOON + timedelta(seconds=age_s)) is want


def test_places_are_told_in_steps():
    """Exact at the head, where it matters."""
    positions = (0, 1, 5, 6, 9, 10, 24, 26, 49, 50, 120)
    assert [step(position) for position in positions] == [0, 1, 5, 5, 5, 10, 20, 25, 25, 50, 100]
