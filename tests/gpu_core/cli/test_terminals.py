"""The commands that print tables: whole names and numbers in a pipe and on any terminal."""

import csv
import json
import re
from collections.abc import Callable, Sequence
from pathlib import Path

import pytest
from rich.cells import cell_len

from gpu_core.adapters.ledger import Ledger
from gpu_core.cli.main import main
from gpu_core.cli.shared.folding import phrases
from gpu_core.decisions.costs.capacity.capacity_intervals import CapacityChanges
from gpu_core.decisions.model.attempts import EndReason
from gpu_core.testing.builders.attempts import admit, at, make_attempt, make_run
from tests.gpu_core.adapters.ledger.test_capacity import make_interval, write
from tests.gpu_core.decisions.costs.billing.test_reconciliation import line
from tests.gpu_core.decisions.costs.savings.test_month_savings import TWO_AND_SPOT

NAMES = (
    "[red]train[/red]",
    "🚀 train 🚀",
    "אימון לילה",
    "train-a-large-language-model/nightly-with-a-long-name",
)
LEDGER, SAVINGS, BILL, ZONE, JOBS = "runs.db", "machines.db", "bill.csv", "zone.json", "jobs.jsonl"
JSON_LINES = ("--format", "jsonl")
OF_LEDGER = ("--ledger", LEDGER)
MARCH = ("--day", "2026-03-05")
TASK = ("--task-hours", "6", "--deadline-hours", "8", "--price-ratio", "3", "--starts", "2")
POLICIES = [part for name in ("fifo", "easy", "default") for part in ("--policy", name)]

COMMANDS = [
    ("catalog show", ("catalog", "show")),
    ("catalog show --all", ("catalog", "show", "--all", "--gpu-type", "b200")),
    ("plan", ("plan", "fine-tune a 7B model with LoRA", "--deadline", "90d")),
    ("simulate", ("simulate", "--nodes", "2x8", "--workload", JOBS, *JSON_LINES, *POLICIES)),
    ("spot-replay", ("spot-replay", ZONE, *TASK)),
    ("spot-replay --ledger", ("spot-replay", *OF_LEDGER)),
    ("cost report", ("cost", "report", "month", *MARCH, "--by", "user", *OF_LEDGER)),
    ("by two keys", ("cost", "report", "month", *MARCH, "--by", "team,gpu-type", *OF_LEDGER)),
    ("cost savings", ("cost", "savings", "--month", "2026-03", "--ledger", SAVINGS)),
    ("cost reconcile", ("cost", "reconcile", BILL, "--dry-run", *OF_LEDGER)),
    ("optimize", ("optimize", "--day", "2026-03-06", *OF_LEDGER)),
    ("optimize ask", ("optimize", "ask", "cost by deployment on 2026-03-04", *OF_LEDGER)),
]
WITH_NAMES = {"spot-replay --ledger", "cost report", "by two keys", "optimize", "optimize ask"}
OMITTED = {"Columns", "omitted", "terminal", "too", "narrow"}

