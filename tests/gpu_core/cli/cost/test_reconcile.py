"""`prefect-gpu cost reconcile`, run as people run it, over a ledger and a bill on the disk."""

import csv
import gzip
import json
from pathlib import Path
from typing import Any

import pandas as pd
import pytest

from gpu_core.adapters.ledger import Ledger
from gpu_core.cli.main import main
from gpu_core.decisions.costs.capacity.capacity_intervals import CapacityChanges
from gpu_core.testing.builders.attempts import at, make_run
from tests.gpu_core.adapters.ledger.test_capacity import make_interval
from tests.gpu_core.decisions.costs.billing.test_reconciliation import Row, line
from tests.gpu_core.decisions.costs.billing.test_run_bills import made

BILL = [
    line(BilledCost="17.5"),
    line(ChargeCategory="Tax", ResourceId=None, BilledCost="1.9"),
    line(ChargeCategory="Tax", ResourceId=None, BilledCost="1.9"),
    line(ResourceId="i-2", BilledCost="4.1"),
]


@pytest.fixture
def ledger_path(tmp_path: Path) -> str:
    """A machine of ours that cost 16 USD."""
    path = tmp_path / "ledger.db"
    interval = make_interval(instance_id="aws:///us-east-1a/i-1", since=at(0), until=at(1))
    with Ledger.open(f"sqlite:///{path}") as ledger:
        ledger.write_capacity(CapacityChanges((), (interval,)), [], at(0))
    return str(path)


def written(path: Path, rows: list[Row]) -> Path:
    """The bill as a file."""
    if path.suffix == ".parquet":
        frame = pd.DataFrame(rows)
        for name in ("ChargePeriodStart", "ChargePeriodEnd"):
            frame[name] = pd.to_datetime(frame[name]).dt.tz_localize(None)
        frame["BilledCost"] = frame["BilledCost"].astype(float)
        frame.to_parquet(path)
        return path
    opened = gzip.open if path.suffix == ".gz" else open
    with opened(path, "wt", newline="", encoding="utf-8-sig") as file:
        writer = csv.DictWriter(file, list(line()))
        writer.writeheader()
        writer.writerows(rows)
    return path


@pytest.mark.parametrize("name", ["bill.csv", "bill.csv.gz", "bill.parquet"])
def test_a_bill_is_explained_to_the_cent(
    ledger_path: str, tmp_path: Path, capsys: pytest.CaptureFixture[str], name: str
) -> None:
    path = written(tmp_path / name, BILL)
    assert main(["cost", "reconcile", str(path), "--ledger", ledger_path, "--json"]) == 0
    out, err = capsys.readouterr()
    document = json.loads(out)
    assert document["ledger_micro_usd"] == 16_000_000
    assert {each["step"]: each["micro_usd"] for each in document["steps"]} == {
        "price": 1_500_000,
        "other_nodes": 4_100_000,
        "tax": 1_900_000,
    }
    assert document["billed_micro_usd"] == 23_500_000
    assert [each["step"] for each in document["lines"]] == [None, "tax", "other_nodes"]
    assert err == "Skipped line 4, because it is a duplicate line\nSkipped lines: 1.90 USD\n"


