"""What holds while runs come, save, end and are preempted, and time passes."""

from dataclasses import replace
from datetime import timedelta

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from gpu_core.decisions.model.cluster import Allocation
from gpu_core.decisions.scheduling.cycle.planner import plan_cycle
from gpu_core.decisions.scheduling.plan.plan import Admit, Preempt
from gpu_core.testing.builders.workloads import NOW, make_policy, make_snapshot
from tests import strategies
from tests.gpu_core.decisions.scheduling.test_properties import check_plan
from tests.support.examples import examples

POLICY = make_policy()
START_TIMEOUT = timedelta(seconds=100)
GRACE_PERIOD = timedelta(seconds=POLICY.preemption.grace_period_s)


class Pool(RuleBasedStateMachine):
    """A pool whose worker applies every plan, as the real one does: victims drain first."""

    def __init__(self):
        super().__init__()
        self.now = NOW
        self.submitted = 0
        self.snapshot = make_snapshot()

    @initialize(
        nodes=st.tuples(strategies.nodes("n0"), strategies.nodes("n1"), strategies.nodes("n2"))
    )
    def build(self, nodes):
        """A pool of three nodes."""
        self.snapshot = make_snapshot(nodes)

    @rule(data=st.data())
    def submit(self, data):
        """A workload is submitted."""
        self.submitted += 1
        workload = data.draw(strategies.workloads(f"w{self.submitted}"))
        workload = replace(workload, submitted_at=self.now)
        self.snapshot = replace(self.snapshot, pending=(*self.snapshot.pending, workload))

    @rule(seconds=st.sampled_from([1, 40, 200]))
    def wait(self, seconds):
        """Time passes; workloads over their grace period are killed."""
        self.now += timedelta(seconds=seconds)
        for allocation in self.snapshot.allocations:
            if allocation.drain_deadline_at and allocation.drain_deadline_at <= self.now:
                self._end(allocation)

    @precondition(lambda self: self.snapshot.allocations)
    @rule(data=st.data())
    def finish(self, data):
        """A running workload ends, by itself or because it drains."""
        self._end(data.draw(st.sampled_from(self.snapshot.allocations)))

    @precondition(lambda self: self.snapshot.allocations)
    @rule(data=st.data())
    def checkpoint(self, data):
        """One saves its progress."""
        self._replace(
            data.draw(st.sampled_from(self.snapshot.allocations)), checkpointed_at=self.now
        )

    @precondition(lambda self: any(a.is_starting for a in self.snapshot.allocations))
    @rule(data=st.data())
    def begin(self, data):
        """The flow of one that was admitted begins."""
        starting = [a for a in self.snapshot.allocations if a.is_starting]
        self._replace(data.draw(st.sampled_from(starting)), began_at=self.now)

    @rule()
    def plan(self):
        """The worker plans and applies."""
        plan = plan_cycle(self.snapshot, POLICY, self.now)
        check_plan(self.snapshot, plan, self.now)
        for command in plan.commands:
            match command:
                case Admit():
                    self._admit(command)
                case Preempt():
                    self._drain(command)
        again = plan_cycle(self.snapshot, POLICY, self.now)
        assert again.commands == (), "a plan that was applied leaves nothing to do"

    @invariant()
    def every_workload_is_in_one_place(self):
        """Nothing is lost and nothing runs twice."""
        pending = {w.workload_id for w in self.snapshot.pending}
        running = {a.workload.workload_id for a in self.snapshot.allocations}
        assert len(pending) == len(self.snapshot.pending)
        assert len(running) == len(self.snapshot.allocations)
        assert pending.isdisjoint(running)

    def teardown(self):
        """When no more work comes, every workload that fits is served in the end."""
        for _ in range(2 * self.submitted + 2):
            for allocation in self.snapshot.allocations:
                self._end(allocation)
            self.now += timedelta(hours=1)
            self.plan()
        commands = plan_cycle(self.snapshot, POLICY, self.now).explanations
        assert {e.reason for e in commands} <= {"ExceedsCluster", "WaitingForGpus", "BehindOthers"}
        healthy = tuple(replace(n, unhealthy_gpu_ids=frozenset()) for n in self.snapshot.nodes)
        left = make_snapshot(healthy, (), self.snapshot.pending)
        if healthy == self.snapshot.nodes:
            assert not plan_cycle(left, POLICY, self.now).commands

    def _admit(self, command):
        [workload] = [w for w in self.snapshot.pending if w.workload_id == command.workload_id]
        allocation = Allocation(
            workload=workload,
            attempt=1,
            placement=command.placement,
            admitted_at=self.now,
            begins_by=self.now + START_TIMEOUT,
        )
        self.snapshot = replace(
            self.snapshot,
            pending=tuple(w for w in self.snapshot.pending if w is not workload),
            allocations=(*self.snapshot.allocations, allocation),
        )

    def _drain(self, command):
        self.snapshot = replace(
            self.snapshot,
            allocations=tuple(
                replace(
                    a,
                    is_draining=True,
                    drain_deadline_at=self.now + GRACE_PERIOD,
                    draining_for=command.for_workload_id,
                )
                if a.workload.workload_id == command.workload_id
                else a
                for a in self.snapshot.allocations
            ),
        )

    def _end(self, allocation):
        rest = tuple(a for a in self.snapshot.allocations if a is not allocation)
        pending = self.snapshot.pending
        if allocation.is_draining:
            pending = (*pending, allocation.workload)
        self.snapshot = replace(self.snapshot, allocations=rest, pending=pending)

    def _replace(self, allocation, **changes):
        self.snapshot = replace(
            self.snapshot,
            allocations=tuple(
                replace(a, **changes) if a is allocation else a for a in self.snapshot.allocations
            ),
        )


TestPool = Pool.TestCase
TestPool.settings = settings(deadline=None, max_examples=examples(60), stateful_step_count=25)
