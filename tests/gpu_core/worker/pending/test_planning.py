"""The runs that others were preempted for are known to the next plans, until they start."""

from types import SimpleNamespace

import anyio
import pytest

from gpu_core.decisions.scheduling.plan.plan import Preempt
from gpu_core.testing.builders.attempts import NOON
from gpu_core.testing.builders.workloads import make_policy, make_workload
from gpu_core.worker.attempts.run_faults import RunFaults
from gpu_core.worker.pending import planning as module
from gpu_core.worker.pending.planning import Planning

URGENT = {"urgent": SimpleNamespace(workload=make_workload("urgent"))}
VICTIM = SimpleNamespace(
    flow_run_id="victim", record=SimpleNamespace(name="victim", flow_run_id="victim")
)


class World:
    """A pool in which the plan preempts one run for another, and says what the planner saw."""

    def __init__(self, monkeypatch, *, runs=(VICTIM,)):
        self.runs = {each.flow_run_id: each for each in runs}
        self.snapshots, self.preempted, self.outdated = [], [], []
        self.opens = ()
        monkeypatch.setattr(module, "plan_apart", self._plan)
        self.planning = Planning(
            infrastructure=SimpleNamespace(
                measurements=lambda *_: SimpleNamespace(),
                is_placed_as_planned=lambda _policy: True,
            ),
            nodes=SimpleNamespace(seen=(), zones=dict),
            attempts=SimpleNamespace(of_run=self.runs.get, holding=list, open=self._open),
            terminator=SimpleNamespace(preempt=self._preempt),
            history=SimpleNamespace(usage=lambda _now: None),
            scale_hints=SimpleNamespace(idle_since=lambda *_: {}),
            faults=RunFaults(),
            note_outdated=self.outdated.append,
        )

    def _plan(self, snapshot, _policy, _now, _planner):
        self.snapshots.append(snapshot)
        command = Preempt(
            workload_id="victim", for_workload_id="urgent", lost_gpu_s=0, lost_micro_usd=None
        )
        return SimpleNamespace(plan=SimpleNamespace(commands=(command,)), faults=())

    async def _preempt(self, victim, preemptor, _policy, _now):
        self.preempted.append((victim.flow_run_id, preemptor.workload_id))

    async def _open(self, *_arguments, **_options):
        return list(self.opens)

    def cycle(self, demands, opens=()):
        """The preemptors that the planner knew."""
        self.opens = opens
        anyio.run(self._cycle, demands)
        return set(self.snapshots[-1].preemptors)

    async def _cycle(self, demands):
        policy = make_policy()
        plan = self.planning.plan(demands, (), policy, NOON)
        if demands:
            await self.planning.preempt(plan, demands, policy, NOON)
        await self.planning.admit(plan, demands, policy)


@pytest.fixture
def snapshot_of(monkeypatch):
    """Snapshots need no more than what is asked of them here."""
    monkeypatch.setattr(module, "Snapshot", SimpleNamespace)


@pytest.mark.usefixtures("snapshot_of")
def test_a_run_gets_what_is_being_freed_for_it_until_it_starts(monkeypatch):
    world = World(monkeypatch)
    assert world.cycle(URGENT) == set()
    assert world.preempted == [("victim", "urgent")]
    assert world.cycle(URGENT) == {"urgent"}
    assert world.cycle(URGENT, opens=["urgent"]) == {"urgent"}
    assert world.outdated[-1] == ["urgent"]
    assert world.cycle(URGENT) == set()


@pytest.mark.usefixtures("snapshot_of")
def test_a_preemptor_that_was_cancelled_is_forgotten(monkeypatch):
    world = World(monkeypatch)
    world.cycle(URGENT)
    assert world.cycle({}) == set()
    assert world.cycle(URGENT) == set()


@pytest.mark.usefixtures("snapshot_of")
def test_a_victim_that_has_ended_meanwhile_is_not_preempted(monkeypatch):
    world = World(monkeypatch, runs=())
    world.cycle(URGENT)
    assert world.preempted == []
    assert world.cycle(URGENT) == set()
