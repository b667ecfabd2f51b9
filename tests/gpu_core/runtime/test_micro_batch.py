"""How many samples an attempt puts on its GPU at once."""

import pytest

from gpu_core.decisions.model.errors import InvalidInput
from gpu_core.runtime import micro_batch


@pytest.mark.parametrize(
    ("size", "divisor", "want"),
    [
        pytest.param(64, 1, (64, 1), id="enough memory"),
        pytest.param(64, 4, (16, 4), id="a quarter in four steps"),
        pytest.param(10, 4, (2, 5), id="no sample is lost"),
        pytest.param(3, 8, (1, 3), id="never under one"),
    ],
)
def test_a_run_that_ran_out_of_memory_gets_less(start_attempt, size, divisor, want):
    start_attempt(2, micro_batch_divisor=divisor)
    assert micro_batch(size) == want


def test_outside_a_run_it_is_what_was_asked_for():
    assert micro_batch(64) == (64, 1)


def test_a_batch_of_nothing_is_refused():
    with pytest.raises(InvalidInput, match="size"):
        micro_batch(0)
