"""What a settlement that is applied for the second time does."""

from dataclasses import replace
from datetime import UTC, datetime, timedelta
from functools import partial
from pathlib import Path
from types import SimpleNamespace
from uuid import UUID, uuid4

import anyio
import pytest
from hypothesis import given
from hypothesis import strategies as st
from prefect.client.schemas.objects import FlowRun, FlowRunPolicy, State, StateType
from prefect.client.schemas.responses import SetStateStatus
from prefect.states import (
    AwaitingRetry,
    Cancelled,
    Cancelling,
    Completed,
    Crashed,
    Failed,
    Paused,
    Pending,
    Running,
    Suspended,
)

from gpu_core.decisions.attempts.excused_ends import Outage
from gpu_core.decisions.attempts.phase import AttemptPhase
from gpu_core.decisions.attempts.settlement import Settlement
from gpu_core.decisions.model.attempt_exit import Exit
from gpu_core.decisions.model.attempts import EndReason
from gpu_core.decisions.model.workload import Workload
from gpu_core.decisions.requests.runs.run_workload import RunLimits
from gpu_core.decisions.requests.variables.job_variables import GpuRequest
from gpu_core.testing.builders.attempts import make_attempt, make_run
from gpu_core.worker.attempts.ending import (
    allow_another_attempt,
    decide_ending,
    excuse_of_end,
    has_begun,
    is_unexplained,
    publish,
    to_record,
)
from gpu_core.worker.attempts.state import AttemptState

NOW = datetime.now(UTC)
RUN = "11111111-1111-1111-1111-111111111111"


def preempted(run_dir):
    """An attempt that was preempted and has ended."""
    attempt = make_attempt(
        RUN,
        admitted_at=NOW - timedelta(hours=1),
        started_at=NOW - timedelta(hours=1),
        drain_requested_at=NOW - timedelta(minutes=1),
        drain_reason=EndReason.PREEMPTED,
    )
    return AttemptState(
        attempt=attempt,
        record=make_run(RUN),
        workload=Workload(workload_id=RUN, name="run", priority=1, submitted_at=NOW),
        request=GpuRequest(),
        limits=RunLimits(max_duration_s=None, max_failures=3, max_interruptions=None),
        run_dir=run_dir,
    )


def flow_run(state):
    return FlowRun(id=UUID(RUN), flow_id=uuid4(), work_queue_id=uuid4(), state=state)


@pytest.mark.parametrize(
    ("state_then", "want_next_state"),
    [
        pytest.param(Running(), "AwaitingRetry", id="nothing happened: the same decision"),
        pytest.param(Cancelling(), "Cancelled", id="a person is cancelling it: cancelled"),
        pytest.param(Cancelled(), None, id="a person has cancelled it: it stays cancelled"),
        pytest.param(Completed(), None, id="its process had completed it: it stays completed"),
    ],
)
def test_a_remembered_decision_stands_unless_the_run_is_over(tmp_path, state_then, want_next_state):
    """Prefect could not be informed for a while: what people did meanwhile counts."""
    running = preempted(tmp_path)
    first = decide_ending(running, flow_run(Running()), None, (), NOW)
    assert first.settlement.next_state == "AwaitingRetry"
    running.attempt = replace(running.attempt, settlement=to_record(first, NOW))

    again = decide_ending(running, flow_run(state_then), None, (), NOW + timedelta(hours=1))

    assert again.settlement.next_state == want_next_state


@pytest.mark.parametrize("damage", [{}, {"end_reason": "Abducted"}, {"released_at": "noon"}])
def test_a_remembered_decision_that_is_damaged_is_made_anew(tmp_path, damage):
    """Otherwise the attempt would never be closed, nor its run go on."""
    running = preempted(tmp_path)
    first = decide_ending(running, flow_run(Running()), None, (), NOW)
    record = {**to_record(first, NOW), **damage} if damage else {"message": "half of it"}
    running.attempt = replace(running.attempt, settlement=record)
    assert decide_ending(running, flow_run(Running()), None, (), NOW) == first


