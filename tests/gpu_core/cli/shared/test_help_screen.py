"""`--help` of each command on narrow terminals."""

import re
from io import StringIO

import pytest
from rich.console import Console

from gpu_core.cli.main import app


def commands():
    """The words of each command."""
    for name in (each for each in app if not each.startswith("-")):
        parts = [each for each in app[name] if not each.startswith("-")]
        yield (name,)
        yield from ((name, part) for part in parts)


def names_in(lines):
    """The names of options and commands at the left of the boxes."""
    return {found[1] for line in lines if (found := re.match(r"│ (?:\* +)?([a-z-]+)\s", line))}


def shown(words, columns):
    """The help of a command on a terminal of this width."""
    console = Console(width=columns, file=StringIO())
    app([*words, "--help"], console=console)
    return console.file.getvalue().splitlines()


@pytest.mark.parametrize("columns", [40, 80])
def test_the_names_of_options_and_commands_are_whole(columns):
    for words in [(), *commands()]:
        lines, wide = shown(words, columns), shown(words, 200)
        assert max(map(len, lines)) <= columns, words
        assert names_in(wide) <= names_in(lines), words
        assert "--json" in names_in(wide) or words != ("plan",)


def test_a_wide_terminal_has_the_help_of_cyclopts(monkeypatch):
    ours = shown(("plan",), 120)
    monkeypatch.setattr(app, "help_formatter", None)
    assert shown(("plan",), 120) == ours
