"""The terminal of the person who gave the command, or the pipe of a program."""

import shutil
import sys
from typing import TYPE_CHECKING, TextIO

from gpu_core.cli.shared.folding import fold

if TYPE_CHECKING:
    from rich.console import Console

_LEAST_COLUMNS = 20
_LINES = 25
_PIPE_COLUMNS = 10_000
"""The width where a program reads the output: no table and no sentence is as wide."""


def terminal_width(stream: TextIO | None = None) -> int | None:
    """How many columns has the terminal? None: the output goes to a program, one record a line.

    Args:
        stream: Where the output goes; None: standard output.
    """
    if not (stream or sys.stdout).isatty():
        return None
    return max(_LEAST_COLUMNS, shutil.get_terminal_size().columns)


def console(columns: int | None = None, *, has_markup: bool = False) -> "Console":
    """Standard output for tables: as wide as the terminal; in a pipe, nothing is cut.

    Args:
        columns: A width for terminals and pipes alike; None: the terminal's.
        has_markup: `[bold]` in a text is a style. False: names and sentences are printed as they
            are, such as a run named `[red]`.
    """
    from rich.console import Console  # every command would load it, and few print tables

    width = columns or terminal_width() or _PIPE_COLUMNS
    # Without a height it would take every dumb terminal (TERM=dumb) for 80 columns.
    return Console(width=width, height=_LINES, markup=has_markup, emoji=False, highlight=False)


def print_notice(text: str) -> None:
    """Print a sentence on standard error, in lines that fit."""
    print("\n".join(fold(text, terminal_width(sys.stderr), "  ")), file=sys.stderr)


def wrapped(text: str, indent: str = "") -> str:
    """The text in lines that fit; one line where a program reads it.

    Args:
        text: Its own indentation stays.
        indent: Of the lines after the first.
    """
    return "\n".join(fold(text, terminal_width(), indent))
