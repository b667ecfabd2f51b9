"""Which runs are named as hung, and which of them are restarted."""

import logging
from dataclasses import replace
from datetime import timedelta
from types import SimpleNamespace

import anyio
import pytest

from gpu_core.adapters.files.progress_report import ProgressReport
from gpu_core.decisions.policy.hangs import HangPolicy
from gpu_core.testing.builders.attempts import NOON
from gpu_core.worker.infrastructure import ObservedUse
from gpu_core.worker.watch.hung_runs import HangWatch
from tests.support.watched_run import RUN, collect_artifacts, watched_run

MODULE = "gpu_core.worker.watch.hung_runs"
REPORT = ProgressReport(
    attempt_id=f"{RUN}/1", pid=7, steps=5, progressed_at=NOON, median_step_s=1.0, dumps_stacks=True
)
EVERY_S = 20.0
HEADER = "Current thread 0x1 (most recent call first):\n"


class Infrastructure:
    """What the watch asks of it: reports that the test writes, and stacks when the test lets it."""

    def __init__(self):
        self.report = REPORT
        self.others = ()
        self.stacks_of_others = {}
        self.answers = anyio.Event()
        self.asked = 0
        self.error = None

    async def observed_use(self, _running):
        return ObservedUse(progress=(self.report, *self.others), nodes={0: "n0", 1: "n1"})

    async def stacks(self, _running, _progress):
        self.asked += 1
        await self.answers.wait()
        if self.error is not None:
            raise self.error
        return {
            self.report.rank: f'{HEADER}  File "train.py", line 3 in wait_for_nothing',
            **self.stacks_of_others,
        }


class Watched:
    """A hang watch over one run, in a world whose time the test moves."""

    def __init__(self, attempts, tasks, monkeypatch):
        self.infrastructure = Infrastructure()
        self.now_s = 0.0
        monkeypatch.setattr(f"{MODULE}.anyio.current_time", lambda: self.now_s)
        self.watch = HangWatch(SimpleNamespace(), attempts, self.infrastructure, tasks)

    async def look(self, after_s, action="restart"):
        """Which runs are restarted at this time? Anything else that is due runs, too."""
        self.now_s += EVERY_S
        policy = HangPolicy(action=action)
        found = await self.watch.hanging(policy, NOON + timedelta(seconds=after_s))
        await anyio.wait_all_tasks_blocked()
        self.faulty_nodes = [running.faulty_nodes for running, _ in found]
        return [why for _, why in found]

    def step(self, after_s):
        """It makes a step."""
        at = NOON + timedelta(seconds=after_s)
        report = self.infrastructure.report
        self.infrastructure.report = replace(report, steps=report.steps + 1, progressed_at=at)


@pytest.fixture
def story(tmp_path, monkeypatch, caplog):
    """Runs a scenario over a watched run; what its log and its page said."""

    def run(scenario):
        shown = collect_artifacts(monkeypatch, MODULE)

        async def main():
            async with anyio.create_task_group() as tasks:
                await scenario(Watched(attempts, tasks, monkeypatch))
                tasks.cancel_scope.cancel()

        with watched_run(tmp_path) as attempts, caplog.at_level(logging.INFO):
            anyio.run(main)
        said = [r.getMessage() for r in caplog.records if r.name == "prefect.flow_runs.gpu"]
        return said, shown

    return run


# Of a rank whose load is unknown an hour without a step is a hang.
HUNG_S = 3_700


def test_a_cycle_does_not_wait_for_stacks(story):
    """A rank may take seconds to answer, and the worker has other runs to start."""

    async def scenario(watched):
        with anyio.fail_after(60):  # for ever, where a cycle waits for the answer
            assert await watched.look(HUNG_S) == []
        assert watched.infrastructure.asked == 1
        assert watched.watch.hung == {f"{RUN}/1"}
        with anyio.fail_after(60):
            await watched.look(HUNG_S + 20)
        assert watched.infrastructure.asked == 1
        watched.infrastructure.answers.set()
        await anyio.wait_all_tasks_blocked()

    said, shown = story(scenario)
    assert len(said) == len(shown) == 1
    assert said[0].startswith("No progress for 1h 01m after step 5: rank 0 on node-1 (GPU-0)")
    assert "in wait_for_nothing" in shown[0]


def test_an_error_in_what_is_said_of_a_hung_run_stops_nothing_else(story, monkeypatch):
    """It is said in a task of the worker: an error there would end all of its work."""

    def fail(*_arguments):
        raise ValueError("a stack that cannot be read")

    monkeypatch.setattr(f"{MODULE}.hang_sentence", fail)

    async def scenario(watched):
        watched.infrastructure.answers.set()
        looks = [HUNG_S, HUNG_S + 20, HUNG_S + 40]
        assert [bool(await watched.look(at)) for at in looks] == [False, False, True]

    said, shown = story(scenario)
    assert shown == []
    assert "the run could not be named as hung: ValueError: a stack that cannot be read" in said[0]


