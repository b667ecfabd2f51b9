"""Every option that takes a file, with every kind of file that it cannot use: one line, code 2."""

from collections.abc import Callable
from pathlib import Path

import pytest

from gpu_core.cli.main import main

_JOB = '{{"job_id": "a", "submit_s": {}, "duration_s": {}}}\n'
_PHILLY = "job_id,submit_s,duration_s,num_gpus,vc\n"

BAD: dict[str, Callable[[Path], object]] = {
    "missing": lambda path: None,
    "a folder": lambda path: path.mkdir(),
    "binary": lambda path: path.write_bytes(bytes(range(256))),
    "UTF-16": lambda path: path.write_bytes("a: 1".encode("utf-16")),
    "a NUL": lambda path: path.write_text("a\0b: 1\n"),
    "nested deeply": lambda path: path.write_text("[" * 20_000),
    "a long line": lambda path: path.write_text('{"a": "' + "x" * 300_000),
    "a list": lambda path: path.write_text("[1, 2]"),
    "5,000 digits": lambda path: path.write_text('{"a": ' + "9" * 5000 + "}"),
}

_SIMULATE = ("simulate", "--nodes", "1x8", "--policy", "fifo", "--format")
_TASK = "fine-tune a 7B model with LoRA"
_REPLAY = ("--task-hours=1", "--deadline-hours=3", "--price-ratio=3", "--starts=1")
READERS: dict[str, tuple[str, ...]] = {
    "philly": (*_SIMULATE, "philly", "--workload", "FILE"),
    "muri": (*_SIMULATE, "muri", "--workload", "FILE"),
    "openb": (*_SIMULATE, "openb", "--workload", "FILE"),
    "jsonl": (*_SIMULATE, "jsonl", "--workload", "FILE"),
    "kueue": (*_SIMULATE, "kueue", "--workload", "FILE"),
    "ledger": (*_SIMULATE, "ledger", "--workload", "FILE"),
    "events": (*_SIMULATE, "jsonl", "--workload", "JOBS", "--events", "FILE"),
    "entitlements": (*_SIMULATE, "jsonl", "--workload", "JOBS", "--entitlements", "FILE"),
    "order": (*_SIMULATE, "openb", "--workload", "PODS", "--order", "FILE"),
    "nodes": ("simulate", "--nodes", "FILE", *_SIMULATE[3:], "jsonl", "--workload", "JOBS"),
    "a policy": (*_SIMULATE[:3], "--policy", "FILE", "--format", "jsonl", "--workload", "JOBS"),
    "a spot trace": ("spot-replay", "FILE", *_REPLAY),
    "the ledger of a replay": ("spot-replay", "--ledger", "FILE"),
    "the file of a ledger's address": ("spot-replay", "--ledger-file", "FILE"),
    "the catalog of a plan": ("plan", _TASK, "--catalog", "FILE"),
    "own prices": ("plan", _TASK, "--prices", "FILE"),
    "the ledger of a plan": (
        "plan",
        "fine-tune a 7B model with LoRA",
        "--ledger",
        "FILE",
        "--deployment",
        "a/b",
    ),
    "the catalog": ("catalog", "show", "--catalog", "FILE"),
    "own prices, shown": ("catalog", "show", "--prices", "FILE"),
}

# A catalog that is not there is the one of the package.
_FINE = {("the catalog of a plan", "missing"), ("the catalog", "missing")}


