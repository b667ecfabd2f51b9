"""What a worker writes down of its decisions."""

import sqlite3
from collections.abc import Iterator
from dataclasses import replace
from datetime import datetime, timedelta
from hashlib import sha256
from pathlib import Path

import anyio
import anyio.lowlevel
import pytest
from anyio.abc import TaskGroup

from gpu_core.adapters.ledger import Ledger
from gpu_core.adapters.ledger.database import Logged
from gpu_core.adapters.ledger.spool import SpooledRecord
from gpu_core.decisions.model.attempts import EndReason
from gpu_core.decisions.model.decision_chain import DecisionKind
from gpu_core.decisions.model.reasons import Explanation, Reason
from gpu_core.testing.builders.attempts import NOON, make_attempt, make_run
from gpu_core.testing.builders.workloads import make_policy, make_workload
from gpu_core.worker.watch.decision_log import DecisionLog
from gpu_core.worker.watch.spooled_writes import SpooledWrites
from tests.gpu_core.decisions.model.test_decision_chain import make_decision

TEXT = "version: 1\ntelemetry: {prometheus_url: http://ada:hush@prometheus}\n"
FIRST = replace(make_workload("run-1"), priority_override=1)


@pytest.fixture
def ledger(tmp_path: Path) -> Iterator[Ledger]:
    with Ledger.open(f"sqlite:///{tmp_path / 'ledger.db'}") as opened:
        yield opened


@pytest.fixture
def log(ledger: Ledger, tmp_path: Path) -> DecisionLog:
    return new_log(ledger, tmp_path)


def new_log(ledger: Ledger, folder: Path) -> DecisionLog:
    """The log of a worker that has just started."""
    return DecisionLog(ledger, "gpus", "host-1", SpooledWrites(ledger, folder / "spool"))


def waits(run: str, reason: Reason) -> Explanation:
    """Why a run waits."""
    return Explanation(
        workload_id=run,
        reason=reason,
        summary="Why.",
        resolution="",
        position=3,
        numbers={"free": 2},
    )


def kept(ledger: Ledger, log: DecisionLog) -> list[tuple[str, str | None, str, str | None]]:
    """What is in the ledger: kind, run, who, reason."""
    anyio.run(log.flush)
    return [(d.kind, d.flow_run_id, d.who, d.reason) for d in ledger.decisions()]


def test_a_reason_is_written_down_when_it_is_new(ledger: Ledger, log: DecisionLog) -> None:
    """Back and forth within ten minutes is no news; what lasts is written down after it."""
    first, second = Reason.WAITING_FOR_GPUS, Reason.BEHIND_OTHERS
    for seconds, reason in ((0, first), (5, second), (9, first), (599, second), (600, second)):
        log.waiting([waits("run-1", reason)], NOON + timedelta(seconds=seconds))
    assert kept(ledger, log) == [
        ("Held", "run-1", "scheduler", "WaitingForGpus"),
        ("Held", "run-1", "scheduler", "BehindOthers"),
    ]
    assert ledger.decisions()[0].numbers == '{"free": 2, "position": 3}'
    log.waiting([], NOON + timedelta(seconds=640))
    log.waiting([waits("run-1", Reason.HELD)], NOON + timedelta(seconds=641))
    assert kept(ledger, log)[-1] == ("Held", "run-1", "person", "Held")


def test_a_person_moves_a_run_up_once(ledger: Ledger, log: DecisionLog) -> None:
    for _ in range(2):
        anyio.run(log.moved_up, [FIRST, make_workload("run-2")], NOON)
    assert kept(ledger, log) == [("MovedUp", "run-1", "person", None)]


@pytest.mark.parametrize(
    ("queues", "want"),
    [
        pytest.param([[], ["first"]], 1, id="a run that has run meanwhile"),
        pytest.param([["behind"], ["first"]], 2, id="a person moves it up again"),
        pytest.param([["first"]], 1, id="it is still there"),
    ],
)
@pytest.mark.parametrize("is_restarted", [False, True], ids=["one worker", "a restart"])
def test_a_move_is_written_down_once_also_over_restarts(
    ledger: Ledger, tmp_path: Path, queues: list[list[str]], want: int, is_restarted: bool
) -> None:
    log = new_log(ledger, tmp_path)
    anyio.run(log.moved_up, [FIRST], NOON)
    anyio.run(log.flush)
    if is_restarted:
        log = new_log(ledger, tmp_path)
    for queue in queues:
        by_name = {"first": FIRST, "behind": make_workload("run-1")}
        anyio.run(log.moved_up, [by_name[name] for name in queue], NOON)
    assert len(kept(ledger, log)) == want


def test_a_move_is_written_down_when_the_ledger_is_back(
    ledger: Ledger, log: DecisionLog, tmp_path: Path
) -> None:
    path = tmp_path / "ledger.db"
    with sqlite3.connect(path) as connection:
        connection.execute("ALTER TABLE decisions RENAME TO away")
    anyio.run(log.moved_up, [FIRST], NOON)
    with sqlite3.connect(path) as connection:
        connection.execute("ALTER TABLE away RENAME TO decisions")
    for _ in range(2):
        anyio.run(log.moved_up, [FIRST], NOON)
    assert kept(ledger, log) == [("MovedUp", "run-1", "person", None)]


