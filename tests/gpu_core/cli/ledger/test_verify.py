"""`prefect-gpu ledger verify`, run as people run it."""

import json
import sqlite3
from contextlib import closing
from pathlib import Path

import pytest

from gpu_core.adapters.ledger import Ledger
from gpu_core.cli.main import main
from tests.gpu_core.adapters.ledger.test_decision_log import logged


def test_a_changed_record_is_named_and_an_intact_log_has_a_last_hash(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "ledger.db"
    verify = ["ledger", "verify", "--ledger", str(file)]
    with Ledger.open(f"sqlite:///{file}") as ledger:
        assert main(verify) == 0
        assert capsys.readouterr().out == "No records found in the decision log.\n"
        ledger.log(logged(1, 2, 3))
        head = ledger.decisions()[-1].hash
    assert main(verify) == 0
    want = f"gpus@host-1: 3 records fit together; the last hash is {head}\n"
    assert capsys.readouterr().out == want
    with closing(sqlite3.connect(file)) as connection, connection:
        connection.execute("UPDATE decisions SET numbers = '{\"position\": 7}' WHERE number = 2")
    assert main(verify) == 1
    assert "record 2 (d-2) was changed" in capsys.readouterr().out
    assert main([*verify, "--json"]) == 1
    (check,) = json.loads(capsys.readouterr().out)
    assert check["writer"] == "gpus@host-1"
    assert "record 2 (d-2)" in check["problem"]


@pytest.mark.parametrize(
    "statement",
    [
        "UPDATE decisions SET decision_id = X'ff' WHERE number = 2",
        "UPDATE decisions SET message = CAST(X'ff' AS TEXT) WHERE number = 2",
        "UPDATE decisions SET message = X'ff' WHERE number = 2",
        "UPDATE decisions SET numbers = 3.5 WHERE number = 2",
        "UPDATE decisions SET hash = CAST(X'ff' AS TEXT) WHERE number = 2",
    ],
)
def test_bytes_that_are_no_text_are_a_changed_record(
    three: Path, capsys: pytest.CaptureFixture[str], statement: str
) -> None:
    """A disk changes a bit: the check names the record, and does not end in an error."""
    change(three, statement)
    assert main(["ledger", "verify", "--ledger", str(three)]) == 1
    out = capsys.readouterr().out
    assert out.startswith("gpus@host-1: record 2 (")
    assert "was changed after it was written\nCompare these records with a backup" in out


@pytest.mark.parametrize(
    ("statement", "kept", "want"),
    [
        pytest.param("", 3, None, id="nothing has changed"),
        pytest.param("", 2, None, id="records were added since"),
        pytest.param("DELETE FROM decisions WHERE number = 3", 2, None, id="a newer record"),
        pytest.param("DELETE FROM decisions WHERE number = 3", 3, "at the end", id="the last one"),
        pytest.param("DELETE FROM decisions", 3, "at the end were deleted", id="all of them"),
    ],
)
def test_a_last_hash_that_was_kept_shows_what_is_missing_at_the_end(
    three: Path, capsys: pytest.CaptureFixture[str], statement: str, kept: int, want: str | None
) -> None:
    with Ledger.open(f"sqlite:///{three}") as ledger:
        kept_hash = ledger.decisions()[kept - 1].hash
    change(three, statement)
    verify = ["ledger", "verify", "--ledger", str(three), "--kept-hash", f"gpus@host-1={kept_hash}"]
    assert main(verify) == (0 if want is None else 1)
    assert (want or "fit") in capsys.readouterr().out


def test_a_kept_hash_without_its_writer_is_refused(
    three: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["ledger", "verify", "--ledger", str(three), "--kept-hash", "f" * 64]) == 2
    assert "Allowed: WRITER=HASH" in capsys.readouterr().err


@pytest.fixture
def three(tmp_path: Path) -> Path:
    """A ledger with a chain of three records."""
    file = tmp_path / "ledger.db"
    with Ledger.open(f"sqlite:///{file}") as ledger:
        ledger.log(logged(1, 2, 3))
    return file


def change(file: Path, statement: str) -> None:
    with closing(sqlite3.connect(file)) as connection, connection:
        connection.execute(statement)
