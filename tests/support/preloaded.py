"""Processes of Prefect's command and of ours that import nothing: one that has is forked.

A worker takes seconds of the processor until it has imported Prefect and the clients of Kubernetes
and databases, and the stories start it a hundred times. A fork is a process like any other: with a
session, an environment and an output of its own.
"""

import atexit
import importlib
import multiprocessing
import os
import random
import signal
import subprocess
import sys
import tempfile
from collections.abc import Mapping, Sequence
from functools import cache
from multiprocessing.context import ForkServerContext, ForkServerProcess
from pathlib import Path


class Forked:
    """A forked process, with what stories ask of a `subprocess.Popen`."""

    def __init__(self, process: ForkServerProcess) -> None:
        assert process.pid is not None
        self._process = process
        self.pid = process.pid

    @property
    def returncode(self) -> int | None:
        """How it ended, negative: by that signal. None: it runs."""
        return self._process.exitcode

    def poll(self) -> int | None:
        """The same."""
        return self._process.exitcode

    def wait(self, timeout: float | None = None) -> int:
        """Wait until it has ended.

        Raises:
            subprocess.TimeoutExpired: It runs on.
        """
        self._process.join(timeout)
        if self.returncode is None:
            raise subprocess.TimeoutExpired("a forked process", timeout or 0.0)
        return self.returncode

    def send_signal(self, number: int) -> None:
        """Send it this signal, if it runs."""
        if self.returncode is None:
            os.kill(self.pid, number)


def fork(
    program: str,
    arguments: Sequence[str],
    environment: Mapping[str, str],
    output: Path,
    errors: Path | None = None,
    folder: Path | None = None,
) -> Forked:
    """Start a command.

    Args:
        program: `prefect` or `prefect-gpu`.
        arguments: Of the command.
        environment: All that it finds in its environment.
        output: What it prints is appended to this file.
        errors: And what it prints to standard error to this one; None: to the same.
        folder: Where it runs; None: here.
    """
    files = (output, errors or output)
    process = _context().Process(
        target=_become,
        args=(program, tuple(arguments), dict(environment), files, folder or Path.cwd()),
        daemon=True,
    )
    process.start()
    return Forked(process)


def run(
    program: str, arguments: Sequence[str], environment: Mapping[str, str], folder: Path
) -> subprocess.CompletedProcess[str]:
    """Run a command in this folder to its end, as `subprocess.run` does."""
    with tempfile.TemporaryDirectory() as room:
        printed = (Path(room, "stdout"), Path(room, "stderr"))
        for each in printed:
            each.touch()
        code = fork(program, arguments, environment, *printed, folder=folder).wait()
        texts = (each.read_text() for each in printed)
        return subprocess.CompletedProcess([program, *arguments], code, *texts)


@cache
def _context() -> ForkServerContext:
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload(["tests.support.preloaded_modules"])
    return context


def _become(
    program: str,
    arguments: Sequence[str],
    environment: Mapping[str, str],
    files: tuple[Path, Path],
    folder: Path,
) -> None:
    """Be the command, in the forked process."""
    from kubernetes_asyncio.config import kube_config
    from prefect.cli import app
    from prefect.context import refresh_global_settings_context

    from gpu_core.cli.main import main

    os.setsid()
    signal.signal(signal.SIGINT, signal.default_int_handler)
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    for standard, file in enumerate(files, start=1):
        with file.open("ab") as opened:
            os.dup2(opened.fileno(), standard)
    os.chdir(folder)
    os.environ.clear()
    os.environ.update(environment)
    random.seed()  # or all forks would draw the same
    refresh_global_settings_context()
    importlib.reload(kube_config)  # reads KUBECONFIG when it is imported
    sys.argv = [program, *arguments]
    try:
        sys.exit(app() if program == "prefect" else main(arguments))
    finally:
        atexit._run_exitfuncs()  # multiprocessing leaves them out
