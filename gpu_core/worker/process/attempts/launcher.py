"""Start one command, pass SIGTERM and SIGINT on to it, and leave a record of how it ended.

    python -I -S launcher.py RUN_DIR [OBSERVER ARGUMENT...] -- COMMAND ARGUMENT...

A worker that is restarted cannot ask the kernel how a process ended that is no longer its child.
The launcher stays the command's parent, also when the worker ends, and writes
`RUN_DIR/exit.json` when the command ends. It is a script that imports nothing but the standard
library, and little of it, so that the command starts 20 ms later and 4 MiB of memory are used.

Signals go to the command alone, not to its process group: Prefect's engine ends its own children
in its own order. What the command leaves behind is found and ended by the worker.

OBSERVER is a program that observes the command while it runs. It begins after the command, without
the attempt's mark, and is killed when the command has ended; nothing that it does changes the run.
"""

# ruff: noqa: PTH105, PTH118, PTH123 - loading pathlib takes longer than all the rest

import os
import signal
import sys
import time

EXIT_FILE = "exit.json"
ATTEMPT_ID_VARIABLE = "PREFECT_GPU_ATTEMPT_ID"
LAUNCHER_PID_VARIABLE = "PREFECT_GPU_LAUNCHER_PID"
"""For the observer: a parent that was killed while the observer started cannot be asked for."""
COMMAND_NOT_STARTED = 127
WRONG_USAGE = 2
FORWARDED = (signal.SIGTERM, signal.SIGINT)


def main(arguments: list[str]) -> int:
    """Run the command to its end; the answer is its exit code as a shell gives it."""
    end = arguments.index("--") if "--" in arguments else 0
    run_dir, observer, command = arguments[:1], arguments[1:end], arguments[end + 1 :]
    if not end or not command:
        usage = "usage: launcher.py RUN_DIR [OBSERVER ARGUMENT...] -- COMMAND ARGUMENT..."
        print(usage, file=sys.stderr)
        return WRONG_USAGE
    return launch(run_dir[0], observer, command)


def launch(run_dir: str, observer: list[str], command: list[str]) -> int:
    """Run the command with its observer, and record how it ended."""
    started_s = time.time()
    try:
        exit_code = run(command, observer)
    except OSError as error:
        reason = f"{command[0]} cannot be started: {error.strerror}"
        print(reason, file=sys.stderr)
        record_exit(run_dir, COMMAND_NOT_STARTED, started_s, reason)
        return COMMAND_NOT_STARTED
    record_exit(run_dir, exit_code, started_s)
    return exit_code if exit_code >= 0 else 128 - exit_code


def run(command: list[str], observer: list[str]) -> int:
    """Start the command and wait for it; negative: the signal that killed it.

    The signals are blocked and taken one by one: none arrives before the command runs, or after its
    process id has been released and may belong to another process.

    Raises:
        OSError: The command cannot be started.
    """
    # The system may drop a blocked signal without a handler (macOS drops SIGCHLD).
    for number in (*FORWARDED, signal.SIGCHLD):
        signal.signal(number, lambda _number, _frame: None)
    outer_mask = signal.pthread_sigmask(signal.SIG_BLOCK, {*FORWARDED, signal.SIGCHLD})
    pid = os.posix_spawnp(
        command[0],
        command,
        os.environ,
        # A worker's parent may block or ignore what asks the command to end: `nohup` does.
        setsigmask=outer_mask - {*FORWARDED},
        # Python ignores the last two for itself; the command expects them as they were.
        setsigdef=(*FORWARDED, signal.SIGPIPE, signal.SIGXFSZ),
    )
    observer_pid = start_observer(observer, outer_mask)
    try:
        return wait(pid)
    finally:
        if observer_pid is not None:
            # It is not reaped yet: its process id is still its own.
            os.kill(observer_pid, signal.SIGKILL)


def wait(pid: int) -> int:
    """Pass signals on until the command has ended; its exit code, negative: a signal."""
    while True:
        received = signal.sigwait({*FORWARDED, signal.SIGCHLD})
        if received in FORWARDED:
            os.kill(pid, received)
            continue
        ended_pid, status = os.waitpid(pid, os.WNOHANG)
        if ended_pid == pid:  # otherwise it was stopped or continued, or the observer has ended
            return os.waitstatus_to_exitcode(status)


def start_observer(observer: list[str], mask: set[int | signal.Signals]) -> int | None:
    """The process id of the observer; None: there is none, or it cannot be started."""
    if not observer:
        return None
    # Without the mark: an attempt is over when its marked processes are.
    environment = {k: v for k, v in os.environ.items() if k != ATTEMPT_ID_VARIABLE}
    environment[LAUNCHER_PID_VARIABLE] = str(os.getpid())
    try:
        return os.posix_spawnp(observer[0], observer, environment, setsigmask=mask - {*FORWARDED})
    except OSError as error:
        print(f"{observer[0]} cannot be started: {error.strerror}", file=sys.stderr)
        return None


def record_exit(run_dir: str, exit_code: int, started_s: float, error: str | None = None) -> None:
    """Write `exit.json` in one step; the parent still has the exit code if the disk refuses."""
    # Imported here, so that the command did not have to wait 10 ms for them.
    import datetime
    import json

    started_at = datetime.datetime.fromtimestamp(started_s, datetime.UTC)
    ended_at = datetime.datetime.now(datetime.UTC)
    record: dict[str, object] = {
        "exit_code": exit_code,
        "started_at": started_at.isoformat(timespec="microseconds"),
        "ended_at": ended_at.isoformat(timespec="microseconds"),
    }
    if error is not None:
        record["error"] = error
    path = os.path.join(run_dir, EXIT_FILE)
    temporary = f"{path}.{os.getpid()}.tmp"
    try:
        with open(temporary, "w", encoding="utf-8") as file:
            json.dump(record, file)
            file.flush()
            os.fsync(file.fileno())
        os.replace(temporary, path)
    except OSError as failure:
        print(f"{path} cannot be written: {failure.strerror}", file=sys.stderr)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
