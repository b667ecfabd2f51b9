"""`prefect-gpu spot-replay`: a table for people, JSON for machines, one line for wrong input."""

import json
from pathlib import Path

import pytest

from gpu_core.adapters.ledger import Ledger
from gpu_core.cli.main import main
from gpu_core.decisions.model.attempts import EndReason
from gpu_core.testing.builders.attempts import admit, at, make_attempt


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
        pytest.param(["--policy", "gredy"], "Did you mean 'greedy'", id="policy"),
        pytest.param(["--price-ratio", "0"], "price-ratio is out of range", id="price ratio"),
        pytest.param(["--price-ratio", "nan"], "price-ratio is out of range", id="no number"),
        pytest.param(["--deadline-hours", "6.1"], "deadline-hours cannot be met", id="deadline"),
        pytest.param(["--changeover-hours", "-1"], "changeover-hours", id="changeover"),
        pytest.param(["--starts", "0"], "starts is out of range", id="starts"),
        pytest.param(["--ticks", "0"], "ticks is too small", id="ticks"),
        pytest.param(["--nodes", "0"], "nodes is out of range", id="no nodes"),
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


@pytest.fixture
def ledger(tmp_path: Path) -> Path:
    """Two hours on spot, interrupted, then four on on-demand while zone b had spot for three."""
    path = tmp_path / "ledger.db"
    a, b = {"capacity_type": "spot", "zone": "a"}, {"capacity_type": "spot", "zone": "b"}
    interrupted = {"end_reason": EndReason.INTERRUPTED}
    dear = {"price_micro_usd_per_gpu_hour": 3_000_000, "end_reason": EndReason.COMPLETED}
    runs = {
        "mixed": [(0, 2, {**a, **interrupted, "checkpointed_at": at(2)}), (2, 6, dear)],
        "other": [(3, 6, {**b, **interrupted})],
        "steady": [(0, 1, dear)],
    }
    with Ledger.open(f"sqlite:///{path}") as opened:
        for run_id, attempts in runs.items():
            for number, (start_h, end_h, fields) in enumerate(attempts, start=1):
                moments = {"admitted_at": at(start_h), "released_at": at(end_h)}
                admit(opened, make_attempt(run_id, number, **moments, **fields))
            if run_id != "other":
                opened.finish_run(run_id, "Completed")
    return path


def test_the_best_possible_for_a_ledgers_runs(
    ledger: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Spot for 2 and 3 hours and on-demand for one would have cost 8 USD instead of 14."""
    assert main(["spot-replay", "--ledger", str(ledger), "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    (run,) = found["runs"]
    assert (run["flow_run_id"], run["paid_usd"]) == ("mixed", 14)
    assert run["best_usd"] == found["best_usd"] == pytest.approx(8, rel=0.01)
    assert run["by_best"] == pytest.approx(14 / 8, rel=0.01)
    assert found["left_out"] == {"NOT_ENDED": 1, "NO_SPOT": 1}
    assert main(["spot-replay", "--ledger", str(ledger)]) == 0
    out = capsys.readouterr().out
    assert "1.75" in out
    assert "1 excluded: it is still running" in out


def test_a_task_on_a_ledgers_own_spot(ledger: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Each zone that was tried is a trace."""
    task = ["--task-hours", "2", "--deadline-hours", "3", "--price-ratio", "3", "--starts", "4"]
    assert main(["spot-replay", "--ledger", str(ledger), *task, "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert {result["replays"] for result in found["results"]} == {8}
    assert {result["misses"] for result in found["results"]} == {0}


@pytest.mark.parametrize(
    ("arguments", "want_message"),
    [
        pytest.param([], "FILE is required, or --ledger", id="neither"),
        pytest.param(["trace.json"], "task-hours is missing", id="no task"),
        pytest.param(["trace.json", "--ledger", "ledger.db"], "are alternatives", id="both"),
        pytest.param(["--ledger", "none.db"], "is not a file", id="no ledger"),
    ],
)
def test_what_is_replayed_must_be_said(
    arguments: list[str], want_message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """One line, and exit code 2."""
    assert main(["spot-replay", *arguments]) == 2
    assert want_message in capsys.readouterr().err
