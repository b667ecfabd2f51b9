"""What bills say of attempts, and which costs are to be logged then, on each database."""

from dataclasses import replace

from gpu_core.adapters.ledger import Ledger
from gpu_core.adapters.ledger.cost_slices import CostQuestion
from gpu_core.adapters.ledger.database import UnloggedEnd
from gpu_core.decisions.costs.billing.run_bills import AttemptBill, RunBill
from gpu_core.decisions.costs.reports.cost_report import BillSum
from gpu_core.decisions.costs.usage.usage_cost import Window
from gpu_core.decisions.model.attempts import EndReason
from gpu_core.testing.builders.attempts import at, make_attempt, record_ended

HOUR = Window(at(0), at(1))
PART = AttemptBill(
    flow_run_id="run-1",
    attempt_id="run-1/1",
    instance="i-1",
    bill_start=HOUR.start,
    bill_end=HOUR.end,
    charged_micro_usd=1_000_000,
    billed_micro_usd=1_250_000,
)
OTHER = replace(PART, flow_run_id="run-2", attempt_id="run-2/1", billed_micro_usd=900_000)


def recorded(ledger: Ledger) -> None:
    """Two runs, each for an hour."""
    for name in ("run-1", "run-2"):
        attempt = make_attempt(name, released_at=at(1), end_reason=EndReason.COMPLETED)
        record_ended(ledger, attempt)


def listed(ledger: Ledger) -> list[tuple[str, str]]:
    return [(c.flow_run_id, c.cause) for c in ledger.unlogged_costs("gpus", "host-1", at(2))]


def note(ledger: Ledger, *parts: AttemptBill, window: Window = HOUR) -> frozenset[str]:
    return ledger.note_bills(["i-1"], window, parts, at(3))


def test_a_bill_is_written_once_and_replaced_by_a_later_one(ledger: Ledger) -> None:
    recorded(ledger)
    assert note(ledger, PART, OTHER) == {"run-1", "run-2"}
    assert note(ledger, PART, OTHER) == frozenset()
    longer = Window(at(0), at(2))
    corrected = replace(PART, bill_end=longer.end, billed_micro_usd=1_000_000)
    assert note(ledger, corrected, window=longer) == {"run-1", "run-2"}
    want = RunBill(charged_micro_usd=1_000_000, billed_micro_usd=1_000_000, parts=1)
    assert ledger.run_bills(["run-1", "run-2"]) == {"run-1": want}


def test_another_machine_and_another_time_are_added(ledger: Ledger) -> None:
    recorded(ledger)
    note(ledger, PART)
    ledger.note_bills(["i-2"], HOUR, [replace(PART, instance="i-2")], at(3))
    later = Window(at(1), at(2))
    note(ledger, replace(PART, bill_start=later.start, bill_end=later.end), window=later)
    assert ledger.run_bills(["run-1"])["run-1"].parts == 3


def test_sums_have_the_bills_whose_time_is_in_the_window(ledger: Ledger) -> None:
    recorded(ledger)
    note(ledger, PART, OTHER)
    asked = CostQuestion(window=HOUR, keys=(), now=at(5))
    assert ledger.bill_sums(asked) == {(): BillSum(2_000_000, 2_150_000)}
    of_pool = replace(asked, pool="others")
    half = replace(asked, window=Window(at(0), at(0.5)))
    assert ledger.bill_sums(of_pool) == ledger.bill_sums(half) == {}
    assert ledger.bill_sums(replace(asked, keys=("deployment", "gpu_type"))) == {
        ("train/gpu", "a10g"): BillSum(2_000_000, 2_150_000)
    }


def test_costs_of_ends_are_logged_before_those_of_bills(ledger: Ledger) -> None:
    recorded(ledger)
    note(ledger, PART)
    ledger.finish_run("run-2", "Completed", unlogged=UnloggedEnd("host-1", at(4)))
    assert listed(ledger) == [("run-2", "ended"), ("run-1", "reconciled")]
    first, _ = ledger.unlogged_costs("gpus", "host-1", at(2))
    ledger.finish_run("run-2", "Completed", unlogged=UnloggedEnd("host-1", at(5)))
    ledger.note_logged(first)
    assert len(listed(ledger)) == 2
    (again, _) = ledger.unlogged_costs("gpus", "host-1", at(2))
    assert again.since == at(4)
    ledger.note_logged(again)
    assert listed(ledger) == [("run-1", "reconciled")]