def undisturbed(run_dir):
    """An attempt that was not asked to end."""
    running = preempted(run_dir)
    running.attempt = replace(running.attempt, drain_requested_at=None, drain_reason=None)
    return running


UNLOADABLE = ("Traceback:", "ModuleNotFoundError: No module named 'train'")


@pytest.mark.parametrize(
    ("state", "exit_", "want"),
    [
        pytest.param(Crashed(), Exit(exit_code=0), True, id="Prefect's process says: code 1"),
        pytest.param(Pending(), Exit(exit_code=1), True, id="it ended before the flow began"),
        pytest.param(Running(), Exit(exit_code=1), True, id="it died under the flow"),
        pytest.param(Completed(), Exit(exit_code=0), False, id="all is well"),
        pytest.param(Failed(), Exit(exit_code=0), False, id="the flow says why it failed"),
        pytest.param(Crashed(), None, False, id="its end was not observed"),
        pytest.param(
            Running(), Exit(exit_code=137, is_interruption=True), False, id="a node was lost"
        ),
        pytest.param(Running(), Exit(exit_code=1, is_flow=False), True, id="a container failed"),
        pytest.param(Running(), Exit(exit_code=0, is_flow=False), False, id="a container is done"),
    ],
)
def test_output_is_looked_at_where_nothing_else_explains_the_end(tmp_path, state, exit_, want):
    assert is_unexplained(undisturbed(tmp_path), flow_run(state), exit_) is want
    assert not is_unexplained(preempted(tmp_path), flow_run(state), exit_)


@pytest.mark.parametrize(
    ("lines", "want"),
    [
        pytest.param(
            UNLOADABLE, "Failed to start the flow: unable to import the flow code", id="reported"
        ),
        pytest.param(("hello",), "Process exited with status code: 1", id="it says nothing of it"),
        pytest.param((), "Process exited with status code: 1", id="there is no output"),
    ],
)
def test_the_output_shows_why_a_flow_did_not_begin(tmp_path, lines, want):
    state = Crashed(message="Process exited with status code: 1.")
    exit_ = Exit(exit_code=0)
    ending = decide_ending(
        undisturbed(tmp_path), flow_run(state), exit_, (), NOW, lines, has_begun=False
    )
    assert ending.settlement.message.startswith(f"Failure 1 of 3: {want}")


SCRIPT = "ScriptError: Script at 'train.py' encountered an exception: "
NO_TORCH = (f"{SCRIPT}ModuleNotFoundError(\"No module named 'torch'\")",)
NO_STORE = (
    "Flow run encountered an exception: StoreMisconfigured: the checkpoint store s3://b/p cannot "
    "be used: NoCredentialsError: Unable to locate credentials. Set AWS_ACCESS_KEY_ID"
)
SAVED = make_attempt(RUN, checkpointed_at=NOW - timedelta(hours=2))
STEPPED = make_attempt(RUN, first_step_at=NOW - timedelta(hours=2))
UNSAVED = make_attempt(RUN)
CONTAINER_WORDS = "The container failed: exit code 1.\nIts last lines:\n"