@pytest.mark.parametrize(
    ("action", "want_restarted"),
    [
        pytest.param("restart", [False, False, True], id="once it is sure"),
        pytest.param("name", [False] * 3, id="only named by policy"),
        pytest.param("off", [False] * 3, id="not looked at"),
    ],
)
def test_when_a_hung_run_is_restarted(story, action, want_restarted):
    async def scenario(watched):
        watched.infrastructure.answers.set()
        looks = [HUNG_S, HUNG_S + 20, HUNG_S + 40]
        assert [bool(await watched.look(at, action)) for at in looks] == want_restarted

    said, _ = story(scenario)
    assert len(said) == (action != "off")


def test_a_run_that_makes_progress_again_is_not_restarted(story):
    async def scenario(watched):
        watched.infrastructure.answers.set()
        await watched.look(HUNG_S)
        watched.step(HUNG_S + 10)
        assert await watched.look(HUNG_S + 60) == []
        assert watched.watch.hung == set()

    said, _ = story(scenario)
    assert said[1:] == ["Progress has resumed"]


def test_a_run_that_makes_progress_before_its_stacks_come_is_not_named(story):
    async def scenario(watched):
        await watched.look(HUNG_S)
        watched.step(HUNG_S + 10)
        await watched.look(HUNG_S + 20)
        watched.infrastructure.answers.set()
        await anyio.wait_all_tasks_blocked()

    assert story(scenario) == ([], [])


def test_a_run_whose_stacks_cannot_be_taken_is_named_all_the_same(story):
    async def scenario(watched):
        watched.infrastructure.error = OSError(28, "No space left on device")
        watched.infrastructure.answers.set()
        await watched.look(HUNG_S)

    said, shown = story(scenario)
    assert len(said) == 1
    assert "No stack traces have been received." in shown[0]


def test_a_run_that_reports_no_steps_is_never_named(story):
    async def scenario(watched):
        watched.infrastructure.report = replace(REPORT, median_step_s=None)
        assert await watched.look(1_000_000) == []
        assert watched.watch.hung == set()

    assert story(scenario) == ([], [])


def test_a_rank_is_named_with_the_gpu_that_it_reports(story):
    """Of a pod: the numbers of the plan are no ids of GPUs."""

    async def scenario(watched):
        found = watched.infrastructure
        found.report = replace(REPORT, rank=3, ranks=8, gpu_id="GPU-d")
        found.answers.set()
        await watched.look(HUNG_S)

    said, _ = story(scenario)
    assert "rank 3 on node-1 (GPU-d)" in said[0]


def test_a_rank_in_a_pod_that_reports_no_gpu_is_named_without_one(story):
    async def scenario(watched):
        found = watched.infrastructure

        async def in_a_pod(_running):
            return ObservedUse(progress=(found.report,), has_rank_order=False)

        found.observed_use = in_a_pod
        found.answers.set()
        await watched.look(HUNG_S)

    said, _ = story(scenario)
    assert "rank 0 on node-1 is waiting" in said[0]


def test_stacks_of_another_pod_that_come_later_are_shown_and_name_its_rank(story):
    """Each pod of a gang sends them once a minute: the first to come may be those that wait."""
    first = replace(REPORT, ranks=2, node_rank=0)
    other = replace(first, rank=1, node_rank=1, gpu_id="GPU-b")
    restarted = []

    async def scenario(watched):
        found = watched.infrastructure
        found.report, found.others = first, (other,)
        found.answers.set()
        found.stacks_of_others = {}
        waits = f'{HEADER}  File "distributed_c10d.py", line 9 in all_reduce'

        async def stacks(_running, _progress):
            return {0: waits, **found.stacks_of_others}

        found.stacks = stacks
        restarted.append(await watched.look(HUNG_S))
        restarted.append(await watched.look(HUNG_S + 40))
        found.stacks_of_others = {1: f'{HEADER}  File "train.py", line 3 in read_for_ever'}
        restarted.append(await watched.look(HUNG_S + 60))
        restarted.append(await watched.look(HUNG_S + 80))
        assert watched.faulty_nodes == [{"n1"}]

    said, shown = story(scenario)
    assert [len(each) for each in restarted] == [0, 0, 0, 1], "it waits for all stacks"
    assert "rank 0 on n0 (GPU-0), rank 1 on n1 (GPU-b) is waiting" in said[0]
    assert (
        "rank 1 on n1 (GPU-b) is waiting with no work running, 1 other rank waits for it" in said[1]
    )
    assert "rank 1 on n1 (GPU-b)" in restarted[3][0], "the end names the same rank as the page"
    assert len(said) == len(shown) == 2
    assert "read_for_ever" not in shown[0]
    assert "read_for_ever" in shown[1]


def test_a_rank_that_never_answers_delays_a_restart_for_two_minutes(story):
    async def scenario(watched):
        found = watched.infrastructure
        found.report = replace(REPORT, ranks=2)
        found.others = (replace(found.report, rank=1),)
        found.answers.set()
        looks = [bool(await watched.look(HUNG_S + at)) for at in (0, 40, 110, 125)]
        assert looks == [False, False, False, True]
        assert watched.faulty_nodes == [frozenset()], "any of them may be at fault"

    said, shown = story(scenario)
    assert len(said) == len(shown) == 1
