"""What every command ends with, as its `--help` says, and the one sentence where it is not 0."""

import io
import os
import re
import shlex
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from cyclopts import App

from gpu_core.cli.main import app, main
from gpu_core.cli.shared.exit_codes import MEANING_OF_1

_TASK = "fine-tune a 7B model with LoRA on 10M tokens"
_SIMULATE = ("simulate", "--nodes", "1x8", "--policy", "fifo", "--format")
_REPLAY = ("spot-replay", "{spot}", "--price-ratio=3", "--starts=1", "--task-hours=2")


@pytest.fixture
def files(tmp_path: Path) -> dict[str, str]:
    """Good ones, and a database that is damaged behind its first bytes."""
    contents = {
        "jobs": b'{"job_id": "a", "submit_s": 0, "duration_s": 5}\n',
        "spot": b'{"metadata": {"gap_seconds": 600}, "data": [' + b"1, " * 99 + b"1]}",
        "damaged": b"SQLite format 3\0" + bytes(range(256)) * 20,
    }
    for name, content in contents.items():
        (tmp_path / name).write_bytes(content)
    return {name: str(tmp_path / name) for name in contents}


@pytest.mark.parametrize(
    ("arguments", "want"),
    [
        ((*_SIMULATE, "jsonl", "--workload", "{jobs}"), 0),
        ((*_SIMULATE, "ledger", "--workload", "{damaged}"), 1),
        ((*_SIMULATE, "jsonl", "--workload", "{spot}"), 2),
        (("plan", _TASK), 0),
        (("plan", _TASK, "--budget-usd", "0.000001"), 1),
        (("plan", _TASK, "--ledger", "{damaged}", "--deployment", "a/b"), 1),
        (("plan", _TASK, "--budget-usd", "-1"), 2),
        (("catalog", "show"), 0),
        (("catalog", "show", "--gpu-type", "a100"), 2),
        (("catalog", "refresh", "--timeout", "0s"), 2),
        ((*_REPLAY, "--deadline-hours=4"), 0),
        (("spot-replay", "--ledger", "{damaged}"), 1),
        ((*_REPLAY, "--deadline-hours=0"), 2),
        (("quickstart", "--folder", "{jobs}"), 2),
    ],
    ids=lambda value: " ".join(value)[:60] if isinstance(value, tuple) else str(value),
)
def test_exit_code(
    files: dict[str, str],
    capsys: pytest.CaptureFixture[str],
    arguments: tuple[str, ...],
    want: int,
) -> None:
    code = main([each.format(**files) for each in arguments])
    said = capsys.readouterr()
    assert code == want, said.err
    assert "Traceback" not in said.err
    if want == 2:
        assert said.err.startswith(f"prefect-gpu {arguments[0]}")
        assert (said.out, said.err.count("\n")) == ("", 1)


def _commands(group: App, path: tuple[str, ...] = ("prefect-gpu",)) -> Iterator[str]:
    for name in (each for each in group if not each.startswith("-")):
        if group[name].default_command is not None:
            yield " ".join((*path, name))
        yield from _commands(group[name], (*path, name))


def test_every_command_says_its_exit_codes(capsys: pytest.CaptureFixture[str]) -> None:
    names = set(_commands(app))
    assert names == set(MEANING_OF_1)
    for name in sorted(names):
        assert main([*name.split()[1:], "--help"]) == 0
        said = " ".join(capsys.readouterr().out.split())
        assert f"Exit codes: 0: success. 1: {MEANING_OF_1[name]}. 2: " in said


@pytest.mark.parametrize("name", sorted(_commands(app)))
def test_the_examples_of_a_command_can_be_typed(
    name: str, capsys: pytest.CaptureFixture[str]
) -> None:
    main([*name.split()[1:], "--help"])
    help_lines = capsys.readouterr().out.partition("Examples:")[2].partition("Exit codes:")[0]
    assert all(len(line) <= 80 for line in help_lines.splitlines())
    examples = " ".join(help_lines.replace("\\\n", "").split()).split("prefect-gpu ")[1:]
    assert examples
    for example in examples:
        app.parse_args(shlex.split(example))


def test_a_group_of_commands_alone_shows_its_help(capsys: pytest.CaptureFixture[str]) -> None:
    for words, want in (([], "quickstart"), (["catalog"], "refresh")):
        assert main(words) == 0
        assert want in capsys.readouterr().out


