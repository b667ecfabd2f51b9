"""What happens to an attempt, in any order, and which phase follows."""

from dataclasses import replace
from datetime import timedelta

import pytest
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from gpu_core.adapters.files.run_files import CheckpointReport
from gpu_core.decisions.attempts.phase import AttemptPhase, IllegalTransition
from gpu_core.decisions.model.attempts import EndReason
from gpu_core.decisions.model.workload import Changeover
from gpu_core.decisions.requests.runs.run_workload import RunLimits
from gpu_core.decisions.requests.variables.job_variables import GpuRequest
from gpu_core.testing.builders.attempts import NOON, make_attempt, make_run
from gpu_core.testing.builders.workloads import make_workload
from gpu_core.worker.attempts.state import AttemptState, StartFailure, StartFailureKind

P = AttemptPhase


def state(phase=None, **columns):
    return AttemptState(
        attempt=make_attempt(**columns),
        record=make_run(),
        workload=make_workload("run-1"),
        request=GpuRequest(),
        limits=RunLimits(max_duration_s=None, max_failures=3, max_interruptions=None),
        run_dir=None,
        phase_at_first=phase,
    )


@pytest.mark.parametrize(
    ("phases", "want"),
    [
        pytest.param([P.ADMITTED], False, id="admitted"),
        pytest.param([P.ADMITTED, P.ENDING, P.RELEASED], False, id="ended without having been"),
        pytest.param([P.ADMITTED, P.LAUNCHING, P.ENDING], True, id="given, and not started"),
        pytest.param([P.ADMITTED, P.STARTED, P.ENDING], True, id="found started"),
        pytest.param([P.RECOVERING], True, id="of an earlier worker"),
    ],
)
def test_an_attempt_is_claimed_once_prefect_has_given_its_run(phases, want):
    attempt = state(phases[0])
    for phase in phases[1:]:
        attempt.move_to(phase, NOON)
    assert attempt.is_claimed is want


def test_a_start_failure_is_one_of_its_kind():
    attempt = state(P.LAUNCHING)
    attempt.start_failure = StartFailure(StartFailureKind.POSTPONED, "exceeded quota")
    assert [attempt.failure(kind) for kind in StartFailureKind] == [None, "exceeded quota", None]


@pytest.mark.parametrize(
    ("report", "want_save_s", "want_restart_s"),
    [
        pytest.param(None, None, 720.0, id="it has reported nothing: it does not save"),
        pytest.param({}, 0.0, 720.0, id="it saves, and has done no step"),
        pytest.param({"first_step_at": 90.0}, 0.0, 90.0, id="it has done its first step"),
        pytest.param(
            {"first_step_at": 90.0, "duration_s": 12.5}, 12.5, 90.0, id="and has saved since"
        ),
        pytest.param({"first_step_at": -5.0}, 0.0, 0.0, id="by a clock that is behind"),
    ],
)
def test_the_planner_knows_what_its_preemption_would_cost(report, want_save_s, want_restart_s):
    """How long it saves, and how long the next attempt takes to do a step."""
    attempt = state(P.RUNNING)
    attempt.workload = replace(attempt.workload, changeover=Changeover(720.0))
    if report is not None:
        values = dict(report)
        if "first_step_at" in values:
            step_s = timedelta(seconds=values["first_step_at"])
            values["first_step_at"] = attempt.attempt.admitted_at + step_s
        attempt.report = CheckpointReport(attempt_id="a", **values)
    allocation = attempt.allocation()
    assert (allocation.save_s, allocation.restart_s) == (want_save_s, want_restart_s)


class Events(RuleBasedStateMachine):
    """The events of one attempt, as worker, Prefect and infrastructure send them."""

    @initialize(phase=st.sampled_from([P.ADMITTED, P.RECOVERING]))
    def begin(self, phase):
        self.now = NOON
        self.state = state(phase)

    def tick(self):
        self.now += timedelta(seconds=1)
        return self.now

    @rule()
    def prefect_gives_the_run(self):
        before = self.state.phase
        self.state.claim(self.tick())
        assert self.state.phase is (P.LAUNCHING if before is P.ADMITTED else before)

    @rule()
    def it_is_created(self):
        before, now = self.state.phase, self.tick()
        started = replace(self.state.attempt, started_at=now)
        self.state.start(started, now)
        is_awaited = before in (P.ADMITTED, P.LAUNCHING)
        assert self.state.phase is (P.STARTED if is_awaited else before)
        assert self.state.attempt.started_at == now

    @precondition(lambda self: self.state.phase is P.RECOVERING)
    @rule(phase=st.sampled_from([P.LAUNCHING, P.STARTED, P.DRAINING]))
    def its_run_is_read(self, phase):
        self.state.move_to(phase, self.tick())

    @precondition(lambda self: self.state.phase is P.STARTED)
    @rule()
    def its_flow_begins(self):
        now = self.tick()
        self.state.move_to(P.RUNNING, now)
        assert self.state.began_at == now

    @precondition(lambda self: self.state.phase in (P.LAUNCHING, P.STARTED, P.RUNNING))
    @rule()
    def it_is_asked_to_stop(self):
        now = self.tick()
        self.state.attempt = replace(
            self.state.attempt, drain_requested_at=now, drain_reason=EndReason.PREEMPTED
        )
        self.state.move_to(P.DRAINING, now)

    @precondition(lambda self: not self.state.phase.has_ended and self.state.phase != P.RECOVERING)
    @rule()
    def it_ends(self):
        self.state.move_to(P.ENDING, self.tick())

    @precondition(lambda self: self.state.phase is P.ENDING)
    @rule()
    def its_last_process_is_gone(self):
        self.state.move_to(P.RELEASED, self.tick())

    @precondition(lambda self: self.state.phase is P.RELEASED)
    @rule()
    def it_is_settled(self):
        self.state.move_to(P.SETTLED, self.tick())

    @precondition(lambda self: self.state.phase is P.SETTLED)
    @rule(phase=st.sampled_from(P))
    def what_is_settled_never_changes(self, phase):
        with pytest.raises(IllegalTransition):
            self.state.move_to(phase, self.tick())

    @invariant()
    def gpus_are_held_until_the_moment_of_their_release(self):
        assert self.state.phase.holds_gpus is (self.state.gone_at is None)

    @invariant()
    def what_is_up_was_created(self):
        if self.state.phase is P.RUNNING:
            assert self.state.began_at is not None
        if P.STARTED in self.state.life.history and P.RECOVERING not in self.state.life.history:
            assert self.state.attempt.started_at is not None

    @invariant()
    def what_is_stopping_by_request_says_so_to_the_planner(self):
        assert self.state.allocation().is_draining is self.state.is_stop_requested


TestEvents = Events.TestCase
