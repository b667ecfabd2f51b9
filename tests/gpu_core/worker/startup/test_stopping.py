"""SIGTERM cancels the worker's task, and ends a process whose stop takes too long."""

import asyncio
import os
import signal
import threading
from collections.abc import Callable

import pytest

from gpu_core.worker.startup import stopping
from gpu_core.worker.startup.stopping import stop_on_sigterm

TIME_LIMIT_S = 30


def survive(_code: int) -> None:
    """Go on: the guard of a test that is over may still act."""


def run(stay: Callable[[], object], end_process: Callable[[int], object]) -> list[str]:
    """What happens to a task that stays in the context, and gets SIGTERM there?"""
    seen: list[str] = []

    async def work() -> None:
        try:
            with stop_on_sigterm(
                lambda: seen.append("begin"), lambda: seen.append("cancel"), end_process
            ):
                os.kill(os.getpid(), signal.SIGTERM)
                stay()
                await asyncio.sleep(TIME_LIMIT_S)
        except asyncio.CancelledError:
            seen.append("cancelled")

    asyncio.run(work())
    return seen


@pytest.fixture(autouse=True)
def usual_signals():
    """SIGINT is ignored, as `nohup` does it; afterwards all is as before."""
    interrupt = signal.signal(signal.SIGINT, signal.SIG_IGN)
    terminate = signal.getsignal(signal.SIGTERM)
    yield
    signal.signal(signal.SIGINT, interrupt)
    signal.signal(signal.SIGTERM, terminate)


def test_sigterm_cancels_the_task_without_sigint():
    """First the flag, then what decides, then the task."""
    assert run(lambda: None, survive) == ["begin", "cancel", "cancelled"]


def test_a_stop_that_takes_too_long_ends_the_process(monkeypatch, capsys):
    """The loop is stuck in a call: the guard ends the process."""
    monkeypatch.setattr(stopping, "LONGEST_STOP_S", 0.01)
    ended = threading.Event()
    codes: list[int] = []

    def end_process(code: int) -> None:
        codes.append(code)
        ended.set()

    run(ended.wait, end_process)
    assert codes == [128 + signal.SIGTERM]
    assert "did not stop within" in capsys.readouterr().err


def test_a_second_sigterm_ends_the_process_at_once(monkeypatch):
    """It does not wait for the guard."""
    monkeypatch.setattr(stopping, "LONGEST_STOP_S", TIME_LIMIT_S)
    codes: list[int] = []

    def ask_again() -> None:
        os.kill(os.getpid(), signal.SIGTERM)
        assert codes == [128 + signal.SIGTERM]

    assert run(ask_again, codes.append)[0] == "begin"


def test_sigterm_that_the_parent_blocked_is_heard():
    """The worker unblocks it."""
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGTERM})
    try:
        assert "cancelled" in run(lambda: None, survive)
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


def test_without_sigterm_the_handler_before_is_there_again():
    """A worker that ends by itself, as with `--run-once`, leaves nothing behind."""

    async def work() -> None:
        earlier = set(threading.enumerate())
        with stop_on_sigterm(lambda: None, lambda: None, survive):
            assert signal.getsignal(signal.SIGTERM) is not signal.SIG_DFL
            (guard,) = set(threading.enumerate()) - earlier
        guard.join()
        assert not guard.is_alive()

    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    asyncio.run(work())
    assert signal.getsignal(signal.SIGTERM) is signal.SIG_DFL
