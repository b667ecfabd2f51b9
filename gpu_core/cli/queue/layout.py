"""Rows of text for a terminal of any width: columns where they fit, else a paragraph for each row.

No meaning is in color alone, so that a pipe, `NO_COLOR` and a screen reader lose nothing.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from rich.cells import cell_len

from gpu_core.cli.shared.folding import fold
from gpu_core.cli.shared.tables import paragraph

_GAP = "  "
_INDENT = "    "


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
        yield from [_columns(row.cells, widths)] if fits else paragraph(headings, row.cells, width)
        for note in row.notes:
            yield from fold(_INDENT + note, width, _INDENT, splits_words=True)


def _columns(cells: Sequence[str], widths: Sequence[int]) -> str:
    padded = (
        cell + " " * (width - cell_len(cell)) for cell, width in zip(cells, widths, strict=True)
    )
    return _GAP.join(padded).rstrip()
