"""An older Python is refused in one sentence with what it is and what is needed."""

import subprocess
import tomllib
from pathlib import Path


def test_an_older_python_is_refused(tmp_path: Path) -> None:
    """By make, which is what a clone is used with; no virtual environment is made."""
    old = tmp_path / "python3.10"
    old.write_text("#!/bin/sh\n[ $1 = --version ] && echo Python 3.10.13 && exit 0\nexit 1\n")
    old.chmod(0o755)
    done = subprocess.run(
        ["make", f"VENV={tmp_path}/venv", f"{tmp_path}/venv/bin/python", f"PYTHON={old}"],
        capture_output=True,
        text=True,
    )
    assert done.returncode == 2
    assert not (tmp_path / "venv").exists()
    first = done.stderr.splitlines()[0]
    assert first == (
        f"prefect-gpu needs Python 3.11 or newer, and '{old}' is Python 3.10.13. "
        "Name another: make PYTHON=python3.12"
    )


def test_a_name_of_no_python_is_refused(tmp_path: Path) -> None:
    """Without the shell's own words."""
    done = subprocess.run(
        ["make", f"VENV={tmp_path}/venv", f"{tmp_path}/venv/bin/python", "PYTHON=no-python-here"],
        capture_output=True,
        text=True,
    )
    assert done.stderr.splitlines()[0] == (
        "prefect-gpu needs Python 3.11 or newer, and 'no-python-here' is no Python. "
        "Name another: make PYTHON=python3.12"
    )


def test_pip_refuses_it_too() -> None:
    project = tomllib.loads(Path("pyproject.toml").read_text())["project"]
    assert project["requires-python"] == ">=3.11"
