"""`prefect-gpu optimize ask`, as people call it, over a ledger on the disk."""

import json
from pathlib import Path

import pytest

from gpu_core.adapters.ledger import Ledger
from gpu_core.cli.main import main
from gpu_core.decisions.model.attempts import EndReason
from gpu_core.testing.builders.attempts import at, make_attempt, make_run


@pytest.fixture
def ledger_url(tmp_path: Path) -> str:
    """Twelve deployments, each with a run that costs a dollar more than the one before."""
    url = f"sqlite:///{tmp_path / 'ledger.db'}"
    records = [
        (
            make_run(f"run-{n}", deployment=f"train/{n:02}", team=None),
            [make_attempt(f"run-{n}", released_at=at(n), end_reason=EndReason.COMPLETED)],
        )
        for n in range(1, 12)
    ]
    with Ledger.open(url) as ledger:
        ledger.import_records(records)
    return url


def ask(ledger_url: str, *arguments: str) -> int:
    return main(["optimize", "ask", *arguments, "--ledger", ledger_url])


def test_the_answer_adds_up_and_says_its_origin(
    ledger_url: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert ask(ledger_url, "most expensive workloads 2026-03-04", "--limit", "2") == 0
    lines = [line.split() for line in capsys.readouterr().out.splitlines() if line.strip()]
    assert lines[0] == ["Most", "expensive", "workloads"]
    assert ["train/11", "$11.00"] in lines
    assert ["9", "others", "$45.00"] in lines
    assert ["all", "$66.00"] in lines
    assert lines[-1][:7] == ["From", "11", "attempts", "of", "11", "runs", "in"]


def test_json_has_money_in_micro_usd(ledger_url: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert ask(ledger_url, "most expensive runs 2026-03-04", "--json") == 0
    document = json.loads(capsys.readouterr().out)
    assert document["rows"][0] == {
        "key": "name-of-run-11", "amount": 11_000_000, "flow_run_id": "run-11",
    }  # fmt: skip
    assert document["total"] == sum(row["amount"] for row in document["rows"]) == 66_000_000
    assert (document["unit"], document["start"]) == ("micro_usd", "2026-03-04T00:00:00+00:00")
    assert "11 attempts of 11 runs in the ledger" in document["origin"]


def test_nothing_to_say_is_said(ledger_url: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert ask(ledger_url, "what did retries cost 2026-03-04") == 0
    assert capsys.readouterr().out.startswith("What did retries cost: no results found.\n")


def test_an_unknown_question_gets_the_nearest_ones(capsys: pytest.CaptureFixture[str]) -> None:
    assert ask("sqlite:///no-such-folder/x.db", "most expensive teem") == 2
    said = capsys.readouterr()
    assert (said.out, said.err.count("\n")) == ("", 1)
    assert "'most expensive " in said.err
    assert "For all questions, see docs/questions.md." in said.err


def test_who_borrows_is_asked_with_the_policy_that_has_the_quotas(
    ledger_url: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    policy = tmp_path / "policy.yaml"
    policy.write_text("version: 1\nquotas: {teams: {vision: {nominal_quota: {'*': 1}}}}\n")
    assert ask(ledger_url, "who borrows 2026-03-04", "--policy", str(policy)) == 0
    assert "66.00 GPU-hours" in capsys.readouterr().out
    assert ask(ledger_url, "who borrows 2026-03-04") == 2
    assert "a different policy with --policy" in capsys.readouterr().err
