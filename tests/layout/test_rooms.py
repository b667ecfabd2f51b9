"""The rooms of `gpu_core`: few names at each place, and no loose file beside a room."""

import ast
from collections.abc import Iterable, Mapping
from pathlib import Path

import pytest

GPU_CORE = Path(__file__).parents[2] / "gpu_core"
DECISIONS = GPU_CORE / "decisions"
PACKAGE = "gpu_core.decisions."
MAX_NAMES_AT_THE_TOP = 20
MAX_ARROWS = 60
"""Pairs of rooms of which one imports the other: who reads one room needs few others."""

WORKER_TYPE: Mapping[str, str] = {
    "worker.py": "the worker type, as Prefect registers it",
    "variables.py": "the form of its pools",
    "infrastructure.py": "what the scheduler asks of it, answered with the rooms beside it",
}
AT_THE_TOP: Mapping[str, Mapping[str, str]] = {
    "worker": {
        "base.py": "what Prefect calls: the loop around the cycle",
        "run_submission.py": "what Prefect calls to start an admitted run",
        "scheduler.py": "the cycle, a list of its steps",
        "infrastructure.py": "what both worker types implement, and every room speaks of",
    },
    "worker/kubernetes": WORKER_TYPE,
    "worker/process": WORKER_TYPE,
    "cli": {"main.py": "the command line", "__main__.py": "`python -m gpu_core.cli`"},
}
"""The files beside the rooms of a folder, each with its reason: all of it is built on them."""

MAX_LINES = 500
"""Of a file: a longer one has a second subject, which a reader does not look for there."""

LONGER: Mapping[str, str] = {}
"""Files with more lines, each with its reason."""

IMPORTED_BY_USERS = ("runtime", "testing")
"""Flows and tests of users import the modules of these folders by their paths."""


def loose_files(top: Path) -> dict[str, set[str]]:
    """The files beside rooms, by folder; empty: there are none."""
    rooms = {path.parent.parent for path in top.rglob("__init__.py")} - {top.parent}
    loose = {
        room.relative_to(top).as_posix(): {path.name for path in room.glob("*.py")}
        - {"__init__.py"}
        for room in rooms
    }
    return {folder: names for folder, names in loose.items() if names}


def test_a_folder_with_rooms_has_no_loose_files_but_those_that_all_of_it_is_built_on() -> None:
    found = loose_files(GPU_CORE)
    assert {folder: found[folder] for folder in found.keys() - IMPORTED_BY_USERS} == {
        folder: set(names) for folder, names in AT_THE_TOP.items()
    }


@pytest.mark.parametrize(
    ("files", "want"),
    [
        pytest.param(["__init__.py", "a.py", "b.py"], {}, id="no rooms"),
        pytest.param(["__init__.py", "room/__init__.py", "room/a.py"], {}, id="all in rooms"),
        pytest.param(
            ["__init__.py", "a.py", "room/__init__.py"], {".": {"a.py"}}, id="beside a room"
        ),
        pytest.param(
            ["__init__.py", "r/__init__.py", "r/a.py", "r/s/__init__.py"],
            {"r": {"a.py"}},
            id="beside a room in a room",
        ),
    ],
)
def test_a_planted_loose_file_is_found(
    tmp_path: Path, files: Iterable[str], want: dict[str, set[str]]
) -> None:
    for name in files:
        path = tmp_path / "top" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.touch()
    assert loose_files(tmp_path / "top") == want


def test_the_top_has_few_names() -> None:
    names = [each for each in DECISIONS.iterdir() if each.name[0] != "_"]
    assert 1 < len(names) <= MAX_NAMES_AT_THE_TOP


def test_few_rooms_import_each_other() -> None:
    arrows = {
        (path.relative_to(DECISIONS).parts[0], node.module.removeprefix(PACKAGE).split(".")[0])
        for path in DECISIONS.rglob("*.py")
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8")))
        if isinstance(node, ast.ImportFrom) and (node.module or "").startswith(PACKAGE)
    }
    between = {(room, used) for room, used in arrows if room != used}
    assert 1 < len(between) <= MAX_ARROWS, sorted(between)


def test_a_file_has_few_lines() -> None:
    lines = {
        path.relative_to(GPU_CORE).as_posix(): len(path.read_text(encoding="utf-8").splitlines())
        for path in GPU_CORE.rglob("*.py")
    }
    assert len(lines) > 500
    assert {name for name, count in lines.items() if count > MAX_LINES} == set(LONGER)
