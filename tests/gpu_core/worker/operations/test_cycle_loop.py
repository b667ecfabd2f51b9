"""When cycles run, and what happens to an error in one."""

import logging

import anyio
import pytest

from gpu_core.worker.operations.cycle_loop import CycleLoop, rest_s
from gpu_core.worker.startup.checks import CannotStart

LOG = logging.getLogger("prefect.gpu.test")


@pytest.mark.parametrize(
    ("took_s", "want"),
    [
        pytest.param(0.0, 0.1, id="a short cycle leaves a tenth of a second"),
        pytest.param(0.2, 0.4, id="twice as long as it took"),
        pytest.param(30.0, 1.0, id="no more than a second"),
    ],
)
def test_after_a_cycle_there_is_time_for_starts(took_s, want):
    assert rest_s(took_s) == want


def test_a_failed_cycle_does_not_end_the_loop_and_what_a_person_must_change_does(caplog):
    errors = [ValueError("a value"), CannotStart("no such pool")]

    async def cycle():
        raise errors.pop(0)

    async def story():
        loop = CycleLoop(cycle, lambda: 0.0, lambda: LOG)
        loop.wake()
        await loop.run()

    with pytest.raises(CannotStart, match="no such pool"):
        anyio.run(story)
    assert "Scheduling cycle failed. The worker retries in the next cycle." in caplog.text


def test_an_error_while_ends_are_looked_up_does_not_end_the_search(caplog):
    looks = []

    async def story():
        loop = CycleLoop(None, lambda: 60.0, lambda: LOG)

        def release():
            looks.append(len(looks))
            loop.wake()
            if len(looks) == 1:
                raise ValueError("a damaged attempt")
            tasks.cancel_scope.cancel()

        async with anyio.create_task_group() as tasks:
            tasks.start_soon(loop.release_while_cycle_waits, lambda: True, release)
            loop.wake()

    anyio.run(story)
    assert looks == [0, 1]
    assert "Failed to check for ended attempts" in caplog.text
