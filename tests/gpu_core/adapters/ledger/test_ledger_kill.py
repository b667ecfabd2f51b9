"""What the ledger confirmed to a process stays written when the process is killed."""

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from gpu_core.adapters.ledger import Ledger
from gpu_core.decisions.model.attempts import EndReason
from gpu_core.testing.builders.attempts import NOON, at

_ROOT = Path(__file__).parents[4]
_WRITE_FOREVER = """
import itertools, os
from gpu_core.adapters.ledger import Ledger
from gpu_core.decisions.model.attempts import EndReason
from gpu_core.testing.builders.attempts import admit, at, make_attempt
ledger = Ledger.open(os.environ["LEDGER_URL"])
for index in itertools.count():
    run_id = f"run-{index}"
    admit(ledger, make_attempt(run_id))
    print("opened", run_id, flush=True)
    ledger.close_attempt(
        f"{run_id}/1", released_at=at(1), end_reason=EndReason.COMPLETED, end_message=None,
        exit_code=0, is_charged_failure=False,
    )
    print("closed", run_id, flush=True)
"""


@pytest.mark.parametrize("lines_before_kill", [1, 20, 75])
def test_a_killed_writer_loses_nothing_that_it_reported(
    ledger_url: str, lines_before_kill: int
) -> None:
    """SIGKILL at a random moment: every line that came out is in the ledger, whole."""
    writer = subprocess.Popen(
        [sys.executable, "-c", _WRITE_FOREVER],
        cwd=_ROOT,
        # Every user of the machine reads the arguments of a process.
        env={**os.environ, "LEDGER_URL": ledger_url},
        stdout=subprocess.PIPE,
        text=True,
    )
    assert writer.stdout is not None
    try:
        reported = [writer.stdout.readline() for _ in range(lines_before_kill)]
    finally:
        os.kill(writer.pid, signal.SIGKILL)
    # What it still wrote into the pipe was committed before it was written.
    reported += [line for line in writer.stdout if line.endswith("\n")]
    writer.wait(240)
    writer.stdout.close()

    with Ledger.open(ledger_url) as ledger:
        kept = {run.flow_run_id: attempts for run, attempts in ledger.usage(NOON, at(1))}
    for line in reported:
        event, run_id = line.split()
        (attempt,) = kept[run_id]
        assert event == "opened" or attempt.end_reason is EndReason.COMPLETED
        assert (attempt.released_at is None) == (attempt.end_reason is None)