def test_what_is_not_counted_has_its_amount_by_currency(
    ledger_path: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    odd = [
        line(BillingCurrency="CNY"),
        line(BilledCost="?"),
        line(BillingCurrency="CNY", SkuMeter="x"),
    ]
    path = written(tmp_path / "bill.csv", [*BILL, *odd])
    assert main(["cost", "reconcile", str(path), "--ledger", ledger_path, "--json"]) == 0
    out, err = capsys.readouterr()
    assert err.endswith("Skipped lines: 32.00 CNY, 1.90 USD, 1 line with an unknown amount\n")
    found = [(each["billed"], each["currency"]) for each in json.loads(out)["problems"]]
    assert found == [(1.9, "USD"), (16.0, "CNY"), (None, "USD"), (16.0, "CNY")]


@pytest.mark.parametrize(
    "content",
    [
        pytest.param(gzip.compress(b"BilledCost\n" * 99)[:-9], id="cut off"),
        pytest.param(b"BilledCost,ChargeCategory", id="not packed"),
        pytest.param(gzip.compress(b"\xff\xfe"), id="no UTF-8"),
    ],
)
def test_a_packed_bill_that_cannot_be_read_is_refused(
    ledger_path: str, tmp_path: Path, capsys: pytest.CaptureFixture[str], content: bytes
) -> None:
    path = tmp_path / "bill.csv.gz"
    path.write_bytes(content)
    assert main(["cost", "reconcile", str(path), "--ledger", ledger_path]) == 2
    assert "bill.csv.gz cannot be read" in capsys.readouterr().err


def test_the_table_leads_from_the_ledger_to_the_bill(
    ledger_path: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = written(tmp_path / "bill.csv", BILL)
    assert main(["cost", "reconcile", str(path), "--ledger", ledger_path]) == 0
    out = capsys.readouterr().out
    amounts = [text.split()[-2] for text in out.splitlines() if "$" in text]
    assert amounts[:5] == ["$16.00", "+$1.50", "+$4.10", "+$1.90", "$23.50"]
    assert "i-1" in out


@pytest.mark.parametrize(
    ("text", "want"),
    [
        pytest.param("", "is not a valid FOCUS bill", id="an empty file"),
        pytest.param("Cost,Service\n1,EC2\n", "no column BilledCost", id="another export"),
        pytest.param(
            f"{','.join(line())}\n{'t' * 140_000}\n", "cannot be read as CSV", id="endless tags"
        ),
    ],
)
def test_a_file_that_is_no_bill_is_refused(
    ledger_path: str, tmp_path: Path, capsys: pytest.CaptureFixture[str], text: str, want: str
) -> None:
    path = tmp_path / "bill.csv"
    path.write_text(text)
    assert main(["cost", "reconcile", str(path), "--ledger", ledger_path]) == 2
    assert want in capsys.readouterr().err
    assert main(["cost", "reconcile", str(tmp_path / "no.csv"), "--ledger", ledger_path]) == 2


def read(
    ledger_path: str,
    capsys: pytest.CaptureFixture[str],
    *by: str,
    period: str = "day",
    day: str = "2026-03-04",
) -> Any:
    """What a report says of the runs of a period."""
    command = ["cost", "report", period, "--day", day, "--ledger", ledger_path, "--json"]
    assert main([*command, *(f"--by={key}" for key in by)]) == 0
    return json.loads(capsys.readouterr().out)


def unlogged(ledger_path: str) -> list[tuple[str, str]]:
    """Which costs are to be logged to MLflow, and why."""
    with Ledger.open(f"sqlite:///{ledger_path}") as ledger:
        found = ledger.unlogged_costs("gpus", "host-1", at(9))
        for cost in found:
            ledger.note_logged(cost)
    return [(cost.flow_run_id, cost.cause) for cost in found]


@pytest.fixture
def with_runs(ledger_path: str) -> str:
    """Two runs on the machine: two GPUs for an hour, and one for half an hour, at 2 USD."""
    with Ledger.open(f"sqlite:///{ledger_path}") as ledger:
        for name, gpus, hours in (("large", 2, 1.0), ("small", 1, 0.5)):
            attempt = made(name, end=hours, gpus=gpus)
            ledger.import_records([(make_run(name, final_state="Completed"), [attempt])])
    return ledger_path


def test_runs_are_marked_with_what_they_were_charged_and_are_billed(
    with_runs: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """The machine of 16 USD is billed 20 USD: a run pays 5/4."""
    bill = written(tmp_path / "bill.csv", [line(BilledCost="20", EffectiveCost="20")])
    command = ["cost", "reconcile", str(bill), "--ledger", with_runs]
    assert main([*command, "--dry-run"]) == 0
    said = capsys.readouterr().out
    assert "2 runs would be marked as reconciled: charged $5.00, billed $6.25" in said
    assert read(with_runs, capsys)["total"]["billed_micro_usd"] is None
    assert unlogged(with_runs) == []

    assert main([*command, "--json"]) == 0
    want = [("large", 4_000_000, 5_000_000), ("small", 1_000_000, 1_250_000)]
    keys = ("flow_run_id", "charged_micro_usd", "billed_micro_usd")
    got = json.loads(capsys.readouterr().out)["runs"]
    assert [tuple(each[key] for key in keys) for each in got] == want
    report = read(with_runs, capsys, "run")
    keys = ("run", "reconciled_micro_usd", "billed_micro_usd")
    assert [tuple(row[key] for key in keys) for row in report["rows"]] == want
    assert report["total"]["billed_micro_usd"] == 6_250_000
    assert unlogged(with_runs) == [("large", "reconciled"), ("small", "reconciled")]


@pytest.mark.parametrize("order", [("march", "april"), ("april", "march")])
def test_a_line_over_the_end_of_a_month_leaves_both_months_their_bills(
    ledger_path: str, tmp_path: Path, capsys: pytest.CaptureFixture[str], order: tuple[str, str]
) -> None:
    """The run held a GPU at 2 USD for two hours of March and four of April.

    The bill of March has half an hour of April on i-1; that of April begins with another machine.
    """
    hours = {
        "march": [("i-1", "2026-03-31T22:00:00Z", "2026-04-01T00:30:00Z", "2.5")],
        "april": [
            ("i-1", "2026-04-01T00:30:00Z", "2026-04-01T04:00:00Z", "3.5"),
            ("i-9", "2026-04-01T00:00:00Z", "2026-04-01T04:00:00Z", "4"),
        ],
    }
    machine = make_interval("i-x", node="n", instance_id="i-1", since=at(658), until=at(664))
    with Ledger.open(f"sqlite:///{ledger_path}") as ledger:
        ledger.write_capacity(CapacityChanges((), (machine,)), [], at(658))
        attempt = made("run-1", start=658, end=664, node="n")
        ledger.import_records([(make_run("run-1", final_state="Completed"), [attempt])])
    for month in (*order, *order):
        rows = [
            line(ResourceId=instance, ChargePeriodStart=start, ChargePeriodEnd=end,
                 ConsumedQuantity=count)
            for instance, start, end, count in hours[month]
        ]  # fmt: skip
        bill = written(tmp_path / f"{month}.csv", rows)
        assert main(["cost", "reconcile", str(bill), "--ledger", ledger_path]) == 0
        capsys.readouterr()
    for day, want in (("2026-03-31", 4_000_000), ("2026-04-01", 8_000_000)):
        total = read(ledger_path, capsys, period="month", day=day)["total"]
        assert total["reconciled_micro_usd"] == want


def test_the_same_bill_again_changes_nothing_and_a_corrected_one_replaces_it(
    with_runs: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    for cost, want, logged in (("16", 5_000_000, 2), ("16", 5_000_000, 0), ("32", 10_000_000, 2)):
        bill = written(tmp_path / "bill.csv", [line(BilledCost=cost, EffectiveCost=cost)])
        assert main(["cost", "reconcile", str(bill), "--ledger", with_runs]) == 0
        assert "marked as reconciled" in capsys.readouterr().out
        assert read(with_runs, capsys)["total"]["billed_micro_usd"] == want
        assert len(unlogged(with_runs)) == logged
    assert main(["cost", "report", "month", "--day", "2026-03-04", "--ledger", with_runs]) == 0
    head = capsys.readouterr().out
    assert "Reconciled" in head
    assert "$10.00" in head


def test_a_bill_in_several_files_marks_the_runs_of_each(
    with_runs: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """A provider cuts a large export into files, which are read in turn."""
    machine = make_interval("i-x", node="n", instance_id="i-2", since=at(0), until=at(1))
    with Ledger.open(f"sqlite:///{with_runs}") as ledger:
        ledger.write_capacity(CapacityChanges((), (machine,)), [], at(0))
        attempt = made("other", end=1.0, node="n")
        ledger.import_records([(make_run("other", final_state="Completed"), [attempt])])
    for instance, want in (("i-1", 5_000_000), ("i-2", 7_000_000), ("i-1", 7_000_000)):
        bill = written(tmp_path / f"{instance}.csv", [line(ResourceId=instance)])
        assert main(["cost", "reconcile", str(bill), "--ledger", with_runs]) == 0
        capsys.readouterr()
        assert read(with_runs, capsys)["total"]["reconciled_micro_usd"] == want