@pytest.mark.parametrize(
    ("state", "run_count", "earlier", "exit_", "want"),
    [
        pytest.param(Crashed(), 0, (), Exit(exit_code=1), "Crashed", id="its code cannot load"),
        pytest.param(Crashed(), 1, (), Exit(exit_code=1), "AwaitingRetry", id="it once could"),
        pytest.param(Failed(message=NO_STORE), 1, (), Exit(exit_code=0), None, id="no credentials"),
        pytest.param(
            Failed(message=NO_STORE), 2, (UNSAVED,), Exit(exit_code=0), None, id="as never before"
        ),
        pytest.param(
            Failed(message=NO_STORE), 2, (SAVED,), Exit(exit_code=0), "AwaitingRetry",
            id="an earlier attempt saved",
        ),
        pytest.param(
            Failed(message=NO_STORE), 2, (STEPPED,), Exit(exit_code=0), "AwaitingRetry",
            id="an earlier attempt worked",
        ),
        pytest.param(
            Failed(message="Flow run encountered an exception: ValueError: nan"), 1, (),
            Exit(exit_code=0), "AwaitingRetry", id="an error of the flow",
        ),
        pytest.param(
            Running(), 1, (),
            Exit(exit_code=1, is_flow=False, message=f"{CONTAINER_WORDS}{NO_STORE}"), "Failed",
            id="a container without credentials",
        ),
        pytest.param(
            Running(), 1, (),
            Exit(exit_code=137, is_flow=False, message=f"{CONTAINER_WORDS}{NO_STORE}"),
            "AwaitingRetry", id="a container that was killed after it had handled that",
        ),
        pytest.param(
            Running(), 1, (),
            Exit(exit_code=128, is_flow=False, is_permanent=True, message="No program 'x'."),
            "Failed", id="a container whose command is not in its image",
        ),
        pytest.param(
            Pending(), 0, (), Exit(exit_code=128, is_permanent=True, message="No program 'x'."),
            "Crashed", id="a flow whose command is not in its image",
        ),
    ],
)  # fmt: skip
def test_what_fails_alike_each_time_is_not_tried_again(
    tmp_path, state, run_count, earlier, exit_, want
):
    run = flow_run(state).model_copy(update={"run_count": run_count})
    is_begun = state.type in (StateType.FAILED, StateType.RUNNING)
    lines = () if is_begun else ("hello",) if state.type is StateType.PENDING else NO_TORCH
    ending = decide_ending(
        undisturbed(tmp_path), run, exit_, earlier, NOW, lines, has_begun=is_begun
    )
    assert ending.settlement.next_state == want
    is_final = want != "AwaitingRetry"
    assert ending.settlement.message.startswith("Permanent failure: ") is is_final
    assert ending.settlement.is_charged_failure


@pytest.mark.parametrize(
    ("names", "want"),
    [
        pytest.param("Scheduled Pending Crashed", False, id="it did not begin"),
        pytest.param("Scheduled Pending Running Crashed", True, id="it crashed as it ran"),
        pytest.param("Pending Running Crashed Pending Crashed", False, id="not this time"),
        pytest.param("Scheduled Pending", False, id="its process could not report"),
        pytest.param("Running Crashed", True, id="it was never Pending"),
        pytest.param("", False, id="no history"),
    ],
)
def test_a_flow_has_begun_if_it_was_running_since_it_was_pending(names, want):
    """Newest first or last: the order of the answer is not relied on."""
    types = [StateType[name.upper()] for name in names.split()]
    states = [State(type=t, timestamp=NOW + timedelta(seconds=n)) for n, t in enumerate(types)]

    class Client:
        async def read_flow_run_states(self, _flow_run_id):
            return states[::-1]

    run = flow_run(Crashed()).model_copy(update={"run_count": types.count(StateType.RUNNING)})
    assert anyio.run(has_begun, Client(), run) is want


def test_for_a_run_that_is_running_no_history_is_read():
    class Client:
        async def read_flow_run_states(self, _flow_run_id):
            raise AssertionError("its state says it")

    assert anyio.run(has_begun, Client(), flow_run(Running()).model_copy(update={"run_count": 1}))


class Server:
    """Has these states of the run, and keeps what is written."""

    def __init__(self, states):
        self.states = states
        self.policy = None

    async def read_flow_run_states(self, _flow_run_id):
        return self.states

    async def update_flow_run(self, _flow_run_id, empirical_policy):
        self.policy = empirical_policy


def at(seconds, state):
    return state.model_copy(update={"timestamp": NOW + timedelta(seconds=seconds)})


