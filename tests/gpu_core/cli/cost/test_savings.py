"""`prefect-gpu cost savings`, run as people run it, over a ledger on the disk."""

import json
from pathlib import Path

import pytest
from prefect.settings import PREFECT_API_URL, temporary_settings

from gpu_core.adapters.ledger import Ledger
from gpu_core.cli.main import main
from tests.gpu_core.adapters.ledger.test_capacity import write
from tests.gpu_core.decisions.costs.savings.test_month_savings import TWO_AND_SPOT, machine


@pytest.fixture
def ledger_url(tmp_path: Path) -> str:
    """Machines that came at noon of 4 March 2026, the first of this ledger."""
    url = f"sqlite:///{tmp_path / 'ledger.db'}"
    with Ledger.open(url) as ledger:
        write(ledger, *TWO_AND_SPOT, machine("d", 0, 2, None, gpu_type="a10g", gpus=1))
    return url


def savings(ledger_url: str, *arguments: str) -> int:
    return main(["cost", "savings", "--month", "2026-03", "--ledger", ledger_url, *arguments])


def test_json_adds_up_and_has_null_for_what_is_unknown(
    ledger_url: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert savings(ledger_url, "--json") == 0
    document = json.loads(capsys.readouterr().out)
    assert document["start"] == "2026-03-04T12:00:00+00:00", "not before the first machine"
    assert document["cost_micro_usd"] == 530_000_000
    assert document["spot"]["saved_micro_usd"] == 110_000_000
    clusters = {each["cluster"]: each for each in document["fixed_clusters"]}
    assert clusters["cap"]["cost_micro_usd"] is None
    assert clusters["committed"]["cost_micro_usd"] is None
    peak = clusters["peak"]
    hours = 27 * 24 + 12  # of March from then on
    assert peak["cost_micro_usd"] == 3 * 16_000_000 * hours
    parts = peak["elasticity_micro_usd"] + peak["spot_micro_usd"]
    assert document["cost_micro_usd"] + parts == peak["cost_micro_usd"]
    (unpriced,) = document["unpriced"]
    assert (unpriced["gpu_type"], unpriced["gpu_hours"]) == ("a10g", 2.0)


def test_the_tables_say_what_was_saved_and_what_is_missing(
    ledger_url: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert savings(ledger_url) == 0
    reported = capsys.readouterr()
    rows = [line.split("│") for line in reported.out.splitlines() if "│" in line]
    lines = {row[1].strip(): row[2:] for row in rows}
    assert lines["saved by spot"][0].strip() == "-$110.00"
    assert lines["paid"][0].strip() == "$530.00"
    assert "peak: 24 GPUs" in reported.out
    assert lines["the cluster"][0].strip() == "$31,680.00"
    assert lines["elasticity"][0].strip() == "-$31,040.00"
    assert lines["spot"][0].strip() == "-$110.00"
    assert "2.00 GPU-hours of 1 × a10g are excluded from all totals" in reported.err
    assert "set `scale.max_gpus` in the policy" in reported.err


def test_a_policy_adds_its_cap_and_a_percentage_the_commitment(
    ledger_url: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    policy = tmp_path / "policy.yaml"
    policy.write_text("version: 1\nscale: {max_gpus: 48}\n")
    arguments = ["--policy", str(policy), "--committed-percent", "60", "--json"]
    assert savings(ledger_url, *arguments) == 0
    clusters = {c["cluster"]: c for c in json.loads(capsys.readouterr().out)["fixed_clusters"]}
    assert clusters["cap"]["cost_micro_usd"] == 2 * clusters["peak"]["cost_micro_usd"]
    committed = clusters["committed"]["cost_micro_usd"]
    assert committed * 100 == 60 * clusters["peak"]["cost_micro_usd"]


def test_an_own_price_sheet_has_the_price_of_a_commitment(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """$10 an hour reserved, of $16 on demand, for a machine that was there all the time."""
    url = f"sqlite:///{tmp_path / 'ledger.db'}"
    with Ledger.open(url) as ledger:
        write(ledger, machine("a", 0, 720, 16, instance_type="p4de.24xlarge", region="r1"))
    sheet = tmp_path / "prices.yaml"
    sheet.write_text(
        "{version: 1, provider: ours, source: contract, as_of: 2026-01-01, instance_types: "
        "{p4de.24xlarge: {gpu_type: a100-80gb, gpu_count: 8, prices: "
        "[{region: r1, capacity_type: reserved, usd_per_hour: 10}]}}}"
    )
    assert savings(url, "--prices", str(sheet), "--json") == 0
    (commitment,) = json.loads(capsys.readouterr().out)["commitments"]
    assert (commitment["price_ratio"], commitment["machines"]) == (0.625, 1)
    assert commitment["saved_micro_usd"] == 6_000_000 * (27 * 24 + 12)


@pytest.mark.parametrize(
    ("arguments", "want"),
    [
        pytest.param(["--month", "2026-13"], "month is not a month (got '2026-13')", id="month"),
        pytest.param(["--committed-percent", "120"], "Allowed: 0 to 100", id="percentage"),
        pytest.param(["--policy", "polcy.yaml"], "polcy.yaml", id="policy"),
    ],
)
def test_what_is_typed_wrong_is_named_before_a_server_is_asked(
    capsys: pytest.CaptureFixture[str], arguments: list[str], want: str
) -> None:
    with temporary_settings({PREFECT_API_URL: "http://127.0.0.1:9/api"}):
        assert main(["cost", "savings", *arguments]) == 2
    (line,) = capsys.readouterr().err.splitlines()
    assert want in line


def test_a_month_before_the_first_machine_is_unknown_and_not_free(
    ledger_url: str, capsys: pytest.CaptureFixture[str]
) -> None:
    asked = ["cost", "savings", "--month", "2026-02", "--ledger", ledger_url]
    assert main([*asked, "--json"]) == 0
    document = json.loads(capsys.readouterr().out)
    clusters = {each["cluster"]: each["cost_micro_usd"] for each in document["fixed_clusters"]}
    assert (document["cost_micro_usd"], document["spot"]) == (None, None)
    assert clusters == dict.fromkeys(("peak", "cap", "committed"))
    assert main(asked) == 0
    assert "No machines found in the ledger for this month" in " ".join(
        capsys.readouterr().out.split()
    )


def test_savings_of_an_empty_ledger_are_unknown(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    url = f"sqlite:///{tmp_path / 'ledger.db'}"
    Ledger.open(url).close()
    assert savings(url, "--json") == 0
    document = json.loads(capsys.readouterr().out)
    assert (document["cost_micro_usd"], document["fixed_clusters"][0]["cost_micro_usd"]) == (
        None,
        None,
    )
