"""`prefect-gpu anomalies`, as people call it, over a ledger on the disk."""

import json
from datetime import UTC, date, datetime, timedelta
from pathlib import Path

import pytest

from gpu_core.adapters.ledger import Ledger
from gpu_core.cli.main import main
from gpu_core.decisions.costs.reports.demo_history import ANOMALY_NAME, generated_history

LAST = date(2026, 3, 4)
DEAR = LAST - timedelta(days=2)


@pytest.fixture(scope="module")
def ledger_url(tmp_path_factory: pytest.TempPathFactory) -> str:
    """A history with one dear day."""
    url = f"sqlite:///{tmp_path_factory.mktemp('ledger') / 'ledger.db'}"
    with Ledger.open(url) as ledger:
        ledger.import_records(generated_history(42, LAST, anomaly_on=DEAR))
    return url


def anomalies(ledger_url: str, *arguments: str) -> int:
    return main(["anomalies", "--ledger", ledger_url, "--with-generated", *arguments])


def test_an_anomaly_is_explained_and_is_exit_code_1(
    ledger_url: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert anomalies(ledger_url, "--date", DEAR.isoformat(), "--by", "total,team") == 1
    out = capsys.readouterr().out
    lines = out.splitlines()
    assert lines[0] == "2 anomalies, of which 2 new: 2026-03-02, UTC."
    assert "2026-03-02  Daily cost spike: expected $" in out
    assert "Hours per run of generated-finetune-7b/generated: " in out
    assert f"  Run {ANOMALY_NAME}: $544.00, " in out
    assert "  Recommended action: Set max_duration of generated-finetune-7b/generated to 3h" in out
    assert out.count("Recommended action") == 1, "the team's anomaly has the same runs: one line"


def test_a_day_as_expected_is_exit_code_0(
    ledger_url: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert anomalies(ledger_url, "--date", LAST.isoformat(), "--by", "total") == 0
    assert capsys.readouterr().out == "No anomalies detected: 2026-03-04, UTC.\n"


def test_a_ledger_without_measured_runs_is_not_called_free_of_anomalies(
    ledger_url: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["anomalies", "--ledger", ledger_url, "--date", DEAR.isoformat()]) == 0
    assert capsys.readouterr().out == (
        "No GPU usage found in the ledger up to 2026-03-02. "
        "Use --with-generated to include generated runs.\n"
    )


def test_json_adds_up(ledger_url: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert anomalies(ledger_url, "--date", DEAR.isoformat(), "--json") == 1
    document = json.loads(capsys.readouterr().out)
    assert {found["scope"] for found in document["anomalies"]} >= {"total", "GPU type a100-80gb"}
    for found in document["anomalies"]:
        excess = found["cost_micro_usd"] - found["expected_micro_usd"]
        why = found["why"]
        assert why["excess_micro_usd"] == excess
        assert sum(each["micro_usd"] for each in why["contributions"]) == excess
        for values in why["where"].values():
            assert sum(value["micro_usd"] for value in values) == excess
    assert {other["scope"] for other in document["others"]} >= {"team generated-vision"}


def test_a_short_history_is_said_and_is_no_anomaly(
    ledger_url: str, capsys: pytest.CaptureFixture[str]
) -> None:
    early = LAST - timedelta(days=40)
    assert anomalies(ledger_url, "--date", early.isoformat(), "--by", "total") == 0
    assert capsys.readouterr().out.splitlines() == [
        "No anomalies detected: 2026-01-23, UTC.",
        "Not evaluated because there is not enough history: total.",
    ]


def test_planned_days_of_the_policy_are_not_judged(
    ledger_url: str, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    policy = tmp_path / "policy.yaml"
    policy.write_text(
        "version: 1\ncalendar:\n  planned:\n"
        "    - {name: new model, first_day: 2026-03-01, last_day: 2026-03-03}\n"
    )
    day = ("--date", DEAR.isoformat(), "--policy", str(policy))
    assert anomalies(ledger_url, *day, "--by", "total") == 0
    assert "Not evaluated because of planned activity: total." in capsys.readouterr().out


def test_several_days_are_judged_up_to_yesterday(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    yesterday = datetime.now(UTC).date() - timedelta(days=1)
    dear = yesterday - timedelta(days=2)
    url = f"sqlite:///{tmp_path / 'ledger.db'}"
    with Ledger.open(url) as ledger:
        ledger.import_records(generated_history(42, yesterday, anomaly_on=dear))
    since = (yesterday - timedelta(days=4)).isoformat()
    assert anomalies(url, "--since", since, "--by", "total", "--json") == 1
    document = json.loads(capsys.readouterr().out)
    assert (document["first_day"], document["last_day"]) == (since, yesterday.isoformat())
    assert [found["day"] for found in document["anomalies"]] == [dear.isoformat()]


@pytest.mark.parametrize(
    ("arguments", "want"),
    [
        (("--date", "2026-13-01"), "--date is not a date (got '2026-13-01')"),
        (("--date", "2999-01-01"), "--date is in the future (got '2999-01-01')"),
        (("--since", "2026-03-01"), "--since is more than 31 days ago (got '2026-03-01')"),
        (("--since", "2026-03-01", "--date", "2026-03-01"), "--since cannot be used with --date"),
        (("--by", "temas"), "Did you mean 'team'?"),
        (("--policy", "missing.yaml"), "missing.yaml"),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, tuple) else None,
)
def test_what_cannot_be_used_is_one_sentence(
    capsys: pytest.CaptureFixture[str], arguments: tuple[str, ...], want: str
) -> None:
    assert main(["anomalies", "--ledger", "sqlite:///no-such-folder/x.db", *arguments]) == 2
    said = capsys.readouterr()
    assert (said.out, said.err.count("\n")) == ("", 1)
    assert want in said.err


def test_every_line_fits_a_terminal(
    ledger_url: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("sys.stdout.isatty", lambda: True, raising=False)
    monkeypatch.setenv("COLUMNS", "80")
    anomalies(ledger_url, "--date", DEAR.isoformat())
    lines = capsys.readouterr().out.splitlines()
    assert max(map(len, lines)) <= 80
    assert len(lines) > 15
