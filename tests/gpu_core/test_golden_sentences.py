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
        (
            "Retrying within 5s. Please check the run's job variables or report this error to "
            "the platform team."
        ),
    ),
    Reason.UNKNOWN_QUEUE: (
        ("Held: the policy does not define a priority for queue 'mediun'. Did you mean 'medium'?"),
        (
            "You can add 'mediun' to the priorities in the policy or set `gpu_priority` to one "
            "of critical, high, low, medium."
        ),
    ),
    Reason.AMBIGUOUS_COMMAND: (
        "Held: command 'python train.py' is ambiguous, because it could start the flow or run in a container.",
        "For a container, use container_command. A flow needs a command such as 'uv run prefect flow-run execute'.",
    ),
    Reason.NOT_PERMITTED: (
        "Held: a run of team 'vision' is not permitted to use 4 GPUs (at most 2).",
        (
            "Please submit the run again within these limits or change permissions.default in "
            "the policy."
        ),
    ),
    Reason.QUEUE_FULL: (
        (
            "Refused: the limit of 1 pending run for this pool has been "
            "reached (`waiting.max_runs`)."
        ),
        "Please submit the run again once fewer runs are waiting.",
    ),
    Reason.EXPIRED: (
        (
            "Exceeded the maximum waiting time of 1m 00s (`waiting.expires_after`): the "
            "scheduled start was 2m 00s ago."
        ),
        "Please submit the run again if it is still required.",
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
        "Requires 3 GPUs on a single node, but the largest matching node has 2.",
        ("The value of `gpu_count` must be less than or equal to 2 unless a larger node is added."),
    ),
    Reason.EXCEEDS_QUOTA: (
        ("Requires 2 GPUs of any type, but team 'a' can use at most 1, including borrowed GPUs."),
        "You can request fewer GPUs or increase the nominal quota or borrowing limit.",
    ),
    Reason.HELD: (
        "Held by a user with the tag 'gpu:hold'.",
        "To release the run, remove the tag in Prefect or run `prefect-gpu release RUN`.",
    ),
    Reason.BUDGET_EXCEEDED: (
        "Over budget 'pool': $3.60 of $3.00 per month ($0.00 spent, $0.00 committed, $3.60 for this run).",
        "You can request fewer GPUs, set a shorter duration or increase the budget.",
    ),
    Reason.WAITING_FOR_SPOT: (
        "Waiting for spot: unavailable for 0s of at most 1d 12h; slack 10h 00m; on-demand costs 2.40 times spot.",
        "The run starts on spot, or in time on on-demand; the deadline holds if a start loses at most 12m 00s (0 of 3 measured).",
    ),
    Reason.WAITING_FOR_CLUSTER_QUOTA: (
        "The pod was rejected by a ResourceQuota of the namespace: 8 of 8 GPUs are used.",
        (
            "You can increase the quota or wait for other pods in the namespace to finish. The "
            "next attempt starts at 12:00:30 UTC."
        ),
    ),
    Reason.WAITING_FOR_PLATFORM: (
        "Postponed: the disk was full.",
        "The next attempt starts at 12:00:05 UTC.",
    ),
    Reason.PREVIOUS_ATTEMPT_ENDING: (
        "Waiting for the previous attempt's last process to exit.",
        "The run can start once the previous attempt's GPUs are released.",
    ),
    Reason.WAITING_FOR_VICTIMS: (
        "Waiting for 1 GPU of any type: 'r' is releasing 1 GPU by 12:00:30 UTC.",
        "The run can start once that run has saved a checkpoint and stopped.",
    ),
    Reason.MIN_RUNTIME_PROTECTS: (
        "Waiting for 1 GPU of any type: 'r' can be preempted, but not within the minimum run time, until 13:46:39 UTC.",
        "The run will then preempt that run unless enough GPUs become available earlier.",
    ),
    Reason.USER_LIMIT: (
        "Requires 2 GPUs of any type, but user 'u' can only use 1 more GPU.",
        (
            "The run cannot start because each user is limited to 1. Please request fewer GPUs "
            "or increase `max_gpus_per_user`."
        ),
    ),
    Reason.WAITING_FOR_QUOTA: (
        "Waiting for quota: team 'a' uses 2 GPUs with 0 remaining, but this run requires 1.",
        (
            "Reclaiming borrowed GPUs would not be sufficient. You can request fewer GPUs or "
            "increase the quota to start earlier."
        ),
    ),
    Reason.CAPACITY_CLOSED: (
        (
            "Waiting for 1 GPU of any type: the free GPUs enter maintenance or an advance "
            "reservation before this run ends."
        ),
        (
            "The run can start afterwards or on other GPUs. You can set a shorter "
            "`expected_duration` to start earlier."
        ),
    ),
    Reason.RESERVED_AHEAD: (
        (
            "Waiting for 1 GPU of any type: the free GPUs are reserved for a run ahead and "
            "this run has an unknown duration."
        ),
        (
            "The run can start after the run ahead. You can set a shorter `expected_duration` "
            "to allow backfilling."
        ),
    ),
    Reason.WAITING_FOR_GPUS: (
        "Waiting for 1 GPU of any type: 0 of 2 are free, 'r' holds 2.",
        (
            "No run ahead in the queue requires these GPUs. The run can start once enough GPUs "
            "are available."
        ),
    ),
    Reason.BEHIND_OTHERS: (
        "Waiting for 1 GPU of any type behind 'big'.",
        ("The run can start after that run, or on GPUs that do not meet that run's requirements."),
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
    EndReason.IDLE: "Stopped because the run was idle: Never touched its GPUs for 45m 00s: utilization 0%.",
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
