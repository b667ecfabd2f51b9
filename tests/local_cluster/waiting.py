"""Waiting for something outside this process."""

import time
from collections.abc import Callable

_PAUSE_S = 0.05


def wait_for(is_so: Callable[[], bool], within_s: float) -> bool:
    """Is it so within this time? Looks at once, then every 50 ms."""
    deadline = time.monotonic() + within_s
    while not is_so():
        if time.monotonic() > deadline:
            return False
        time.sleep(_PAUSE_S)
    return True
