"""Rows with values that cannot be read: they stop no question, and what they hold stays held."""

import sqlite3
from contextlib import closing
from datetime import UTC, datetime
from pathlib import Path

import pytest
import sqlalchemy as sa

from gpu_core.adapters.ledger import Ledger
from gpu_core.adapters.ledger.cost_slices import CostQuestion
from gpu_core.adapters.ledger.errors import LedgerError
from gpu_core.adapters.ledger.source import open_to_read
from gpu_core.decisions.costs.usage.usage_cost import Window
from gpu_core.decisions.model.cluster import NodeShare
from gpu_core.testing.builders.attempts import NOON, admit, at, make_attempt, make_run
from tests.gpu_core.adapters.ledger.test_capacity import make_interval, write

SHARES = (NodeShare(node="gpu-1", gpu_ids=("GPU-0", "GPU-1")),)


@pytest.fixture
def database(tmp_path):
    """An SQLite ledger with three runs, each with an open attempt on two GPUs."""
    url = f"sqlite:///{tmp_path / 'ledger.db'}"
    with Ledger.open(url) as ledger:
        for number in (1, 2, 3):
            attempt = make_attempt(
                f"run-{number}", gpu_ids=("GPU-0", "GPU-1"), shares=SHARES, started_at=at(1)
            )
            admit(ledger, attempt, make_run(f"run-{number}"))
    return url


def damage(url, table, column, value, where="flow_run_id = 'run-2'"):
    """Write this into the column of the second run's row."""
    engine = sa.create_engine(url)
    with engine.begin() as connection:
        connection.execute(
            sa.text(f'UPDATE {table} SET "{column}" = :v WHERE {where}'),  # noqa: S608 # names of this test
            {"v": value},
        )
    engine.dispose()


@pytest.mark.parametrize(
    ("column", "value"),
    [
        ("admitted_at", "yesterday"),
        ("started_at", "0000-00-00 00:00:00"),
        ("last_seen_at", 5),
        ("drain_requested_at", "x"),
        ("drain_reason", "Abducted"),
        ("end_reason", "Abducted"),
        ("number", "first"),
        ("price_micro_usd_per_gpu_hour", "cheap"),
        ("gpu_ids", "[1, 2"),
        ("gpu_ids", "[1, 2]"),
        ("gpu_ids", '"GPU-0"'),
        ("gpu_ids", "null"),
        ("shares", '[{"node": "gpu-1"}]'),
        ("shares", "5"),
        ("settlement", "{"),
        ("is_charged_failure", "perhaps"),
        ("pid", "none"),
    ],
)
def test_a_damaged_attempt_holds_its_gpus_and_hides_no_other(database, caplog, column, value):
    damage(database, "attempts", column, value)
    with Ledger.open(database) as ledger:
        caplog.clear()
        found = {a.flow_run_id: a for a in ledger.open_attempts("gpus", "host-1")}
        of_runs = ledger.attempts_of(["run-1", "run-2", "run-3"])
        records = ledger.records_of(["run-1", "run-2", "run-3"])
    assert sorted(found) == ["run-1", "run-2", "run-3"]
    held = {gpu_id for share in found["run-2"].held for gpu_id in share.gpu_ids}
    assert held == {"GPU-0", "GPU-1"}
    assert found["run-2"].gpu_ids == ("GPU-0", "GPU-1")
    assert found["run-1"].shares == found["run-3"].shares == SHARES
    assert of_runs["run-2"] == (found["run-2"],)
    assert [run.flow_run_id for run, _ in records] == ["run-1", "run-2", "run-3"]
    logged = [record.getMessage() for record in caplog.records]
    assert len(logged) <= 1, "once, not at each question"


def test_an_unreadable_admission_charges_nothing_that_was_not_used(database):
    damage(database, "attempts", "admitted_at", "yesterday")
    with Ledger.open(database) as ledger:
        (attempt,) = ledger.attempts_of(["run-2"])["run-2"]
    assert attempt.admitted_at == at(1)


@pytest.mark.parametrize(
    ("column", "value"),
    [("submitted_at", "x"), ("provenance", "guessed"), ("priority", "urgent")],
)
def test_a_damaged_run_hides_no_other(database, column, value):
    damage(database, "runs", column, value)
    with Ledger.open(database) as ledger:
        run = ledger.run("run-2")
        records = ledger.usage(NOON, datetime(2199, 1, 1, tzinfo=UTC))
    assert run.name == make_run("run-2").name
    assert {run.flow_run_id for run, _ in records} == {"run-1", "run-2", "run-3"}


@pytest.mark.parametrize(
    ("column", "value"),
    [
        ("since", "yesterday"),
        ("until", "tomorrow"),
        ("seen_at", "x"),
        ("gpus", "eight"),
        ("micro_usd_per_hour", "cheap"),
        ("price_as_of", "2026"),
        ("end_reason", "Abducted"),
    ],
)
def test_a_damaged_machine_is_named_and_the_others_are_counted(database, caplog, column, value):
    with Ledger.open(database) as ledger:
        there = {"seen_at": at(1)}
        write(ledger, make_interval(**there), make_interval("i-2", node="node-2", **there))
    damage(database, "capacity_intervals", column, value, "interval_id = 'i-2'")
    asked = CostQuestion(window=Window(at(0), at(1)), keys=(), now=at(1))
    with Ledger.open(database) as ledger:
        caplog.clear()
        found = [ledger.capacity_cost(asked) for _ in range(2)][-1]
        known = ledger.known_capacity("host-1")
    assert [machine.interval.interval_id for machine in found.machines] == ["i-1"]
    assert known.by_node.keys() == {"node-1"}
    assert known.last_look == at(1)
    (logged,) = [record.getMessage() for record in caplog.records]
    assert logged == (
        f"Failed to parse the ledger row of i-2: capacity_intervals.{column}. The row is ignored"
    )


@pytest.mark.parametrize(
    ("statement", "want"),
    [
        pytest.param("UPDATE runs SET team = CAST(X'ff' AS TEXT)", "UTF-8", id="a byte"),
        pytest.param("DROP TABLE attempts", "no such table: attempts", id="a table"),
    ],
)
def test_a_command_names_what_its_database_cannot_read(
    tmp_path: Path, statement: str, want: str
) -> None:
    """A report ended in a traceback of the database's driver."""
    file = tmp_path / "ledger.db"
    with Ledger.open(f"sqlite:///{file}") as ledger:
        ledger.import_records([(make_run(), (make_attempt(released_at=at(1)),))])
    with closing(sqlite3.connect(file)) as connection, connection:
        connection.execute(statement)
    asked = CostQuestion(window=Window(at(-1), at(2)), keys=("team",), now=at(3))
    with open_to_read(str(file)) as ledger, pytest.raises(LedgerError, match=want) as raised:
        ledger.cost_slices(asked)
    assert "if it is damaged, restore a backup" in str(raised.value)