WAITS, SUSPENDED = Paused(timeout_seconds=9), Suspended(timeout_seconds=9)


@pytest.mark.parametrize(
    ("states", "want_keys"),
    [
        pytest.param([at(0, Running()), at(1, WAITS)], set(), id="it waited for its approval"),
        pytest.param(
            [at(0, WAITS), at(1, AwaitingRetry())], set(), id="and Prefect put it back on SIGTERM"
        ),
        pytest.param([at(0, WAITS), at(1, Running())], {"gate"}, id="it was approved before"),
        pytest.param(
            [at(0, SUSPENDED), at(1, AwaitingRetry())], {"gate"}, id="it had suspended itself"
        ),
    ],
)
def test_who_died_waiting_for_a_person_waits_for_that_person_again(states, want_keys):
    server = Server(states)
    run = flow_run(states[-1])
    run.empirical_policy = FlowRunPolicy(retries=2, pause_keys={"gate"}, resuming=True)
    anyio.run(partial(allow_another_attempt, server, run, retries=3))
    assert server.policy.pause_keys == want_keys
    assert server.policy.resuming is bool(want_keys)
    assert (server.policy.retries, server.policy.retry_type) == (3, "reschedule")


def test_who_suspends_itself_is_seen_by_workers_and_gets_no_retry_more():
    """Prefect hides a run that retried in its process before."""
    server = Server([at(0, SUSPENDED)])
    run = flow_run(SUSPENDED)
    run.empirical_policy = FlowRunPolicy(retries=2, retry_type="in_process")
    anyio.run(partial(allow_another_attempt, server, run, retries=None))
    assert (server.policy.retries, server.policy.retry_type) == (2, "reschedule")


FAILS = Exit(exit_code=1)


@pytest.mark.parametrize(
    ("state", "exit_", "has_begun", "retries", "want"),
    [
        pytest.param(Failed(), FAILS, True, 0, 1, id="the flow failed"),
        pytest.param(Running(), FAILS, True, 2, 3, id="its process died under the flow"),
        pytest.param(Crashed(), FAILS, False, 2, None, id="its flow did not begin"),
        pytest.param(Pending(), FAILS, False, 2, None, id="nor could its process report"),
        pytest.param(Failed(), FAILS, True, None, None, id="Prefect knows no retries of it"),
        pytest.param(Completed(), Exit(exit_code=0), True, 2, None, id="it is over"),
    ],
)
def test_a_retry_is_granted_only_for_an_attempt_that_prefect_counted(
    tmp_path, state, exit_, has_begun, retries, want
):
    """Otherwise the engine of a later attempt executes the body of the flow again by itself."""
    run = flow_run(state)
    run.empirical_policy = FlowRunPolicy(retries=retries)
    ending = decide_ending(undisturbed(tmp_path), run, exit_, (), NOW, has_begun=has_begun)
    assert ending.retries == want


@pytest.mark.parametrize(
    "state",
    [
        pytest.param(Cancelling(), id="cancelled in the queue of Kueue"),
        pytest.param(None, id="deleted in the queue of Kueue"),
        pytest.param(Pending(), id="its Job was deleted in the queue of Kueue"),
    ],
)
def test_an_attempt_that_was_never_on_a_node_costs_nothing(tmp_path, state):
    running = undisturbed(tmp_path)
    run = None if state is None else flow_run(state)
    deleted = Exit(is_interruption=True, ended_at=NOW)
    ending = decide_ending(running, run, deleted, (), NOW, has_begun=False, held_gpus=False)
    assert ending.settlement.end_reason is not None
    assert ending.released_at == running.attempt.admitted_at < NOW
    assert decide_ending(running, run, deleted, (), NOW, has_begun=False).released_at == NOW


