"""The sentences that people read, one row for each reason to wait and each end of an attempt.

A changed sentence is changed here too, by hand: what it says is read again. The cases are in
`golden_cases.py`; each sentence is made by the code that makes it for people.
"""

from collections.abc import Mapping

import pytest

from gpu_core.decisions.model.attempts import EndReason
from gpu_core.decisions.model.reasons import Reason
from tests.gpu_core.golden_cases import ENDS, WAITING
from tests.layout.retired_words import retired_words

# ruff: noqa: E501 - a sentence is one line

GOLDEN_WAITING: Mapping[Reason, tuple[str, str]] = {
    Reason.INTERNAL_ERROR: (
        "Held: the run could not be planned: ValueError: a wrong value.",
        "Retrying within 5s. Check the job variables of the run, or report this error to the platform team.",
    ),
    Reason.UNKNOWN_QUEUE: (
        "Held: no priority found in the policy for the queue 'mediun'. Did you mean 'medium'?",
        "Add 'mediun' to the priorities in the policy, or set gpu_priority to one of critical, high, low, medium.",
    ),
    Reason.AMBIGUOUS_COMMAND: (
        "Held: command 'python train.py' is ambiguous, because it could start the flow or run in a container.",
        "For a container, use container_command. A flow needs a command such as 'uv run prefect flow-run execute'.",
    ),
    Reason.NOT_PERMITTED: (
        "Held: a run of team 'vision' is not permitted to use 4 GPUs (at most 2).",
        "Submit the run again within these limits, or change permissions.default in the policy.",
    ),
    Reason.QUEUE_FULL: (
        "Refused: 1 run of this pool already waits, and the limit is 1 (waiting.max_runs).",
        "Submit the run again when fewer runs are waiting.",
    ),
    Reason.EXPIRED: (
        "The scheduled start was 2m 00s ago, but runs can wait for at most 1m 00s (waiting.expires_after).",
        "Submit the run again if it is still needed.",
    ),
    Reason.DEPLOYMENT_LIMIT: (
        "Held: all 2 concurrency slots of the deployment are in use by 2 runs.",
        "The run can start when one of these runs finishes, or if you increase the concurrency limit.",
    ),
    Reason.POOL_PAUSED: (
        "Held: work pool 'gpu' is paused.",
        "To resume the work pool, run `prefect work-pool resume gpu`.",
    ),
    Reason.QUEUE_PAUSED: (
        "Held: work queue 'low' is paused.",
        "To resume the work queue, run `prefect work-queue resume low --pool gpu`.",
    ),
    Reason.POOL_LIMIT: (
        "Held: work pool 'gpu' has a concurrency limit of 2, with 2 active runs.",
        "Wait for an active run to finish, or remove the limit with `prefect work-pool clear-concurrency-limit gpu`.",
    ),
    Reason.QUEUE_LIMIT: (
        "Held: work queue 'low' has a concurrency limit of 2, with 2 active runs.",
        "Wait for an active run to finish, or remove the limit with `prefect work-queue clear-concurrency-limit low --pool gpu`.",
    ),
    Reason.EXCEEDS_CLUSTER: (
        "Needs 3 GPUs on one node, but the largest matching node has 2.",
        "Set gpu_count to 2 or less, or add a larger node.",
    ),
    Reason.EXCEEDS_QUOTA: (
        "Needs 2 GPUs of any type: team 'a' can hold at most 1, including borrowed GPUs.",
        "Request fewer GPUs, or increase the nominal quota or the borrowing limit.",
    ),
    Reason.HELD: (
        "Held by a user with the tag 'gpu:hold'.",
        "Remove the tag in Prefect, or run `prefect-gpu release RUN`.",
    ),
    Reason.BUDGET_EXCEEDED: (
        "Over budget 'pool': $3.60 of $3.00 per month ($0.00 spent, $0.00 committed, $3.60 for this run).",
        "Request fewer GPUs or a shorter duration, or increase the budget.",
    ),
    Reason.WAITING_FOR_SPOT: (
        "Waiting for spot: unavailable for 0s of at most 1d 12h; slack 10h 00m; on-demand costs 2.40 times spot.",
        "The run starts on spot, or in time on on-demand; the deadline holds if a start loses at most 12m 00s (0 of 3 measured).",
    ),
    Reason.WAITING_FOR_CLUSTER_QUOTA: (
        "The pod was rejected by a ResourceQuota of the namespace: 8 of 8 GPUs are used.",
        "Wait for other pods in the namespace to finish, or increase the quota. The next attempt starts at 12:00:30 UTC.",
    ),
    Reason.WAITING_FOR_PLATFORM: (
        "Postponed: the disk was full.",
        "The next attempt starts at 12:00:05 UTC.",
    ),
    Reason.PREVIOUS_ATTEMPT_ENDING: (
        "Waiting for the last process of the previous attempt to exit.",
        "The run starts after the previous attempt has released its GPUs.",
    ),
    Reason.WAITING_FOR_VICTIMS: (
        "Waiting for 1 GPU of any type: 'r' releases 1 GPU by 12:00:30 UTC.",
        "The run starts after that run has saved progress and stopped.",
    ),
    Reason.MIN_RUNTIME_PROTECTS: (
        "Waiting for 1 GPU of any type: 'r' can be preempted, but not within the minimum run time, until 13:46:39 UTC.",
        "The run then preempts that run, unless enough GPUs become free earlier.",
    ),
    Reason.USER_LIMIT: (
        "Needs 2 GPUs of any type: user 'u' can hold 1 more GPU.",
        "The run can never start because a user can hold at most 1. Request fewer GPUs, or increase max_gpus_per_user.",
    ),
    Reason.WAITING_FOR_QUOTA: (
        "Waiting for quota: team 'a' holds 2 GPUs and can use 0 more, but this run needs 1.",
        "GPUs that other teams return would not be enough. To start the run earlier, request fewer GPUs or increase the quota.",
    ),
    Reason.CAPACITY_CLOSED: (
        "Waiting for 1 GPU of any type: the free GPUs are closed for maintenance or an advance reservation before this run ends.",
        "The run starts afterwards or on other GPUs. To start earlier, set a shorter expected_duration.",
    ),
    Reason.RESERVED_AHEAD: (
        "Waiting for 1 GPU of any type: the free GPUs are reserved for a run ahead, and this run has an unknown duration.",
        "The run starts after the run ahead. To start earlier, set a shorter expected_duration.",
    ),
    Reason.WAITING_FOR_GPUS: (
        "Waiting for 1 GPU of any type: 0 of 2 are free, 'r' holds 2.",
        "No run ahead in the queue waits for these GPUs. The run starts when enough of them are free.",
    ),
    Reason.BEHIND_OTHERS: (
        "Waiting for 1 GPU of any type behind 'big'.",
        "The run starts after that run, or on GPUs that are not suitable for that run.",
    ),
    Reason.STARTING: ("Starting on 1 × a100-80gb of 'n1'.", "No action is needed."),
}

