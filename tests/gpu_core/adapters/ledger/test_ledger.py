"""What the ledger keeps, what it refuses, and what it answers; the same on both databases."""

from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from datetime import UTC, timedelta, timezone
from typing import Any

import pytest

from gpu_core.adapters.files.run_files import CheckpointReport
from gpu_core.adapters.ledger import Ledger, UnknownAttempt, engine
from gpu_core.decisions.model.attempt_exit import Exit
from gpu_core.decisions.model.attempts import Attempt, EndReason, Provenance
from gpu_core.decisions.model.errors import InvalidInput
from gpu_core.decisions.model.gpu_summary import GpuSummary
from gpu_core.decisions.model.host_summary import HostSummary
from gpu_core.testing.builders.attempts import NOON, admit, at, make_attempt, make_run


def report(**fields: Any) -> CheckpointReport:
    """What a run reports of its checkpoints."""
    return CheckpointReport(attempt_id="run-1/1", **fields)


def open_one(ledger: Ledger, **fields: object) -> Attempt:
    """A ledger with one run that holds a GPU."""
    attempt = make_attempt(**fields)
    admit(ledger, attempt)
    return attempt


def stored(ledger: Ledger, attempt_id: str = "run-1/1") -> Attempt:
    """The attempt as the ledger has it now."""
    run_id = attempt_id.rpartition("/")[0]
    return next(a for a in ledger.attempts_of([run_id])[run_id] if a.attempt_id == attempt_id)


def close(ledger: Ledger, attempt_id: str = "run-1/1", **fields: object) -> bool:
    """Close an attempt that completed an hour after noon."""
    ordinary: dict[str, object] = {
        "released_at": at(1),
        "end_reason": EndReason.COMPLETED,
        "end_message": None,
        "exit_code": 0,
        "is_charged_failure": False,
    }
    return ledger.close_attempt(attempt_id, **(ordinary | fields))


# Runs


def test_a_run_comes_back_as_it_was_admitted(ledger: Ledger) -> None:
    run = make_run(submitted_at=NOON + timedelta(microseconds=7), provenance=Provenance.GENERATED)
    admit(ledger, make_attempt(), run)
    assert ledger.run("run-1") == run
    assert ledger.run("run-2") is None


def test_admitting_a_run_again_corrects_it_but_keeps_its_place_in_line_and_its_end(
    ledger: Ledger,
) -> None:
    admit(ledger, make_attempt(), make_run(team="vision"))
    assert ledger.finish_run("run-1", "Completed")
    again = make_run(team="language", submitted_at=at(5), final_state=None)
    admit(ledger, make_attempt(number=2), again)
    assert ledger.run("run-1") == make_run(team="language", final_state="Completed")


def test_finishing_a_run_that_was_never_admitted_says_so(ledger: Ledger) -> None:
    assert not ledger.finish_run("run-1", "Completed")


# Attempts: opening


def test_an_attempt_comes_back_as_it_was_opened(ledger: Ledger) -> None:
    attempt = open_one(ledger, gpu_ids=("GPU-1", "GPU-0"), price_micro_usd_per_gpu_hour=10**13)
    assert ledger.open_attempts("gpus", "host-1") == (attempt,)


@pytest.mark.parametrize(
    "second",
    [
        pytest.param(make_attempt(), id="the same attempt again"),
        pytest.param(make_attempt(attempt_id="other"), id="the same number under another id"),
        pytest.param(make_attempt(number=2, attempt_id="run-1/1"), id="the same id, a new number"),
    ],
)
def test_an_attempt_is_opened_once(ledger: Ledger, second: Attempt) -> None:
    first = open_one(ledger)
    assert ledger.admit([(make_run(), second)]) == frozenset()
    assert ledger.attempts_of(["run-1"]) == {"run-1": (first,)}


def test_many_runs_are_admitted_together(ledger: Ledger) -> None:
    records = [(make_run(f"run-{n}"), make_attempt(f"run-{n}")) for n in range(700)]
    assert ledger.admit(records) == {attempt.attempt_id for _, attempt in records}
    assert ledger.run("run-699") == make_run("run-699")
    assert stored(ledger, "run-699/1") == make_attempt("run-699")