@pytest.mark.parametrize(
    ("ended_s", "held_until_s", "want_s"),
    [
        pytest.param(-60, None, -60, id="one pod"),
        pytest.param(-60, -56, -56, id="another node of its gang ended after the first"),
        pytest.param(-60, -90, -60, id="the pod that decides ended last"),
        pytest.param(-7200, -7100, -3600, id="clocks differ: not before its admission"),
    ],
)
def test_gpus_are_released_when_the_last_of_an_attempt_has_ended(
    tmp_path, ended_s, held_until_s, want_s
):
    def moment(seconds):
        return None if seconds is None else NOW + timedelta(seconds=seconds)

    exit_ = Exit(exit_code=0, ended_at=moment(ended_s), held_until=moment(held_until_s))
    ending = decide_ending(
        undisturbed(tmp_path), flow_run(Completed()), exit_, (), NOW, has_begun=True
    )
    assert ending.released_at == moment(want_s)


SECONDS = st.integers(-7200, 7200)


@given(ended_s=SECONDS, held_s=SECONDS | st.none(), admitted_s=SECONDS, started_s=SECONDS)
def test_gpus_are_released_after_all_that_is_known_of_the_attempt(
    ended_s, held_s, admitted_s, started_s
):
    def moment(seconds):
        return None if seconds is None else NOW + timedelta(seconds=seconds)

    running = undisturbed(Path("unused"))
    known = {"admitted_at": moment(admitted_s), "started_at": moment(started_s)}
    running.attempt = replace(running.attempt, **known)
    exit_ = Exit(exit_code=0, ended_at=moment(ended_s), held_until=moment(held_s))
    found = decide_ending(
        running, flow_run(Completed()), exit_, (), NOW, has_begun=True
    ).released_at
    moments = [exit_.ended_at, exit_.held_until, *known.values()]
    assert found == max(at for at in moments if at is not None)


def test_a_decision_that_is_applied_twice_grants_one_retry(tmp_path):
    """Prefect heard of the retry, and was unavailable before it heard of the next state."""
    running = undisturbed(tmp_path)
    run = flow_run(Failed())
    run.empirical_policy = FlowRunPolicy(retries=0)
    first = decide_ending(running, run, FAILS, (), NOW)
    running.attempt = replace(running.attempt, settlement=to_record(first, NOW))
    run.empirical_policy = FlowRunPolicy(retries=first.retries)

    assert decide_ending(running, run, FAILS, (), NOW).retries == first.retries == 1


def test_a_decision_of_the_version_before_grants_its_retry(tmp_path):
    running = undisturbed(tmp_path)
    run = flow_run(Failed())
    run.empirical_policy = FlowRunPolicy(retries=0)
    record = to_record(decide_ending(running, run, FAILS, (), NOW), NOW)
    del record["retries"]
    running.attempt = replace(running.attempt, settlement=record)

    assert decide_ending(running, run, FAILS, (), NOW).retries == 1


OUTAGE = Outage(
    part="api", began_at=NOW - timedelta(seconds=50), seen_at=NOW - timedelta(seconds=1)
)
ENDED = Exit(exit_code=1, ended_at=NOW)


@pytest.mark.parametrize(
    ("exit_", "changes", "want"),
    [
        pytest.param(
            ENDED, {}, "Prefect's API was unavailable", id="a process, or a pod with Prefect"
        ),
        pytest.param(None, {}, "Prefect's API was unavailable", id="its end was not observed"),
        pytest.param(replace(ENDED, is_flow=False), {}, None, id="a container needs no API"),
        pytest.param(None, {"started_at": None}, None, id="nothing ran"),
    ],
)
def test_an_outage_that_the_worker_saw_excuses_a_flow(tmp_path, exit_, changes, want):
    running = undisturbed(tmp_path)
    running.attempt = replace(running.attempt, **changes)
    running.move_to(AttemptPhase.ENDING, NOW)
    running.move_to(AttemptPhase.RELEASED, NOW)
    found = excuse_of_end(
        *(running, flow_run(Running()), exit_, (), (OUTAGE,)), has_begun=True, is_folder_gone=False
    )
    assert found is None if want is None else (found or "").startswith(want)


