"""When Python looks for cycles of garbage: seldom, and between scheduling cycles."""

import gc
from types import TracebackType
from typing import Self

YOUNG_OBJECTS = 100_000
"""New objects until Python looks at them. By default 700: a cycle over 10,000 runs makes 300,000
that it needs, and spends a third of its time with looking at them again and again."""

_NEW_BETWEEN_CYCLES = 10_000
"""New objects from which on a look between two cycles is worth its time: 5 to 20 ms."""

_LOOKS_UNTIL_FROZEN = 10
_GROWTH = 1.25
"""Python's own rule for its oldest objects (`gcmodule.c` of 3.11, `long_lived_total / 4`)."""


class RareGarbageCollection:
    """Lets Python look for cycles of garbage seldom while it is open.

    What no cycle holds is freed at once, as ever. A look at 100,000 new objects stops a busy worker
    for 0.2 to 0.5 s, a full look for 0.3 s. Without `look` both fall into a scheduling cycle. So it
    looks at new objects between cycles, and freezes what survives several looks: no later look
    visits these objects until there are a quarter more. The objects that are there when it opens,
    mostly 380,000 of imported modules, are among them.
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
        new, looks, full_looks = gc.get_count()
        if gc.get_threshold()[0] == 0:
            return
        if looks < _LOOKS_UNTIL_FROZEN and full_looks == 0:
            if new >= _NEW_BETWEEN_CYCLES:
                gc.collect(0)
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