@pytest.mark.parametrize(
    "second",
    [
        pytest.param(make_attempt(node="elsewhere"), id="the same attempt again"),
        pytest.param(make_attempt(attempt_id="other"), id="the same number under another id"),
    ],
)
def test_of_runs_admitted_together_only_those_that_have_an_attempt_are_refused(
    ledger: Ledger, second: Attempt
) -> None:
    first = open_one(ledger)
    other = make_attempt("run-2")
    assert ledger.admit([(make_run(), second), (make_run("run-2"), other)]) == {"run-2/1"}
    assert ledger.attempts_of(["run-1", "run-2"]) == {"run-1": (first,), "run-2": (other,)}


def test_a_time_without_a_zone_is_refused_by_the_name_of_its_field(ledger: Ledger) -> None:
    naive = make_attempt(admitted_at=NOON.replace(tzinfo=None))
    with pytest.raises(InvalidInput, match="admitted_at has no time zone"):
        ledger.admit([(make_run(), naive)])
    assert ledger.run("run-1") is None


def test_times_come_back_in_utc_whatever_zone_they_were_written_in(ledger: Ledger) -> None:
    open_one(ledger, admitted_at=NOON.astimezone(timezone(timedelta(hours=5, minutes=30))))
    assert stored(ledger).admitted_at == NOON
    assert stored(ledger).admitted_at.tzinfo is UTC


def test_an_attempt_that_never_started_can_be_withdrawn(ledger: Ledger) -> None:
    open_one(ledger)
    assert ledger.withdraw_attempt("run-1/1")
    assert ledger.attempts_of(["run-1"]) == {"run-1": ()}
    assert not ledger.withdraw_attempt("run-1/1")


def test_an_attempt_that_started_is_not_withdrawn(ledger: Ledger) -> None:
    open_one(ledger)
    ledger.mark_started("run-1/1", started_at=at(0.1), pid=7, pid_created_at=1.25)
    assert not ledger.withdraw_attempt("run-1/1")
    want = make_attempt(started_at=at(0.1), last_seen_at=at(0.1), pid=7, pid_created_at=1.25)
    assert stored(ledger) == want


def test_starting_a_withdrawn_attempt_is_refused(ledger: Ledger) -> None:
    with pytest.raises(UnknownAttempt, match="run-1/1"):
        ledger.mark_started("run-1/1", started_at=NOON, pid=7, pid_created_at=1.25)


# Attempts: draining


def drain(ledger: Ledger, reason: EndReason, hours: float, grace_h: float = 1) -> bool:
    """Ask the attempt to end."""
    return ledger.mark_draining(
        "run-1/1",
        requested_at=at(hours),
        reason=reason,
        deadline_at=at(hours + grace_h),
        message=f"because of {reason.value}",
        preempted_by="run-9" if reason is EndReason.PREEMPTED else None,
    )


@pytest.mark.parametrize(
    ("first", "second", "want_second_wins"),
    [
        pytest.param(EndReason.PREEMPTED, EndReason.PREEMPTED, False, id="preempted twice"),
        pytest.param(EndReason.PREEMPTED, EndReason.TIMED_OUT, False, id="preempted, timed out"),
        pytest.param(EndReason.PREEMPTED, EndReason.CANCELLED, True, id="preempted, cancelled"),
        pytest.param(EndReason.CANCELLED, EndReason.PREEMPTED, False, id="cancelled, preempted"),
        pytest.param(EndReason.TIMED_OUT, EndReason.CANCELLED, False, id="timed out, cancelled"),
    ],
)
def test_the_first_drain_wins_but_a_cancellation_overrides_a_preemption(
    ledger: Ledger, first: EndReason, second: EndReason, want_second_wins: bool
) -> None:
    open_one(ledger)
    assert drain(ledger, first, hours=1)
    assert drain(ledger, second, hours=1.5) is want_second_wins
    want_reason = second if want_second_wins else first
    assert stored(ledger).drain_reason is want_reason
    assert stored(ledger).drain_message == f"because of {want_reason.value}"


@pytest.mark.parametrize(
    ("grace_h", "want_deadline_h"),
    [
        pytest.param(9, 2, id="a later deadline does not lengthen the first promise"),
        pytest.param(0.1, 1.6, id="an earlier deadline holds"),
    ],
)
def test_a_cancelled_preemption_gets_no_more_time_and_still_frees_for_the_same_run(
    ledger: Ledger, grace_h: float, want_deadline_h: float
) -> None:
    open_one(ledger)
    drain(ledger, EndReason.PREEMPTED, hours=1)
    drain(ledger, EndReason.CANCELLED, hours=1.5, grace_h=grace_h)
    assert stored(ledger).drain_deadline_at == at(want_deadline_h)
    assert stored(ledger).preempted_by == "run-9"


