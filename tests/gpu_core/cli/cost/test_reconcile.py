"""`prefect-gpu cost reconcile`, run as people run it, over a ledger and a bill on the disk."""

import csv
import json
from pathlib import Path

import pandas as pd
import pytest

from gpu_core.adapters.ledger import Ledger
from gpu_core.cli.main import main
from gpu_core.decisions.costs.capacity_intervals import CapacityChanges
from gpu_core.testing.builders.attempts import at
from tests.gpu_core.adapters.ledger.test_capacity import make_interval
from tests.gpu_core.decisions.costs.test_reconciliation import Row, line

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
    with path.open("w", newline="", encoding="utf-8") as file:
        writer = csv.DictWriter(file, list(line()))
        writer.writeheader()
        writer.writerows(rows)
    return path


@pytest.mark.parametrize("name", ["bill.csv", "bill.parquet"])
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
    assert err == "line 4 is the same line again; not counted\n"


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
        pytest.param("", "is no bill in FOCUS", id="an empty file"),
        pytest.param("Cost,Service\n1,EC2\n", "no column BilledCost", id="another export"),
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
