"""What follows from an attempt's end."""

import itertools

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpu_core.decisions.attempts.diagnosis import Diagnosis
from gpu_core.decisions.attempts.settlement import (
    PREFECT_STATE_TYPES,
    EndFacts,
    settle,
)
from gpu_core.decisions.model.attempts import MAX_EXCUSED, EndReason
from gpu_core.decisions.model.errors import InvalidInput

MAX_FAILURES = 3


def facts(state, **changes):
    values = {"was_started": True, "exit_is_known": True, "exit_code": 0}
    return EndFacts(prefect_state_type=state, **(values | changes))


def settled(state, max_interruptions=None, **changes):
    return settle(
        facts(state, **changes), max_failures=MAX_FAILURES, max_interruptions=max_interruptions
    )


PREEMPTED = {"drain_reason": EndReason.PREEMPTED, "drain_message": "for 'urgent'"}
TIMED_OUT = {"drain_reason": EndReason.TIMED_OUT, "drain_message": "12h 00m were over."}
SPENT = {"drain_reason": EndReason.BUDGET_SPENT, "drain_message": "$4.98 of $5.00 are spent"}
CANCELLED = {"drain_reason": EndReason.CANCELLED}
INTERRUPTED = {"drain_reason": EndReason.INTERRUPTED, "drain_message": "the node goes down"}
POSTPONED = {"drain_reason": EndReason.POSTPONED, "drain_message": "a quota refuses it."}
WAITING = {"is_suspended": False}
UNSEEN = {"exit_is_known": False, "exit_code": None}
NEVER_STARTED = {"was_started": False, **UNSEEN}
CONTAINER = {"is_flow": False}
LOST_GANG = {
    "is_gang_lost": True,
    "exit_message": "the gang was terminated because node b was lost.",
}
MAY_PASS = Diagnosis(message="No API. Start it.", is_permanent=False)
PERMANENT = Diagnosis(message="No file x. Add it.", is_permanent=True)
EVICTED = {"is_interruption": True, "exit_message": "the pod was evicted"}


