"""The story of a run's attempts, as its page tells it."""

from gpu_core.decisions.accounting import EndReason
from gpu_core.decisions.attempt_report import attempts_markdown
from tests.gpu_core.accounting_builders import at, make_attempt


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


def test_attempts_that_were_postponed_in_a_row_are_one_line() -> None:
    """The cluster may have no room for days."""
    postponed = [
        make_attempt(
            "run", number, admitted_at=at(number), released_at=at(number),
            end_reason=EndReason.POSTPONED, end_message=f"Postponed: {number} pods run.",
        )
        for number in (1, 2, 3)
    ]  # fmt: skip
    page = attempts_markdown((*postponed, make_attempt("run", 4, admitted_at=at(4))))
    rows = [line for line in page.splitlines() if line.startswith("| ")]
    assert [row.split(" | ")[0] for row in rows[1:]] == ["| 1–3", "| 4"]
    assert page.count("Postponed: ") == 1
    assert "**Attempt 3:** Postponed: 3 pods run." in page
