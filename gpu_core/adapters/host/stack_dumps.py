"""The stacks of the ranks of a run on this machine, taken by a signal."""

import os
import signal
import time
from collections.abc import Sequence
from pathlib import Path

import psutil

from gpu_core.adapters.files.progress_report import ProgressReport, read_stacks
from gpu_core.adapters.host.attempt_mark import attempt_id_of

# The handler is C code of Python itself and answers within milliseconds, also where Python hangs.
_ANSWER_S = 2.0
_POLL_S = 0.05


def dump_stacks(
    run_dir: Path, attempt_id: str, reports: Sequence[ProgressReport]
) -> dict[int, str]:
    """What do these ranks do at this moment? By rank; those that do not answer are left out.

    Args:
        run_dir: Where they write.
        attempt_id: Whose processes they are: no other process gets the signal.
        reports: Of the ranks.
    """
    asked = {}
    for report in reports:
        before = read_stacks(run_dir, report.rank)
        if report.dumps_stacks and _ask(report.pid, attempt_id):
            asked[report.rank] = len(before)
    found: dict[int, str] = {}
    until_s = time.monotonic() + _ANSWER_S
    while asked.keys() - found.keys() and time.monotonic() < until_s:
        time.sleep(_POLL_S)
        for rank, length in asked.items():
            text = read_stacks(run_dir, rank)[length:]
            if text and text == found.get(rank, ""):
                continue
            if text:
                found[rank] = text
    return found


def _ask(pid: int, attempt_id: str) -> bool:
    """Send the signal to this process of the attempt; False: it is none, or gone."""
    try:
        if attempt_id_of(psutil.Process(pid)) != attempt_id:
            return False
        os.kill(pid, signal.SIGUSR2)
    except (psutil.Error, OSError):
        return False
    return True