@pytest.mark.parametrize(
    ("state", "changes", "want_reason", "want_state", "want_message"),
    [
        pytest.param("COMPLETED", {}, "Completed", None, "Completed.", id="done"),
        pytest.param("COMPLETED", PREEMPTED, "Completed", None, "Completed.", id="done in time"),
        pytest.param(
            "RUNNING", CONTAINER, "Completed", "Completed", "Completed.", id="a container is done"
        ),
        pytest.param(
            "RUNNING",
            CONTAINER | {"exit_code": 3, "exit_message": "exit code 3. Its last lines: no data"},
            "Failed",
            "AwaitingRetry",
            "Failure 1 of 3: exit code 3. Its last lines: no data. Retrying the run.",
            id="a container failed",
        ),
        pytest.param(
            "RUNNING",
            CONTAINER | PREEMPTED,
            "Preempted",
            "AwaitingRetry",
            "Preempted: for 'urgent'. The run was requeued.",
            id="a container that ended well when it was asked to: it may not be done",
        ),
        pytest.param(
            "RUNNING",
            CONTAINER | EVICTED | {"exit_code": 143},
            "Interrupted",
            "AwaitingRetry",
            "Interrupted: the pod was evicted. Retrying the run.",
            id="a container whose pod was evicted",
        ),
        pytest.param(
            "CRASHED",
            EVICTED | {"exit_code": 137},
            "Interrupted",
            "AwaitingRetry",
            "Interrupted: the pod was evicted. Retrying the run.",
            id="a flow whose pod was evicted under it",
        ),
        pytest.param(
            "PAUSED",
            {},
            "Suspended",
            None,
            "Suspended until the run is resumed by a user.",
            id="a flow that suspended itself",
        ),
        pytest.param(
            "PAUSED",
            WAITING | EVICTED,
            "Interrupted",
            "AwaitingRetry",
            "Interrupted: the pod was evicted. Retrying the run.",
            id="a flow whose process waited for a person when its pod was evicted",
        ),
        pytest.param(
            "PAUSED",
            WAITING | TIMED_OUT,
            "TimedOut",
            "Failed",
            "Timed out: 12h 00m were over.",
            id="a flow whose process waited for too long",
        ),
        pytest.param(
            "PAUSED",
            WAITING | {"exit_code": 1},
            "Crashed",
            "AwaitingRetry",
            "Failure 1 of 3: the process exited with exit code 1. Retrying the run.",
            id="a flow whose process died while it waited",
        ),
        pytest.param(
            "PENDING",
            NEVER_STARTED | POSTPONED,
            "Postponed",
            "Scheduled",
            "Postponed: a quota refuses it.",
            id="the cluster would not make its Job",
        ),
        pytest.param(
            "PENDING",
            UNSEEN | POSTPONED,
            "Postponed",
            "Scheduled",
            "Postponed: a quota refuses it.",
            id="the cluster would not make its pods",
        ),
        pytest.param(
            "SCHEDULED",
            NEVER_STARTED | POSTPONED,
            "Postponed",
            None,
            "Postponed: a quota refuses it.",
            id="postponed, and back in line already",
        ),
        pytest.param(
            "SCHEDULED",
            UNSEEN | POSTPONED,
            "Interrupted",
            "AwaitingRetry",
            "Interrupted: a quota refuses it. Retrying the run.",
            id="a flow whose pod a user deleted, and a quota refuses another one",
        ),
        pytest.param(
            "PENDING",
            CONTAINER | POSTPONED,
            "Completed",
            "Completed",
            "Completed.",
            id="a container that was done before its Job was taken back",
        ),
        pytest.param(
            "RUNNING",
            CONTAINER | POSTPONED | {"exit_code": 143},
            "Interrupted",
            "AwaitingRetry",
            "Interrupted: a quota refuses it. Retrying the run.",
            id="the cluster made a pod after all, before the Job was taken back",
        ),
        pytest.param(
            "PENDING",
            NEVER_STARTED,
            None,
            "Scheduled",
            "The attempt did not start and its GPUs were released.",
            id="admitted, but no process came",
        ),
        pytest.param(
            "SCHEDULED",
            NEVER_STARTED | PREEMPTED,
            None,
            None,
            "The attempt did not start and its GPUs were released.",
            id="back in line before it started",
        ),
        pytest.param(
            "PENDING",
            NEVER_STARTED | CANCELLED,
            "Cancelled",
            "Cancelled",
            "Cancelled.",
            id="cancelled before it started",
        ),
        pytest.param(
            None,
            NEVER_STARTED,
            None,
            None,
            "The attempt did not start and its GPUs were released.",
            id="deleted before it started",
        ),
        pytest.param(None, {}, "Cancelled", None, "Cancelled: the run was deleted.", id="deleted"),
        pytest.param("CANCELLED", {}, "Cancelled", None, "Cancelled.", id="cancelled"),
        pytest.param("CANCELLING", {}, "Cancelled", "Cancelled", "Cancelled.", id="cancelling"),
        pytest.param(
            "PAUSED",
            {},
            "Suspended",
            None,
            "Suspended until the run is resumed by a user.",
            id="suspended",
        ),
        pytest.param(
            "PAUSED", CANCELLED, "Cancelled", "Cancelled", "Cancelled.", id="cancelled in a pause"
        ),
        pytest.param(
            "FAILED",
            {"state_message": "ValueError: nan\nTraceback"},
            "Failed",
            "AwaitingRetry",
            "Failure 1 of 3: ValueError: nan. Retrying the run.",
            id="the first failure",
        ),
        pytest.param(
            "FAILED",
            {"failures_before": 2, "state_message": "ValueError."},
            "Failed",
            None,
            "Failure 3 of 3: ValueError. The run is not retried.",
            id="the last failure",
        ),
        pytest.param(
            "CRASHED",
            {"state_message": "Could not import flow", "exit_code": 1},
            "Crashed",
            "AwaitingRetry",
            "Failure 1 of 3: Could not import flow. Retrying the run.",
            id="a crash that Prefect saw",
        ),
        pytest.param(
            "CRASHED",
            {"state_message": "status code: 1", "diagnosis": MAY_PASS},
            "Crashed",
            "AwaitingRetry",
            "Failure 1 of 3: No API. Start it. Retrying the run.",
            id="a flow that did not begin",
        ),
        pytest.param(
            "CRASHED",
            {
                "state_message": "status code: 1",
                "diagnosis": MAY_PASS,
                "failures_before": 2,
            },
            "Crashed",
            "Crashed",
            "Failure 3 of 3: No API. Start it. The run is not retried.",
            id="a flow that did not begin for the last time: its page says why",
        ),
        pytest.param(
            "PENDING",
            {"exit_code": 1, "exit_message": "exit code 1", "diagnosis": MAY_PASS},
            "Crashed",
            "AwaitingRetry",
            "Failure 1 of 3: No API. Start it. Retrying the run.",
            id="a flow whose process could report nothing to Prefect",
        ),
        pytest.param(
            "CRASHED",
            {"state_message": "status code: 1", "diagnosis": PERMANENT},
            "Crashed",
            "Crashed",
            "Permanent failure: No file x. Add it. The run is not retried.",
            id="a flow that can never begin",
        ),
        pytest.param(
            "CRASHED",
            {"diagnosis": PERMANENT, "has_worked_before": True},
            "Crashed",
            "AwaitingRetry",
            "Failure 1 of 3: No file x. Add it. Retrying the run.",
            id="a flow that has begun before",
        ),
        pytest.param(
            "CRASHED",
            {"diagnosis": PERMANENT} | PREEMPTED,
            "Preempted",
            "AwaitingRetry",
            "Preempted: for 'urgent'. The run was requeued.",
            id="a flow that can never begin, asked to end before",
        ),
        pytest.param(
            "FAILED",
            {"state_message": "Flow run: ...", "diagnosis": PERMANENT},
            "Failed",
            None,
            "Permanent failure: No file x. Add it. The run is not retried.",
            id="a flow that fails alike each time has reported why",
        ),
        pytest.param(
            "RUNNING",
            CONTAINER | {"exit_code": 1, "exit_message": "code 1", "diagnosis": PERMANENT},
            "Failed",
            "Failed",
            "Permanent failure: No file x. Add it. The run is not retried.",
            id="a container that fails alike each time",
        ),
        pytest.param(
            "RUNNING",
            {"exit_code": -9},
            "Crashed",
            "AwaitingRetry",
            "Failure 1 of 3: the process was killed by SIGKILL, most likely out of memory. "
            "Retrying the run.",
            id="killed",
        ),
        pytest.param(
            "RUNNING",
            {"exit_code": 137, "failures_before": 1},
            "Crashed",
            "AwaitingRetry",
            "Failure 2 of 3: the process was killed by SIGKILL, most likely out of memory. "
            "Retrying the run.",
            id="killed, as a shell says it",
        ),
        pytest.param(
            "RUNNING",
            {"exit_code": -11, "failures_before": 2},
            "Crashed",
            "Crashed",
            "Failure 3 of 3: the process was killed by SIGSEGV. The run is not retried.",
            id="the last crash",
        ),
        pytest.param(
            "PENDING",
            {"exit_code": 1},
            "Crashed",
            "AwaitingRetry",
            "Failure 1 of 3: the process exited with exit code 1. Retrying the run.",
            id="died before the flow began",
        ),
        pytest.param(
            "RUNNING",
            {"exit_code": 0},
            "Crashed",
            "AwaitingRetry",
            "Failure 1 of 3: the process exited with exit code 0 before the run completed. "
            "Retrying the run.",
            id="ended without a word",
        ),
        pytest.param(
            "RUNNING",
            {"exit_code": -1000},
            "Crashed",
            "AwaitingRetry",
            "Failure 1 of 3: the process was killed by signal 1000. Retrying the run.",
            id="an unknown signal",
        ),
        pytest.param(
            "RUNNING",
            UNSEEN,
            "Interrupted",
            "AwaitingRetry",
            "Interrupted: the machine or the worker was unavailable when the process "
            "exited. Retrying the run.",
            id="its end was not observed",
        ),
        pytest.param(
            "SCHEDULED",
            {},
            "Interrupted",
            "AwaitingRetry",
            "Interrupted: the process was stopped by an external signal. Retrying the run.",
            id="a signal from outside",
        ),
        pytest.param(
            "RUNNING",
            INTERRUPTED,
            "Interrupted",
            "AwaitingRetry",
            "Interrupted: the node goes down. Retrying the run.",
            id="the provider's notice",
        ),
        pytest.param(
            "SCHEDULED",
            PREEMPTED,
            "Preempted",
            "AwaitingRetry",
            "Preempted: for 'urgent'. The run was requeued.",
            id="preempted, saved and left",
        ),
        pytest.param(
            "RUNNING",
            PREEMPTED | {"exit_code": -9},
            "Preempted",
            "AwaitingRetry",
            "Preempted: for 'urgent'. The run was requeued.",
            id="preempted and killed after the grace period",
        ),
        pytest.param(
            "CRASHED",
            PREEMPTED | {"failures_before": 2},
            "Preempted",
            "AwaitingRetry",
            "Preempted: for 'urgent'. The run was requeued.",
            id="died badly while it was preempted",
        ),
        pytest.param(
            "RUNNING",
            TIMED_OUT,
            "TimedOut",
            "Failed",
            "Timed out: 12h 00m were over.",
            id="longest duration over",
        ),
        pytest.param(
            "SCHEDULED",
            TIMED_OUT,
            "TimedOut",
            "Failed",
            "Timed out: 12h 00m were over.",
            id="longest duration over, and Prefect would try again",
        ),
        pytest.param(
            "SCHEDULED",
            SPENT,
            "BudgetSpent",
            "Failed",
            "Budget spent: $4.98 of $5.00 are spent.",
            id="its budget is used up",
        ),
        pytest.param(
            "SCHEDULED",
            CONTAINER,
            "Completed",
            "Completed",
            "Completed.",
            id="a container is done, and a user had set its run back meanwhile",
        ),
        pytest.param(
            "SCHEDULED",
            CONTAINER | PREEMPTED,
            "Preempted",
            "AwaitingRetry",
            "Preempted: for 'urgent'. The run was requeued.",
            id="a container whose run was set back, that ended when it was asked to",
        ),
        pytest.param(
            "SCHEDULED",
            CONTAINER | UNSEEN,
            "Interrupted",
            "AwaitingRetry",
            "Interrupted: the process was stopped by an external signal. Retrying the run.",
            id="a container whose run was set back, and its end was not observed",
        ),
        pytest.param(
            "SCHEDULED",
            CONTAINER | {"exit_code": 3},
            "Interrupted",
            "AwaitingRetry",
            "Interrupted: the process was stopped by an external signal. Retrying the run.",
            id="a container whose run was set back, and that did not end well",
        ),
        pytest.param(
            "SCHEDULED",
            {},
            "Interrupted",
            "AwaitingRetry",
            "Interrupted: the process was stopped by an external signal. Retrying the run.",
            id="a flow that Prefect put back ends with code 0 as well",
        ),
        pytest.param(
            "FAILED",
            LOST_GANG | {"state_message": "NCCL error", "failures_before": 2},
            "Interrupted",
            "AwaitingRetry",
            "Interrupted: the gang was terminated because node b was lost. Retrying the run.",
            id="a flow that failed because another node fell silent",
        ),
        pytest.param(
            "RUNNING",
            CONTAINER | LOST_GANG | {"exit_code": 1},
            "Interrupted",
            "AwaitingRetry",
            "Interrupted: the gang was terminated because node b was lost. Retrying the run.",
            id="a container that failed because another node fell silent",
        ),
        pytest.param(
            "CRASHED",
            LOST_GANG | {"exit_code": 134},
            "Interrupted",
            "AwaitingRetry",
            "Interrupted: the gang was terminated because node b was lost. Retrying the run.",
            id="a flow that was aborted because another node fell silent",
        ),
        pytest.param(
            "COMPLETED", LOST_GANG, "Completed", None, "Completed.", id="done, and then lost a node"
        ),
        pytest.param(
            "PENDING",
            NEVER_STARTED | {"refusal": "The worker may not. Grant it."},
            "Refused",
            "Crashed",
            "Unable to start the run. The worker may not. Grant it.",
            id="refused for good: one attempt, whatever its failures before",
        ),
        pytest.param(
            "CANCELLING",
            NEVER_STARTED | {"refusal": "The worker may not."},
            "Cancelled",
            "Cancelled",
            "Cancelled.",
            id="refused, and cancelled meanwhile",
        ),
        pytest.param(
            "CRASHED", CANCELLED, "Cancelled", "Cancelled", "Cancelled.", id="cancelled hard"
        ),
    ],
)
def test_settlement(state, changes, want_reason, want_state, want_message):
    """State, drain and exit decide the reason, the next state and what the page says."""
    got = settled(state, **changes)
    assert (got.end_reason, got.next_state, got.message) == (want_reason, want_state, want_message)
    assert got.is_charged_failure == (want_reason in ("Failed", "Crashed"))


