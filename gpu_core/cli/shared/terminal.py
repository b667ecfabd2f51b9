"""Text within a terminal's width."""

import shutil
import sys
import textwrap

from rich import box
from rich.table import Table
from rich.text import Text

_LEAST_COLUMNS = 20


def terminal_width() -> int | None:
    """How many columns has the terminal? None: the output goes to a program, one record a line."""
    return max(_LEAST_COLUMNS, shutil.get_terminal_size().columns) if sys.stdout.isatty() else None


def wrapped(text: str, indent: str) -> str:
    """The text in lines that fit; one line where a program reads it.

    Args:
        text: Its own indentation stays.
        indent: Of the lines after the first.
    """
    if not sys.stdout.isatty():
        return text
    columns = max(40, shutil.get_terminal_size().columns)
    return textwrap.fill(
        text, columns, subsequent_indent=indent, break_long_words=False, break_on_hyphens=False
    )


def simple_table(title: str, caption: str | None = None) -> Table:
    """A table with a line under its headings alone."""
    return Table(
        title=title,
        title_justify="left",
        caption=None if caption is None else Text(caption),
        caption_justify="left",
        box=box.SIMPLE_HEAD,
        padding=(0, 1, 0, 0),
        pad_edge=False,
    )
