"""A planner that is kept from snapshot to snapshot plans as one that reads all anew."""

import random
from dataclasses import replace
from datetime import timedelta

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, precondition, rule

from gpu_core.decisions.model.cluster import Machine
from gpu_core.decisions.model.errors import InvalidInput
from gpu_core.decisions.scheduling.cycle import planner as module
from gpu_core.decisions.scheduling.cycle.planner import Planner, SnapshotPlanner, plan_cycle
from gpu_core.testing.builders.workloads import (
    NOW,
    ago,
    make_allocation,
    make_node,
    make_policy,
    make_snapshot,
    make_workload,
)
from tests.gpu_core.decisions.scheduling.scenarios import (
    a_workload,
    applied,
    drained,
    scenario,
)
from tests.support.examples import examples

SEEDS = st.integers(0, 2**32 - 1)


def as_read(plan):
    return replace(plan, explanations=tuple(plan.explanations))


class KeptPlanner(RuleBasedStateMachine):
    """A pool whose runs, nodes and policy change between plans."""

    @initialize(seed=SEEDS)
    def build(self, seed):
        self.pool, self.now = scenario(seed), NOW
        self.planner, self.came, self.unread = SnapshotPlanner(), 0, []

    def change(self, **fields):
        self.pool = replace(self.pool, snapshot=replace(self.pool.snapshot, **fields))

    @rule(seed=SEEDS)
    def submit(self, seed):
        self.came += 1
        newcomer = a_workload(random.Random(seed), f"new{self.came}")
        self.change(pending=(*self.pool.snapshot.pending, newcomer))

    @precondition(lambda self: self.pool.snapshot.pending)
    @rule(data=st.data(), seed=SEEDS)
    def ask_for_something_else(self, data, seed):
        """The same run with another request, or none any more."""
        gone = data.draw(st.sampled_from(self.pool.snapshot.pending))
        others = tuple(w for w in self.pool.snapshot.pending if w is not gone)
        changed = a_workload(random.Random(seed), gone.workload_id)
        self.change(pending=(*others, changed) if seed % 2 else others)

    @precondition(lambda self: self.pool.snapshot.allocations)
    @rule(data=st.data())
    def end_or_save(self, data):
        held = data.draw(st.sampled_from(self.pool.snapshot.allocations))
        others = tuple(a for a in self.pool.snapshot.allocations if a is not held)
        saved = replace(held, checkpointed_at=self.now)
        self.change(allocations=data.draw(st.sampled_from([others, (*others, saved)])))

    @rule()
    def drain(self):
        self.pool = drained(self.pool)

    @rule(seed=SEEDS)
    def change_policy(self, seed):
        self.pool = replace(self.pool, policy=scenario(seed).policy)

    @rule(seed=SEEDS)
    def change_nodes(self, seed):
        """One comes, one goes with its runs, or GPUs fail."""
        rng, snapshot = random.Random(seed), self.pool.snapshot
        node = rng.choice(snapshot.nodes)
        self.came += 1
        match rng.randrange(3):
            case 0:
                self.change(nodes=(*snapshot.nodes, replace(node, name=f"m{self.came}")))
            case 1 if len(snapshot.nodes) > 1:
                names = {each.name for each in snapshot.nodes if each is not node}
                self.change(
                    nodes=tuple(each for each in snapshot.nodes if each is not node),
                    allocations=tuple(
                        a
                        for a in snapshot.allocations
                        if names.issuperset(s.node for s in a.placement.shares)
                    ),
                )
            case _:
                failed = frozenset(rng.sample(node.gpu_ids, rng.randint(0, len(node.gpu_ids))))
                changed = replace(node, unhealthy_gpu_ids=failed)
                self.change(nodes=tuple(changed if n is node else n for n in snapshot.nodes))

    @rule(seconds=st.sampled_from([-60, 1, 60, 4_000]))
    def wait(self, seconds):
        self.now += timedelta(seconds=seconds)

    @rule(is_applied=st.booleans(), is_read_later=st.booleans())
    def plan(self, is_applied, is_read_later):
        # The worker makes its allocations and workloads anew for each cycle.
        snapshot = replace(
            self.pool.snapshot,
            allocations=tuple(replace(a) for a in self.pool.snapshot.allocations),
            pending=tuple(replace(w) for w in self.pool.snapshot.pending),
        )
        kept = self.planner.plan(snapshot, self.pool.policy, self.now)
        cold = as_read(plan_cycle(snapshot, self.pool.policy, self.now))
        if not is_read_later:
            assert as_read(kept) == cold
        self.unread.append((kept, cold))
        if is_applied:
            self.pool = applied(self.pool, cold, self.now)

    def teardown(self):
        """Explanations hold for the time of their plan, also when all has changed since."""
        for kept, cold in getattr(self, "unread", ()):
            assert as_read(kept) == cold


