"""`prefect-gpu cost report`, run as people run it, over a ledger on the disk."""

import csv
import errno
import io
import json
import os
import re
import sqlite3
from contextlib import closing
from fractions import Fraction
from pathlib import Path

import pandas as pd
import pytest
from prefect.settings import PREFECT_API_URL, temporary_settings
from pyarrow import parquet

from gpu_core.adapters.ledger import Ledger
from gpu_core.cli.cost.files import write_rows
from gpu_core.cli.cost.kept_rows import RowsOnDisk
from gpu_core.cli.main import main
from gpu_core.decisions.costs.billing.focus import COLUMNS, FocusVersion
from gpu_core.decisions.costs.capacity.capacity_intervals import CapacityChanges
from gpu_core.decisions.costs.usage.time_use import TimeUse
from gpu_core.testing.builders.attempts import at, make_attempt, make_run
from tests.gpu_core.adapters.ledger.test_capacity import make_interval

QUARTER = {
    "gpu_quantity": Fraction(1, 4),
    "price_micro_usd_per_gpu_hour": 3_670_001,
    "price_source": "policy",
    "released_at": at(1),
}


@pytest.fixture
def ledger_url(tmp_path: Path) -> str:
    """Four runs on a quarter of a GPU each, and one without a price, on 4 March 2026."""
    url = f"sqlite:///{tmp_path / 'ledger.db'}"
    teams = ("vision", "vision", "vision", "audio")
    records = [
        (make_run(f"run-{n}", team=team), (make_attempt(f"run-{n}", **QUARTER),))
        for n, team in enumerate(teams)
    ]
    unpriced = make_attempt("free", price_micro_usd_per_gpu_hour=None, released_at=at(2))
    with Ledger.open(url) as ledger:
        ledger.import_records([*records, (make_run("free", team=None), (unpriced,))])
    return url


def report(ledger_url: str, *arguments: str) -> int:
    return main(["cost", "report", *arguments, "--day", "2026-03-04", "--ledger", ledger_url])


