"""`prefect-gpu catalog`, as people call it."""

import json
from collections import Counter
from pathlib import Path

import pytest

from gpu_core.adapters.aws.catalog import Failure, Look, PlacementScore
from gpu_core.cli.main import main
from gpu_core.decisions.catalog.offerings import OfferingKey
from gpu_core.decisions.catalog.refresh import CoveredPlaces, Observation
from gpu_core.testing.builders.catalog import make_catalog, make_key, make_row, make_sheet

FOUND = make_catalog(p9_large=make_row(10.0, {"a": 3.0}))
FAILURE = Failure(part="spot prices", problem="refused", tried="ec2:X", remedy="allow it")


def make_look(prices: dict[OfferingKey, int]) -> Look:
    scope = CoveredPlaces(provider="aws", region="us-east-1", capacity_type="on-demand")
    return Look(
        observation=Observation(
            instance_types=FOUND.instance_types,
            micro_usd_per_hour=prices,
            scopes=(scope,) if prices else (),
            source="a test",
        ),
        placement_scores=(
            PlacementScore(region="us-east-1", zone="a", gpu_type="a100-80gb", score=7),
        ),
        failures=(FAILURE,),
    )


@pytest.fixture
def catalog_path(tmp_path: Path) -> Path:
    path = tmp_path / "catalog.json"
    path.write_text(json.dumps(make_sheet(p9_large=make_row(10.0, {"a": 3.0, "b": 10.0}))))
    return path


def refresh(
    monkeypatch: pytest.MonkeyPatch, path: Path, prices: dict[OfferingKey, int], *more: str
) -> int:
    monkeypatch.setattr(
        "gpu_core.cli.catalog.command.look_at_aws", lambda *_, **__: make_look(prices)
    )
    return main(["catalog", "refresh", "--catalog", str(path), *more])


def test_show_lists_what_can_be_had(catalog_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["catalog", "show", "--all", "--catalog", str(catalog_path)]) == 0
    printed = capsys.readouterr().out
    assert "none there" in printed
    assert "$1.25" in printed
    assert "aws: a test" in printed


def on_terminal(monkeypatch: pytest.MonkeyPatch, columns: int) -> None:
    monkeypatch.setenv("COLUMNS", str(columns))
    monkeypatch.setenv("TERM", "dumb")  # without styles
    monkeypatch.setattr("sys.stdout.isatty", lambda: True)


