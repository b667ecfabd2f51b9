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
        assert capsys.readouterr().out == "The log of decisions is empty.\n"
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