def test_an_attempt_that_is_over_is_not_drained(ledger: Ledger) -> None:
    open_one(ledger)
    close(ledger)
    assert not drain(ledger, EndReason.CANCELLED, hours=2)
    assert stored(ledger).drain_reason is None


# Attempts: heartbeat and end


def test_a_heartbeat_keeps_what_was_known_unless_something_new_is_reported(ledger: Ledger) -> None:
    open_one(ledger)
    open_one(ledger, flow_run_id="run-2")
    saved = report(
        checkpoint="c1",
        saved_at=at(0.5),
        restored_from="c0",
        first_step_at=at(0.2),
        expected_loss_s=300.5,
        saves=2,
        save_stall_s=1.5,
    )
    ledger.heartbeat(at(1), {"run-1/1": saved, "run-2/1": None})
    ledger.heartbeat(at(2), {"run-1/1": report()})
    want = make_attempt(
        last_seen_at=at(2),
        checkpoint="c1",
        checkpointed_at=at(0.5),
        restored_from="c0",
        first_step_at=at(0.2),
        expected_loss_s=300.5,
        saves=2,
        save_stall_s=1.5,
    )
    assert stored(ledger) == want
    assert stored(ledger, "run-2/1") == make_attempt("run-2", last_seen_at=at(1))


def test_a_heartbeat_of_no_attempt_is_nothing(ledger: Ledger) -> None:
    attempt = open_one(ledger)
    ledger.heartbeat(at(1), {})
    assert stored(ledger) == attempt


def test_a_heartbeat_does_not_change_an_attempt_that_is_over(ledger: Ledger) -> None:
    open_one(ledger)
    close(ledger)
    before = stored(ledger)
    ledger.heartbeat(at(2), {"run-1/1": report(checkpoint="late")})
    assert stored(ledger) == before


def test_an_attempt_is_closed_once_and_keeps_its_first_end(ledger: Ledger) -> None:
    open_one(ledger, checkpoint="c1", checkpointed_at=at(0.5))
    assert close(
        ledger, end_reason=EndReason.CRASHED, exit_code=137, end_message="killed",
        is_charged_failure=True, is_end_estimated=True,
    )  # fmt: skip
    assert not close(ledger, released_at=at(9))
    want = make_attempt(
        released_at=at(1), end_reason=EndReason.CRASHED, exit_code=137, end_message="killed",
        is_charged_failure=True, is_end_estimated=True, checkpoint="c1", checkpointed_at=at(0.5),
    )  # fmt: skip
    assert stored(ledger) == want
    assert ledger.open_attempts("gpus", "host-1") == ()


@pytest.mark.parametrize(
    "seen",
    [
        pytest.param(None, id="nothing saw it"),
        pytest.param(Exit(), id="nothing is known of it"),
        pytest.param(
            Exit(
                exit_code=137,
                started_at=at(1),
                ended_at=at(2),
                held_until=at(2.5),
                message='Out of memory: "größer" \0 \ud800 \n',
                is_flow=False,
                is_interruption=True,
                is_gang_lost=True,
                is_own_failure=True,
                is_permanent=True,
            ),
            id="all",
        ),
    ],
)
def test_how_an_attempt_ended_is_kept_until_its_end_is_judged(
    ledger: Ledger, seen: Exit | None
) -> None:
    attempt = open_one(ledger, started_at=at(1))
    ledger.note_gone(attempt.attempt_id, at(3), seen)
    assert stored(ledger) == replace(attempt, gone_at=at(3), exit=seen)
    assert close(ledger)
    ledger.note_gone(attempt.attempt_id, at(4), seen)  # it is over
    assert (stored(ledger).gone_at, stored(ledger).exit) == (None, None)


def test_the_last_report_of_checkpoints_is_kept_at_the_end(ledger: Ledger) -> None:
    open_one(ledger, checkpoint="c1", checkpointed_at=at(0.2))
    close(ledger, checkpoint="c2", checkpointed_at=at(0.9), restored_from="c0")
    want = ("c2", at(0.9), "c0")
    got = stored(ledger)
    assert (got.checkpoint, got.checkpointed_at, got.restored_from) == want