def test_rows_of_json_add_up_to_the_price_of_the_gpu(
    ledger_url: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert report(ledger_url, "day", "--by", "run", "--json") == 0
    document = json.loads(capsys.readouterr().out)
    costs = {row["run"]: row["cost_micro_usd"] for row in document["rows"]}
    assert costs.pop("free") is None
    assert sorted(costs.values()) == [917_500, 917_500, 917_500, 917_501]
    total = document["total"]
    assert total["cost_micro_usd"] == sum(costs.values()) == 3_670_001
    assert (total["gpu_hours"], total["unpriced_gpu_hours"], total["runs"]) == (3.0, 2.0, 5)


@pytest.fixture
def with_machine(ledger_url: str) -> str:
    """The same ledger; the GPU was there for two hours, of which one was idle."""
    interval = make_interval(
        host="host-1", gpus=1, micro_usd_per_hour=3_670_001, since=at(0), until=at(2)
    )
    with Ledger.open(ledger_url) as ledger:
        ledger.write_capacity(CapacityChanges((), (interval,)), [], at(0))
        with ledger._writer.begin() as connection:
            connection.exec_driver_sql("DELETE FROM attempts WHERE flow_run_id = 'free'")
    return ledger_url


@pytest.mark.parametrize(
    ("rule", "want_rows", "want_idle"),
    [
        pytest.param("none", {"vision": 0, "audio": 0}, 3_670_001, id="a line of its own"),
        pytest.param("evenly", {"vision": 1_835_001, "audio": 1_835_000}, None, id="evenly"),
        pytest.param("by-use", {"vision": 2_752_501, "audio": 917_500}, None, id="by use"),
    ],
)
def test_idle_capacity_in_a_report(
    with_machine: str,
    capsys: pytest.CaptureFixture[str],
    rule: str,
    want_rows: dict[str, int],
    want_idle: int | None,
) -> None:
    assert report(with_machine, "day", "--idle", rule, "--json") == 0
    document = json.loads(capsys.readouterr().out)
    assert {row["team"]: row["idle_micro_usd"] for row in document["rows"]} == want_rows
    idle = document["idle"] and document["idle"]["cost_micro_usd"]
    assert idle == want_idle
    whole = sum(r["cost_micro_usd"] + r["idle_micro_usd"] for r in document["rows"]) + (idle or 0)
    assert whole == 2 * 3_670_001


def test_idle_capacity_of_a_reservation_is_its_teams(
    with_machine: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert report(with_machine, "day", "--idle", "reservation") == 2
    assert "policy does not contain any team reservations" in capsys.readouterr().err
    policy = tmp_path / "policy.yaml"
    policy.write_text(
        "version: 1\ncalendar:\n  closures:\n"
        "    - {name: paper, nodes: [node-1], for_team: robots,\n"
        "       starts_at: 2026-03-04T13:30Z, ends_at: 2026-03-09T00:00Z}\n"
    )
    arguments = ("day", "--idle", "reservation", "--policy", str(policy), "--json")
    assert report(with_machine, *arguments) == 0
    document = json.loads(capsys.readouterr().out)
    idle = {row["team"]: row["idle_micro_usd"] for row in document["rows"]}
    assert idle["robots"] == 1_835_001, "half an hour, rounded half up"
    assert document["idle"]["cost_micro_usd"] == 3_670_001 - idle["robots"]


def test_what_runs_paid_beyond_their_machine_leads_from_its_cost_to_theirs(
    with_machine: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """A clock was wrong: another run has the whole GPU in both hours."""
    whole = make_attempt("late", **(QUARTER | {"gpu_quantity": Fraction(1), "released_at": at(2)}))
    with Ledger.open(with_machine) as ledger:
        ledger.import_records([(make_run("late"), (whole,))])
    assert report(with_machine, "day", "--json") == 0
    document = json.loads(capsys.readouterr().out)
    assert (document["total"]["cost_micro_usd"], document["idle"]) == (3 * 3_670_001, None)
    assert document["beyond_micro_usd"] == 3_670_001


def test_a_machine_without_a_price_for_a_part_of_its_life_is_unpriced_then_and_not_overpaid(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Two GPUs at $1, after two hours at an unknown price; a run pays $1 an hour for one GPU."""
    url = f"sqlite:///{tmp_path / 'own.db'}"
    priced = {"since": at(0), "until": at(2), "seen_at": at(2)}
    unpriced = {"since": at(2), "until": at(4), "seen_at": at(4)}
    machines = (
        make_interval("i-1", gpus=2, micro_usd_per_hour=2_000_000, **priced),
        make_interval("i-2", gpus=2, micro_usd_per_hour=None, **unpriced),
    )
    run = make_attempt("long", price_micro_usd_per_gpu_hour=1_000_000, released_at=at(4))
    with Ledger.open(url) as ledger:
        ledger.import_records([(make_run("long"), (run,))])
        ledger.write_capacity(CapacityChanges((), machines), [], at(4))
    assert report(url, "day", "--json") == 0
    document = json.loads(capsys.readouterr().out)
    assert document["total"]["cost_micro_usd"] == 4_000_000
    assert document["idle"]["cost_micro_usd"] == 2_000_000
    assert document["idle"]["unpriced_gpu_hours"] == 2
    assert document["beyond_micro_usd"] == 0


def test_the_table_has_idle_capacity_and_what_all_of_it_costs(
    with_machine: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert report(with_machine, "day") == 0
    lines = capsys.readouterr().out.splitlines()
    assert [line.split()[-2] for line in lines if " idle " in line] == ["$3.67", "$7.34"]
    assert report(with_machine, "day", "--idle", "by-use") == 0
    out = capsys.readouterr().out
    assert out.count("$0.9175") == 2, "audio pays as much for idle time as for its own"
    assert report(with_machine, "day", "--idle", "evnly") == 2
    assert "Did you mean 'evenly'" in capsys.readouterr().err


def test_hours_of_a_gpu_that_is_not_well_are_a_line_of_their_own(
    with_machine: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """They are a part of what is idle: the total stays what the machine costs."""
    with Ledger.open(with_machine) as ledger, ledger._writer.begin() as connection:
        connection.exec_driver_sql("UPDATE capacity_intervals SET faulty_gpus = 1")
    assert report(with_machine, "day", "--json") == 0
    document = json.loads(capsys.readouterr().out)
    assert document["faults"] == document["idle"]
    assert document["faults"]["cost_micro_usd"] == 3_670_001
    assert report(with_machine, "day") == 0
    (line,) = [each for each in capsys.readouterr().out.splitlines() if "faulty" in each]
    assert "$3.67" in line


def test_parts_add_up_to_each_row(ledger_url: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert report(ledger_url, "day", "--by", "run", "--json") == 0
    document = json.loads(capsys.readouterr().out)
    for row in (*document["rows"], document["total"]):
        if row["cost_micro_usd"] is None:
            continue
        for names in (("gpu", "cpu", "memory"), tuple(TimeUse)):
            parts = [row[f"{name}_cost_micro_usd"] for name in names]
            assert sum(parts) == row["cost_micro_usd"]
    assert document["total"]["lost_gpu_hours"] == 3.0, "no run completed or saved"


@pytest.mark.parametrize(
    ("show", "want_head", "want_cost"),
    [
        pytest.param("resources", ("GPU", "CPU", "Memory"), ("$3.67", "$0.00"), id="resources"),
        pytest.param("time", ("Useful", "Lost", "Restart"), ("$0.00", "$3.67"), id="time"),
    ],
)
def test_a_table_shows_the_parts_of_the_cost(
    ledger_url: str, capsys: pytest.CaptureFixture[str], show: str, want_head: tuple[str, ...],
    want_cost: tuple[str, ...],
) -> None:  # fmt: skip
    assert report(ledger_url, "day", "--show", show) == 0
    lines = capsys.readouterr().out.splitlines()
    places = [lines[2].index(head) for head in want_head]
    assert places == sorted(places)
    total = next(line for line in lines if "│ all" in line)
    cells = [cell.strip() for cell in total.split("│")]
    assert tuple(cells[3 : 3 + len(want_cost)]) == want_cost


@pytest.mark.parametrize(
    ("columns", "by", "want_left_out"),
    [
        pytest.param(40, "team", "Runs, Attempts", id="one key at 40 columns"),
        pytest.param(40, "team,gpu-type", "Runs, Attempts, GPU-hours", id="two keys at 40 columns"),
        pytest.param(80, "team,gpu-type", None, id="two keys at 80 columns"),
    ],
)
def test_names_and_cost_stay_readable_in_any_terminal(
    ledger_url: str,
    columns: int,
    by: str,
    want_left_out: str | None,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("COLUMNS", str(columns))
    monkeypatch.setattr("sys.stdout.isatty", lambda: True)
    assert report(ledger_url, "day", "--by", by) == 0
    lines = re.sub(r"\x1b\[[0-9;]*m", "", capsys.readouterr().out).splitlines()
    assert max(map(len, lines)) <= columns
    assert any("vision" in line and "$2.75" in line for line in lines)
    said = " ".join(" ".join(lines).split())
    assert ("Columns omitted" in said) is (want_left_out is not None)
    assert (
        want_left_out is None or f"Columns omitted (terminal too narrow): {want_left_out}" in said
    )


def test_a_program_reads_whole_names_however_narrow_the_terminal_is(
    ledger_url: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "40")
    assert report(ledger_url, "day", "--by", "team", "--show", "resources") == 0
    lines = capsys.readouterr().out.splitlines()
    assert any("vision" in line and "$2.75" in line and line.endswith("│") for line in lines)


def test_several_keys_and_csv(ledger_url: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert report(ledger_url, "month", "--by", "team", "--by", "gpu-type", "--csv") == 0
    rows = list(csv.DictReader(io.StringIO(capsys.readouterr().out)))
    assert [(row["team"], row["gpu_type"], row["runs"]) for row in rows] == [
        ("vision", "a10g", "3"),
        ("audio", "a10g", "1"),
        ("", "a10g", "1"),
    ]
    assert rows[2]["cost_usd"] == ""


def test_the_table_names_what_is_unpriced_and_the_rest_of_the_rows(
    ledger_url: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert report(ledger_url, "week", "--by", "run", "--limit", "3") == 0
    lines = capsys.readouterr().out.splitlines()
    assert "Cost from 2026-03-02 up to 2026-03-09, UTC" in lines[0]
    assert any("2 others" in line and "$0.9175 + unpriced" in line for line in lines)
    assert any("all runs" in line and "$3.67 + unpriced" in line for line in lines)


@pytest.mark.parametrize(
    ("arguments", "want"),
    [
        pytest.param(("year",), "period is not one of the choices (got 'year')", id="a period"),
        pytest.param(("day", "--show", "tiem"), "Did you mean 'time'?", id="what is shown"),
        pytest.param(("day", "--by", "taem"), "Did you mean 'team'?", id="a key"),
        pytest.param(("day", "--by", "team", "--by", "team"), "has a key twice", id="twice"),
        pytest.param(
            ("day", *(f"--by={key}" for key in ("run", "team", "user", "zone"))),
            "by has too many keys (got 4). Allowed: 1 to 3", id="four keys",
        ),
        pytest.param(("day", "--csv", "--json"), "--csv cannot be used with --json", id="both"),
    ],
)  # fmt: skip
def test_wrong_input_is_one_line(
    ledger_url: str, capsys: pytest.CaptureFixture[str], arguments: tuple[str, ...], want: str
) -> None:
    assert report(ledger_url, *arguments) == 2
    (line,) = capsys.readouterr().err.splitlines()
    assert want in line


@pytest.mark.parametrize("name", ["bill.csv", "bill.parquet"])
def test_the_bill_has_the_cost_of_the_report_and_names_what_has_no_price(
    ledger_url: str, tmp_path: Path, capsys: pytest.CaptureFixture[str], name: str
) -> None:
    path = tmp_path / name
    arguments = ["cost", "export", "month", "--day", "2026-03-04", "--ledger", ledger_url]
    assert main([*arguments, "--output", str(path)]) == 0
    reported = capsys.readouterr()
    assert reported.out == ""
    assert "2.00 GPU-hours without a known price were excluded" in reported.err
    table = pd.read_csv(path) if path.suffix == ".csv" else pd.read_parquet(path)
    assert sum(round(float(cost) * 10**6) for cost in table["BilledCost"]) == 3_670_001
    assert list(table.columns) == list(COLUMNS[FocusVersion.V1_2])
    if path.suffix == ".parquet":
        assert str(table["ChargePeriodStart"].dtype).startswith("datetime64")


def test_a_bill_on_a_full_disk_leaves_the_one_before_as_it_is(
    ledger_url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Rows wait on the disk, too, until all amounts are known."""
    path = tmp_path / "bill.csv"
    path.write_text("the bill before")
    arguments = ["cost", "export", "month", "--day", "2026-03-04", "--ledger", ledger_url]

    def full(*_: object) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    with monkeypatch.context() as patched:
        patched.setattr(RowsOnDisk, "append", full)
        assert main([*arguments, "--output", str(path)]) != 0
    assert path.read_text() == "the bill before"
    assert [each.name for each in tmp_path.iterdir() if each.suffix == ".tmp"] == []


def test_a_bill_of_the_newer_version_has_its_columns(
    ledger_url: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    arguments = ["cost", "export", "month", "--day", "2026-03-04", "--ledger", ledger_url]
    for name in ("bill.csv", "bill.parquet"):
        path = tmp_path / name
        assert main([*arguments, "--focus", "1.4", "--output", str(path)]) == 0
        table = pd.read_csv(path) if path.suffix == ".csv" else pd.read_parquet(path)
        assert list(table.columns) == list(COLUMNS[FocusVersion.V1_4])
        assert set(table["ServiceProviderName"]) == {"prefect-gpu"}
        assert "ProviderName" not in table
    capsys.readouterr()
    assert main([*arguments, "--focus", "1.3"]) == 2
    assert "focus is not a version (got '1.3'). Allowed: 1.2, 1.4" in capsys.readouterr().err


def test_a_bill_of_another_form_is_refused(
    ledger_url: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    arguments = ["cost", "export", "--ledger", ledger_url, "--output", str(tmp_path / "a.xlsx")]
    assert main(arguments) == 2
    assert "Allowed: .csv or .parquet" in capsys.readouterr().err
    assert not (tmp_path / "a.xlsx").exists()


@pytest.mark.parametrize(
    ("output", "want"),
    [
        pytest.param("folder.csv", "is a directory", id="a folder"),
        pytest.param("missing/bill.csv", "is in a directory that does not exist", id="no folder"),
        pytest.param("bill/new.parquet", "a parent path is a file", id="in a file"),
        pytest.param("bill/new/a.csv", "/bill is a file", id="in a folder in a file"),
        pytest.param("shut/bill.csv", "cannot be written", id="a folder of others"),
        pytest.param("bill.paquet", "Did you mean '.parquet'?", id="a form with a typing error"),
    ],
)
def test_a_bill_that_cannot_be_written_is_refused_before_the_ledger_is_read(
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
    output: str,
    want: str,
) -> None:
    (tmp_path / "folder.csv").mkdir()
    (tmp_path / "bill").write_text("a file")
    (tmp_path / "shut").mkdir()
    # Tests may run as root, who may write anywhere.
    monkeypatch.setattr(os, "access", lambda path, mode: Path(path).name != "shut")
    arguments = ["cost", "export", "--ledger", "sqlite:////no/such/ledger.db"]
    assert main([*arguments, "--output", str(tmp_path / output)]) == 2
    (line,) = capsys.readouterr().err.splitlines()
    assert "output" in line
    assert want in line


def test_a_bill_in_parquet_is_written_page_by_page(tmp_path: Path) -> None:
    rows = [dict.fromkeys(COLUMNS[FocusVersion.V1_2], None) for _ in range(5)]
    for number, row in enumerate(rows):
        row["BilledCost"] = f"{number}.5"
    for count, want_pages in ((0, 0), (4, 2), (5, 3)):
        path = tmp_path / f"{count}.parquet"
        write_rows(path, COLUMNS[FocusVersion.V1_2], rows[:count], rows_per_page=2)
        file = parquet.ParquetFile(path)
        assert file.num_row_groups == want_pages
        found = file.read()
        assert found.column_names == list(COLUMNS[FocusVersion.V1_2])
        assert [float(cost) for cost in found["BilledCost"].to_pylist()] == [
            number + 0.5 for number in range(count)
        ]


@pytest.mark.parametrize(
    ("arguments", "want"),
    [
        pytest.param(("report", "day", "--day", "9999-12-31"), "day is out of range", id="day"),
        pytest.param(("export", "--day", "0206-11-24"), "1970-01-01 to 9998-12-31", id="year"),
        pytest.param(("savings", "--month", "9999-12"), "month is out of range", id="month"),
        pytest.param(("report", "--limit", "-3"), "limit is negative (got -3)", id="rows"),
        pytest.param(("reconcile", "bill.csv", "--limit", "-1"), "limit is negative", id="lines"),
    ],
)
def test_what_cannot_be_counted_is_one_line(
    ledger_url: str, capsys: pytest.CaptureFixture[str], arguments: tuple[str, ...], want: str
) -> None:
    assert main(["cost", *arguments, "--ledger", ledger_url]) == 2
    (line,) = capsys.readouterr().err.splitlines()
    assert want in line


@pytest.mark.parametrize("command", ["report", "export", "savings"])
def test_a_pool_that_the_ledger_does_not_have_is_named_with_the_nearest_that_it_has(
    ledger_url: str, capsys: pytest.CaptureFixture[str], command: str
) -> None:
    """What is typed wrong must not look like a pool that cost nothing."""
    for pool in ("gpsu", "gpus"):
        assert main(["cost", command, "--pool", pool, "--ledger", ledger_url]) == 0
        said = capsys.readouterr().err
        want = (
            "pool does not have any runs or machines in the ledger (got 'gpsu'). Did you mean "
            "'gpus'?"
        )
        assert (want in said) == (pool == "gpsu")


def test_the_ledger_is_named_by_its_file_and_keys_by_commas(
    ledger_url: str, capsys: pytest.CaptureFixture[str]
) -> None:
    path = ledger_url.removeprefix("sqlite:///")
    assert report(path, "day", "--by", "team,gpu-type", "--json") == 0
    assert json.loads(capsys.readouterr().out)["by"] == ["team", "gpu_type"]


@pytest.mark.parametrize("command", ["report", "export"])
def test_without_a_ledger_and_a_server_the_server_is_asked_for(
    capsys: pytest.CaptureFixture[str], command: str
) -> None:
    """No server of Prefect's own is started for it."""
    with temporary_settings({PREFECT_API_URL: "http://127.0.0.1:9/api"}):
        assert main(["cost", command]) == 2
    assert "PREFECT_API_URL cannot be reached" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("arguments", "want"),
    [
        pytest.param(["report", "mnth"], "Did you mean 'month'?", id="period"),
        pytest.param(["report", "--idle", "evnly"], "Did you mean 'evenly'?", id="idle rule"),
        pytest.param(["export", "--focus", "1.3"], "(got '1.3')", id="version"),
        pytest.param(["reconcile", "bil.csv"], "bil.csv does not exist", id="file"),
    ],
)
def test_what_is_typed_wrong_is_named_before_a_server_is_asked(
    capsys: pytest.CaptureFixture[str], arguments: list[str], want: str
) -> None:
    with temporary_settings({PREFECT_API_URL: "http://127.0.0.1:9/api"}):
        assert main(["cost", *arguments]) == 2
    assert want in capsys.readouterr().err


@pytest.mark.parametrize("command", ["report", "export"])
def test_a_misspelled_ledger_is_named_and_not_created(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], command: str
) -> None:
    """A new database would hold no run, and say that all of them cost nothing."""
    path = tmp_path / "legder.db"
    for source in (str(path), f"sqlite:///{path}"):
        assert main(["cost", command, "--ledger", source]) == 2
        assert "legder.db" in capsys.readouterr().err
    assert not path.exists()


def test_a_ledger_of_another_version_is_read_by_no_report_and_not_upgraded(
    ledger_url: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """Its workers, which are of that version, would not start again."""
    path = ledger_url.removeprefix("sqlite:///")
    with closing(sqlite3.connect(path)) as connection, connection:
        connection.execute("UPDATE alembic_version SET version_num = '0006'")
    before = Path(path).read_bytes()
    assert report(ledger_url, "day") == 1
    assert "is of version 0006" in capsys.readouterr().err
    assert Path(path).read_bytes() == before