@pytest.mark.parametrize(
    ("before", "want_state", "want_message"),
    [
        pytest.param(0, "AwaitingRetry", "Interrupted: ", id="the first of two"),
        pytest.param(1, "Crashed", "Interruption 2 of 2: ", id="the second of two"),
    ],
)
def test_interruptions_end_at_their_bound(before, want_state, want_message):
    """A run may ask not to be tried again for ever."""
    got = settled("RUNNING", max_interruptions=2, interruptions_before=before, **UNSEEN)
    assert (got.end_reason, got.next_state) == (EndReason.INTERRUPTED, want_state)
    assert got.message.startswith(want_message)


def test_a_state_that_prefect_does_not_have():
    """A misspelled state is our mistake, and loud."""
    with pytest.raises(InvalidInput, match=r"got 'RUNING'\). Did you mean 'RUNNING'\?"):
        settled("RUNING")


@given(
    max_interruptions=st.one_of(st.none(), st.integers(1, 3)),
    exit_code=st.one_of(st.none(), st.integers(-70, 260)),
    failures_before=st.integers(0, 5),
    interruptions_before=st.integers(0, 5),
)
def test_every_combination_is_settled(
    max_interruptions, exit_code, failures_before, interruptions_before
):
    """Whatever is known: one settlement, no charge for what others did, and bounded tries."""
    for state, drain, was_started, known in itertools.product(
        [None, *sorted(PREFECT_STATE_TYPES)], [None, *EndReason], [True, False], [True, False]
    ):
        got = settled(
            state,
            max_interruptions,
            drain_reason=drain,
            was_started=was_started,
            exit_is_known=known,
            exit_code=exit_code if known else None,
            failures_before=failures_before,
            interruptions_before=interruptions_before,
        )
        assert got.message.endswith(".")
        own = (EndReason.FAILED, EndReason.CRASHED, EndReason.HUNG)
        assert got.is_charged_failure == (got.end_reason in own)
        if got.is_charged_failure:
            assert (got.next_state == "AwaitingRetry") == (failures_before + 1 < MAX_FAILURES)
        if got.end_reason is EndReason.INTERRUPTED and max_interruptions is not None:
            is_tried = interruptions_before + 1 < max_interruptions
            assert (got.next_state == "AwaitingRetry") == is_tried
        if drain is EndReason.PREEMPTED:
            assert not got.is_charged_failure
        if state in ("COMPLETED", "CANCELLED", None):
            assert got.next_state is None


