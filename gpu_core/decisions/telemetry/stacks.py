"""The stacks of a process's threads: faulthandler writes the main thread last, here it is first."""

import re

_THREAD = re.compile(r"^(?=(?:Current thread|Thread) )", re.M)


def main_thread_first(written: str) -> str:
    """The stacks that faulthandler wrote, from the innermost frame of the main thread on.

    So the outer frames and the other threads are what is missing where they are cut.
    """
    return "\n\n".join(reversed(_threads(written)))


def innermost_frames(stacks: str, frames: int) -> str:
    """Those of the first thread, one a line.

    Args:
        stacks: With the main thread first.
        frames: How many.
    """
    first = (_threads(stacks) or [""])[0]
    lines = (line.strip() for line in first.splitlines())
    return "\n".join([line for line in lines if line.startswith("File ")][:frames])


def _threads(stacks: str) -> list[str]:
    return [each.strip() for each in _THREAD.split(stacks) if each.strip()]
