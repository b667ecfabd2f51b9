"""A process of an attempt that hangs in a function that its stack names."""

import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from gpu_core.decisions.requests.runs.run_context import ATTEMPT_ID_VARIABLE

FUNCTION = "waits_for_the_others"
_PROGRAM = f"""
import faulthandler, signal, sys, threading
def {FUNCTION}():
    print("ready", flush=True)
    threading.Event().wait()
faulthandler.register(signal.SIGUSR2, file=open(sys.argv[1], "w"), all_threads=True)
{FUNCTION}()
"""


@contextmanager
def hanging_process(attempt_id: str, stacks: Path) -> Iterator[subprocess.Popen[str]]:
    """The process, which hangs while the context lasts; no signal may have ended it at the end.

    Args:
        attempt_id: The attempt whose mark it carries.
        stacks: Where it writes its stacks when it is asked to.
    """
    process = subprocess.Popen(
        [sys.executable, "-c", _PROGRAM, str(stacks)],
        env=os.environ | {ATTEMPT_ID_VARIABLE: attempt_id},
        stdout=subprocess.PIPE,
        text=True,
    )
    with process:
        try:
            assert process.stdout is not None
            process.stdout.readline()
            yield process
            assert process.poll() is None
        finally:
            process.kill()
