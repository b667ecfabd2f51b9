"""Rows of text for a terminal of any width: columns where they fit, else a paragraph for each row.

No meaning is in colour alone, so that a pipe, `NO_COLOR` and a screen reader lose nothing.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from unicodedata import bidirectional

from rich.cells import cell_len
from rich.console import Console
from rich.text import Text

_GAP = "  "
_INDENT = "    "
_RIGHT_TO_LEFT = frozenset({"R", "AL"})
# First strong isolate, pop directional isolate: a name does not reorder what is around it.
_ISOLATE, _POP = "\u2068", "\u2069"


@dataclass(frozen=True, slots=True)
class QueueRow:
    """One run.

    Attributes:
        cells: One for each heading; the first is the row's title where there are no columns.
        notes: Sentences below it.
    """

    cells: tuple[str, ...]
    notes: tuple[str, ...] = ()


def lines(headings: Sequence[str], rows: Sequence[QueueRow], width: int | None) -> Iterator[str]:
    """The rows as lines of text.

    Args:
        headings: Of the columns.
        rows: Their cells are one line each.
        width: In columns of the terminal; None: as wide as need be, for a pipe.
    """
    widths = [
        max(map(cell_len, column))
        for column in zip(headings, *(row.cells for row in rows), strict=True)
    ]
    fits = width is None or sum(widths) + len(_GAP) * (len(widths) - 1) <= width
    if fits:
        yield _columns(headings, widths)
    for row in rows:
        yield from [_columns(row.cells, widths)] if fits else _paragraph(headings, row, width)
        for note in row.notes:
            yield from wrapped(note, width, _INDENT)


def wrapped(text: str, width: int | None, indent: str = "") -> Iterator[str]:
    """The text in indented lines that fit; a word is broken only where it is wider than a line."""
    if width is None:
        yield indent + text
        return
    room = max(10, width - cell_len(indent))
    for line in Text(text).wrap(Console(width=room), room, overflow="fold"):
        yield indent + line.plain.rstrip()


def isolated(name: str) -> str:
    """The name, kept from reordering the text around it where it is written right to left."""
    is_right_to_left = any(bidirectional(character) in _RIGHT_TO_LEFT for character in name)
    return f"{_ISOLATE}{name}{_POP}" if is_right_to_left else name


def _columns(cells: Sequence[str], widths: Sequence[int]) -> str:
    padded = (
        cell + " " * (width - cell_len(cell)) for cell, width in zip(cells, widths, strict=True)
    )
    return _GAP.join(padded).rstrip()


def _paragraph(headings: Sequence[str], row: QueueRow, width: int | None) -> Iterator[str]:
    yield from wrapped(row.cells[0], width)
    facts = ", ".join(
        f"{heading} {cell}" for heading, cell in zip(headings[1:], row.cells[1:], strict=True)
    )
    yield from wrapped(facts, width, _INDENT)
