"""Tests in several processes: what shares a cluster runs in one, and what is left out is said."""

import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

import pytest

_ROOT = Path(__file__).parents[2]

_CONFTEST = """
import importlib.util
spec = importlib.util.spec_from_file_location("shared_conftest", {conftest!r})
module = importlib.util.module_from_spec(spec)
spec.loader.exec_module(module)
globals().update(item for item in vars(module).items() if item[0].startswith("pytest_"))
"""

_TEST = """
import os
from pathlib import Path
import pytest

@pytest.mark.parametrize("number", range(8))
def test_notes_its_process(number):
    Path({notes!r}, f"{{os.getpid()}}-{{Path(__file__).stem}}-{{number}}").touch()
"""


def run(
    folder: Path, *options: str, names: Sequence[str] = ("test_notes",)
) -> tuple[subprocess.CompletedProcess[str], list[str]]:
    """Run eight tests of each file of a folder `cluster` under our conftest.

    Returns:
        How pytest ended, and the names of the notes that the tests left.
    """
    notes = folder / "notes"
    notes.mkdir()
    cluster = folder / "tests" / "cluster"
    cluster.mkdir(parents=True)
    conftest = str(_ROOT / "tests" / "conftest.py")
    (folder / "tests" / "conftest.py").write_text(_CONFTEST.format(conftest=conftest))
    for name in names:
        (cluster / f"{name}.py").write_text(_TEST.format(notes=str(notes)))
    (folder / "pytest.ini").write_text("[pytest]\ntestpaths = tests\n")
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "-n", "2"]
    command += ["--dist", "loadgroup", "--no-loadscope-reorder", *options]
    environment = {"PATH": "/usr/bin:/bin", "PYTHONPATH": str(_ROOT)}
    result = subprocess.run(
        command, cwd=folder, env=environment, capture_output=True, text=True, check=False
    )
    return result, [note.name for note in notes.iterdir()]


@pytest.mark.parametrize("tier", ["cluster", "all"])
def test_a_group_runs_in_one_process(tmp_path: Path, tier: str) -> None:
    result, names = run(tmp_path, "--tier", tier)

    assert result.returncode == 0, result.stdout + result.stderr
    assert len(names) == 8
    assert len({name.split("-")[0] for name in names}) == 1, names
    assert "left out" not in result.stdout


def test_files_with_clusters_of_their_own_run_in_a_second_process(tmp_path: Path) -> None:
    files = ("test_chaos", "test_notes", "test_rendezvous")
    result, names = run(tmp_path, "--tier", "cluster", names=files)

    assert result.returncode == 0, result.stdout + result.stderr
    assert len(names) == 24
    process_of = dict(reversed(name.split("-")[:2]) for name in names)
    assert process_of["test_chaos"] == process_of["test_rendezvous"] != process_of["test_notes"]
    assert len({tuple(name.split("-")[:2]) for name in names}) == len(files)


def test_what_is_left_out_is_said_at_the_end(tmp_path: Path) -> None:
    result, names = run(tmp_path, "--tier", "quick")

    assert result.returncode == pytest.ExitCode.NO_TESTS_COLLECTED, result.stdout + result.stderr
    assert "tests with a Kubernetes: make test-cluster" in result.stdout
    assert names == []