GOLDEN_ENDS: Mapping[EndReason, str] = {
    EndReason.COMPLETED: "Completed.",
    EndReason.FAILED: "Failure 1 of 3: ValueError: no data. Retrying the run.",
    EndReason.CRASHED: "Failure 1 of 3: the process was killed by SIGKILL, most likely out of memory. Retrying the run.",
    EndReason.CANCELLED: "Cancelled: The run was cancelled by a user.",
    EndReason.PREEMPTED: "Preempted: 'urgent' has a higher priority and needs 4 GPUs. The run was requeued.",
    EndReason.INTERRUPTED: "Interrupted: the provider took the node back. Retrying the run.",
    EndReason.TIMED_OUT: "Timed out: The run exceeded the maximum duration of 2h 00m.",
    EndReason.BUDGET_SPENT: "Budget spent: $10.00 of the run budget of $10.00 has been spent.",
    EndReason.BUDGET_HELD: "Stopped by a budget: $99.90 of $100.00 of budget vision are used. The run was requeued.",
    EndReason.IDLE: "Stopped as idle: Never touched its GPUs for 45m 00s: utilisation 0%.",
    EndReason.HUNG: "Failure 1 of 3: the run hung: No progress for 6m 10s after step 145: rank 3 on n1 (GPU-d) spins. Retrying the run.",
    EndReason.REFUSED: "Unable to start the run. The image name is not valid.",
    EndReason.POSTPONED: "Postponed: The pod was rejected by a ResourceQuota of the namespace.",
    EndReason.SUSPENDED: "Suspended until the run is resumed by a user.",
}


_LONGEST = 120


def test_every_reason_and_every_end_has_its_sentences() -> None:
    assert GOLDEN_WAITING.keys() == WAITING.keys() == set(Reason)
    assert GOLDEN_ENDS.keys() == ENDS.keys() == set(EndReason)


@pytest.mark.parametrize("reason", Reason)
def test_what_a_waiting_run_says(reason: Reason) -> None:
    assert WAITING[reason]() == GOLDEN_WAITING[reason]


@pytest.mark.parametrize("reason", EndReason)
def test_what_an_ended_attempt_says(reason: EndReason) -> None:
    assert ENDS[reason]() == GOLDEN_ENDS[reason]


@pytest.mark.parametrize(
    "sentence",
    [*(each for pair in GOLDEN_WAITING.values() for each in pair), *GOLDEN_ENDS.values()],
)
def test_a_sentence_is_short_and_plain(sentence: str) -> None:
    assert len(sentence) <= _LONGEST
    assert sentence[0].isupper()
    assert sentence.endswith((".", "?"))
    assert list(retired_words(sentence)) == []