def test_all_offerings_are_whole_in_80_columns(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of the catalog that is installed: a cell wraps between words, and no number is cut."""
    on_terminal(monkeypatch, 80)
    assert main(["catalog", "show", "--all"]) == 0
    printed = capsys.readouterr().out
    assert main(["catalog", "show", "--all", "--json"]) == 0
    offerings = json.loads(capsys.readouterr().out)["offerings"]
    assert len(offerings) > 100
    assert max(map(len, printed.splitlines())) <= 80
    assert "…" not in printed
    words = Counter(printed.split())
    want = Counter(
        word
        for offering in offerings
        for word in (offering["instance_type"], offering["seen_until"][:10])
    )
    assert not want - words


def test_show_has_a_row_for_each_gpu_type_with_its_lowest_prices(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    memory = make_row(4.0, None, "h100-80gb")
    memory["prices"][0]["from_memory"] = True
    sheet = make_sheet(
        p9_large=make_row(10.0, {"a": 3.0, "b": 4.0}),
        p9_huge=make_row(9.0, None),
        h9_large=memory,
    )
    path = tmp_path / "catalog.json"
    path.write_text(json.dumps(sheet))
    assert main(["catalog", "show", "--catalog", str(path)]) == 0
    lines = [line.split() for line in capsys.readouterr().out.splitlines()]
    assert [line for line in lines if line[:1] == ["a100-80gb"]] == [
        ["a100-80gb", "80", "$1.12", "$0.3750", "p9.large", "a", "spot"]
    ]
    assert [line for line in lines if line[:1] == ["h100-80gb"]] == [
        ["h100-80gb", "80", "–", "–", "–"]
    ]


def test_show_as_json_has_every_figure_with_its_unit_and_date(
    catalog_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    arguments = ["catalog", "show", "--catalog", str(catalog_path), "--capacity-type", "spot"]
    assert main([*arguments, "--json"]) == 0
    document = json.loads(capsys.readouterr().out)
    assert [gpu["gpu_type"] for gpu in document["gpu_types"]] == ["a100-80gb"]
    assert document["gpu_types"][0]["dense_tflops"]["bf16"] == 312
    first, second = document["offerings"]
    assert (first["zone"], first["price_usd_per_gpu_hour"]) == ("a", 0.375)
    assert first["seen_until"] == "2026-09-01T00:00:00+00:00"
    assert (first["is_available"], second["is_available"]) == (True, False)


def test_show_says_which_prices_are_unknown_or_of_an_unknown_day(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    row = make_row(10.0)
    row["prices"][0]["from_memory"] = True
    other = make_row(9.0)
    other["prices"][0]["as_of_is_earliest"] = True
    path = tmp_path / "catalog.json"
    path.write_text(json.dumps(make_sheet(p9_large=row, q9_large=other)))
    assert main(["catalog", "show", "--all", "--catalog", str(path)]) == 0
    printed = capsys.readouterr().out
    assert "unknown" in printed
    assert "$10.00 from memory" in printed
    assert "≥ 2026-09-01" in printed
    assert "No spot price found in the catalog for q9.large." in printed
    assert main(["catalog", "show", "--catalog", str(path), "--json"]) == 0
    document = json.loads(capsys.readouterr().out)
    assert document["instance_types_without_spot_price"] == ["q9.large"]
    rows = {row["instance_type"]: row for row in document["offerings"]}
    assert (rows["p9.large"]["price_usd_per_hour"], rows["p9.large"]["source"]) == (None, None)
    assert (rows["q9.large"]["source"], rows["q9.large"]["is_date_exact"]) == ("a test", False)


@pytest.mark.parametrize(
    ("columns", "wants_place"),
    [pytest.param(40, False, id="narrow"), pytest.param(80, True, id="80 columns")],
)
def test_words_stay_whole_in_any_terminal(
    catalog_path: Path,
    columns: int,
    wants_place: bool,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    on_terminal(monkeypatch, columns)
    assert main(["catalog", "show", "--catalog", str(catalog_path)]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert max(map(len, lines)) <= columns
    row = next(line for line in lines if line.strip().startswith("a100-80gb"))
    assert "$0.3750" in row
    assert ("p9.large" in row) is wants_place


def test_a_wrong_name_is_2_with_one_line(
    catalog_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    arguments = ["catalog", "show", "--catalog", str(catalog_path), "--gpu-type", "a100"]
    assert main(arguments) == 2
    error = capsys.readouterr().err
    assert error.startswith(
        "prefect-gpu catalog show: --gpu-type is not in the catalog (got 'a100')"
    )
    assert error.count("\n") == 1


def test_refresh_keeps_what_was_found_and_reports_what_was_not(
    catalog_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    prices = {make_key("p9.large"): 9_000_000}
    assert refresh(monkeypatch, catalog_path, prices, "--json") == 0
    printed = capsys.readouterr()
    assert "spot prices: refused. The call was ec2:X. Allow it." in printed.err
    document = json.loads(printed.out)
    assert document["changes"][0]["after_usd_per_hour"] == 9.0
    assert document["placement_scores"][0]["score"] == 7
    kept = json.loads(catalog_path.read_text())["instance_types"]["p9.large"]["prices"]
    assert [row["usd_per_hour"] for row in kept] == [10.0, 9.0, 3.0, 10.0]


def test_refresh_shows_its_changes(
    catalog_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    assert refresh(monkeypatch, catalog_path, {make_key("p9.large"): 9_000_000}) == 0
    printed = capsys.readouterr().out
    assert "$10.00" in printed
    assert "Spot placement scores" in printed


def test_nonsense_leaves_the_file_as_it_was(
    catalog_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    before = catalog_path.read_text()
    prices = {make_key("p9.large"): 100_000_000}
    assert refresh(monkeypatch, catalog_path, prices) == 2
    assert "moved from $10.00 to $100.00" in capsys.readouterr().err
    assert catalog_path.read_text() == before
    assert refresh(monkeypatch, catalog_path, prices, "--accept-large-changes") == 0


def test_no_time_for_an_answer_is_wrong_input(
    catalog_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    assert refresh(monkeypatch, catalog_path, {}, "--timeout", "0s") == 2
    assert "timeout is too small (got '0s')" in capsys.readouterr().err


def test_nothing_found_is_1_and_leaves_the_file_as_it_was(
    catalog_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    before = catalog_path.read_text()
    assert refresh(monkeypatch, catalog_path, {}) == 1
    assert catalog_path.read_text() == before
