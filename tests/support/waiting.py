"""Waiting for what another process does."""

import time
from collections.abc import Callable

_LEAST_PATIENCE_S = 600.0
_SHORTEST_PAUSE_S = 0.1
_LONGEST_PAUSE_S = 0.5
_PAUSE_SHARE = 0.05


def wait_for(
    condition: Callable[[], object], what: str | Callable[[], str], timeout_s: float = 60.0
) -> None:
    """Look until the condition holds.

    The longer it takes, the longer the pauses: a look is a request to a server or a process, and
    looks at ten a second take a good part of a core from what they wait for.

    Args:
        condition: Of the system under test.
        what: The condition, for people; a function is asked when the time is over.
        timeout_s: Wait so long for it, and ten minutes at least: no verdict hangs on a busy
            machine. What has to be quick is timed by its test.

    Raises:
        AssertionError: It did not hold in time.
    """
    timeout_s = max(timeout_s, _LEAST_PATIENCE_S)
    started = time.monotonic()
    while not condition():
        waited_s = time.monotonic() - started
        if waited_s > timeout_s:
            expected = what if isinstance(what, str) else what()
            raise AssertionError(f"not within {timeout_s:.0f} s: {expected}")
        time.sleep(min(_LONGEST_PAUSE_S, max(_SHORTEST_PAUSE_S, _PAUSE_SHARE * waited_s)))
