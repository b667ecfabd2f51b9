"""What is true of rare garbage collection in a process with few objects: `test_garbage` starts it.

A look at all objects of the tests' own process, a million, takes a second.
"""

import gc
import weakref
from collections.abc import Callable

from gpu_core.worker.operations.garbage import RareGarbageCollection


class Cyclic:
    """A cycle of garbage once nothing else holds it."""

    def __init__(self) -> None:
        self.itself = self


def _looks(act: Callable[[], object]) -> list[str]:
    """How often Python looks for garbage meanwhile."""
    looks = []

    def note(phase: str, _info: object) -> None:
        looks.append(phase)

    gc.callbacks.append(note)
    try:
        act()
    finally:
        gc.callbacks.remove(note)
    return looks


def _grow(
    garbage: RareGarbageCollection,
    kept: list,
    thousands: int,
    make: Callable[[], object] = list,
) -> None:
    """So many new objects that stay, with a look now and then, as a worker has between cycles."""
    for _ in range(thousands // 20):
        kept += [make() for _ in range(20_000)]
        garbage.look()


def a_planned_cycle_of_objects_is_looked_at_seldom() -> None:
    """Objects that stay alive: by default Python looks a hundred times for 70,000 of them."""
    with RareGarbageCollection():
        gc.collect()
        kept: list = []
        looks = _looks(lambda: kept.extend([] for _ in range(70_000)))
        assert len(kept) == 70_000
        assert not looks


def objects_that_were_there_before_are_not_looked_at() -> None:
    before: list = [[] for _ in range(1_000)]
    with RareGarbageCollection():
        assert gc.get_freeze_count() >= len(before)
        assert not [each for each in gc.get_objects() if each is before]
    assert gc.get_freeze_count() == 0
    assert [each for each in gc.get_objects() if each is before]


def what_survives_several_looks_is_not_looked_at_again() -> None:
    with RareGarbageCollection() as garbage:
        frozen_before, kept = gc.get_freeze_count(), []
        _grow(garbage, kept, thousands=400)
        assert gc.get_freeze_count() > frozen_before + len(kept) / 2
        assert not gc.get_objects(generation=2)


def a_look_between_cycles_frees_new_garbage_before_a_cycle_has_to() -> None:
    with RareGarbageCollection() as garbage:
        garbage.look()
        dying = [Cyclic() for _ in range(20_000)]
        died = weakref.ref(dying[0])
        dying.clear()
        looks = _looks(garbage.look)
        assert died() is None
        assert looks


def a_look_between_cycles_costs_nothing_where_little_is_new() -> None:
    with RareGarbageCollection() as garbage:
        garbage.look()
        kept = [[] for _ in range(5_000)]
        looks = _looks(garbage.look)
        assert kept
        assert not looks


def garbage_among_frozen_objects_is_freed_when_there_are_a_quarter_more_objects() -> None:
    """Cycles that were alive when they were frozen, and died: no look among new ones finds them."""
    with RareGarbageCollection() as garbage:
        dying: list = []
        kept: list = []
        _grow(garbage, dying, thousands=400, make=Cyclic)
        died = weakref.ref(dying[0])
        dying.clear()
        gc.collect()
        assert died() is not None
        while died() is not None:
            _grow(garbage, kept, thousands=200)
            assert len(kept) < 40_000_000


def python_never_looks_where_its_user_has_switched_that_off() -> None:
    gc.set_threshold(0, 10, 10)
    with RareGarbageCollection() as garbage:
        looks = _looks(lambda: _grow(garbage, [], thousands=400))
    assert not looks


CASES = (
    a_planned_cycle_of_objects_is_looked_at_seldom,
    objects_that_were_there_before_are_not_looked_at,
    what_survives_several_looks_is_not_looked_at_again,
    a_look_between_cycles_frees_new_garbage_before_a_cycle_has_to,
    a_look_between_cycles_costs_nothing_where_little_is_new,
    garbage_among_frozen_objects_is_freed_when_there_are_a_quarter_more_objects,
    python_never_looks_where_its_user_has_switched_that_off,
)