@pytest.fixture
def run(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> Callable[..., str]:
    """Runs a command that must end with 2; what it said in its only line."""
    (tmp_path / "jobs").write_text(_JOB.format(0, 5))
    (tmp_path / "pods").write_text("name,cpu_milli,memory_mib,num_gpu,gpu_milli\na,1,1,1,1000\n")
    places = {"JOBS": str(tmp_path / "jobs"), "PODS": str(tmp_path / "pods")}

    def ending(arguments: tuple[str, ...], file: str) -> str:
        code = main([{**places, "FILE": file}.get(each, each) for each in arguments])
        said = capsys.readouterr()
        assert (code, said.out) == (2, "")
        return said.err

    return ending


@pytest.mark.parametrize("reader", READERS)
def test_a_file_that_cannot_be_used(tmp_path: Path, run: Callable[..., str], reader: str) -> None:
    """It is named with its path or, where it holds an address or is a shorthand, what came."""
    for kind, make in BAD.items():
        path = tmp_path / kind.replace(" ", "-")
        make(path)
        if (reader, kind) not in _FINE:
            said = run(READERS[reader], str(path))
            assert said.startswith(f"prefect-gpu {READERS[reader][0]}")
            assert all(line.isprintable() and len(line) < 1500 for line in said.splitlines())
            assert str(path) in said or reader == "the file of a ledger's address", said


@pytest.mark.parametrize("name", ["a\0b", "x" * 300], ids=["a NUL", "too long"])
@pytest.mark.parametrize("reader", READERS)
def test_a_name_that_no_file_can_have(run: Callable[..., str], reader: str, name: str) -> None:
    assert run(READERS[reader], name).count("\n") == 1


@pytest.mark.parametrize(
    ("reader", "content", "want"),
    [
        ("jsonl", _JOB.format(0, "1e308"), "duration_s is out of range (got 1e+308)"),
        ("jsonl", _JOB.format("1e308", 5), "submit_s is out of range"),
        ("jsonl", _JOB.format("NaN", 5), "submit_s"),
        ("jsonl", _JOB.format(0, "1e999"), "duration_s"),
        ("jsonl", _JOB.format(0, 5)[:-2] + f', "priority": 1{"0" * 400}}}', "priority"),
        ("jsonl", _JOB.format(0, 5)[:-2] + ', "gpu_count": 1e15}', "gpu_count"),
        ("jsonl", _JOB.format(0, 5)[:-2] + ', "memory_mib": -1}', "memory_mib is out of range"),
        ("events", '{"at_s": 1e308, "node": "node-0", "event": "failure"}', "at_s is too large"),
        ("philly", f"{_PHILLY}a,0,1e308,1,x\n", "duration_s is out of range"),
        ("philly", f"{_PHILLY}a,0,5,1e300,x\n", ":2: num_gpus is too large"),
        ("philly", f'{_PHILLY}"{"a" * 200_000}",0,5,1,x\n', ":2 is not valid CSV"),
        ("philly", "job_id,submit,duration_s,num_gpus,vc\n", "has no column 'submit_s'"),
        ("a spot trace", '{"metadata": {"gap_seconds": 1e18}, "data": [1]}', "gap_seconds"),
        ("a spot trace", '{"metadata": {"gap_seconds": 600}, "data": [1e308]}', "data.0"),
        ("entitlements", "vc,node num\na,0\n", "has no weight over 0"),
        ("nodes", "sn,cpu_milli,memory_mib,gpu,model\nn,1,1,1e9,T4\n", ":2: gpu is too large"),
        ("kueue", "cohorts: 2026-13-45", ":1 has a value that cannot be"),
        ("the ledger of a replay", "", "is not an SQLite database"),
    ],
)
def test_numbers_and_contents_that_mean_nothing(
    tmp_path: Path, run: Callable[..., str], reader: str, content: str, want: str
) -> None:
    path = tmp_path / "file"
    path.write_text(content)
    said = run(READERS[reader], str(path))
    assert want in said
    assert said.count("\n") == 1


def test_an_address_of_a_file_creates_none(tmp_path: Path, run: Callable[..., str]) -> None:
    address = f"sqlite:///{tmp_path}/folder/ledger.db"
    assert "is not a file" in run(READERS["the ledger of a replay"], address)
    assert not (tmp_path / "folder").exists()


def test_a_cluster_that_is_too_large_is_not_built(run: Callable[..., str]) -> None:
    assert "has too many GPUs" in run(READERS["nodes"], "999999x9999999")


def test_times_that_end_after_the_calendar(tmp_path: Path, run: Callable[..., str]) -> None:
    """Each job is within bounds, but one after the other they end in the year 10000."""
    jobs = (_JOB.format(0, 10**9).replace('"a"', f'"{number}"') for number in range(2600))
    (tmp_path / "file").write_text("".join(jobs))
    one_gpu = (*_SIMULATE[:2], "count:1", *_SIMULATE[3:], "jsonl", "--workload", "FILE")
    assert "is too long to be simulated" in run(one_gpu, str(tmp_path / "file"))