AWAY = {"excuse": "Prefect's API was unavailable from 12:00:00 to 12:00:50 UTC"}
UNBEGUN = {"has_begun": False, "exit_code": 1}


@pytest.mark.parametrize(
    ("state", "changes", "want_reason", "want_state"),
    [
        pytest.param("RUNNING", {"exit_code": 1}, "Interrupted", "AwaitingRetry", id="it ran"),
        pytest.param("FAILED", {"exit_code": 1}, "Interrupted", "AwaitingRetry", id="it failed"),
        pytest.param("CRASHED", UNBEGUN, "Postponed", "AwaitingRetry", id="Prefect heard of it"),
        pytest.param("PENDING", UNBEGUN, "Postponed", "Scheduled", id="nor could it report"),
        pytest.param("PENDING", NEVER_STARTED, "Postponed", "Scheduled", id="not even started"),
        pytest.param("RUNNING", UNSEEN, "Interrupted", "AwaitingRetry", id="an unobserved end"),
    ],
)
def test_what_an_outage_ended_is_charged_to_no_run(state, changes, want_reason, want_state):
    settlement = settled(state, **(changes | AWAY))
    assert (settlement.end_reason, settlement.next_state) == (want_reason, want_state)
    assert settlement.is_excused
    assert not settlement.is_charged_failure
    assert settlement.message == (
        f"{want_reason}: {AWAY['excuse']}. Retrying the run (excused 1 of {MAX_EXCUSED})."
    )


