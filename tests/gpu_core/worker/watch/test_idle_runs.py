"""Which owners are warned that their runs use no GPU, and which of these runs are stopped."""

import logging
from datetime import timedelta
from types import SimpleNamespace

import anyio
import pytest

from gpu_core.adapters.files.progress_report import ProgressReport
from gpu_core.decisions.policy.idle import IdlePolicy
from gpu_core.decisions.telemetry.activity import RunActivity
from gpu_core.decisions.telemetry.idle_state import IdleState
from gpu_core.decisions.telemetry.samples import GpuSample
from gpu_core.testing.builders.attempts import NOON, at
from gpu_core.worker.infrastructure import ObservedUse
from gpu_core.worker.watch.idle_runs import IdleWatch
from tests.support.watched_run import RUN, collect_artifacts, watched_run

MODULE = "gpu_core.worker.watch.idle_runs"
QUIET = {"utilization_ratio": 0.0, "memory_used_bytes": 40 * 2**30, "process_ids": (17,)}
BUSY = QUIET | {"utilization_ratio": 0.9}
EVERY_S = 20.0


def minutes(number):
    return NOON + timedelta(minutes=number)


class Infrastructure:
    """What the watch asks of it: samples of one minute after the other."""

    def __init__(self):
        self.activity = RunActivity.of(("GPU-0",), NOON)
        self.progress = ()

    def sampled(self, values, until):
        """A sample a minute from the last one to this minute."""
        while self.activity.at < minutes(until):
            moment = self.activity.at + timedelta(minutes=1)
            sample = GpuSample(gpu_id="GPU-0", at=moment, **values)
            self.activity = self.activity.with_samples({"GPU-0": sample}, moment, cores=0.01)

    async def observed_use(self, _running):
        return ObservedUse(activity=self.activity, progress=self.progress)


class Blocks:
    """The notification blocks of Prefect: what they were given, when the test lets them answer."""

    def __init__(self):
        self.answers = anyio.Event()
        self.sent = []

    async def load(self, _name):
        await self.answers.wait()
        return self

    async def notify(self, body, subject):
        self.sent.append((subject, body))


class World:
    """An idle watch over one run, in a world whose time the test moves."""

    def __init__(self, attempts, tasks, monkeypatch):
        self.now_s = 0.0
        monkeypatch.setattr(f"{MODULE}.anyio.current_time", lambda: self.now_s)
        self.infrastructure, self.blocks = Infrastructure(), Blocks()
        self.watch = IdleWatch(
            SimpleNamespace(), attempts, self.infrastructure, tasks, self.blocks.load
        )

    async def look(self, minute, values=QUIET, action="stop", **policy):
        """Is the run stopped at this minute, up to which its samples had these values?"""
        if values is not None:
            self.infrastructure.sampled(values, minute)
        self.now_s += EVERY_S
        found = await self.watch.idle(IdlePolicy(action=action, **policy), minutes(minute))
        await anyio.wait_all_tasks_blocked()
        return bool(found)


@pytest.fixture
def story(tmp_path, monkeypatch, caplog):
    """Runs a scenario over a watched run; what its log and its page said."""

    def run(scenario, **attempt):
        shown = collect_artifacts(monkeypatch, MODULE)

        async def main():
            async with anyio.create_task_group() as tasks:
                await scenario(World(attempts, tasks, monkeypatch))
                tasks.cancel_scope.cancel()

        with watched_run(tmp_path, **attempt) as attempts, caplog.at_level(logging.INFO):
            anyio.run(main)
        said = [r.getMessage() for r in caplog.records if r.name == "prefect.flow_runs.gpu"]
        return said, shown

    return run


# Quiet for half an hour from minute 11 on, and ten minutes of grace after the warning.
IDLE_AT, STOPPED_AT = 42, 53


