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
        "Held: it could not be planned: ValueError: a wrong value.",
        "The scheduler tries it again within 5s. Correct its job variables, or show this error to the platform team.",
    ),
    Reason.UNKNOWN_QUEUE: (
        "Held: the policy has no priority for the queue 'mediun'; did you mean 'medium'?",
        "Add 'mediun' to the policy's priorities, or set the job variable gpu_priority to one of critical, high, low, medium.",
    ),
    Reason.AMBIGUOUS_COMMAND: (
        "Held: command 'python train.py' may start the flow or be meant for a container.",
        "Use container_command for a container; for the flow, command starts Prefect's engine: 'uv run prefect flow-run execute'.",
    ),
    Reason.NOT_PERMITTED: (
        "Held: a run of team 'vision' may not use 4 GPUs (at most 2).",
        "Submit it again within these limits, or change permissions.default in the policy.",
    ),
    Reason.QUEUE_FULL: (
        "Refused: 1 run of this pool already waits, and the policy permits 1 (waiting.max_runs).",
        "Submit it again when fewer runs wait.",
    ),
    Reason.EXPIRED: (
        "Its scheduled start was 2m 00s ago; the policy lets runs wait for 1m 00s (waiting.expires_after).",
        "Submit it again if you still need it.",
    ),
    Reason.DEPLOYMENT_LIMIT: (
        "Held: 2 runs of its deployment hold its 2 concurrency slots.",
        "It may start when one of them ends, or under a higher concurrency limit.",
    ),
    Reason.POOL_PAUSED: (
        "Held: work pool 'gpu' is paused.",
        "It may start when the pool is resumed: `prefect work-pool resume gpu`.",
    ),
    Reason.QUEUE_PAUSED: (
        "Held: work queue 'low' is paused.",
        "It may start when the queue is resumed: `prefect work-queue resume low --pool gpu`.",
    ),
    Reason.POOL_LIMIT: (
        "Held: work pool 'gpu' has a concurrency limit of 2, with 2 active runs.",
        "It may start when one of them ends, or without the limit: `prefect work-pool clear-concurrency-limit gpu`.",
    ),
    Reason.QUEUE_LIMIT: (
        "Held: work queue 'low' has a concurrency limit of 2, with 2 active runs.",
        "It may start when one of them ends, or without the limit: `prefect work-queue clear-concurrency-limit low --pool gpu`.",
    ),
    Reason.EXCEEDS_CLUSTER: (
        "Needs 3 GPUs on one node: the largest such node has 2.",
        "Set gpu_count to 2 or less, or add a larger node.",
    ),
    Reason.EXCEEDS_QUOTA: (
        "Needs 2 GPUs of any type: team 'a' may hold at most 1, including what it can borrow.",
        "Request fewer GPUs, or raise the nominal quota or the borrowing limit.",
    ),
    Reason.HELD: (
        "Held by a user with the tag 'gpu:hold'.",
        "Remove the tag in Prefect, or run `prefect-gpu release RUN`.",
    ),
    Reason.BUDGET_EXCEEDED: (
        "Over budget 'pool': $3.60 of $3.00 per month ($0.00 spent, $0.00 committed, $3.60 for this run).",
        "Request fewer GPUs or a shorter run, or raise the budget.",
    ),
    Reason.WAITING_FOR_SPOT: (
        "Waiting for spot: unavailable for 0s of at most 1d 12h; slack 10h 00m; on-demand costs 2.40 times spot.",
        "It starts on spot, or in time on on-demand; the deadline holds if a start loses at most 12m 00s (0 of 3 measured).",
    ),
    Reason.WAITING_FOR_CLUSTER_QUOTA: (
        "A ResourceQuota of the namespace refuses it: 8 of 8 GPUs are used.",
        "It starts when other pods of the namespace have ended, or the quota is raised; it is tried again at 12:00:30 UTC.",
    ),
    Reason.WAITING_FOR_PLATFORM: (
        "Postponed: the disk was full.",
        "It is tried again at 12:00:05 UTC.",
    ),
    Reason.PREVIOUS_ATTEMPT_ENDING: (
        "Waiting for the last process of the previous attempt to end.",
        "It starts when that attempt has released its GPUs.",
    ),
    Reason.WAITING_FOR_VICTIMS: (
        "Waiting for 1 GPU of any type: 'r' releases 1 GPU by 12:00:30 UTC.",
        "It starts when that run has saved its progress and ended.",
    ),
    Reason.MIN_RUNTIME_PROTECTS: (
        "Waiting for 1 GPU of any type: 'r' may be preempted for it, but not within the minimum run time, until 13:46:39 UTC.",
        "It then preempts that run, unless enough GPUs become free earlier.",
    ),
    Reason.USER_LIMIT: (
        "Needs 2 GPUs of any type: user 'u' may hold 1 more GPU.",
        "It can never start, because a user may hold at most 1. Request fewer GPUs, or raise max_gpus_per_user.",
    ),
    Reason.WAITING_FOR_QUOTA: (
        "Waiting for quota: team 'a' holds 2 GPUs and may take 0 more now; this run needs 1.",
        "It starts when runs of its team end; others return none: ask for more quota, or for fewer GPUs.",
    ),
    Reason.CAPACITY_CLOSED: (
        "Waiting for 1 GPU of any type: a maintenance window or advance reservation closes the free GPUs before this run ends.",
        "It starts after that, on other GPUs, or earlier with a shorter expected_duration.",
    ),
    Reason.RESERVED_AHEAD: (
        "Waiting for 1 GPU of any type: the free GPUs are reserved for a run ahead, and this run has no known duration.",
        "It starts after that run, or earlier with a shorter expected_duration.",
    ),
    Reason.WAITING_FOR_GPUS: (
        "Waiting for 1 GPU of any type: 0 of 2 are free, 'r' holds 2.",
        "It starts when enough GPUs are free; no run ahead waits for them.",
    ),
    Reason.BEHIND_OTHERS: (
        "Waiting for 1 GPU of any type behind 'big'.",
        "It starts after that run, or on GPUs that the run cannot use.",
    ),
    Reason.STARTING: ("Starting on 1 × a100-80gb of 'n1'.", "No action is needed."),
}

GOLDEN_ENDS: Mapping[EndReason, str] = {
    EndReason.COMPLETED: "Completed.",
    EndReason.FAILED: "Failure 1 of 3: ValueError: no data; trying again.",
    EndReason.CRASHED: "Failure 1 of 3: its process was killed by SIGKILL, most likely out of memory; trying again.",
    EndReason.CANCELLED: "Cancelled: A user cancelled the run.",
    EndReason.PREEMPTED: "Preempted: 'urgent' is more urgent and needs 4 GPUs; requeued.",
    EndReason.INTERRUPTED: "Interrupted: the provider took the node back; trying again.",
    EndReason.TIMED_OUT: "Timed out: It ran longer than 2h 00m.",
    EndReason.BUDGET_SPENT: "Budget spent: $10.00 of its budget of $10.00 are spent.",
    EndReason.BUDGET_HELD: "Stopped by a budget: $99.90 of $100.00 of budget vision are used; requeued.",
    EndReason.IDLE: "Stopped as idle: Never touched its GPUs for 45m 00s: utilisation 0 %.",
    EndReason.HUNG: "Failure 1 of 3: it hung: No progress for 6m 10s after step 145: rank 3 on n1 (GPU-d) spins; trying again.",
    EndReason.REFUSED: "It cannot be started. The image name is not valid.",
    EndReason.POSTPONED: "Postponed: A ResourceQuota of the namespace refuses it.",
    EndReason.SUSPENDED: "Suspended until a user resumes it.",
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
