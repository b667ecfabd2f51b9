"""The launcher records how its command ended, and passes signals to the command alone."""

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path

import psutil
import pytest

import gpu_core.worker.process.attempts.launcher as launcher_module
from gpu_core.adapters.files.run_files import ExitReport, read_exit_report
from gpu_core.decisions.requests.runs.run_context import ATTEMPT_ID_VARIABLE, EXIT_FILE
from tests.support import signals

LAUNCHER = launcher_module.__file__

Start = Callable[..., subprocess.Popen[str]]


@pytest.fixture
def start(tmp_path: Path) -> Iterator[Start]:
    """Start a command as the worker does: by the launcher, in a process group of its own."""
    started: list[subprocess.Popen[str]] = []

    def start_command(
        *command: str, run_dir: Path = tmp_path, parent: str = "usual"
    ) -> subprocess.Popen[str]:
        launcher = [sys.executable, "-I", "-S", LAUNCHER, str(run_dir), "--", *command]
        process = subprocess.Popen(
            signals.under(parent, launcher),
            start_new_session=True,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        started.append(process)
        return process

    yield start_command
    for process in started:
        if process.poll() is None:
            for left_over in psutil.Process(process.pid).children(recursive=True):
                left_over.kill()
            process.kill()
        process.communicate()


def python(code: str) -> tuple[str, ...]:
    return (sys.executable, "-I", "-S", "-c", code)


# Says when its handler is in place, and ends in a way that shows that it was asked.
PATIENT = """
import os, signal, sys
def end(number, frame):
    os.write(1, f"asked by {signal.Signals(number).name}\\n".encode())
    sys.exit(7)
signal.signal(signal.SIGTERM, end)
signal.signal(signal.SIGINT, end)
woken, wake = os.pipe()  # a signal that comes just before pause() would not end that
os.set_blocking(wake, False)
signal.set_wakeup_fd(wake)
os.write(1, b"ready\\n")  # print() may not be interrupted by a handler that prints
while True:
    os.read(woken, 1)
"""


def first_line(process: subprocess.Popen[str]) -> str:
    assert process.stdout is not None
    return process.stdout.readline()


def ended(process: subprocess.Popen[str]) -> tuple[int, str]:
    output, _ = process.communicate()
    return process.returncode, output


def until(condition: Callable[[], bool]) -> None:
    while not condition():
        time.sleep(0.01)  # between two looks at a real process


@pytest.mark.parametrize(
    ("command", "want_code", "want_recorded"),
    [
        pytest.param(("true",), 0, 0, id="success"),
        pytest.param(python("raise SystemExit(3)"), 3, 3, id="its own exit code"),
        pytest.param(python("raise SystemExit(255)"), 255, 255, id="the largest exit code"),
        pytest.param(
            python("import os; os.kill(os.getpid(), 9)"), 137, -9, id="killed, as by lack of memory"
        ),
        pytest.param(python("import os; os.abort()"), 134, -6, id="aborted"),
    ],
)
def test_how_the_command_ended_is_recorded(
    start: Start, tmp_path: Path, command: tuple[str, ...], want_code: int, want_recorded: int
) -> None:
    """The code is in exit.json and is the launcher's own; a signal is negative there."""
    before = datetime.now(UTC)
    assert ended(start(*command))[0] == want_code
    report = read_exit_report(tmp_path)
    assert report is not None
    assert report == ExitReport(
        exit_code=want_recorded, started_at=report.started_at, ended_at=report.ended_at
    )
    assert report.started_at is not None
    earliest = before - timedelta(seconds=1)
    assert earliest <= report.started_at <= report.ended_at <= datetime.now(UTC)
    assert [path.name for path in tmp_path.iterdir()] == [EXIT_FILE]


def test_output_and_environment_are_the_commands_own(start: Start) -> None:
    """Arguments, output, environment and signal settings arrive as they were."""
    code = """
import os, signal, sys
print(sys.argv[1:], os.environ["HOME"] != "", signal.pthread_sigmask(signal.SIG_BLOCK, ()))
"""
    assert ended(start(*python(code), "a b", "--", "-x")) == (
        0,
        "['a b', '--', '-x'] True set()\n",
    )


def test_a_broken_pipe_ends_the_command_as_usual(start: Start, tmp_path: Path) -> None:
    """Python ignores SIGPIPE for itself; a command under the launcher must not inherit that."""
    start("sh", "-c", "kill -PIPE $$").communicate()
    assert json.loads((tmp_path / EXIT_FILE).read_text())["exit_code"] == -signal.SIGPIPE


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_signal_is_passed_on(start: Start, tmp_path: Path, number: signal.Signals) -> None:
    """The command decides how it ends, and the launcher outlives it to record that."""
    process = start(*python(PATIENT))
    assert first_line(process) == "ready\n"
    process.send_signal(number)
    assert ended(process) == (7, f"asked by {number.name}\n")
    report = read_exit_report(tmp_path)
    assert report is not None
    assert report.exit_code == 7


@pytest.mark.parametrize("parent", ["nohup", "deaf"])
def test_sigterm_ends_a_command_whatever_the_workers_parent_set(
    start: Start, tmp_path: Path, parent: str
) -> None:
    """The command begins with SIGTERM and SIGINT as they are by default."""
    code = "import signal; print(signal.getsignal(signal.SIGINT).__name__, flush=True)"
    process = start(*python(f"{code}; signal.pause()"), parent=parent)
    assert first_line(process) == "default_int_handler\n"
    process.send_signal(signal.SIGTERM)
    process.communicate()
    report = read_exit_report(tmp_path)
    assert report is not None
    assert report.exit_code == -signal.SIGTERM


def test_a_signal_goes_to_the_command_alone(start: Start) -> None:
    """The command's own children get no signal from the launcher."""
    code = f"""
import os, subprocess, sys
grandchild = subprocess.Popen([sys.executable, "-I", "-S", "-c", {PATIENT!r}],
                              stdout=subprocess.PIPE, text=True)
grandchild.stdout.readline()
import signal
def end(number, frame):
    os.write(1, f"grandchild {{grandchild.poll()}}\\n".encode())
    grandchild.kill()
    grandchild.communicate()
    sys.exit(0)
woken, wake = os.pipe()
os.set_blocking(wake, False)
signal.set_wakeup_fd(wake)
signal.signal(signal.SIGTERM, end)
os.write(1, b"ready\\n")
while True:
    os.read(woken, 1)
"""
    process = start(*python(code))
    assert first_line(process) == "ready\n"
    process.terminate()
    assert ended(process) == (0, "grandchild None\n")


def test_a_signal_during_the_start_is_not_lost(start: Start, tmp_path: Path) -> None:
    """Whenever SIGTERM comes, the launcher ends soon; no command is left without its launcher."""
    mark = str(tmp_path / "this test's")
    for delay_s in (0.005, 0.01, 0.015, 0.02, 0.03, 0.05):
        process = start(*python("import time; time.sleep(600)"), mark)
        time.sleep(delay_s)  # the point of the start at which the signal arrives
        process.terminate()
        assert ended(process)[0] in (-signal.SIGTERM, 128 + signal.SIGTERM)
    running = psutil.process_iter(["cmdline"])
    assert [p for p in running if mark in (p.info["cmdline"] or ())] == []


@pytest.mark.parametrize(
    ("command", "want_error"),
    [
        pytest.param(
            ("no-such-command-here",),
            "no-such-command-here cannot be started: No such file or directory",
            id="it does not exist",
        ),
        pytest.param(("/",), "/ cannot be started: Permission denied", id="it is a folder"),
    ],
)
def test_a_command_that_cannot_be_started(
    start: Start, tmp_path: Path, command: tuple[str, ...], want_error: str
) -> None:
    """It is recorded as 127 with the reason."""
    process = start(*command)
    _, error = process.communicate()
    assert (process.returncode, error) == (127, want_error + "\n")
    report = read_exit_report(tmp_path)
    assert report is not None
    assert (report.exit_code, report.error) == (127, want_error)


def test_a_killed_launcher_records_nothing(start: Start, tmp_path: Path) -> None:
    """Its end was not observed, so nothing is recorded; the command runs on and is no zombie."""
    process = start(*python("import os; print(os.getpid(), flush=True)\n" + PATIENT))
    command = psutil.Process(int(first_line(process)))
    assert first_line(process) == "ready\n"
    process.kill()
    assert process.wait() == -signal.SIGKILL
    assert command.status() != psutil.STATUS_ZOMBIE
    command.kill()
    until(lambda: not command.is_running() or command.status() == psutil.STATUS_ZOMBIE)
    assert list(tmp_path.iterdir()) == []


def test_a_stopped_command_has_not_ended(start: Start, tmp_path: Path) -> None:
    """SIGSTOP and SIGCONT signal the launcher something, but not that the command is over."""
    process = start(*python("import os; print(os.getpid(), flush=True)\n" + PATIENT))
    command = psutil.Process(int(first_line(process)))
    assert first_line(process) == "ready\n"
    command.suspend()
    until(lambda: command.status() == psutil.STATUS_STOPPED)
    command.resume()
    process.terminate()
    assert ended(process)[0] == 7


def test_a_missing_run_folder_does_not_hide_the_exit_code(start: Start, tmp_path: Path) -> None:
    """Where the record cannot be written, the launcher's own exit code still says so."""
    process = start("sh", "-c", "exit 5", run_dir=tmp_path / "gone")
    _, error = process.communicate()
    assert process.returncode == 5
    assert "exit.json cannot be written: No such file or directory" in error


@pytest.mark.parametrize(
    "arguments", [[], ["/tmp"], ["/tmp", "--"], ["/tmp", "true", "x"], ["--", "true"]]
)
def test_wrong_usage(arguments: list[str]) -> None:
    """A wrong call says how it is meant, and starts nothing."""
    called = subprocess.run(
        [sys.executable, "-I", "-S", LAUNCHER, *arguments],
        capture_output=True,
        text=True,
        check=False,
    )
    assert (called.returncode, called.stdout) == (2, "")
    assert called.stderr.startswith("usage: launcher.py RUN_DIR [OBSERVER ARGUMENT...] -- COMMAND")


def test_it_needs_nothing_but_the_standard_library() -> None:
    """It runs before, and outlives, everything that is installed; and the names agree."""
    assert launcher_module.EXIT_FILE == EXIT_FILE
    assert launcher_module.ATTEMPT_ID_VARIABLE == ATTEMPT_ID_VARIABLE
    script = f"import runpy, sys; runpy.run_path({LAUNCHER!r}); print(*sorted(sys.modules))"
    loaded = subprocess.run(
        [sys.executable, "-I", "-S", "-c", script], capture_output=True, text=True, check=True
    ).stdout.split()
    assert not {"json", "subprocess", "pathlib", "gpu_core", "prefect", "site"} & set(loaded)


OBSERVER = """
import os, pathlib, sys, time
folder = pathlib.Path(sys.argv[1])
(folder / "seen").write_text(f"{os.getpid()} {os.environ.get('PREFECT_GPU_ATTEMPT_ID')}")
time.sleep(600)
"""

# Ends once the observer has been there.
OBSERVED = """
import pathlib, sys, time
seen = pathlib.Path(sys.argv[1]) / "seen"
while not seen.exists() or not seen.read_text():
    time.sleep(0.01)
sys.exit(3)
"""


def launched(tmp_path: Path, observer: Sequence[str], command: Sequence[str]) -> int:
    return subprocess.run(
        [sys.executable, "-I", "-S", LAUNCHER, str(tmp_path), *observer, "--", *command],
        env={**os.environ, ATTEMPT_ID_VARIABLE: "attempt-1"},
        check=False,
    ).returncode


def test_what_observes_the_command_ends_with_it_and_carries_no_mark(tmp_path: Path) -> None:
    """The worker takes whatever carries the mark for a part of the attempt."""
    folder = str(tmp_path)
    code = launched(tmp_path, (*python(OBSERVER), folder), (*python(OBSERVED), folder))
    pid, mark = (tmp_path / "seen").read_text().split()
    assert (code, mark) == (3, "None")
    assert not psutil.pid_exists(int(pid)) or psutil.Process(int(pid)).status() == "zombie"


@pytest.mark.parametrize(
    "observer",
    [
        pytest.param(("/no/such/program",), id="cannot be started"),
        pytest.param(python("raise SystemExit(1)"), id="ends at once"),
    ],
)
def test_an_observer_that_fails_changes_nothing(tmp_path: Path, observer: Sequence[str]) -> None:
    """The command's exit code is the launcher's, and its end is recorded."""
    assert launched(tmp_path, observer, python("raise SystemExit(5)")) == 5
    report = read_exit_report(tmp_path)
    assert report is not None
    assert report.exit_code == 5
