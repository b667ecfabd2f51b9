"""When an attempt's GPUs are free again, against a ledger and processes that are real."""

import errno
import os
import subprocess
import sys
import threading
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from uuid import UUID

import anyio
import pytest
from prefect.client.orchestration import PrefectClient
from prefect.client.schemas.objects import FlowRun
from prefect.settings import PREFECT_LOGGING_TO_API_ENABLED, temporary_settings
from prefect.states import Completed, Crashed, Failed, Running

from gpu_core.adapters.ledger import Ledger
from gpu_core.cli.quickstart.services import free_port
from gpu_core.decisions.attempts.phase import AttemptPhase, recorded_phase
from gpu_core.decisions.attempts.settlement import Settlement
from gpu_core.decisions.model.attempt_exit import Exit
from gpu_core.decisions.model.attempts import EndReason
from gpu_core.decisions.model.workload import Workload
from gpu_core.decisions.policy.policy import Policy
from gpu_core.decisions.requests.runs.run_context import ATTEMPT_ID_VARIABLE
from gpu_core.decisions.requests.runs.run_workload import RunLimits
from gpu_core.decisions.requests.variables.job_variables import GpuRequest
from gpu_core.testing.builders.attempts import admit, make_attempt, make_run
from gpu_core.worker.attempts.closer import AttemptCloser
from gpu_core.worker.attempts.ending import Ending, Published
from gpu_core.worker.attempts.last_ends import LastEnds
from gpu_core.worker.attempts.registry import AttemptRegistry
from gpu_core.worker.attempts.run_reader import RunReader
from gpu_core.worker.attempts.settlement_retries import SettlementRetries
from gpu_core.worker.attempts.settler import Settler
from gpu_core.worker.attempts.state import AttemptState, StartFailure, StartFailureKind
from gpu_core.worker.attempts.terminator import Terminator, _lingers
from gpu_core.worker.attempts.zombie_states import ZombieStateGuard
from gpu_core.worker.infrastructure import NotStarted, TerminationRequest
from gpu_core.worker.pending.publisher import Publisher
from gpu_core.worker.prefect import starts_first
from gpu_core.worker.prefect.starts_first import StartsFirst
from gpu_core.worker.process.infrastructure import ProcessInfrastructure
from gpu_core.worker.startup.settings import GpuWorkerSettings
from gpu_core.worker.watch.outages import OutageWatch

RUN = "11111111-1111-1111-1111-111111111111"
# A run id no other test machine process carries; the launcher's number is one that is free.
NO_PID = 2**22 + 1


@pytest.fixture
def running(tmp_path):
    """An attempt whose launcher is gone."""
    attempt = make_attempt(
        RUN,
        attempt_id=f"attempt-{os.getpid()}",
        admitted_at=datetime.now(UTC) - timedelta(hours=1),
        started_at=datetime.now(UTC) - timedelta(hours=1),
        pid=NO_PID,
        pid_created_at=1.0,
    )
    return AttemptState(
        attempt=attempt,
        record=make_run(RUN),
        workload=Workload(
            workload_id=RUN, name="run", priority=1, submitted_at=attempt.admitted_at
        ),
        request=GpuRequest(),
        limits=RunLimits(max_duration_s=60, max_failures=3, max_interruptions=None),
        run_dir=tmp_path / "run",
    )


@pytest.fixture
def ledger(tmp_path, running):
    """A ledger with that attempt open."""
    with Ledger.open(f"sqlite:///{tmp_path / 'ledger.db'}") as ledger:
        admit(ledger, running.attempt, running.record)
        yield ledger


@pytest.fixture
def orphan(running):
    """A process that the launcher left behind."""
    process = subprocess.Popen(
        [sys.executable, "-c", "import time; time.sleep(600)"],
        env={**os.environ, ATTEMPT_ID_VARIABLE: running.attempt.attempt_id},
    )
    yield process
    process.kill()
    process.wait()


