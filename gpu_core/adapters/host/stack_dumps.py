"""The stacks of the ranks of a run on this machine, taken by a signal."""

import os
import signal
import time
from collections.abc import Sequence
from pathlib import Path

import psutil

from gpu_core.adapters.files.progress_report import ProgressReport, read_stacks
from gpu_core.adapters.host.attempt_mark import attempt_id_of
from gpu_core.decisions.telemetry.stacks import main_thread_first

# The handler is C code of Python itself and answers within milliseconds, also where Python hangs.
_ANSWER_S = 2.0
_POLL_S = 0.05


def dump_stacks(
    run_dir: Path, attempt_id: str, reports: Sequence[ProgressReport]
) -> dict[int, str]:
    """The stacks of these ranks at this moment, by rank. Those that do not answer are left out.

    The main thread is the first of each.

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
    found = dict.fromkeys(asked, "")
    written = set[int]()
    until_s = time.monotonic() + _ANSWER_S
    while asked.keys() - written and time.monotonic() < until_s:
        time.sleep(_POLL_S)
        for rank, length in asked.items():
            text = read_stacks(run_dir, rank)[length:]
            if text and text == found[rank]:  # all of it: the main thread comes last
                written.add(rank)
            found[rank] = text
    return {rank: main_thread_first(text) for rank, text in found.items() if text}


def _ask(pid: int, attempt_id: str) -> bool:
    """Send the signal to this process of the attempt; False: it is none, or gone."""
    try:
        if attempt_id_of(psutil.Process(pid)) != attempt_id:
            return False
        os.kill(pid, signal.SIGUSR2)
    except (psutil.Error, OSError):
        return False
    return True
