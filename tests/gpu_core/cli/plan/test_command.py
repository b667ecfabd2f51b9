"""`prefect-gpu plan`, as people call it."""

import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from gpu_core.adapters.ledger import Ledger
from gpu_core.cli.main import main
from gpu_core.decisions.model.attempts import EndReason
from gpu_core.testing.builders.attempts import admit, at, make_attempt
from gpu_core.testing.builders.catalog import make_row, make_sheet

Plan = Callable[..., int]


@pytest.fixture
def plan(tmp_path: Path) -> Plan:
    """The command on a catalog of two instance types."""
    path = tmp_path / "catalog.json"
    sheet = make_sheet(
        a100_8x=make_row(20.0, {"a": 8.0}, "a100-80gb"),
        t4_1x=make_row(0.5, None, "t4", gpu_count=1),
    )
    path.write_text(json.dumps(sheet))

    def run(*arguments: str) -> int:
        return main(["plan", *arguments, "--catalog", str(path)])

    return run


def document(capsys: pytest.CaptureFixture[str]) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(capsys.readouterr().out)
    return found


def test_a_line_of_text_is_enough(plan: Plan, capsys: pytest.CaptureFixture[str]) -> None:
    assert plan("fine-tune a 7B model with LoRA") == 0
    printed = capsys.readouterr().out
    assert "Recognized: a model with 7B parameters; LoRA fine-tuning" in printed
    assert "Assumed: bf16 precision" in printed
    assert "2 B x 7B parameters" in printed
    assert "NoFastUnits: aws t4.1x us-east-1 on-demand: does not support bf16" in printed
    take, time, cost = printed.splitlines()[:3]
    assert take == "Take   aws a100.8x (8 × a100-80gb), spot, us-east-1 a"
    assert re.fullmatch(r"Time   .+ \(.+ to .+\), done by 20.+ UTC", time)
    assert re.fullmatch(r"Cost   \$.+ \(\$.+ to \$.+\), price of 2026-09-01, \d+ days old", cost)
    assert "Bottleneck: " in printed
    assert "Speed: built-in estimate." in printed


def test_a_number_without_effect_is_shown(plan: Plan, capsys: pytest.CaptureFixture[str]) -> None:
    assert plan("LoRA of a 7B on 1M tokens in 3 languages") == 0
    assert "Ignored: 'in 3 languages'" in capsys.readouterr().out


