"""Who lets starts pass, and for how long."""

import anyio
import pytest

from gpu_core.worker.prefect import starts_first
from gpu_core.worker.prefect.starts_first import StartsFirst


async def passes(starts, passed):
    await starts.let_pass()
    passed.set()


def test_no_call_waits_where_nothing_starts():
    async def story():
        await StartsFirst().let_pass()

    anyio.run(story)


def test_a_report_waits_until_the_last_start_is_over():
    async def story():
        starts, passed = StartsFirst(), anyio.Event()
        async with anyio.create_task_group() as reports:
            with starts.start():
                with starts.start():
                    reports.start_soon(passes, starts, passed)
                    await anyio.wait_all_tasks_blocked()
                await anyio.wait_all_tasks_blocked()
                assert not passed.is_set()
            await passed.wait()

    anyio.run(story)


def test_a_queue_that_never_empties_keeps_a_report_for_a_bounded_time(monkeypatch):
    monkeypatch.setattr(starts_first, "LONGEST_YIELD_S", 0.01)

    async def story():
        starts = StartsFirst()
        with starts.start():
            await starts.let_pass()

    anyio.run(story)


def test_a_start_that_fails_is_over():
    async def story():
        starts = StartsFirst()
        with pytest.raises(ValueError, match="no image"), starts.start():
            raise ValueError("no image")
        await starts.let_pass()

    anyio.run(story)
