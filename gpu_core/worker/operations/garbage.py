"""Sets how often Python collects garbage."""

import gc
from collections.abc import Iterator
from contextlib import contextmanager

YOUNG_OBJECTS = 100_000
"""New objects until the next look. By default 700: a cycle over 10,000 runs makes 300,000 that it
needs, and spends a third of its time with looking at them again and again."""


@contextmanager
def rare_garbage_collection() -> Iterator[None]:
    """Lets Python look for cycles of garbage seldom, and only among new objects, while it is open.

    What no cycle holds is freed at once, as ever. Cycles of garbage stay for up to `YOUNG_OBJECTS`
    new objects, some tens of MB. The objects that are there when it opens, mostly 380,000 of
    imported modules, are not looked at: each full look at them stops a worker for 0.1 to 0.2 s.
    """
    _, *older = before = gc.get_threshold()
    gc.set_threshold(max(before[0], YOUNG_OBJECTS) if before[0] else 0, *older)
    gc.collect()
    gc.freeze()
    try:
        yield
    finally:
        gc.unfreeze()
        gc.set_threshold(*before)