def while_the_api_is_away(tmp_path, ledger, running, act):
    """Let `act(settler, woken)` work in a world in which Prefect cannot be reached."""

    async def main():
        url = f"http://127.0.0.1:{free_port()}/api"
        woken = anyio.Event()
        async with PrefectClient(url) as client, anyio.create_task_group() as tasks:
            attempts = AttemptRegistry("gpus", "host-1", tmp_path, ledger)
            attempts._open[running.attempt.attempt_id] = running
            settler = Settler(
                client=client,
                ledger=ledger,
                attempts=attempts,
                infrastructure=ProcessInfrastructure(
                    Policy(version=1), woken.set, GpuWorkerSettings()
                ),
                publisher=Publisher(client, "gpus", None, anyio.Lock()),
                tasks=tasks,
                wake=woken.set,
                costs=None,
                zombies=ZombieStateGuard(client),
                outages=OutageWatch(client, tmp_path / "outages.json", None),
                last_ends=LastEnds(ledger),
                starts=StartsFirst(),
            )
            await act(settler, woken)
            tasks.cancel_scope.cancel()

    anyio.run(main)


def test_gpus_are_free_only_when_the_last_process_has_ended(tmp_path, ledger, running, orphan):
    """An orphan of the launcher holds its GPUs; no other may get them before it is killed."""

    async def act(settler, woken):
        settler.find_ended(set())
        assert orphan.poll() is None
        assert running.phase.holds_gpus
        await woken.wait()
        assert orphan.poll() is not None
        assert not running.phase.holds_gpus

    while_the_api_is_away(tmp_path, ledger, running, act)


def test_how_an_attempt_ended_is_written_down_before_its_gpus_are_free(
    tmp_path, ledger, running, monkeypatch
):
    """Nothing else may have seen it when the next worker judges it: ended Jobs are deleted."""
    seen = Exit(exit_code=0, ended_at=datetime.now(UTC), is_flow=False)

    async def exit_(_infrastructure, of):
        assert of.phase.holds_gpus
        return seen

    monkeypatch.setattr(ProcessInfrastructure, "exit", exit_)

    async def act(settler, woken):
        settler.find_ended(set())
        await woken.wait()
        (written,) = ledger.open_attempts("gpus", "host-1")
        assert written.exit == seen
        assert written.gone_at == running.gone_at

    while_the_api_is_away(tmp_path, ledger, running, act)


def test_gpus_stay_held_while_the_ledger_is_unavailable(tmp_path, ledger, running, monkeypatch):
    """Nothing is admitted until then either."""

    def refuse(*_arguments):
        tried.set()
        raise OSError(errno.ENOSPC, "the disk is full")

    tried = threading.Event()
    monkeypatch.setattr(Ledger, "note_gone", refuse)

    async def act(settler, _woken):
        settler.find_ended(set())
        await anyio.to_thread.run_sync(tried.wait)
        assert running.phase is AttemptPhase.ENDING

    with temporary_settings({PREFECT_LOGGING_TO_API_ENABLED: False}):
        while_the_api_is_away(tmp_path, ledger, running, act)


@pytest.mark.parametrize("broken", ["exit", "note_gone"])
def test_an_end_that_cannot_be_noted_for_a_reason_of_its_own_holds_no_gpus(
    tmp_path, ledger, running, monkeypatch, caplog, broken
):
    """Otherwise one run's odd end would keep its GPUs from all others for ever."""

    def refuse(*_arguments):
        raise ValueError("a text that no database takes")

    where = ProcessInfrastructure if broken == "exit" else Ledger
    monkeypatch.setattr(where, broken, refuse)

    async def act(settler, woken):
        settler.find_ended(set())
        await woken.wait()
        assert running.phase is AttemptPhase.RELEASED
        assert running.gone_at is not None

    with temporary_settings({PREFECT_LOGGING_TO_API_ENABLED: False}):
        while_the_api_is_away(tmp_path, ledger, running, act)
    assert "Failed to record the end of flow run 'name-of-" in caplog.text


def test_a_noted_end_has_no_secret(tmp_path, ledger, running, monkeypatch):
    """The message of a container's end is the end of its output."""
    seen = Exit(exit_code=1, message="login with hunter2 failed", is_flow=False)

    async def exit_(*_arguments):
        return seen

    monkeypatch.setattr(ProcessInfrastructure, "exit", exit_)

    async def act(settler, woken):
        settler._hidden = lambda text: text.replace("hunter2", "***")
        settler.find_ended(set())
        await woken.wait()
        (written,) = ledger.open_attempts("gpus", "host-1")
        assert written.exit == replace(seen, message="login with *** failed")

    while_the_api_is_away(tmp_path, ledger, running, act)