def test_excused_ends_are_counted_in_a_row_and_as_no_interruptions(tmp_path):
    """Ten of them, and one that was charged in between."""
    excused = make_attempt(
        end_reason=EndReason.INTERRUPTED, settlement={"excused_at": NOW.isoformat()}
    )
    charged = make_attempt(end_reason=EndReason.CRASHED, is_charged_failure=True)
    running = undisturbed(tmp_path)
    running.limits = replace(running.limits, max_interruptions=2)
    first, last = (
        decide_ending(running, flow_run(Running()), ENDED, earlier, NOW, excuse="the API was away")
        for earlier in ([*[excused] * 10, charged], [charged, *[excused] * 10])
    )
    assert first.settlement.message == (
        "Interrupted: the API was away. Retrying the run (excused 1 of 10)."
    )
    assert to_record(first, NOW)["excused_at"] == NOW.isoformat()
    assert last.settlement.message.startswith("Failure 2 of 3: the API was away, 11 times in a row")
    assert to_record(last, NOW)["excused_at"] is None


@given(
    own_retries=st.integers(0, 3),
    ends=st.lists(st.sampled_from(["fails", "dies", "does not begin"]), max_size=8),
)
def test_a_body_is_executed_once_in_each_attempt_and_once_more_for_each_own_retry(
    own_retries, ends
):
    """Prefect's engine executes it again until it counted more runs than it allows retries
    (`RetryFailedFlows`, Prefect 3.8)."""
    retries, counted, bodies = own_retries, 0, 0
    for end in ends:
        if end == "does not begin":
            state, exit_ = Pending(), FAILS
        else:
            counted, bodies = counted + 1, bodies + 1
            while end == "fails" and counted <= retries:
                counted, bodies = counted + 1, bodies + 1
            state, exit_ = (Failed() if end == "fails" else Running()), FAILS
        run = flow_run(state)
        run.empirical_policy = FlowRunPolicy(retries=retries)
        ending = decide_ending(
            *(undisturbed(Path("runs")), run, exit_, (), NOW), has_begun=end != "does not begin"
        )
        retries = retries if ending.retries is None else ending.retries
    begun = len(ends) - ends.count("does not begin")
    assert begun <= bodies <= begun + own_retries
    if "fails" in ends:
        assert bodies == begun + own_retries


class StrictServer:
    """A Prefect server that has the run as Cancelling, and refuses what it refuses then."""

    def __init__(self, run):
        self.run = run
        self.changes = []

    async def request(self, _method, _path, json, **_options):
        self.changes.append(json)

    async def read_flow_run(self, _flow_run_id):
        return self.run

    async def set_flow_run_state(self, _flow_run_id, state, force=False):
        accepts = force or state.is_cancelled()
        if accepts:
            self.run.state = state
        status = SetStateStatus.ACCEPT if accepts else SetStateStatus.REJECT
        return SimpleNamespace(status=status, state=self.run.state)

    async def read_flow_run_states(self, _flow_run_id):
        return [self.run.state]


@pytest.mark.parametrize(
    ("state", "next_state", "want"),
    [
        pytest.param(Running(), "Completed", "Completed", id="the worker ends it"),
        pytest.param(Failed(), None, "Failed", id="it said its end itself"),
        pytest.param(Cancelling(), "Completed", None, id="it is cancelled meanwhile"),
    ],
)
def test_the_state_that_follows_an_end_is_read_again_only_where_it_is_not_known(
    tmp_path, state, next_state, want
):
    class Server(StrictServer):
        async def set_flow_run_state(self, flow_run_id, state, force=False):
            is_free = not self.run.state.is_cancelling()
            return await super().set_flow_run_state(flow_run_id, state, force=force or is_free)

    settlement = Settlement(
        end_reason=EndReason.COMPLETED, is_charged_failure=False, next_state=next_state, message=""
    )
    server = Server(flow_run(state))

    found = anyio.run(publish, server, preempted(tmp_path), flow_run(state), settlement)

    assert found.stands
    assert (found.state and found.state.name) == want


