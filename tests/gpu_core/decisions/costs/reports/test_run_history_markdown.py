"""The story of a run's attempts, as its page shows it."""

import pytest

from gpu_core.decisions.costs.mlflow.mlflow_views import MlflowPages
from gpu_core.decisions.costs.reports.run_history_markdown import (
    attempts_markdown,
    attempts_summary,
)
from gpu_core.decisions.model.attempts import EndReason
from gpu_core.decisions.model.gpu_summary import GpuSummary
from gpu_core.decisions.model.host_summary import HostSummary
from gpu_core.testing.builders.attempts import at, make_attempt


def tables_of(page: str) -> list[list[str]]:
    """The rows of each table of the page, without its headings and the rule below them."""
    blocks = [block.splitlines() for block in page.split("\n\n")]
    return [block[2:] for block in blocks if block[0].startswith("| ")]


def test_every_attempt_has_a_row_and_every_ending_a_sentence() -> None:
    """What it started with, what it saved, what it cost; and the reason in words."""
    first = make_attempt(
        "run", 1, admitted_at=at(0), released_at=at(1), end_reason=EndReason.PREEMPTED,
        end_message="Preempted: 'urgent' is more urgent.", checkpoint="run/000001-00000007",
    )  # fmt: skip
    second = make_attempt("run", 2, admitted_at=at(2), restored_from="run/000001-00000007")

    page = attempts_markdown((first, second))

    cost, gpus, use, saves = tables_of(page)
    assert cost == [
        "| 1 | $1.00 | Preempted | 1h 00m |",
        "| 2 | – | – | still held |",
        "| **Total** | **$1.00** |  | 1h 00m |",
    ]
    assert [row.split(" | ")[0] for row in use] == ["| 1", "| 2", "| **Total**"]
    assert [row.split(" | ")[0] for row in gpus] == ["| 1", "| 2"]
    assert saves == [
        "| 1 | the beginning | save 7 |",
        "| 2 | save 7, by attempt 1 | nothing |",
    ]
    assert "**Attempt 1:** Preempted: 'urgent' is more urgent." in page
    assert page.startswith("**Total: $")
    assert " in 1 attempt; one is still running.\n" in page


def test_the_total_is_the_sum_of_the_attempts_and_comes_first() -> None:
    """Two GPUs for an hour and two for two hours at 3.60 dollars."""
    hours = ((1, at(0), at(1)), (2, at(2), at(4)))
    attempts = [
        make_attempt(
            "run", number, admitted_at=begin, released_at=end, end_reason=EndReason.COMPLETED,
            gpu_ids=("GPU-0", "GPU-1"), price_micro_usd_per_gpu_hour=3_600_000,
        )
        for number, begin, end in hours
    ]  # fmt: skip
    page = attempts_markdown(attempts)
    first, *_ = page.splitlines()
    one, two, total = tables_of(page)[0]
    assert total.startswith("| **Total** | **$21.60** |  | 3h 00m |")
    assert first == "**Total: $21.60** for 6.0000 GPU-hours in 2 attempts."
    assert one.startswith("| 1 | $7.20 | Completed | ")
    assert two.startswith("| 2 | $14.40 | Completed | ")


def test_the_total_leads_to_the_runs_page_in_mlflow() -> None:
    """Where the cost is next to the metrics."""
    attempt = make_attempt(
        "run", 1, admitted_at=at(0), released_at=at(1), end_reason=EndReason.COMPLETED
    )
    pages = MlflowPages.of("http://mlflow:5000", "1", "2")
    first, *_ = attempts_markdown([attempt], pages).splitlines()
    assert first.endswith(
        " in 1 attempt. [Open its MLflow run](http://mlflow:5000/#/experiments/1/runs/2). [Compare "
        "the runs of its experiment](http://mlflow:5000/#/experiments/1/runs"
        "?viewStateShareKey=prefect-gpu-cost-and-quality&workflowType=machine_learning)"
    )


def test_what_the_gpus_did_stands_with_each_attempt_and_in_the_total() -> None:
    """Means by samples; the energy of all GPUs together."""
    done = (GpuSummary(gpu_id="GPU-0", samples=30, utilization_mean_ratio=0.9, energy_j=7200.0),)
    idle = (GpuSummary(gpu_id="GPU-0", samples=10, utilization_mean_ratio=0.1, energy_j=3600.0),)
    attempts = [
        make_attempt(
            "run", number, admitted_at=at(number), released_at=at(number + 1),
            end_reason=EndReason.COMPLETED, gpu_summaries=summaries,
        )
        for number, summaries in ((1, done), (2, idle), (3, None))
    ]  # fmt: skip
    page = attempts_markdown(attempts)
    assert "| Attempt | Utilization | Energy |" in page
    cells = [[cell.strip() for cell in row.split("|")[2:4]] for row in tables_of(page)[2]]
    assert cells == [["90%", "2.0 Wh"], ["10%", "1.0 Wh"], ["–", "–"], ["70%", "3.0 Wh"]]
    assert "simulated" not in page


def test_what_its_processes_took_stands_below_the_table() -> None:
    """Only for attempts that were sampled."""
    host = HostSummary(samples=9, cores_mean=3.96, memory_max_bytes=12 * 2**30)
    attempts = [
        make_attempt("run", 1, admitted_at=at(0), released_at=at(1)),
        make_attempt("run", 2, admitted_at=at(1), released_at=at(2), host_summary=host),
    ]
    lines = attempts_markdown(attempts).splitlines()
    assert [line for line in lines if line.startswith("**Processes")] == [
        "**Processes of attempt 2:** 4.0 cores on average, at most 12.0 GiB of memory."
    ]


def test_simulated_use_says_so() -> None:
    """Virtual GPUs have no utilization."""
    virtual = (GpuSummary(gpu_id="virtual-0", samples=3, is_simulated=True),)
    attempt = make_attempt("run", 1, admitted_at=at(0), released_at=at(1), gpu_summaries=virtual)
    note = "\n\nUtilization and energy are simulated: virtual GPUs have none.\n"
    assert note in attempts_markdown([attempt])


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
    cost, *_ = tables_of(page)
    assert [row.split(" | ")[0] for row in cost] == ["| 1–3", "| 4", "| **Total**"]
    assert page.count("Postponed: ") == 1
    assert "**Attempt 3:** Postponed: 3 pods run." in page


@pytest.mark.parametrize(
    ("reasons", "want"),
    [
        pytest.param([EndReason.COMPLETED], "$1.00 in 1 attempt, last: Completed", id="it ended"),
        pytest.param(
            [EndReason.PREEMPTED, None], "$1.00 in 2 attempts, still runs", id="its second runs"
        ),
    ],
)
def test_one_line_says_what_it_cost_and_what_ended_it(
    reasons: list[EndReason | None], want: str
) -> None:
    """The card on the run's page has room for forty characters."""
    attempts = [
        make_attempt(
            "run", number, admitted_at=at(number), end_reason=reason,
            released_at=None if reason is None else at(number + 1),
        )
        for number, reason in enumerate(reasons, start=1)
    ]  # fmt: skip
    assert attempts_summary(attempts) == want
    assert len(want) <= 40