Lines = Callable[[Sequence[str], int | None], list[str]]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """What the commands read: runs of teams with odd names, machines, a bill, traces."""
    path = tmp_path_factory.mktemp("read")
    interval = make_interval(instance_id="aws:///us-east-1a/i-1", since=at(0), until=at(1))
    with Ledger.open(f"sqlite:///{path / LEDGER}") as ledger:
        ledger.write_capacity(CapacityChanges((), (interval,)), [], at(0))
        for number, name in enumerate(NAMES):
            _write_run(ledger, f"run-{number}", name, number)
    with Ledger.open(f"sqlite:///{path / SAVINGS}") as ledger:
        write(ledger, *TWO_AND_SPOT)
    with (path / BILL).open("w", newline="") as file:
        writer = csv.DictWriter(file, list(line()))
        writer.writeheader()
        writer.writerows([line(BilledCost="17.5"), line(ResourceId="i-2", BilledCost="4.1")])
    up = [int(tick // 18 % 2 == 0) for tick in range(144)]
    (path / ZONE).write_text(json.dumps({"metadata": {"gap_seconds": 600}, "data": up}))
    jobs = [
        {"job_id": str(n), "submit_s": 60 * n, "duration_s": 3_600, "gpu_count": 1 + n % 8}
        for n in range(12)
    ]
    (path / JOBS).write_text("\n".join(map(json.dumps, jobs)))
    return path


def _write_run(ledger: Ledger, run_id: str, name: str, hour: int) -> None:
    run = make_run(run_id, name=name, team=name, user=name, deployment=name)
    spot = {"capacity_type": "spot", "zone": "a", "end_reason": EndReason.INTERRUPTED}
    first = {"admitted_at": at(hour), "released_at": at(hour + 1), "checkpointed_at": at(hour + 1)}
    second = {"admitted_at": at(hour + 1), "released_at": at(hour + 5)}
    dear = {"price_micro_usd_per_gpu_hour": 3_000_000, "end_reason": EndReason.COMPLETED}
    admit(ledger, make_attempt(run_id, 1, **first, **spot), run)
    admit(ledger, make_attempt(run_id, 2, **second, **dear), run)
    ledger.finish_run(run_id, "Completed")


@pytest.fixture
def printed(
    folder: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> Lines:
    """What a command prints on a terminal of this width; None: in a pipe beside a narrow one."""

    def lines(arguments: Sequence[str], columns: int | None) -> list[str]:
        monkeypatch.chdir(folder)
        monkeypatch.setenv("COLUMNS", str(columns or 40))
        monkeypatch.setenv("NO_COLOR", "1")
        for stream in ("sys.stdout", "sys.stderr"):
            monkeypatch.setattr(f"{stream}.isatty", lambda: columns is not None)
        assert main(arguments) == 0
        out, err = capsys.readouterr()
        return re.sub(r"\x1b\[[\d;]*m|[\u2068\u2069]", "", out + err).splitlines()

    return lines


def words(lines: Sequence[str]) -> set[str]:
    """The words of these lines, without what stands around them."""
    found = {word.strip(",;:()") for line in lines for word in re.split(r"[\s─-╿]+", line)}
    return {word for word in found if word}


def broken(shown: set[str], whole: set[str], columns: int) -> set[str]:
    """The words that are a part of another one, but for names that broke at a joint or had to."""
    parts = {part for word in whole for part in phrases(word, splits_names=True)}
    wide = [word for word in whole if cell_len(word) > columns - len("    ")]
    return {
        word
        for word in shown - whole
        if not any(character.isdigit() for character in word)  # such as the time of this minute
        and not parts.issuperset(phrases(word, splits_names=True))
        and not any(word in each for each in wide)
    }


@pytest.mark.parametrize(("name", "arguments"), COMMANDS)
def test_words_are_whole_in_a_pipe_and_on_a_terminal(
    name: str, arguments: Sequence[str], printed: Lines
) -> None:
    piped = printed(arguments, None)
    assert "…" not in "".join(piped)
    for team in NAMES if name in WITH_NAMES else ():
        assert any(team in line and "$13.00" in line for line in piped), team
    for columns in (40, 80):
        lines = printed(arguments, columns)
        assert max(map(cell_len, lines)) <= columns
        assert broken(words(lines), words(piped) | OMITTED, columns) == set()


@pytest.mark.parametrize(
    ("shown", "want"),
    [
        pytest.param({"train-", "large/", "nightly"}, set(), id="at its joints"),
        pytest.param({"train-l", "arge/nightly"}, {"train-l", "arge/nightly"}, id="elsewhere"),
        pytest.param({"train-…"}, {"train-…"}, id="cut"),
    ],
)
def test_a_planted_broken_word_is_found(shown: set[str], want: set[str]) -> None:
    assert broken(shown, {"train-large/nightly"}, 40) == want
