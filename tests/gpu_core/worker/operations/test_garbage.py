"""A worker seldom looks for cycles of garbage, and leaves Python as it was."""

import gc

import pytest

from gpu_core.worker.operations.garbage import YOUNG_OBJECTS, rare_garbage_collection


@pytest.fixture(autouse=True)
def _as_before():
    before = gc.get_threshold()
    yield
    gc.set_threshold(*before)


@pytest.mark.parametrize(
    ("before", "want_young"),
    [
        pytest.param((700, 10, 10), YOUNG_OBJECTS, id="Python's default"),
        pytest.param((10 * YOUNG_OBJECTS, 5, 5), 10 * YOUNG_OBJECTS, id="rarer already"),
        pytest.param((0, 10, 10), 0, id="never, as its user wants"),
    ],
)
def test_it_is_rare_while_the_context_is_open(before, want_young):
    gc.set_threshold(*before)
    with rare_garbage_collection():
        assert gc.get_threshold() == (want_young, *before[1:])
    assert gc.get_threshold() == before


def test_an_error_leaves_python_as_it_was():
    before = gc.get_threshold()
    with pytest.raises(LookupError), rare_garbage_collection():
        raise LookupError
    assert gc.get_threshold() == before


def test_a_planned_cycle_of_objects_is_looked_at_seldom():
    """Objects that stay alive: by default Python looks a hundred times for 70,000 of them."""
    looks = []
    gc.callbacks.append(lambda phase, info: looks.append(phase))
    try:
        with rare_garbage_collection():
            gc.collect()
            looks.clear()
            kept = [[] for _ in range(70_000)]
            seen = list(looks)
    finally:
        gc.callbacks.pop()
    assert len(kept) == 70_000
    assert not seen


def test_objects_that_were_there_before_are_not_looked_at():
    before = [[] for _ in range(1_000)]
    with rare_garbage_collection():
        assert gc.get_freeze_count() >= len(before)
        assert not [each for each in gc.get_objects() if each is before]
    assert gc.get_freeze_count() == 0
    assert [each for each in gc.get_objects() if each is before]