@pytest.mark.parametrize(
    ("action", "want_stopped", "want_warnings"),
    [
        pytest.param("stop", [False, False, True], 1, id="a grace after the warning"),
        pytest.param("warn", [False, False, False], 1, id="only warned by policy"),
        pytest.param("off", [False, False, False], 0, id="not looked at"),
    ],
)
def test_when_an_idle_run_is_stopped(story, action, want_stopped, want_warnings):
    async def scenario(world):
        assert not await world.look(10, BUSY, action)
        moments = (IDLE_AT, IDLE_AT + 5, STOPPED_AT)
        assert [await world.look(at, action=action) for at in moments] == want_stopped

    said, shown = story(scenario)
    assert len(said) == len(shown) == want_warnings
    assert all("Finished, but holding its GPUs" in line for line in said)


def test_a_run_that_works_again_is_not_stopped_and_is_warned_anew(story):
    async def scenario(world):
        await world.look(10, BUSY)
        await world.look(IDLE_AT)
        assert not await world.look(STOPPED_AT, BUSY)
        assert not await world.look(STOPPED_AT + 31), "a whole grace follows the second warning"
        assert await world.look(STOPPED_AT + 42)

    said, shown = story(scenario)
    assert [line.partition(":")[0].partition(" for ")[0] for line in said] == [
        "Finished, but holding its GPUs",
        "Using its GPUs again",
        "Finished, but holding its GPUs",
    ]
    assert len(shown) == 3


@pytest.mark.parametrize(
    "change",
    [
        pytest.param(lambda i: setattr(i, "activity", None), id="its GPUs are not sampled"),
        pytest.param(lambda i: i.sampled({}, IDLE_AT + 60), id="its samples have no value"),
        pytest.param(lambda _i: None, id="its samples are late"),
        pytest.param(
            lambda i: (
                i.sampled(QUIET, IDLE_AT + 60),
                setattr(i, "progress", (report(minutes(IDLE_AT + 55)),)),
            ),
            id="it reports steps",
        ),
    ],
)
def test_what_is_missing_or_late_counts_as_activity(story, change):
    async def scenario(world):
        await world.look(10, BUSY)
        change(world.infrastructure)
        assert not await world.look(IDLE_AT + 60, None)
        assert not await world.look(IDLE_AT + 60, None, grace="0s")

    assert story(scenario) == ([], [])


def report(progressed_at):
    return ProgressReport(attempt_id=f"{RUN}/1", pid=7, progressed_at=progressed_at)


@pytest.mark.parametrize(
    "fields",
    [
        pytest.param({"gpu_ids": ()}, id="it has no GPU"),
        pytest.param({"drain_requested_at": at(0.1)}, id="it ends already"),
    ],
)
def test_who_is_not_watched(story, fields):
    async def scenario(world):
        await world.look(10, BUSY)
        assert [await world.look(minute) for minute in (IDLE_AT, STOPPED_AT)] == [False, False]
        assert world.watch.uses() == []

    assert story(scenario, **fields) == ([], [])


def test_a_cycle_does_not_wait_for_a_notification(story):
    """A webhook may take half a minute, and the worker has other runs to start."""

    async def scenario(world):
        await world.look(10, BUSY)
        with anyio.fail_after(60):  # for ever, where a cycle waits for the block
            await world.look(IDLE_AT, notify=["slack-webhook/idle"])
        assert world.blocks.sent == []
        world.blocks.answers.set()
        await anyio.wait_all_tasks_blocked()
        ((subject, body),) = world.blocks.sent
        assert subject.endswith("is not using its GPUs")
        assert body.startswith("Finished, but holding its GPUs for 31m")

    said, _ = story(scenario)
    assert len(said) == 1


def test_the_metrics_have_the_state_of_each_run_and_its_cost(story):
    async def scenario(world):
        for minute, values, want in (
            (10, BUSY, (IdleState.WORKING, False)),
            (20, QUIET, (IdleState.STALLED, False)),
            (IDLE_AT, QUIET, (IdleState.FINISHED, True)),
        ):
            await world.look(minute, values)
            (use,) = world.watch.uses()
            assert (use.state, use.is_idle) == want
            assert (use.team, use.gpus, use.hourly_micro_usd) == ("vision", 1, 1_000_000)

    story(scenario)