def test_gpus_are_never_released_before_they_were_admitted(ledger: Ledger) -> None:
    open_one(ledger)
    close(ledger, released_at=at(-3))
    assert stored(ledger).released_at == NOON


def test_closing_an_unknown_attempt_says_so(ledger: Ledger) -> None:
    assert not close(ledger, "run-7/1")


# Questions


def test_open_attempts_are_those_of_the_pool_and_the_host(ledger: Ledger) -> None:
    want = open_one(ledger)
    open_one(ledger, flow_run_id="run-2", host="host-2")
    open_one(ledger, flow_run_id="run-3", pool="other")
    open_one(ledger, flow_run_id="run-4")
    close(ledger, "run-4/1")
    assert ledger.open_attempts("gpus", "host-1") == (want,)


def test_attempts_of_many_runs_come_in_their_order(ledger: Ledger) -> None:
    ids = [f"run-{index}" for index in range(1200)]
    ledger.import_records((make_run(run_id), [make_attempt(run_id)]) for run_id in ids)
    admit(ledger, make_attempt("run-700", number=2))
    got = ledger.attempts_of([*ids, "run-unknown"])
    assert list(got) == [*ids, "run-unknown"]
    assert [attempt.number for attempt in got["run-700"]] == [1, 2]
    assert got["run-unknown"] == ()


@pytest.mark.parametrize(
    ("start_h", "end_h", "want_runs"),
    [
        pytest.param(-2, 0, [], id="before: the end of a window is not in it"),
        pytest.param(0, 1, ["closed", "open"], id="exactly the attempt"),
        pytest.param(0.4, 0.6, ["closed", "open"], id="in the middle of it"),
        pytest.param(1, 2, ["open"], id="after: the moment of release is not held"),
    ],
)
def test_usage_is_what_held_gpus_in_the_window(
    ledger: Ledger, start_h: float, end_h: float, want_runs: list[str]
) -> None:
    open_one(ledger, flow_run_id="closed")
    close(ledger, "closed/1")
    open_one(ledger, flow_run_id="open")
    got = ledger.usage(at(start_h), at(end_h))
    assert [run.flow_run_id for run, _ in got] == want_runs


