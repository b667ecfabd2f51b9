"""SIGTERM stops a worker within seconds, also where its parent process has blocked signals."""

import asyncio
import os
import signal
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from queue import Empty, SimpleQueue
from types import FrameType

LONGEST_STOP_S = 8.0
"""How long after SIGTERM the process ends at the latest. Kubernetes allows 30 s by default."""

# As a shell reports a process that SIGTERM ended.
_EXIT_CODE = 128 + signal.SIGTERM


@contextmanager
def stop_on_sigterm(
    begin: Callable[[], None],
    cancel: Callable[[], None],
    end_process: Callable[[int], object] = os._exit,
) -> Iterator[None]:
    """Let SIGTERM cancel the task that entered this context, while it lasts.

    Prefect turns SIGTERM into SIGINT, which has no effect on a worker that was started with SIGINT
    ignored: `nohup` in the background of a script does that. Here SIGTERM needs no other signal, is
    unblocked if the parent blocked it, and the process ends even where a call never returns. A
    second SIGTERM ends the process at once. In a thread that is not the main one nothing changes.

    Args:
        begin: Called at SIGTERM, between any two instructions of the main thread.
        cancel: Called in the event loop after that, before the task is cancelled.
        end_process: Ends the process with this exit code.
    """
    task = asyncio.current_task()
    if threading.current_thread() is not threading.main_thread() or task is None:
        yield
        return
    loop = asyncio.get_running_loop()
    # Its `put` is reentrant, as a signal handler needs it.
    notices: SimpleQueue[bool] = SimpleQueue()
    is_stopping = False

    def cancel_all() -> None:
        cancel()
        task.cancel()

    def stop(_number: int, _frame: FrameType | None) -> None:
        nonlocal is_stopping
        if is_stopping:
            end_process(_EXIT_CODE)
            return
        is_stopping = True
        begin()
        notices.put(True)
        loop.call_soon_threadsafe(cancel_all)

    def guard() -> None:
        if not notices.get():
            return
        try:
            notices.get(timeout=LONGEST_STOP_S)
        except Empty:
            text = (
                f"The worker did not stop within {LONGEST_STOP_S:.0f} seconds of SIGTERM "
                "and is killed."
            )
            print(text, file=sys.stderr, flush=True)
            end_process(_EXIT_CODE)

    before = signal.signal(signal.SIGTERM, stop)
    # Daemon: it must not keep alive a process that has ended in good order.
    threading.Thread(target=guard, name="stop-guard", daemon=True).start()
    signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGTERM})
    try:
        yield
    finally:
        # After SIGTERM all stays as it is, until the process has ended.
        if not is_stopping:
            signal.signal(signal.SIGTERM, before)
            notices.put(False)
