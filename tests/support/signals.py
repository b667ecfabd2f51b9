"""Start a command with the signal settings that a parent may leave to it.

    python -I -S signals.py usual|nohup|deaf COMMAND ARGUMENT...

A test that is about signals sets them itself, because the shell that runs the tests may have set
them too.
"""

import os
import signal
import sys
from pathlib import Path

_BOTH = (signal.SIGINT, signal.SIGTERM)
_IGNORED: dict[str, tuple[signal.Signals, ...]] = {
    "usual": (),
    # What a shell sets for a command in the background: `nohup worker &`, `setsid worker &`.
    "nohup": (signal.SIGINT,),
    "deaf": _BOTH,
}
_BLOCKED: dict[str, tuple[signal.Signals, ...]] = {"deaf": _BOTH}


def under(parent: str, command: list[str]) -> list[str]:
    """The command as a parent of this kind starts it.

    Args:
        parent: `usual`: nothing is set; `nohup`: SIGINT is ignored; `deaf`: SIGINT and SIGTERM are
            ignored and blocked.
        command: The program with its arguments.
    """
    return [sys.executable, "-I", "-S", str(Path(__file__)), parent, *command]


def main(arguments: list[str]) -> None:
    """Become the command."""
    parent, command = arguments[0], arguments[1:]
    for number in _BOTH:
        is_ignored = number in _IGNORED[parent]
        signal.signal(number, signal.SIG_IGN if is_ignored else signal.SIG_DFL)
    signal.pthread_sigmask(signal.SIG_UNBLOCK, _BOTH)
    signal.pthread_sigmask(signal.SIG_BLOCK, _BLOCKED.get(parent, ()))
    os.execvp(command[0], command)  # noqa: S606 - a shell would set signals of its own


if __name__ == "__main__":
    main(sys.argv[1:])
