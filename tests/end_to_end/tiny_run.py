"""A run that costs nearly nothing: what Prefect's own process does to the states, and no more.

Started by the job variable `command`, for tests that need many runs. It notes its beginning and its
end, SIGTERM's too, in a journal that every attempt appends to, which is how a test knows what
really ran.
"""

import json
import os
import signal
import sys
import time
import urllib.request


def main() -> int:
    signal.signal(signal.SIGTERM, lambda *_: stop())
    note("begin")
    gate = os.environ.get("TINY_GATE", "")
    while gate and not os.path.exists(gate):  # noqa: PTH110 - as below
        time.sleep(0.02)
    if not propose("RUNNING", "Running"):
        note("refused")
        return 0
    until = time.monotonic() + float(os.environ.get("TINY_SECONDS", "0.5"))
    release = os.environ.get("TINY_RELEASE", "")
    while time.monotonic() < until and not os.path.exists(release):  # noqa: PTH110 - as below
        time.sleep(0.02)
    note("end")
    propose("COMPLETED", "Completed")
    return 0


def stop() -> None:
    """End as SIGTERM ends a process that does not handle it."""
    note("stopped")
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    os.kill(os.getpid(), signal.SIGTERM)


def note(what: str) -> None:
    """One line, whole: appends of this size are atomic."""
    entry = {
        "what": what,
        "run": os.environ["PREFECT__FLOW_RUN_ID"],
        "attempt": int(os.environ["PREFECT_GPU_ATTEMPT"]),
        "devices": os.environ["PREFECT_GPU_DEVICES"].split(","),
        "cuda": os.environ["CUDA_VISIBLE_DEVICES"],
        "checkpoint_interval_s": int(os.environ["PREFECT_GPU_CHECKPOINT_INTERVAL_S"]),
        "at": time.time(),
    }
    with open(os.environ["TINY_JOURNAL"], "a") as journal:  # noqa: PTH123 - quicker to import
        journal.write(json.dumps(entry) + "\n")


def propose(kind: str, name: str, *, tries: int = 50, message: str | None = None) -> bool:
    """Propose a state; False if the server refuses it, or does not answer so many tries."""
    body = json.dumps({"state": {"type": kind, "name": name, "message": message}}).encode()
    run = os.environ["PREFECT__FLOW_RUN_ID"]
    request = urllib.request.Request(  # noqa: S310 - a loopback address
        f"{os.environ['PREFECT_API_URL']}/flow_runs/{run}/set_state",
        data=body,
        headers={"Content-Type": "application/json"},
    )
    for _ in range(tries):
        try:
            with urllib.request.urlopen(request, timeout=240) as response:  # noqa: S310 - as above
                return json.load(response)["status"] == "ACCEPT"
        except OSError:  # refused, reset, timed out or answered with an error
            time.sleep(0.2)
    return False


if __name__ == "__main__":
    sys.exit(main())