@pytest.mark.parametrize("was_noted", [True, False])
def test_the_next_worker_judges_an_end_by_what_the_last_one_saw(
    tmp_path, ledger, running, monkeypatch, was_noted
):
    """A container that is done is not run again because its Job has been deleted meanwhile."""
    ended_at = running.attempt.admitted_at + timedelta(minutes=20)
    gone_at = ended_at + timedelta(seconds=2)
    if was_noted:
        ledger.note_gone(
            *(running.attempt.attempt_id, gone_at),
            Exit(exit_code=0, ended_at=ended_at, is_flow=False),
        )
    (found,) = ledger.open_attempts("gpus", "host-1")
    taken_over = replace(running, attempt=found, phase_at_first=AttemptPhase.RECOVERING)
    taken_over.move_to(recorded_phase(found), datetime.now(UTC))
    assert taken_over.phase.holds_gpus is not was_noted

    async def answer(value):
        return value

    ids = dict.fromkeys(("id", "flow_id", "work_queue_id"), UUID(RUN))
    run = FlowRun(**ids, state=Running())
    monkeypatch.setattr(RunReader, "of", lambda *_: answer(run))
    monkeypatch.setattr("gpu_core.worker.attempts.settler.has_begun", lambda *_: answer(True))
    published = []

    async def publish(_client, _running, _run, settlement):
        published.append(settlement.next_state)
        return Published(stands=True)

    monkeypatch.setattr("gpu_core.worker.attempts.settler.publish", publish)
    allowed = []

    async def allow_another_attempt(_client, run, *, retries):
        allowed.append(retries)

    monkeypatch.setattr(
        "gpu_core.worker.attempts.settler.allow_another_attempt", allow_another_attempt
    )
    monkeypatch.setattr(AttemptCloser, "_parent", lambda *_: answer(None))

    async def act(settler, _woken):
        settled = anyio.Event()
        monkeypatch.setattr(settler._infrastructure, "settled", lambda _running: settled.set())
        settler.find_ended(set())
        settler.find_ended(set())  # the next cycle, while it is being settled
        await settled.wait()

    with temporary_settings({PREFECT_LOGGING_TO_API_ENABLED: False}):
        while_the_api_is_away(tmp_path, ledger, taken_over, act)
    (attempt,) = ledger.attempts_of([RUN])[RUN]
    # Prefect is not asked to allow what a container that is done does not need.
    assert len(allowed) == (0 if was_noted else 1)
    if was_noted:
        assert published == ["Completed"]
        assert (attempt.end_reason, attempt.released_at) == (EndReason.COMPLETED, ended_at)
    else:
        assert published == ["AwaitingRetry"]
        assert attempt.end_reason is EndReason.INTERRUPTED
    assert (attempt.gone_at, attempt.exit) == (None, None)


def terminator_of(settler):
    """What asks attempts to stop, in the same world."""
    return Terminator(
        client=settler._client,
        ledger=settler._ledger,
        attempts=settler._attempts,
        infrastructure=settler._infrastructure,
        tasks=settler._tasks,
        wake=settler._wake,
        settler=settler,
        decisions=settler._attempts._decisions,
    )


def test_an_attempt_that_can_never_start_is_refused_once(tmp_path, ledger, running, monkeypatch):
    """Such as one whose image does not exist: it is settled, not asked to end and tried again."""
    trouble = TerminationRequest(reason=EndReason.REFUSED, message="Image 'x' does not exist.")
    monkeypatch.setattr(ProcessInfrastructure, "trouble", lambda *_: trouble)

    async def act(settler, woken):
        terminator = terminator_of(settler)
        await terminator.stop_troubled(Policy(version=1), datetime.now(UTC))
        assert running.phase.has_ended
        assert running.start_failure == StartFailure(StartFailureKind.REFUSED, trouble.message)
        assert not running.is_stop_requested
        # What is settled already is left alone.
        monkeypatch.setattr(settler, "end_unstarted", None)
        await terminator.stop_troubled(Policy(version=1), datetime.now(UTC))
        await woken.wait()

    while_the_api_is_away(tmp_path, ledger, running, act)


