"""`prefect-gpu optimize`, run as people run it, over a ledger on the disk."""

import json
from datetime import date

import pytest

from gpu_core.adapters.ledger import Ledger
from gpu_core.cli.main import main
from gpu_core.decisions.costs.reports.demo_history import generated_history


@pytest.fixture(scope="module")
def asked(tmp_path_factory: pytest.TempPathFactory) -> list[str]:
    """The ledger of two generated months, as options. The commands only read it."""
    file = tmp_path_factory.mktemp("months") / "ledger.db"
    with Ledger.open(f"sqlite:///{file}") as ledger:
        ledger.import_records(generated_history(56, date(2026, 11, 24)))
    return ["--ledger", str(file), "--day", "2026-11-25"]


def test_a_list_names_the_dearest_deployment_and_each_saving_with_its_interval(
    asked: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["optimize", *asked, "--with-generated"]) == 0
    said = capsys.readouterr().out
    for text in ("generated-finetune-7b/generated", "capacity_type: spot", "%", "The replay of"):
        assert text in said


def test_json_has_what_the_list_has_and_show_explains_one(
    asked: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["optimize", *asked, "--with-generated", "--json"]) == 0
    document = json.loads(capsys.readouterr().out)
    assert document["calibration"]["is_close"]
    name = document["proposals"][0]["proposal_id"]
    assert main(["optimize", "show", name, *asked, "--with-generated"]) == 0
    said = capsys.readouterr().out
    for part in (
        "Saving: $",
        "Risk: ",
        "Period: 2026-10-28 to 2026-11-24",
        f"undo {name}",
        f"proposal_id={name} --param dry_run=false",
    ):
        assert part in said
    assert main(["optimize", "show", name, *asked, "--with-generated", "--json"]) == 0
    assert json.loads(capsys.readouterr().out) == document["proposals"][0]


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        pytest.param(["show", "spot-00000000"], "was not found in this period", id="no such id"),
        pytest.param(["--day", "yesterday"], "day is not a date", id="a day that is none"),
    ],
)
def test_bad_input_is_one_line(
    asked: list[str], arguments: list[str], said: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["optimize", *arguments[:2], *asked[: 2 if "--day" in arguments else 4]]) == 2
    error = capsys.readouterr().err
    assert said in error
    assert error.count("\n") == 1


def test_generated_runs_count_only_when_asked(
    asked: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["optimize", *asked, "--json"]) == 0
    document = json.loads(capsys.readouterr().out)
    assert (document["proposals"], document["analysis"]["workloads"]) == ([], [])
