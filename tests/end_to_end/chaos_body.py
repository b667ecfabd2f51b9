"""A run of the chaos story: it holds locks, notes every event, and fails where its plan says so.

As a script it is a run without Prefect inside, which costs a tenth of one with it; the flow
`disturbed` calls `work` from inside Prefect's engine. Both leave the same journal. The locks are
the operating system's, so they end with the process that holds them, however it ends.
"""

# ruff: noqa: PTH100, PTH118, PTH120, PTH123 - loading pathlib takes longer than all the rest

import fcntl
import json
import os
import signal
import sys
import time

JOURNAL = "journal.jsonl"


class PlannedFailure(Exception):
    """The plan of the run has a failure here."""


class Terminated(BaseException):
    """SIGTERM came; no `except Exception` may swallow it."""


def work(folder, plan, begin_at=0, save=None):
    """Do the steps of the plan, and note what happens.

    Args:
        folder: Where the journal and the locks are.
        plan: `steps`, `step_s`, and `failures`: how many bodies of this run raise half way.
        begin_at: The step that the last checkpoint holds.
        save: Saves a step; True: it is saved. None: the run keeps no checkpoints.
    """
    run = os.environ["PREFECT__FLOW_RUN_ID"]
    raised = sum(e["run"] == run and e["what"] == "raised" for e in read(folder))
    fails_at = (begin_at + plan["steps"]) // 2 if raised < plan["failures"] else None
    held = _hold(folder, f"run-{run}", *devices())
    try:
        note(folder, "begin", step=begin_at)
        for step in range(begin_at, plan["steps"]):
            if step == fails_at:
                raise PlannedFailure(f"failure {raised + 1} of {plan['failures']}")
            time.sleep(plan["step_s"])
            if save is not None and save(step + 1):
                note(folder, "saved", step=step + 1)
        note(folder, "end")
    except Exception as error:
        note(folder, "raised", message=f"{type(error).__name__}: {error}")
        raise
    except BaseException as error:
        note(folder, "stopped", message=type(error).__name__)
        raise
    finally:
        for descriptor in held:
            os.close(descriptor)


def devices():
    """The ids of the GPUs that the environment of this process names."""
    return [device for device in os.environ["PREFECT_GPU_DEVICES"].split(",") if device]


def note(folder, what, **more):
    """Append one event, whole and on the disk when this returns."""
    entry = {
        "what": what,
        "run": os.environ["PREFECT__FLOW_RUN_ID"],
        "attempt": int(os.environ["PREFECT_GPU_ATTEMPT"]),
        "attempt_id": os.environ["PREFECT_GPU_ATTEMPT_ID"],
        "pid": os.getpid(),
        "devices": devices(),
        "at": time.time(),
        **more,
    }
    flags = os.O_WRONLY | os.O_APPEND | os.O_CREAT
    journal = os.open(os.path.join(folder, JOURNAL), flags, 0o666)
    try:
        os.write(journal, (json.dumps(entry) + "\n").encode())
        os.fsync(journal)
    finally:
        os.close(journal)


def read(folder):
    """All events of a journal, in the order in which they were written."""
    try:
        with open(os.path.join(folder, JOURNAL)) as journal:
            return [json.loads(line) for line in journal]
    except FileNotFoundError:
        return []


def _hold(folder, *names):
    """Lock these names; a lock that another process holds is noted, and the work goes on."""
    held = []
    for name in names:
        path = os.path.join(folder, f"{name}.lock")
        descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o666)
        held.append(descriptor)
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            holder = os.pread(descriptor, 200, 0).decode()
            note(folder, "taken", message=f"{name} is held by {holder}")
            continue
        os.ftruncate(descriptor, 0)
        me = f"{os.environ['PREFECT__FLOW_RUN_ID']}, attempt {os.environ['PREFECT_GPU_ATTEMPT']}"
        os.pwrite(descriptor, me.encode(), 0)
    return held


def main():
    """Run without Prefect inside: propose the states that its engine would propose."""
    sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
    from tiny_run import propose

    # A server that is killed is unavailable for longer than other stories' programs wait for it.
    patience = 600

    def stop(_number, _frame):
        raise Terminated

    signal.signal(signal.SIGTERM, stop)
    if not propose("RUNNING", "Running", tries=patience):
        return 0
    try:
        work(os.environ["CHAOS_FOLDER"], json.loads(os.environ["CHAOS_PLAN"]))
    except PlannedFailure as failure:
        signal.signal(signal.SIGTERM, signal.SIG_DFL)
        propose("FAILED", "Failed", tries=patience, message=str(failure))
        return 1
    except Terminated:
        signal.signal(signal.SIGTERM, signal.SIG_DFL)
        os.kill(os.getpid(), signal.SIGTERM)
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    propose("COMPLETED", "Completed", tries=patience)
    return 0


if __name__ == "__main__":
    sys.exit(main())