@pytest.mark.parametrize(
    ("arguments", "want"),
    [
        (("quickstrat",), "prefect-gpu: COMMAND is not one of the choices (got 'quickstrat'). Did "
         "you mean 'quickstart'? Allowed: anomalies, catalog, "),
        (("catalog", "shw"), "prefect-gpu catalog: COMMAND is not one of the choices (got 'shw')"),
        ((*_SIMULATE, "jsnl", "--workload", "jobs"),
         "Did you mean 'jsonl'? Allowed: jsonl, kueue, "),
        (("catalog", "show", "--gpu-tpye", "x"), "prefect-gpu catalog show: --gpu-tpye is not a "
         "known option. Did you mean '--gpu-type'? Allowed: "),
        (("catalog", "show", "x"), "catalog show: an argument was not expected (got 'x')"),
        (("plan", "x", "--top", "ten"), "--top is not a whole number (got 'ten')"),
        (("plan", "x", "--gpus", "9" * 5000), "--gpus is not a whole number (got '999"),
        (("plan", "x", "--top", "2.7"), "--top is not a whole number (got '2.7')"),
        (("plan", "x", "--top", "1", "--top", "two"), "--top is not a whole number (got 'two')"),
        (("plan", "x", "--json=maybe"), "--json takes no value (got 'maybe')"),
        (("simulate", "--nodes", "1x8"), "prefect-gpu simulate: --workload is required"),
        (("setup", "--ledger-url-file", "-", "--type", "gpu"), "--type is not one of the choices"),
        (("hold",), "prefect-gpu hold: FLOW-RUN is required"),
        (("plan", "x", "--data-gib", "much"), "--data-gib is not a number (got 'much')"),
        (("setup", "--policy"), "prefect-gpu setup: --policy needs a value"),
    ],
    ids=lambda value: None if isinstance(value, str) else " ".join(value)[:30] or "nothing",
)  # fmt: skip
def test_misspelled_options_are_one_sentence(
    capsys: pytest.CaptureFixture[str], arguments: tuple[str, ...], want: str
) -> None:
    code = main(arguments)
    said = capsys.readouterr()
    assert (code, said.out, said.err.count("\n")) == (2, "", 1)
    assert want in said.err
    assert re.search(r"\. See `prefect-gpu[a-z -]* --help`\.\n$", said.err)
    assert len(said.err) < 1000


@pytest.mark.parametrize("columns", [40, 80, 120])
def test_an_error_fits_the_terminal_with_a_line_for_each_sentence(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], columns: int
) -> None:
    monkeypatch.setenv("COLUMNS", str(columns))
    monkeypatch.setattr("sys.stderr.isatty", lambda: True)
    assert main(["plan", "x", "--bacth", "2"]) == 2
    lines = capsys.readouterr().err.splitlines()
    assert all(len(line) <= columns for line in lines)
    starts = [line.split()[0] for line in lines[1:] if re.match(r"  [A-Z]", line)]
    assert starts[-3:] == ["Did", "Allowed:", "See"]


@pytest.mark.parametrize("terminal", [False, True])
def test_each_of_several_mistakes_is_shown_with_the_name_that_was_meant(
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    tmp_path: Path,
    terminal: bool,
) -> None:
    monkeypatch.setattr("sys.stderr.isatty", lambda: terminal)
    policy = tmp_path / "policy.yaml"
    policy.write_text("version: 1\nquotaz: {}\nordring: {}\n")
    assert main(["anomalies", "--policy", str(policy)]) == 2
    said = capsys.readouterr().err
    for meant in ("Did you mean 'quotas'?", "Did you mean 'ordering'?"):
        assert meant in said
    if not terminal:
        assert said.count("\n") == 2


def test_a_misspelled_option_of_check_is_no_file(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["check", "--polcy=x", "-"]) == 2
    assert capsys.readouterr().err == (
        "prefect-gpu check: --polcy is not a known option. Did you mean '--policy'? "
        "Allowed: --help, --json, --policy.\n"
    )


def test_an_interrupt_is_130(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def interrupted(*_: object, **__: object) -> int:
        raise KeyboardInterrupt

    monkeypatch.setattr("gpu_core.cli.catalog.command.show", interrupted)
    assert main(["catalog", "show"]) == 130
    assert capsys.readouterr().err == "prefect-gpu catalog show: interrupted\n"


def test_a_disk_that_is_full_is_said() -> None:
    with Path("/dev/full").open("w") as full:
        done = _shown(stdout=full)
    assert done.returncode == 1
    assert "No space left on device" in done.stderr
    assert done.stderr.count("\n") == 1


def test_a_reader_may_stop_early() -> None:
    """As `head` does; a pipe whose other end is closed is one that was closed early."""
    reading, writing = os.pipe()
    os.close(reading)
    with io.FileIO(writing, "w") as pipe:
        done = _shown("--json", stdout=pipe)
    assert (done.returncode, done.stderr) == (0, "")


def test_a_terminal_without_the_letters_gets_others() -> None:
    done = _shown(stdout=subprocess.PIPE, encoding="ascii")
    assert (done.returncode, done.stderr) == (0, "")
    assert "GPU types" in done.stdout


def _shown(
    *options: str, stdout: object, encoding: str = "utf-8"
) -> "subprocess.CompletedProcess[str]":
    return subprocess.run(
        [sys.executable, "-m", "gpu_core.cli", "catalog", "show", *options],
        env={**os.environ, "PYTHONIOENCODING": encoding},
        stdout=stdout,  # type: ignore[arg-type]  # a file, a pipe or PIPE
        stderr=subprocess.PIPE,
        text=True,
    )
