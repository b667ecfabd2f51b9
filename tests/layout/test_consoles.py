"""Commands print through one console: in a pipe nothing is cut, and a name is no markup."""

import ast
from pathlib import Path

import pytest

CLI = Path(__file__).parents[2] / "gpu_core" / "cli"
HOME = "shared/terminal.py"
SHARED = {
    "Console": "use `console` of gpu_core/cli/shared/terminal.py",
    "textwrap": "use `fold` of gpu_core/cli/shared/folding.py",
}


def second_ways(source: str) -> list[str]:
    """What this code has of its own although the commands share it, with what to use instead."""
    found = []
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Call):
            called = node.func
            names = [getattr(called, "id", None), getattr(called, "attr", None)]
        elif isinstance(node, ast.Import | ast.ImportFrom):
            names = [getattr(node, "module", None), *(each.name for each in node.names)]
            names = [name for name in names if name != "Console"]  # a type is no second console
        else:
            continue
        found += [f"{name}: {SHARED[name]}" for name in names if name in SHARED]
    return found


def test_one_console_and_one_way_to_fold_lines() -> None:
    sources = {str(path.relative_to(CLI)): path.read_text() for path in CLI.rglob("*.py")}
    assert second_ways(sources.pop(HOME)) == [f"Console: {SHARED['Console']}"]
    found = {path: ways for path, source in sources.items() if (ways := second_ways(source))}
    assert found.pop("quickstart/demo.py") == [f"textwrap: {SHARED['textwrap']}"], "cuts to 3 lines"
    assert found == {}


@pytest.mark.parametrize(
    ("source", "want"),
    [
        pytest.param("Console()", 1, id="a bare console"),
        pytest.param("rich.console.Console(width=80)", 1, id="with a width of its own"),
        pytest.param("import textwrap", 1, id="a module that folds between 3 and GPUs"),
        pytest.param("from textwrap import fill", 1, id="a function of it"),
        pytest.param("from rich.console import Console", 0, id="the type alone"),
        pytest.param("console().print(table)", 0, id="the shared one"),
    ],
)
def test_a_planted_second_way_is_found(source: str, want: int) -> None:
    assert len(second_ways(source)) == want
