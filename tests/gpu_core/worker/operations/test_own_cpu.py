"""The CPU time of a cycle is its own: logs, starts and ends go on while it waits."""

import time

import anyio
import pytest

from gpu_core.worker.operations.cycle_log import StepTimes
from gpu_core.worker.operations.own_cpu import OwnCpu

SPENT_S = 0.05


def compute():
    until_s = time.thread_time() + SPENT_S
    while time.thread_time() < until_s:
        pass


async def computing(turns):
    for _ in range(turns):
        compute()
        await anyio.lowlevel.checkpoint()
    return turns


def test_what_others_compute_while_it_waits_does_not_count():
    own, steps = OwnCpu(), []

    async def story():
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(computing, 20)
            steps.append(StepTimes(own))
            assert await own.of(computing(2)) == 2

    before_s = time.process_time()
    anyio.run(story)
    all_s = time.process_time() - before_s
    assert all_s >= 22 * SPENT_S
    assert 2 * SPENT_S <= own.seconds <= all_s - 20 * SPENT_S
    assert steps[0].cpu_s == own.seconds


@pytest.mark.parametrize("is_swallowed", [False, True], ids=["it ends", "it goes on"])
def test_a_cancellation_reaches_it(is_swallowed):
    """The worker cancels what is under way when it stops."""
    seen = []

    async def waiting():
        try:
            await anyio.sleep_forever()
        except anyio.get_cancelled_exc_class():
            seen.append("cancelled")
            if not is_swallowed:
                raise
        return "went on"

    async def story():
        with anyio.CancelScope() as scope:
            async with anyio.create_task_group() as tasks:
                tasks.start_soon(stop, scope)
                found.append(await OwnCpu().of(waiting()))

    async def stop(scope):
        await anyio.lowlevel.checkpoint()
        scope.cancel()

    found = []
    anyio.run(story)
    assert seen == ["cancelled"]
    assert found == (["went on"] if is_swallowed else [])


def test_an_error_passes_with_its_time():
    async def failing():
        compute()
        raise OSError("away")

    own = OwnCpu()
    with pytest.raises(OSError, match="away"):
        anyio.run(own.of, failing())
    assert own.seconds >= SPENT_S