@pytest.mark.parametrize("columns", [40, 80, 120])
def test_words_stay_whole_in_any_terminal(
    plan: Plan, columns: int, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", str(columns))
    monkeypatch.setattr("sys.stdout.isatty", lambda: True)
    assert plan("fine-tune a 7B model with LoRA", "--deadline", "90d") == 0
    lines = re.sub(r"\x1b\[[0-9;]*m", "", capsys.readouterr().out).splitlines()
    assert max(map(len, lines)) <= columns
    assert not any("…" in line for line in lines)
    assert any(line.strip().startswith("a100.8x spot") for line in lines)
    if columns >= 80:
        row = next(line for line in lines if line.strip().startswith("a100.8x spot"))
        assert row.rstrip().endswith("safe")


def test_what_is_not_known_of_prices_is_said(
    plan: Plan, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    own = make_row(0.5)
    own["prices"][0]["from_memory"] = True
    sheet = tmp_path / "own.json"
    sheet.write_text(json.dumps(make_sheet(b_8x=make_row(9.0), c_8x=own)))
    assert plan("fine-tune a 7B model with LoRA", "--prices", str(sheet)) == 0
    printed = capsys.readouterr().out
    assert (
        "UnknownPrice: aws c.8x us-east-1 on-demand: the price ($0.5000 per hour) does" in printed
    )
    assert "No spot price found in the catalog for b.8x." in printed
    assert plan("fine-tune a 7B model with LoRA", "--prices", str(sheet), "--json") == 0
    found = document(capsys)
    assert found["types_without_spot_price"] == ["b.8x"]
    first = found["candidates"][0]
    assert (first["price_source"], first["is_price_age_known"]) == ("a test", True)


def test_json_has_every_figure(plan: Plan, capsys: pytest.CaptureFixture[str]) -> None:
    arguments = ["--model", "llama-3-8b", "--method", "full", "--amount", "1B", "--json"]
    assert plan(*arguments, "--data-gib", "100", "--data-at", "aws/us-west-2") == 0
    found = document(capsys)
    first, second = found["candidates"]
    assert found["feasible"] is True
    assert (first["capacity_type"], second["capacity_type"]) == ("spot", "on-demand")
    assert first["memory_bytes_per_gpu"] == sum(t["bytes"] for t in first["memory_terms"])
    assert first["wall_low_s"] < first["wall_s"] < first["wall_high_s"]
    assert first["cost_usd"] == pytest.approx(first["compute_usd"])
    # The sheet of this test has no price for moving data: unknown is null, and not in the total.
    assert first["transfer_usd"] is None
    assert {r["reason"] for r in found["refused"]} == {"NoFastUnits"}


def test_what_cannot_be_done_is_1_with_the_nearest_that_can(
    plan: Plan, capsys: pytest.CaptureFixture[str]
) -> None:
    assert plan("pretrain a 7B model on 1B tokens", "--deadline", "1h") == 1
    printed = capsys.readouterr().out
    assert "No offering can complete the work by" in printed
    assert "The fastest offering is aws a100.8x us-east-1 on-demand" in printed
    assert plan("pretrain a 7B model on 1B tokens", "--budget-usd", "5", "--json") == 1
    found = document(capsys)
    assert found["candidates"] == []
    assert found["cheapest_in_time"]["cost_usd"] > 5


def test_what_needs_no_gpu_is_said(plan: Plan, capsys: pytest.CaptureFixture[str]) -> None:
    assert plan("monthly SQL report") == 0
    assert "GPU: not required" in capsys.readouterr().out
    assert plan("monthly SQL report", "--json") == 0
    assert document(capsys)["needs_gpu"] is False


def test_all_options_reach_the_decision(
    plan: Plan, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    own = tmp_path / "own.yaml"
    own.write_text(
        "version: 1\nprovider: cellar\nsource: ours\nas_of: 2026-11-01\ninstance_types:\n"
        "  dgx:\n    gpu_type: a100-80gb\n    gpu_count: 8\n    prices:\n"
        "      - {region: here, capacity_type: reserved, usd_per_hour: 6.5}\n"
    )
    code = plan(
        *("train it", "--parameters", "1.3B", "--method", "full", "--amount", "26B"),
        *("--precision", "bf16", "--optimizer", "adamw-8bit", "--zero-stage", "2"),
        *(
            "--recompute",
            "full",
            "--batch",
            "4",
            "--accumulation",
            "2",
            "--sequence-length",
            "1024",
            "--by",
            "time",
        ),
        *("--max-nodes", "2", "--startup", "10m", "--spot-life", "1h", "--storage-gb-per-s", "2"),
        *("--observed", "a100-80gb:8:60000,62000", "--prices", str(own), "--provider", "cellar"),
        *("--capacity-type", "reserved", "--json"),
    )
    assert code == 0
    (candidate,) = document(capsys)["candidates"]
    assert candidate["instance_type"] == "dgx"
    assert (candidate["zero_stage"], candidate["recompute"]) == (2, "full")
    assert (candidate["basis"], candidate["storage_usd"]) == ("observed", None)
    # On demand or reserved: 61,000 tokens per second, 10 minutes to start, and the weights.
    assert candidate["wall_s"] == pytest.approx(26e9 / 61_000 + 600 + 1.3, rel=0.001)


@pytest.fixture
def ledger(tmp_path: Path) -> str:
    """Two runs of `train/gpu` that took 100 and 125 minutes on eight A100s."""
    path = tmp_path / "ledger.db"
    with Ledger.open(f"sqlite:///{path}") as opened:
        for number, minutes in enumerate((100, 125)):
            admit(
                opened,
                make_attempt(
                    str(number),
                    gpu_type="a100-80gb",
                    gpu_ids=tuple("01234567"),
                    released_at=at(minutes / 60),
                    end_reason=EndReason.COMPLETED,
                ),
            )
    return str(path)


def test_the_speed_is_learned_from_a_deployments_runs(
    plan: Plan, ledger: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """600M tokens in 100 and 125 min are 100,000 and 80,000 a second; the median is their mean."""
    past = ["--ledger", ledger, "--deployment", "train/gpu"]
    job = ["--model", "llama-3-8b", "--method", "lora", "--gpu-type", "a100-80gb"]
    assert plan(*job, "--amount", "600M", *past, "--json") == 0
    found = document(capsys)
    assert found["learned_from"] == {
        "deployment": "train/gpu",
        "runs": 2,
        "gpu_type": "a100-80gb",
        "gpus": 8,
        "units_per_s": [100_000, 80_000],
    }
    candidate = next(c for c in found["candidates"] if c["capacity_type"] == "on-demand")
    assert candidate["basis"] == "observed"
    median_s = candidate["work_s"]
    assert median_s == pytest.approx(600e6 / 90_000)
    # Another amount takes longer in proportion, where it is said what each run did.
    assert plan(*job, "--amount", "1.2B", "--amount-each", "600M", *past, "--json") == 0
    twice = document(capsys)["candidates"]
    assert next(c for c in twice if c["capacity_type"] == "on-demand")["work_s"] == pytest.approx(
        2 * median_s
    )
    assert plan(*job, "--amount", "600M", *past) == 0
    want = "Learned: 2 runs of train/gpu on 8 × a100-80gb: 80k to 100k tokens per second"
    assert want in capsys.readouterr().out


@pytest.mark.parametrize(
    ("arguments", "want_message"),
    [
        pytest.param(
            ["--deployment", "train/gpu"], "deployment cannot be used on its own", id="alone"
        ),
        pytest.param(["--amount-each", "1M"], "amount-each cannot be used on its own", id="each"),
        pytest.param(
            ["--deployment", "train/gpu", "--observed", "t4:1:5"], "alternatives", id="both"
        ),
        pytest.param(["--deployment", "train/cpu"], "Did you mean 'train/gpu'", id="misspelled"),
    ],
)
def test_a_history_that_cannot_be_used(
    plan: Plan,
    ledger: str,
    arguments: list[str],
    want_message: str,
    capsys: pytest.CaptureFixture[str],
) -> None:
    is_alone = "on its own" in want_message
    assert plan("train a 7B model", *arguments, *([] if is_alone else ["--ledger", ledger])) == 2
    assert want_message in capsys.readouterr().err


@pytest.mark.parametrize(
    ("arguments", "want_message"),
    [
        pytest.param([], "model is missing. Allowed: a model such as", id="nothing at all"),
        pytest.param(["make coffee"], "text names no model, size or task", id="no job"),
        pytest.param(
            ["train a 7B model", "--deadline", "2020-01-01T00:00Z"],
            "deadline is in the past",
            id="a deadline in the past",
        ),
        pytest.param(
            ["train a 7B model", "--deadline", "soon"], "deadline is not", id="no deadline"
        ),
        pytest.param(
            ["train a 7B model", "--budget-usd", "0"], "budget buys nothing", id="no budget"
        ),
        pytest.param(
            ["train a 7B model", "--budget-usd", "much"],
            "budget-usd is not an amount in USD",
            id="no amount",
        ),
        pytest.param(
            ["train a 9000B model"], "model fits on no offering", id="a model that no GPU holds"
        ),
        pytest.param(
            ["train a 7B model", "--gpu-type", "a100"],
            "gpu-type is not in the catalog (got 'a100')",
            id="an unknown GPU type",
        ),
        pytest.param(
            ["--gpus", "0"], "gpus is too small (got 0). Allowed: 1 or more", id="0 GPUs, no job"
        ),
        pytest.param(
            ["--gpu-type", "a1000"],
            "gpu-type is not in the catalog (got 'a1000'). Did you mean 'a100-80gb'? Allowed: "
            "a100-80gb, t4",
            id="an unknown GPU type, no job",
        ),
        pytest.param(
            ["--storage-gb-per-s", "0"], "storage-gb-per-s is out of range", id="no speed, no job"
        ),
        pytest.param(["train a 7B model", "--top", "0"], "top is too small", id="no row"),
        pytest.param(
            ["train a 7B model", "--data-at", "here"], "data-at is not a place", id="no place"
        ),
        pytest.param(
            ["train a 7B model", "--observed", "fast"], "observed cannot be read", id="no speed"
        ),
    ],
)
def test_wrong_input_is_2_with_one_line(
    plan: Plan, capsys: pytest.CaptureFixture[str], arguments: list[str], want_message: str
) -> None:
    assert plan(*arguments) == 2
    printed = capsys.readouterr()
    assert want_message in printed.err
    assert printed.err.count("\n") == 1
    assert printed.out == ""
