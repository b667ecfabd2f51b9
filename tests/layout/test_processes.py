"""Tests that share a server or a cluster run in one process, where tests run in several."""

import subprocess
import sys
from pathlib import Path

_ROOT = Path(__file__).parents[2]

_CONFTEST = """
import importlib.util
spec = importlib.util.spec_from_file_location("shared_conftest", {conftest!r})
module = importlib.util.module_from_spec(spec)
spec.loader.exec_module(module)
pytest_collection_modifyitems = module.pytest_collection_modifyitems
"""

_TEST = """
import os
from pathlib import Path
import pytest

@pytest.mark.parametrize("number", range(8))
def test_notes_its_process(number):
    Path({notes!r}, f"{{os.getpid()}}-{{number}}").touch()
"""


def test_a_group_runs_in_one_process(tmp_path: Path) -> None:
    notes = tmp_path / "notes"
    notes.mkdir()
    cluster = tmp_path / "tests" / "cluster"
    cluster.mkdir(parents=True)
    conftest = str(_ROOT / "tests" / "conftest.py")
    (tmp_path / "tests" / "conftest.py").write_text(_CONFTEST.format(conftest=conftest))
    (cluster / "test_notes.py").write_text(_TEST.format(notes=str(notes)))
    (tmp_path / "pytest.ini").write_text("[pytest]\n")
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "-n", "2"]
    command += ["--dist", "loadgroup", "--no-loadscope-reorder"]
    environment = {"PATH": "/usr/bin:/bin", "PYTHONPATH": str(_ROOT)}

    result = subprocess.run(
        command, cwd=tmp_path, env=environment, capture_output=True, text=True, check=False
    )

    assert result.returncode == 0, result.stdout + result.stderr
    names = [note.name for note in notes.iterdir()]
    assert len(names) == 8
    assert len({name.split("-")[0] for name in names}) == 1, names