def test_an_attempt_that_ended_by_itself_is_not_overdue_while_it_waits_for_the_api(
    tmp_path, ledger, running
):
    """Its end cannot be written down yet, and another reason must not replace the true one."""

    async def act(settler, woken):
        settler.find_ended(set())
        await woken.wait()
        await terminator_of(settler).stop_overdue(Policy(version=1), datetime.now(UTC))
        assert running.drain_reason is None

    while_the_api_is_away(tmp_path, ledger, running, act)


@pytest.mark.parametrize("is_noted", [False, True])
def test_a_start_that_a_killed_worker_did_not_note_is_known_from_the_end(
    tmp_path, ledger, running, is_noted
):
    """It was killed between the start of the launcher and the next line, and the run is over."""
    began, noted = datetime.now(UTC) - timedelta(minutes=5), running.attempt.started_at
    if not is_noted:
        running.attempt = replace(running.attempt, started_at=None)

    async def act(settler, _woken):
        await settler._note_start(running, Exit(exit_code=0, started_at=began))
        await settler._note_start(running, None)

    while_the_api_is_away(tmp_path, ledger, running, act)
    (attempt,) = ledger.open_attempts("gpus", "host-1")
    assert attempt.started_at == running.attempt.started_at == (noted if is_noted else began)


@pytest.mark.parametrize(
    ("state", "minutes", "want"),
    [
        pytest.param(Completed(), 11, True, id="done long ago"),
        pytest.param(Failed(), 11, True, id="failed long ago"),
        pytest.param(Completed(), 9, False, id="its hooks may still work"),
        pytest.param(Running(), 60, False, id="it works"),
        pytest.param(Crashed(), 60, False, id="whose end is judged by how its process ends"),
    ],
)
def test_a_process_that_outlives_its_run_for_long_is_ended(state, minutes, want):
    """It hangs in a library that waits for others, or a sidecar goes on, and holds its GPUs."""
    now = datetime.now(UTC)
    shown = state.model_copy(update={"timestamp": now - timedelta(minutes=minutes)})
    assert _lingers(FlowRun(id=UUID(RUN), flow_id=UUID(RUN), state=shown), now) is want


@pytest.mark.parametrize("is_started", [False, True])
def test_beside_a_cycle_only_what_was_started_has_ended(tmp_path, ledger, running, is_started):
    """What the cycle has just admitted has no process yet, and is about to get one."""
    if not is_started:
        running.attempt = replace(running.attempt, started_at=None)

    async def act(settler, woken):
        settler.find_ended(set(), is_during_cycle=True)
        assert running.phase.has_ended is is_started
        if is_started:
            await woken.wait()
            assert not running.phase.holds_gpus

    while_the_api_is_away(tmp_path, ledger, running, act)


def test_an_attempt_whose_run_is_being_read_is_not_settled_yet(tmp_path, ledger, running):
    """It is settled once, with what its run says, and not with what stands in for it."""
    running = replace(running, phase_at_first=AttemptPhase.RECOVERING)

    async def act(settler, _woken):
        settler.find_ended(set(), is_during_cycle=True)
        assert not running.phase.has_ended

    while_the_api_is_away(tmp_path, ledger, running, act)


def test_an_end_is_settled_as_soon_as_the_api_is_back(tmp_path, ledger, running, monkeypatch):
    """However long the next try would have been put off."""
    monkeypatch.setattr(SettlementRetries, "after_outage", lambda _retries: 600.0)
    tries = []

    async def act(settler, _woken):
        tried = anyio.Event()

        async def settle(_running):
            tries.append(len(tries) + 1)
            tried.set()
            if len(tries) == 1:
                raise ConnectionError("the API is away")

        monkeypatch.setattr(settler, "_settle", settle)
        settler.find_ended(set())
        await tried.wait()
        tried = anyio.Event()
        await anyio.wait_all_tasks_blocked()
        settler._outages._note("api", True, datetime.now(UTC))
        settler._outages._note("api", False, datetime.now(UTC))
        await tried.wait()
        assert tries == [1, 2]

    while_the_api_is_away(tmp_path, ledger, running, act)