def test_usage_in_pages_is_that_of_one_moment_as_often_as_it_is_read(
    ledger: Ledger, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What is written between two readings is in neither, and no page has all runs."""
    monkeypatch.setattr(engine, "_IDS_PER_QUERY", 2)
    for name in ("c", "a", "d", "b", "e"):
        open_one(ledger, flow_run_id=name)
    want = ledger.usage(at(0), at(1))
    with ledger.usage_in_pages(at(0), at(1)) as records:
        pages = iter(records)
        first = next(pages)
        close(ledger, "e/1")
        open_one(ledger, flow_run_id="f")
        assert (first, *pages) == want
        assert tuple(records) == want
    with ledger.usage_in_pages(at(0), at(1)) as records:
        assert tuple(records) == ledger.usage(at(0), at(1))
        assert len(ledger.usage(at(0), at(1))) == 6


def test_usage_has_all_attempts_of_a_run_that_held_gpus(ledger: Ledger) -> None:
    open_one(ledger)
    close(ledger)
    admit(ledger, make_attempt(number=2, admitted_at=at(5)))
    ((run, attempts),) = ledger.usage(at(5), at(6))
    assert run == make_run()
    assert [attempt.number for attempt in attempts] == [1, 2]


def test_usage_distinguishes_generated_from_measured(ledger: Ledger) -> None:
    made_up = make_run("made-up", provenance=Provenance.GENERATED)
    ledger.import_records([(made_up, [make_attempt("made-up")])])
    open_one(ledger)
    names = {
        provenance: [r.flow_run_id for r, _ in ledger.usage(NOON, at(1), provenance=provenance)]
        for provenance in (Provenance.GENERATED, Provenance.MEASURED, None)
    }
    want = {
        Provenance.GENERATED: ["made-up"],
        Provenance.MEASURED: ["run-1"],
        None: ["made-up", "run-1"],
    }
    assert names == want


def test_usage_can_be_that_of_one_pool(ledger: Ledger) -> None:
    for name, pool in (("ours", "gpus"), ("theirs", "others")):
        ledger.import_records([(make_run(name, pool=pool), [make_attempt(name, pool=pool)])])
    names = {
        pool: [run.flow_run_id for run, _ in ledger.usage(NOON, at(1), pool=pool)]
        for pool in ("gpus", "others", None)
    }
    assert names == {"gpus": ["ours"], "others": ["theirs"], None: ["ours", "theirs"]}


def test_the_records_of_runs_are_those_with_attempts(ledger: Ledger) -> None:
    open_one(ledger, flow_run_id="without")
    ledger.withdraw_attempt("without/1")
    for name in ("b", "a"):
        open_one(ledger, flow_run_id=name)
    records = ledger.records_of(["a", "unknown", "without", "b", "a"])
    assert [(run.flow_run_id, len(attempts)) for run, attempts in records] == [("a", 1), ("b", 1)]


def test_importing_a_history_twice_adds_nothing_and_changes_nothing(ledger: Ledger) -> None:
    history = [(make_run(), [make_attempt(), make_attempt(number=2)])]
    assert ledger.import_records(history) == 2
    changed = [(replace(history[0][0], team="x"), history[0][1])]
    assert ledger.import_records(changed) == 0
    assert ledger.import_records([]) == 0
    assert ledger.run("run-1") == make_run()


def test_many_threads_write_at_once(ledger: Ledger) -> None:
    def work(thread: int) -> None:
        for index in range(5):
            run_id = f"run-{thread}-{index}"
            open_one(ledger, flow_run_id=run_id)
            ledger.heartbeat(at(1), {f"{run_id}/1": None})
            assert close(ledger, f"{run_id}/1")

    with ThreadPoolExecutor(8) as pool:
        list(pool.map(work, range(8)))
    assert len(ledger.usage(NOON, at(1))) == 40


def test_text_that_no_database_keeps_is_kept_without_what_it_cannot_keep(ledger: Ledger) -> None:
    """The message of a flow's own error closes its attempt, whatever is in it."""
    attempt = make_attempt()
    admit(ledger, attempt, make_run(name="a\0b"))
    ledger.heartbeat(
        at(1), {attempt.attempt_id: CheckpointReport(attempt_id="a", checkpoint="c\0d")}
    )
    ledger.close_attempt(
        attempt.attempt_id,
        released_at=at(2),
        end_reason=EndReason.FAILED,
        end_message="\0 \ud800 é",
        exit_code=1,
        is_charged_failure=True,
    )
    ((run, (found,)),) = ledger.records_of([attempt.flow_run_id])
    assert run.name == "a\ufffdb"
    assert found.checkpoint == "c\ufffdd"
    assert found.end_message == "\ufffd \ufffd\ufffd\ufffd é"


def test_what_the_gpus_did_is_kept_with_the_attempt(ledger: Ledger) -> None:
    """Also where it is unknown, and of an attempt that was not sampled at all."""
    known = GpuSummary(
        gpu_id="GPU-0",
        samples=3,
        utilization_mean_ratio=0.25,
        utilization_p95_ratio=0.5,
        busy_ratio=1.0,
        sm_active_mean_ratio=0.125,
        memory_used_max_bytes=2**40,
        temperature_max_c=66.0,
        energy_j=12.5,
    )
    summaries = (known, GpuSummary(gpu_id="virtual-0", samples=1, is_simulated=True))
    for run, of_run in (("run-1", summaries), ("run-2", ())):
        admit(ledger, make_attempt(run), make_run(run))
        assert close(ledger, f"{run}/1", gpu_summaries=of_run)
    assert stored(ledger, "run-1/1").gpu_summaries == summaries
    assert stored(ledger, "run-2/1").gpu_summaries is None


def test_what_an_attempt_took_of_its_machine_is_kept(ledger: Ledger) -> None:
    """What is unknown stays unknown."""
    host = HostSummary(samples=3, memory_max_bytes=2**40)
    for run, of_run in (("run-1", host), ("run-2", None)):
        admit(ledger, make_attempt(run), make_run(run))
        assert close(ledger, f"{run}/1", host_summary=of_run)
    assert stored(ledger, "run-1/1").host_summary == host
    assert stored(ledger, "run-2/1").host_summary is None
