"""A run that the version before has started, as the worker of that version left it.

It carries that version's mark in its environment, and does what its launcher and its runtime do:
answer a notice with a saved checkpoint, go back in line at SIGTERM, and note the end. It is the
files of that version that count, so nothing of this version is imported.
"""

# ruff: noqa: PTH110, PTH118, PTH123 - the standard library alone, and quickly

import datetime
import json
import os
import signal
import sys
import time

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), ".."))  # noqa: PTH100, PTH120
from tiny_run import propose

FOLDER = os.environ["PREFECT_GPU_RUN_DIR"]


class Terminated(BaseException):
    """SIGTERM came."""


def main() -> int:
    started_at = now()

    def stop(_number, _frame):
        raise Terminated

    signal.signal(signal.SIGTERM, stop)
    propose("RUNNING", "Running")
    try:
        wait_for_file("notice.json")
        write("checkpoint.json", json.loads(sys.argv[1]) | {"answers_notice": True})
        wait_for_file("nothing comes after the notice but SIGTERM")
    except Terminated:
        # Prefect's own process does so, as the worker has it reschedule.
        propose("SCHEDULED", "AwaitingRetry")
    write("exit.json", {"exit_code": 143, "started_at": started_at, "ended_at": now()})
    return 143


def wait_for_file(name: str) -> None:
    while not os.path.exists(os.path.join(FOLDER, name)):
        time.sleep(0.05)  # the pace of the work, not a wait for something


def write(name: str, record: dict[str, object]) -> None:
    path = os.path.join(FOLDER, name)
    with open(f"{path}.tmp", "w") as file:
        json.dump(record, file)
    os.replace(f"{path}.tmp", path)  # noqa: PTH105


def now() -> str:
    return datetime.datetime.now(datetime.UTC).isoformat(timespec="microseconds")


if __name__ == "__main__":
    sys.exit(main())