@pytest.mark.parametrize(
    ("end", "want"),
    [
        pytest.param(EndReason.HUNG, frozenset({"node-1"}), id="the next attempt avoids it"),
        pytest.param(EndReason.CRASHED, frozenset(), id="no node is at fault for a crash"),
    ],
)
def test_the_nodes_of_the_ranks_that_hung_are_written_down(tmp_path, ledger, running, end, want):
    """Those alone, of a gang: the others have worked."""
    running.faulty_nodes = frozenset({"node-1"})
    settlement = Settlement(
        end_reason=end, is_charged_failure=True, next_state="AwaitingRetry", message="It ended."
    )
    ending = Ending(
        settlement=settlement,
        released_at=datetime.now(UTC),
        exit_code=None,
        is_end_estimated=False,
    )

    async def act(settler, _woken):
        await settler._remember(running, ending)

    while_the_api_is_away(tmp_path, ledger, running, act)
    (attempt,) = ledger.open_attempts("gpus", "host-1")
    assert attempt.faulty_nodes == want
    assert attempt.settlement["end_reason"] == end


class NoPauses(SettlementRetries):
    """A day of tries in a moment."""

    def after_fault(self, error):
        super().after_fault(error)
        return 0


def test_an_attempt_that_is_withdrawn_meanwhile_is_settled_no_further(
    tmp_path, ledger, running, monkeypatch
):
    """Another worker took it back: every further try would fail, for a day."""
    monkeypatch.setattr("gpu_core.worker.attempts.settler.SettlementRetries", NoPauses)
    tries = []

    async def act(settler, _woken):
        reported = anyio.Event()

        async def settle(running):
            tries.append(len(tries) + 1)
            if len(tries) == 1:
                running.move_to(AttemptPhase.RELEASED, datetime.now(UTC))
                settler._attempts.remove(running)
            raise ValueError("the ledger has no such attempt")

        async def report(_running, _final):
            reported.set()

        monkeypatch.setattr(settler, "_settle", settle)
        monkeypatch.setattr(settler, "_report", report)
        settler.find_ended(set())
        await reported.wait()

    with temporary_settings({PREFECT_LOGGING_TO_API_ENABLED: False}):
        while_the_api_is_away(tmp_path, ledger, running, act)
    assert tries == [1]
    assert running.phase is AttemptPhase.SETTLED


def test_a_worker_without_its_lease_blames_no_run(tmp_path, ledger, running, monkeypatch, caplog):
    """Hundreds of ends may wait for the worker that acts: it settles them."""
    retries = SettlementRetries()

    async def act(settler, _woken):
        error = NotStarted("another worker is or might be active for this pool")
        pauses_s = [settler._pause_s(running, retries, error) for _ in range(10_000)]
        assert pauses_s[:3] == [2, 4, 8]

    while_the_api_is_away(tmp_path, ledger, running, act)
    assert not retries.is_over
    assert [r for r in caplog.records if r.levelname in ("WARNING", "ERROR")] == []