def test_another_policy_is_written_down_also_over_restarts(ledger: Ledger, tmp_path: Path) -> None:
    one, other = make_policy(), make_policy(limits={"max_gpus_per_run": 4})
    for policy in (one, one, other, other):
        log = new_log(ledger, tmp_path)
        anyio.run(log.policy, policy, TEXT, NOON)
        anyio.run(log.policy, policy, TEXT, NOON)
        anyio.run(log.flush)
    assert [d.kind for d in ledger.decisions()] == ["PolicyChanged", "PolicyChanged"]


def test_a_policy_that_stays_in_force_is_noted_again_before_a_purge_may_take_it(
    log: DecisionLog, ledger: Ledger, tmp_path: Path
) -> None:
    """31 days is the shortest retention; the worker restarts on the fourteenth day."""
    policy = make_policy()
    for day in range(60):
        log = new_log(ledger, tmp_path) if day == 14 else log
        anyio.run(log.policy, policy, TEXT, NOON + timedelta(days=day))
        anyio.run(log.flush)
    noted = [datetime.fromisoformat(link.decided_at) - NOON for link in ledger.decisions()]
    assert [since.days for since in noted] == [0, 29, 59]


def test_the_text_of_a_policy_is_written_down_without_passwords(
    ledger: Ledger, tmp_path: Path
) -> None:
    """Also where an earlier version has written down only the digest of the same policy."""
    policy = make_policy()
    digest = sha256(policy.model_dump_json().encode()).hexdigest()
    before = make_decision(1, kind=DecisionKind.POLICY_CHANGED, numbers={"sha256": digest})
    ledger.log(Logged("gpus@host-1", [before]))
    log = new_log(ledger, tmp_path)
    anyio.run(log.policy, policy, TEXT, NOON)
    anyio.run(log.flush)
    found = ledger.policy_text_at("gpus", NOON)
    assert found is not None
    assert found.text == TEXT.replace("hush", "***")


@pytest.mark.parametrize(
    ("reason", "want"),
    [
        pytest.param(EndReason.PREEMPTED, ("Preempted", "scheduler"), id="for another run"),
        pytest.param(EndReason.CANCELLED, ("Stopped", "person"), id="by a person"),
        pytest.param(EndReason.TIMED_OUT, ("Stopped", "scheduler"), id="by a limit"),
    ],
)
def test_an_attempt_that_must_end(log: DecisionLog, reason: EndReason, want: object) -> None:
    (decision,) = log.stop(make_attempt(), reason, "Why.", NOON, by="run-2").decisions
    assert (decision.kind, decision.who) == want
    assert (decision.reason, decision.numbers["for_run"]) == (reason.value, "run-2")


@pytest.mark.parametrize(
    ("bound_at", "want"),
    [
        pytest.param(NOON, "Attempt 1 got its GPUs on node-1.", id="pinned"),
        pytest.param(None, "Attempt 1 is planned on node-1.", id="others choose its nodes later"),
    ],
)
def test_an_admission_says_whether_its_node_is_certain(log: DecisionLog, bound_at, want) -> None:
    attempt = make_attempt(make_run().flow_run_id, bound_at=bound_at)
    (decision,) = log.admissions([(attempt, make_workload(attempt.flow_run_id))]).decisions
    assert decision.message == want


def test_an_admission_has_its_numbers_and_the_attempts_id(log: DecisionLog) -> None:
    attempt = make_attempt(make_run().flow_run_id)
    workload = make_workload(attempt.flow_run_id, submitted_at=NOON - timedelta(seconds=90))
    (decision,) = log.admissions([(attempt, workload)]).decisions
    assert decision.decision_id == attempt.attempt_id
    assert decision.numbers == {
        "attempt": 1,
        "node": "node-1",
        "gpus": "1",
        "gpu_type": "a10g",
        "capacity_type": "on-demand",
        "points": 1_000,
        "waited_s": 90,
        "price_micro_usd_per_gpu_hour": 1_000_000,
    }


def test_a_flush_beside_a_slow_one_loses_nothing(ledger: Ledger, tmp_path: Path) -> None:
    """What a cycle publishes is written beside the next cycle."""
    written: list[str | None] = []

    class Slow(SpooledWrites):
        async def write(self, record: SpooledRecord) -> None:
            if not written:
                log.refused("run-2", "It fits nowhere.", NOON)
                beside.start_soon(log.flush)
                for _ in range(5):
                    await anyio.lowlevel.checkpoint()
                log.refused("run-3", "It fits nowhere.", NOON)
            written.extend(decision.flow_run_id for decision in record.decisions)

    async def run() -> None:
        nonlocal beside
        async with anyio.create_task_group() as beside:
            await log.flush()
        await log.flush()

    beside: TaskGroup
    log = DecisionLog(ledger, "gpus", "host-1", Slow(ledger, tmp_path / "spool"))
    log.refused("run-1", "It fits nowhere.", NOON)
    anyio.run(run)
    assert sorted(map(str, written)) == ["run-1", "run-2", "run-3"]
