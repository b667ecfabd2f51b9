"""A wait of the skipping loop takes no time, and ends what it would end."""

import time

import anyio
import anyio.lowlevel

from tests.support.skipped_waits import run_without_waits


def test_an_hour_is_over_at_once_and_timeouts_end_in_their_order():
    ended = []

    async def wait(wait_s):
        began_at_s = anyio.current_time()
        with anyio.move_on_after(wait_s):
            await anyio.sleep_forever()
        ended.append((wait_s, anyio.current_time() - began_at_s >= wait_s))

    async def main():
        async with anyio.create_task_group() as tasks:
            for wait_s in (3600.0, 1.0, 60.0):
                tasks.start_soon(wait, wait_s)
        return "done"

    began_at_s = time.monotonic()
    assert run_without_waits(main) == "done"
    assert ended == [(1.0, True), (60.0, True), (3600.0, True)]
    assert time.monotonic() - began_at_s < 600


def test_what_is_done_meanwhile_is_done_before_a_timeout():
    async def set_later(event):
        for _ in range(100):
            await anyio.lowlevel.checkpoint()
        event.set()

    async def main():
        heard = anyio.Event()
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(set_later, heard)
            with anyio.move_on_after(10.0) as scope:
                await heard.wait()
        return scope.cancelled_caught

    assert run_without_waits(main) is False
