"""When Python looks for cycles of garbage: seldom, and between scheduling cycles."""

import gc
from types import TracebackType
from typing import Self

YOUNG_OBJECTS = 100_000
"""New objects until Python looks at them. By default 700: a cycle over 10,000 runs makes 300,000
that it needs, and spends a third of its time with looking at them again and again."""

_LOOKS_UNTIL_FROZEN = 3
_GROWTH = 1.25
"""Python's own rule for its oldest objects (`gcmodule.c` of 3.11, `long_lived_total / 4`)."""


class RareGarbageCollection:
    """Lets Python look for cycles of garbage seldom while it is open.

    What no cycle holds is freed at once, as ever. A full look stops a worker with 500 running and
    1,000 waiting runs for 0.3 s. Without `look` it falls into a scheduling cycle. So the objects
    that survive a look between two cycles are frozen: no later look visits them until there are a
    quarter more. The objects that are there when it opens, mostly 380,000 of imported modules, are
    among them.
    """

    def __init__(self) -> None:
        self._threshold = gc.get_threshold()
        self._frozen_at_last_full_look = 0

    def __enter__(self) -> Self:
        self._threshold = gc.get_threshold()
        young, *older = self._threshold
        gc.set_threshold(max(young, YOUNG_OBJECTS) if young else 0, *older)
        self._look_at_all()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        gc.unfreeze()
        gc.set_threshold(*self._threshold)

    def look(self) -> None:
        """Nothing waits for this moment: look for garbage if there are many new objects."""
        _, looks, full_looks = gc.get_count()
        is_off = gc.get_threshold()[0] == 0
        if is_off or (looks < _LOOKS_UNTIL_FROZEN and full_looks == 0):
            return
        gc.collect()
        gc.freeze()
        if gc.get_freeze_count() > _GROWTH * self._frozen_at_last_full_look:
            self._look_at_all()

    def _look_at_all(self) -> None:
        gc.unfreeze()
        gc.collect()
        gc.freeze()
        self._frozen_at_last_full_look = gc.get_freeze_count()