@pytest.mark.parametrize("damage", ["the server refuses its state", "no run has its id"])
def test_an_end_that_cannot_be_settled_is_closed_after_a_day(
    tmp_path, ledger, running, monkeypatch, caplog, damage
):
    """Its GPUs are free from the beginning, its page says it once, and nothing is charged."""
    monkeypatch.setattr("gpu_core.worker.attempts.settler.SettlementRetries", NoPauses)
    tries = []

    def refuse(*_, **__):
        tries.append(not running.phase.holds_gpus)
        raise ValueError("a text that the server refuses")

    async def answer(value):
        return value

    monkeypatch.setattr("gpu_core.worker.attempts.settler.has_begun", lambda *_: answer(True))
    monkeypatch.setattr("gpu_core.worker.attempts.settler.excuse_of_end", refuse)
    if damage == "no run has its id":
        running.attempt = replace(running.attempt, flow_run_id="no uuid")

    else:
        run = FlowRun(id=UUID(RUN), flow_id=UUID(RUN), state=Running())
        monkeypatch.setattr(RunReader, "of", lambda *_: answer(run))
    published = []

    async def publish(_client, _running, _run, settlement):
        published.append(settlement.next_state)
        return True

    monkeypatch.setattr("gpu_core.worker.attempts.settler.publish", publish)

    async def act(settler, _woken):
        settled = anyio.Event()
        monkeypatch.setattr(settler._infrastructure, "settled", lambda _running: settled.set())
        settler.find_ended(set())
        await settled.wait()

    with temporary_settings({PREFECT_LOGGING_TO_API_ENABLED: False}):
        while_the_api_is_away(tmp_path, ledger, running, act)
    assert set(tries) == {True}
    (attempt,) = ledger.attempts_of([RUN])[RUN]
    assert (attempt.end_reason, attempt.is_charged_failure) == (EndReason.CRASHED, False)
    assert attempt.is_end_estimated
    assert attempt.released_at - running.gone_at < timedelta(seconds=1)
    shown = [r for r in caplog.records if "Failed to finalize the run: " in r.getMessage()]
    assert published == (["Crashed"] if damage != "no run has its id" else [])
    assert len(shown) == (damage != "no run has its id")


def test_tries_for_one_attempt_have_pauses_and_a_bound_and_those_of_an_outage_none():
    retries = SettlementRetries()
    outage_pauses_s = [retries.after_outage() for _ in range(10_000)]
    assert outage_pauses_s[:7] == [2, 4, 8, 16, 32, 60, 60]
    assert not retries.is_over
    pauses_s = []
    while not retries.is_over:
        pauses_s.append(retries.after_fault("x" * 1_000_000))
    assert pauses_s[:9] == [5, 10, 20, 40, 80, 160, 320, 600, 600]
    assert 24 * 3600 <= sum(pauses_s) < 24 * 3600 + 600
    assert len(retries.fault) <= 300


def test_of_many_that_end_together_a_few_ask_prefects_server_at_a_time(
    tmp_path, ledger, running, monkeypatch
):
    """All their GPUs are free by then, so the starts of other runs come first at a busy server."""
    many = [
        replace(running, attempt=replace(running.attempt, attempt_id=f"many-{number}"))
        for number in range(40)
    ]
    asking = []

    async def act(settler, _woken):
        judged, all_asked = anyio.Semaphore(0), anyio.Event()

        async def judge(running):
            assert not running.phase.holds_gpus
            asking.append(running.attempt.attempt_id)
            await judged.acquire()
            return Published(stands=True, state=None)

        async def report(_running, _final):
            if len(asking) == len(many):
                all_asked.set()

        monkeypatch.setattr(settler, "_judge", judge)
        monkeypatch.setattr(settler, "_report", report)
        for each in many:
            settler._attempts._open[each.attempt.attempt_id] = each
        del settler._attempts._open[running.attempt.attempt_id]
        settler.find_ended(set())
        while any(each.phase.holds_gpus for each in many):
            await anyio.wait_all_tasks_blocked()
        await anyio.wait_all_tasks_blocked()
        assert len(asking) == 4
        for _ in many:
            judged.release()
        await all_asked.wait()

    while_the_api_is_away(tmp_path, ledger, running, act)


def test_an_end_is_judged_after_the_starts_that_are_under_way(
    tmp_path, ledger, running, monkeypatch
):
    """Its GPUs are free at once: only its page waits."""
    monkeypatch.setattr(starts_first, "LONGEST_YIELD_S", 60.0)

    async def act(settler, _woken):
        judged = anyio.Event()

        async def judge(_running):
            judged.set()
            return Published(stands=True, state=None)

        monkeypatch.setattr(settler, "_judge", judge)
        with settler._starts.start():
            settler.find_ended(set())
            while running.phase.holds_gpus:
                await anyio.wait_all_tasks_blocked()
            await anyio.wait_all_tasks_blocked()
            assert not judged.is_set()
        await judged.wait()

    while_the_api_is_away(tmp_path, ledger, running, act)