@pytest.mark.parametrize(
    ("state", "changes", "want_reason"),
    [
        pytest.param("COMPLETED", {}, "Completed", id="it was done"),
        pytest.param("CANCELLING", {}, "Cancelled", id="a person cancels it"),
        pytest.param("RUNNING", PREEMPTED, "Preempted", id="it was preempted"),
        pytest.param("CRASHED", EVICTED, "Interrupted", id="its pod was evicted"),
        pytest.param("SCHEDULED", NEVER_STARTED, None, id="it was not Pending"),
        pytest.param(None, {}, "Cancelled", id="a person deleted it"),
    ],
)
def test_what_ended_for_another_reason_is_not_excused(state, changes, want_reason):
    settlement = settled(state, **(changes | AWAY))
    assert settlement.end_reason == want_reason
    assert not settlement.is_excused


@pytest.mark.parametrize("changes", [{"exit_code": 1}, UNSEEN])
def test_excuses_end_for_flows_that_began(changes):
    """Such as of a run whose own body stops the server."""
    counts = {"excused_before": MAX_EXCUSED, "begun_excused_before": MAX_EXCUSED}
    last = settled("PENDING", **(changes | AWAY), **(counts | {"begun_excused_before": 9}))
    assert not last.is_charged_failure
    charged = settled("PENDING", **(changes | AWAY), **counts)
    assert charged.is_charged_failure
    assert charged.message == (
        f"Failure 1 of 3: {AWAY['excuse']}, {MAX_EXCUSED + 1} times in a row. Retrying the run."
    )


@pytest.mark.parametrize("changes", [UNBEGUN, NEVER_STARTED])
def test_what_never_began_is_charged_to_no_run_and_waits_for_a_person(changes):
    """Such as on a disk that stays full, or without the key that signs checkpoints."""
    held = settled("PENDING", excused_before=MAX_EXCUSED, **(changes | AWAY))
    assert (held.end_reason, held.next_state) == (EndReason.POSTPONED, "Scheduled")
    assert held.is_excused
    assert not held.is_charged_failure
    assert held.message == (
        f"Postponed: {AWAY['excuse']}, {MAX_EXCUSED + 1} times in a row. The run is not "
        "charged and remains on hold until a user resolves this."
    )
