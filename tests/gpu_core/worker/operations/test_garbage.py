"""A worker seldom looks for cycles of garbage, and leaves Python as it was."""

import gc
import weakref

import pytest

from gpu_core.worker.operations.garbage import YOUNG_OBJECTS, RareGarbageCollection


@pytest.fixture(autouse=True)
def _as_before():
    before = gc.get_threshold()
    yield
    gc.set_threshold(*before)


@pytest.fixture
def _no_full_look(monkeypatch):
    """The look at all objects of the tests' process takes a second, and sets no threshold."""
    monkeypatch.setattr(RareGarbageCollection, "_look_at_all", lambda self: None)


@pytest.fixture(scope="module")
def opened():
    """One that was opened once for several tests, as that takes a second here."""
    with RareGarbageCollection() as garbage:
        yield garbage


class Cyclic:
    """A cycle of garbage once nothing else holds it."""

    def __init__(self):
        self.itself = self


def _looks(act):
    """How often Python looks for garbage meanwhile."""
    looks = []

    def note(phase, _info):
        looks.append(phase)

    gc.callbacks.append(note)
    try:
        act()
    finally:
        gc.callbacks.remove(note)
    return looks


@pytest.mark.parametrize(
    ("before", "want_young"),
    [
        pytest.param((700, 10, 10), YOUNG_OBJECTS, id="Python's default"),
        pytest.param((10 * YOUNG_OBJECTS, 5, 5), 10 * YOUNG_OBJECTS, id="rarer already"),
        pytest.param((0, 10, 10), 0, id="never, as its user wants"),
    ],
)
@pytest.mark.usefixtures("_no_full_look")
def test_it_is_rare_while_the_context_is_open(before, want_young):
    gc.set_threshold(*before)
    with RareGarbageCollection():
        assert gc.get_threshold() == (want_young, *before[1:])
    assert gc.get_threshold() == before


@pytest.mark.usefixtures("_no_full_look")
def test_an_error_leaves_python_as_it_was():
    before = gc.get_threshold()
    with pytest.raises(LookupError), RareGarbageCollection():
        raise LookupError
    assert gc.get_threshold() == before


@pytest.mark.usefixtures("opened")
def test_a_planned_cycle_of_objects_is_looked_at_seldom():
    """Objects that stay alive: by default Python looks a hundred times for 70,000 of them."""
    gc.collect()
    kept = []
    looks = _looks(lambda: kept.extend([] for _ in range(70_000)))
    assert len(kept) == 70_000
    assert not looks


def test_objects_that_were_there_before_are_not_looked_at():
    before = [[] for _ in range(1_000)]
    with RareGarbageCollection():
        assert gc.get_freeze_count() >= len(before)
        assert not [each for each in gc.get_objects() if each is before]
    assert gc.get_freeze_count() == 0
    assert [each for each in gc.get_objects() if each is before]


def _grow(garbage, kept, thousands, make=list):
    """So many new objects that stay, with a look now and then, as a worker has between cycles."""
    for _ in range(thousands // 20):
        kept += [make() for _ in range(20_000)]
        garbage.look()


def test_what_survives_several_looks_is_not_looked_at_again(opened):
    frozen_before, kept = gc.get_freeze_count(), []
    _grow(opened, kept, thousands=400)
    assert gc.get_freeze_count() > frozen_before + len(kept) / 2
    assert not gc.get_objects(generation=2)


def test_a_look_between_cycles_frees_new_garbage_before_a_cycle_has_to(opened):
    opened.look()
    dying = [Cyclic() for _ in range(20_000)]
    died = weakref.ref(dying[0])
    dying.clear()
    looks = _looks(opened.look)
    assert died() is None
    assert looks


def test_a_look_between_cycles_costs_nothing_where_little_is_new(opened):
    opened.look()
    kept = [[] for _ in range(5_000)]
    looks = _looks(opened.look)
    assert kept
    assert not looks


def test_garbage_among_frozen_objects_is_freed_when_there_are_a_quarter_more_objects():
    """Cycles that were alive when they were frozen, and died: no look among new ones finds them."""
    with RareGarbageCollection() as garbage:
        dying, kept = [], []
        _grow(garbage, dying, thousands=400, make=Cyclic)
        died = weakref.ref(dying[0])
        dying.clear()
        gc.collect()
        assert died() is not None
        while died() is not None:
            _grow(garbage, kept, thousands=200)
            assert len(kept) < 40_000_000


def test_python_never_looks_where_its_user_has_switched_that_off():
    gc.set_threshold(0, 10, 10)
    with RareGarbageCollection() as garbage:
        looks = _looks(lambda: _grow(garbage, [], thousands=400))
    assert not looks
