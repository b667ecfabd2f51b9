"""The story of a run's attempts, as its page tells it."""

from datetime import timedelta

from gpu_core.decisions.accounting import EndReason
from gpu_core.decisions.attempt_report import attempts_markdown, line_rows
from gpu_core.decisions.plan import Explanation, Reason
from tests.gpu_core.accounting_builders import at, make_attempt
from tests.strategies import make_workload


def test_every_attempt_has_a_row_and_every_ending_a_sentence() -> None:
    """What it began with, what it saved, what it cost; and the reason in words."""
    first = make_attempt(
        "run", 1, admitted_at=at(0), released_at=at(1), end_reason=EndReason.PREEMPTED,
        end_message="Preempted: 'urgent' is more urgent.", checkpoint="run/000001-00000007",
    )  # fmt: skip
    second = make_attempt("run", 2, admitted_at=at(2), restored_from="run/000001-00000007")

    page = attempts_markdown((first, second))

    rows = [line for line in page.splitlines() if line.startswith("| ")]
    assert len(rows) == 3
    assert "| Preempted | the beginning | save 7, by attempt 1 |" in rows[1]
    assert "| still held | – | save 7, by attempt 1 | none | – |" in rows[2]
    assert "**Attempt 1:** Preempted: 'urgent' is more urgent." in page


def test_an_attempt_without_a_price_is_unpriced_and_not_free() -> None:
    """Unknown is never zero."""
    attempt = make_attempt(
        "run", 1, price_micro_usd_per_gpu_hour=None, admitted_at=at(0), released_at=at(1),
        end_reason=EndReason.COMPLETED,
    )  # fmt: skip
    assert "| unpriced |" in attempts_markdown((attempt,))


def test_the_line_says_who_waits_for_what_and_how_long() -> None:
    """One row for each waiting run, with its reason and its expected start."""
    workload = make_workload("w", name="train", gpu_count=2, submitted_at=at(0))
    explanation = Explanation(
        workload_id=workload.workload_id,
        reason=Reason.WAITING_FOR_GPUS,
        summary="Waiting for 2 GPUs.",
        resolution="It starts when they are free.",
        position=1,
        expected_start_at=at(3),
    )

    (row,) = line_rows(
        [explanation], {workload.workload_id: workload}, at(0) + timedelta(minutes=5)
    )

    assert row["Run"] == "train"
    assert row["GPUs"] == 2
    assert row["Waits"] == "5m 00s"
    assert row["Reason"] == "WaitingForGpus"
    assert row["Expected start"] == f"{at(3):%H:%M:%S} UTC"