TestKeptPlanner = KeptPlanner.TestCase
TestKeptPlanner.settings = settings(
    deadline=None, max_examples=examples(60), stateful_step_count=20
)


POOL = make_snapshot(
    (make_node("n1", 8),),
    (make_allocation(make_workload("held", 6), {"n1": "0 1 2 3 4 5"}),),
    (make_workload("big", 4), make_workload("small", 1)),
)


@pytest.fixture
def changes(monkeypatch):
    """The ids of the workloads that planners have read."""
    read = []
    for name in ("submit", "withdraw", "release"):
        real = getattr(Planner, name)

        def noted(self, item, real=real, name=name):
            read.append((name, getattr(item, "workload_id", item)))
            real(self, item)

        monkeypatch.setattr(Planner, name, noted)
    return read


def test_only_what_has_changed_is_read_again(changes):
    planner = SnapshotPlanner()
    planner.plan(POOL, make_policy(), NOW)
    changes.clear()
    again = replace(POOL, pending=(replace(POOL.pending[0]), make_workload("other", 1)))
    planner.plan(again, make_policy(), NOW)
    assert changes == [("withdraw", "small"), ("submit", "other")]


@pytest.mark.parametrize(
    ("policy", "now"),
    [(make_policy(preemption={"enabled": False}), NOW), (make_policy(), ago(1))],
    ids=["another policy", "an earlier time"],
)
def test_all_is_read_again_with(policy, now, changes):
    planner = SnapshotPlanner()
    planner.plan(POOL, make_policy(), NOW)
    changes.clear()
    planner.plan(POOL, policy, now)
    assert changes == [("submit", "big"), ("submit", "small")]


def test_all_is_read_again_after_so_many_plans(changes, monkeypatch):
    monkeypatch.setattr(module, "_PLANS_KEPT", 2)
    planner = SnapshotPlanner()
    for _ in range(5):
        planner.plan(POOL, make_policy(), NOW)
    assert len(changes) == 3 * len(POOL.pending)


def test_all_is_read_again_after_an_error(changes, monkeypatch):
    planner = SnapshotPlanner()
    planner.plan(POOL, make_policy(), NOW)
    with monkeypatch.context() as broken:
        broken.setattr(Planner, "plan", lambda *_arguments, **_options: 1 / 0)
        with pytest.raises(ZeroDivisionError):
            planner.plan(POOL, make_policy(), NOW)
    changes.clear()
    planner.plan(POOL, make_policy(), NOW)
    assert changes == [("submit", "big"), ("submit", "small")]


@pytest.mark.parametrize(
    ("snapshot", "now"),
    [(replace(POOL, pending=POOL.pending * 2), NOW), (POOL, NOW.replace(tzinfo=None))],
    ids=["an id twice", "no time zone"],
)
def test_bad_input_is_refused_and_changes_nothing(snapshot, now, changes):
    planner = SnapshotPlanner()
    planner.plan(POOL, make_policy(), NOW)
    changes.clear()
    with pytest.raises(InvalidInput):
        planner.plan(snapshot, make_policy(), now)
    planner.plan(POOL, make_policy(), NOW)
    assert changes == []


def test_a_machine_that_changes_is_read_though_its_node_is_equal():
    """Explanations name it."""
    planner = SnapshotPlanner()
    before = replace(POOL, nodes=(replace(POOL.nodes[0], machine=Machine(gpus=8)),))
    after = replace(POOL, nodes=(replace(POOL.nodes[0], machine=Machine(gpus=9)),))
    assert before.nodes == after.nodes
    for snapshot in (before, after):
        planner.plan(snapshot, make_policy(), NOW)
    assert planner._kept.planner._nodes[0].machine == Machine(gpus=9)
