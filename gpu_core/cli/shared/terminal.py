"""Text within a terminal's width."""

import shutil
import sys
import textwrap


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
