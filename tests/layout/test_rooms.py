"""The rooms of `gpu_core/decisions`: few names at each place, and no loose file beside a room."""

import ast
from pathlib import Path

DECISIONS = Path(__file__).parents[2] / "gpu_core" / "decisions"
PACKAGE = "gpu_core.decisions."
MAX_NAMES_AT_THE_TOP = 20
MAX_ARROWS = 60
"""Pairs of rooms of which one imports the other: who reads one room needs few others."""


def test_a_folder_with_rooms_has_no_loose_files() -> None:
    rooms = {path.parent.parent for path in DECISIONS.rglob("__init__.py")} - {DECISIONS.parent}
    loose = [path for room in rooms for path in room.glob("*.py") if path.name != "__init__.py"]
    assert loose == []


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
