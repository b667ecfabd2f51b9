"""`prefect-gpu spot-replay`: a table for people, JSON for machines, one line for wrong input."""

import json
from pathlib import Path

import pytest

from gpu_core.cli.main import main


@pytest.fixture
def trace(tmp_path: Path) -> Path:
    """A day in which spot is there every other three hours."""
    path = tmp_path / "zone.json"
    data = [int(tick // 18 % 2 == 0) for tick in range(144)]
    path.write_text(json.dumps({"metadata": {"gap_seconds": 600}, "data": data}))
    return path


def arguments(trace: Path, *more: str) -> list[str]:
    task = ["--task-hours", "6", "--deadline-hours", "8", "--changeover-hours", "0.2"]
    return ["spot-replay", str(trace), *task, "--price-ratio", "3", "--starts", "5", *more]


def test_json_has_every_strategy_and_the_optimum(
    trace: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """All strategies by default; none misses, none is better than hindsight."""
    assert main(arguments(trace, "--json")) == 0
    found = json.loads(capsys.readouterr().out)
    names = [result["strategy"] for result in found["results"]]
    assert names == ["patience", "uniform-progress", "plain-uniform-progress", "greedy"]
    for result in found["results"]:
        assert result["replays"] == 5
        assert result["misses"] == 0
        assert result["on_demand_h"] + result["spot_h"] == pytest.approx(6)
        assert result["cost_by_optimum"] >= 1


def test_the_same_seed_gives_the_same_numbers(
    trace: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Another one does not."""
    printed = []
    for seed in ("1", "1", "2"):
        assert main(arguments(trace, "--json", "--seed", seed)) == 0
        printed.append(capsys.readouterr().out)
    assert printed[0] == printed[1] != printed[2]


def test_a_table_for_people(trace: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A column for each strategy that was asked for, and the optimum's."""
    assert main(arguments(trace, "--policy", "greedy", "--policy", "patience")) == 0
    out = capsys.readouterr().out
    assert "greedy" in out
    assert "patience" in out
    assert "uniform" not in out
    assert "hindsight" in out
    assert "0 of 5" in out


def test_only_the_first_ticks(trace: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """They must be more than one replay needs."""
    assert main(arguments(trace, "--ticks", "49", "--json")) == 0
    capsys.readouterr()
    assert main(arguments(trace, "--ticks", "48")) == 2
    assert "is longer than zone" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("more", "want_message"),
    [
        pytest.param(["--policy", "gredy"], "did you mean 'greedy'", id="policy"),
        pytest.param(["--price-ratio", "0"], "price-ratio is out of range", id="price ratio"),
        pytest.param(["--price-ratio", "nan"], "price-ratio is out of range", id="no number"),
        pytest.param(["--deadline-hours", "6.1"], "deadline-hours cannot be met", id="deadline"),
        pytest.param(["--changeover-hours", "-1"], "changeover-hours", id="changeover"),
        pytest.param(["--starts", "0"], "starts is too small", id="starts"),
        pytest.param(["--ticks", "0"], "ticks is too small", id="ticks"),
        pytest.param(["--nodes", "0"], "nodes is too small", id="no nodes"),
        pytest.param(["--nodes", "2"], "nodes are more than zone ever has", id="too many nodes"),
    ],
)
def test_wrong_input_is_one_line_and_exits_with_2(
    trace: Path, capsys: pytest.CaptureFixture[str], more: list[str], want_message: str
) -> None:
    """The field, what came, what would be accepted."""
    assert main(arguments(trace, *more)) == 2
    error = capsys.readouterr().err
    assert want_message in error
    assert error.count("\n") == 1