@pytest.mark.parametrize(
    ("noted", "is_note_under_way", "want"),
    [
        pytest.param("ml:job", True, 1, id="noted"),
        pytest.param("ml:job", False, 1, id="noted by an earlier worker"),
        pytest.param(None, True, 1, id="the note may come after the run was read"),
        pytest.param(None, False, 0, id="it ended it was noted"),
    ],
)
def test_the_note_of_what_runs_it_is_cleared_where_there_may_be_one(
    tmp_path, noted, is_note_under_way, want
):
    running, run = preempted(tmp_path), flow_run(Failed())
    running.is_noted, run.infrastructure_pid = is_note_under_way, noted
    settlement = Settlement(
        end_reason=EndReason.FAILED, is_charged_failure=True, next_state=None, message=""
    )
    server = StrictServer(run)

    anyio.run(publish, server, running, run, settlement)

    assert server.changes == want * [{"infrastructure_pid": None}]


@pytest.mark.parametrize("next_state", ["AwaitingRetry", "Scheduled"])
def test_who_is_cancelled_after_the_end_was_judged_does_not_stay_cancelling(tmp_path, next_state):
    """Prefect itself would cancel it five minutes later."""
    running = preempted(tmp_path)
    settlement = Settlement(
        end_reason=EndReason.PREEMPTED,
        is_charged_failure=False,
        next_state=next_state,
        message="Preempted.",
    )
    server = StrictServer(flow_run(Cancelling()))
    before = flow_run(Pending())
    before.deployment_id = UUID(int=1)

    anyio.run(publish, server, running, before, settlement)

    assert server.run.state.is_cancelled()


@pytest.mark.parametrize(
    ("end_reason", "message", "want"),
    [
        pytest.param(
            EndReason.PREEMPTED,
            "Preempted: 'urgent' is more urgent.",
            ("Preempted", "'urgent' is more urgent."),
            id="preempted",
        ),
        pytest.param(
            EndReason.INTERRUPTED,
            "Interrupted: its node is gone. Retrying the run.",
            ("Interrupted", "its node is gone. Retrying the run."),
            id="interrupted",
        ),
        pytest.param(
            EndReason.FAILED,
            "Failure 1 of 3: no data. Retrying the run.",
            ("AwaitingRetry", "Failure 1 of 3: no data. Retrying the run."),
            id="its own failure: Prefect's word for a retry",
        ),
    ],
)
def test_the_state_between_two_attempts_has_the_name_of_its_reason(
    tmp_path, end_reason, message, want
):
    settlement = Settlement(
        end_reason=end_reason,
        is_charged_failure=end_reason is EndReason.FAILED,
        next_state="AwaitingRetry",
        message=message,
    )
    server, before = StrictServer(flow_run(Running())), flow_run(Running())

    anyio.run(publish, server, preempted(tmp_path), before, settlement)

    assert server.run.state.is_scheduled()
    assert (server.run.state.name, server.run.state.message) == want


def test_a_run_whose_pool_was_deleted_does_not_wait_for_ever(tmp_path):
    """No worker can be asked to start it: Prefect has deleted its work queue."""
    without_queue = flow_run(Running())
    without_queue.work_queue_id = None

    settlement = decide_ending(preempted(tmp_path), without_queue, None, (), NOW).settlement

    assert (settlement.next_state, settlement.is_charged_failure) == ("Crashed", False)
    assert settlement.message == (
        "Preempted: the GPUs were assigned to a run with a higher priority. The run cannot "
        "be retried because its work queue was deleted. Please submit the run again."
    )
