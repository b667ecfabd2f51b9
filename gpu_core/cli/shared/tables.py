"""Tables that fit their terminal: columns where all words fit, else a paragraph for each row."""

from collections.abc import Iterator, Sequence
from copy import copy

from rich import box
from rich.cells import cell_len
from rich.console import Console
from rich.measure import Measurement
from rich.table import Column, Table
from rich.text import Text

from gpu_core.cli.shared.folding import fold, fold_list, isolated, phrases
from gpu_core.cli.shared.terminal import console

_INDENT = "    "
_INDENT_OF_NAME = "  "


def simple_table(title: str, caption: str | None = None) -> Table:
    """A table with a line under its headings alone."""
    return Table(
        title=title,
        caption=caption,
        box=box.SIMPLE_HEAD,
        padding=(0, 1, 0, 0),
        pad_edge=False,
    )


def print_table(table: Table, out: Console | None = None) -> None:
    """Print a table without a cut cell, a broken word, or a number apart from its unit.

    Args:
        table: Its cells are texts. Those of a column on the right or without wrapping stay on one
            line; its title and caption are as wide as the terminal.
        out: Where it is printed; None: the terminal.
    """
    out = out or console()
    _print_text(table.title, "table.title", out)
    _print_rows(table, out)
    _print_text(table.caption, "table.caption", out)


def paragraph(headings: Sequence[str], cells: Sequence[str], columns: int | None) -> Iterator[str]:
    """A row without columns: its first cell, and the others after their headings.

    Args:
        headings: Of the columns.
        cells: Of the row; empty ones are left out.
        columns: The width of a line; None: of any length.
    """
    if cells[0]:
        yield from fold(cells[0], columns, _INDENT_OF_NAME, splits_words=True)
    others = zip(headings[1:], cells[1:], strict=True)
    facts = [f"{heading} {cell}".strip() for heading, cell in others if cell]
    if facts:
        yield from fold_list(facts, columns, _INDENT)


def _print_text(text: object, style: str, out: Console) -> None:
    for line in [] if not text else _plain(text).splitlines():
        for folded in fold(line, out.width, splits_words=True):
            out.print(Text(folded, style=style))


def _print_rows(table: Table, out: Console) -> None:
    headings = [_plain(column.header) for column in table.columns]
    rows = list(zip(*([_plain(cell) for cell in c.cells] for c in table.columns), strict=True))
    columns = list(zip(table.columns, headings, *rows, strict=True))
    natural = [max(map(cell_len, texts)) for _, *texts in columns]
    widest = out.options.update_width(sum(natural) * 2 + 1_000)
    room = out.width - (Measurement.get(out, widest, table).maximum - sum(natural))
    for splits_names in (False, True):
        least = [_least_width(*column, splits_names=splits_names) for column in columns]
        widths = _widths(least, natural, room, [_is_whole(column) for column in table.columns])
        if widths is not None:
            out.print(_folded(table, headings, rows, widths, splits_names=splits_names))
            return
    for row in rows:
        for line in paragraph(headings, row, out.width):
            out.print(isolated(line))


def _is_whole(column: Column) -> bool:
    """Do its cells stay on one line? Numbers do, which stand on the right."""
    return column.no_wrap or column.justify == "right"


def _least_width(column: Column, heading: str, *cells: str, splits_names: bool) -> int:
    of_cells = cells if _is_whole(column) else _phrases(cells, splits_names=splits_names)
    of_heading = _phrases([heading], splits_names=splits_names)
    return max(map(cell_len, (*of_cells, *of_heading)), default=0)


def _phrases(texts: Sequence[str], *, splits_names: bool) -> list[str]:
    found = (phrases(text, splits_names=splits_names) for text in texts)
    return [phrase.strip() for of_text in found for phrase in of_text]


def _widths(
    least: Sequence[int], natural: Sequence[int], room: int, is_whole: Sequence[bool]
) -> list[int] | None:
    """The widths of the columns; None: some word does not fit.

    Args:
        least: The widths that break no word.
        natural: The widths that break no line.
        room: For all columns.
        is_whole: Columns with a heading alone to break: they get what texts leave.
    """
    if sum(least) > room:
        return None
    widths = list(least)
    for turn in (False, True):
        for most in range(max(natural) + 1):
            tried = [
                max(width, min(most, high)) if whole is turn else width
                for width, high, whole in zip(widths, natural, is_whole, strict=True)
            ]
            if sum(tried) > room:
                break
            widths = tried
    return widths


def _folded(
    table: Table,
    headings: Sequence[str],
    rows: Sequence[Sequence[str]],
    widths: Sequence[int],
    *,
    splits_names: bool,
) -> Table:
    """The table with lines that are broken already."""

    def cell(text: str, width: int) -> Text:
        lines = fold(text, width, splits_names=splits_names)
        return Text("\n".join(map(isolated, lines)))

    folded = copy(table)
    folded.columns, folded.rows = [], []
    folded.title = folded.caption = None
    for column, heading, width in zip(table.columns, headings, widths, strict=True):
        folded.add_column(cell(heading, width), justify=column.justify, width=width, no_wrap=True)
    for row, texts in zip(table.rows, rows, strict=True):
        cells = (cell(text, width) for text, width in zip(texts, widths, strict=True))
        folded.add_row(*cells, end_section=row.end_section)
    return folded


def _plain(text: object) -> str:
    return text.plain if isinstance(text, Text) else str(text)
