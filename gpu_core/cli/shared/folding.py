"""Where lines break: between words, and neither in a number with its unit nor in a command."""

import re
from collections.abc import Iterable, Iterator
from unicodedata import bidirectional

from rich.cells import cell_len, chop_cells

_BLANK, _INK = r"[^\S\u00a0\u202f]", r"[\S\u00a0\u202f]"
_WORD = r"[^\W\d_]{1,12}"
# Of no more characters than a date has: each place of a long row of digits would look at the rest.
_NUMBER = r"(?<![\w$.,:])\d(?:[\d,.:–-]{0,30}\d)?"
_JOINED = "|".join(
    (
        r"`(?=\S)[^`\n]{1,30}`",  # a short command, so that it can be copied
        rf"{_NUMBER}[ ](?=[°×µ]|{_WORD}(?:-{_WORD})?(?![\w-]))",  # 3 GPUs, 10:00:00 UTC
        r"[×≥≤][ ](?=\S)",  # 8 × a100-80gb
        r"(?<!\w)\d+[dhm][ ](?=\d+[hms]\b)",  # 10m 00s
    )
)
_PHRASE = re.compile(rf"{_BLANK}*(?:{_JOINED}|{_INK})+")
# In names such as `train-large/nightly`, and not in dates, `a100-80gb` and `-$5`.
_PART_END = re.compile(r"(?<=\w[-/])(?=[^\W\d])")

# A name can neither move the cursor nor begin a line of its own.
_PRINTABLE = dict.fromkeys((*range(0x20), *range(0x7F, 0xA0)), "\ufffd") | dict.fromkeys(
    map(ord, "\t\n\r"), " "
)

_RIGHT_TO_LEFT = frozenset({"R", "AL"})
# First strong isolate, pop directional isolate: a name does not reorder what is around it.
_ISOLATE, _POP = "\u2068", "\u2069"


def phrases(text: str, *, splits_names: bool = False) -> list[str]:
    """The pieces of a text that stay on one line, each with the blanks before it.

    Args:
        text: A number and its unit are one piece.
        splits_names: A name may break after `-` or `/`, too.
    """
    # Blanks at the end belong to no piece, and each of them would look for one behind it.
    found = _PHRASE.findall(text.rstrip())
    return [part for each in found for part in _PART_END.split(each)] if splits_names else found


def fold(
    text: str,
    columns: int | None,
    indent: str = "",
    *,
    splits_names: bool = False,
    splits_words: bool = False,
) -> Iterator[str]:
    """The text in lines that fit.

    Args:
        text: Its own indentation stays; control characters are replaced.
        columns: The width of a line; None: a program reads it, in one line.
        indent: Of the lines after the first.
        splits_names: A name may break after `-` or `/`.
        splits_words: A word that is wider than a line is broken. False: it goes over the edge, so
            that a command or an address can be copied whole.
    """
    text = text.translate(_PRINTABLE)
    if columns is None:
        yield text
        return
    lines = _filled(phrases(text, splits_names=splits_names), columns, indent)
    for line in lines:
        yield from _chopped(line, columns, indent) if splits_words else [line]


def fold_list(items: Iterable[str], columns: int | None, indent: str) -> Iterator[str]:
    """Items with commas between them in indented lines; an item that fits a line is not broken.

    Args:
        items: Texts.
        columns: The width of a line; None: a program reads it, in one line.
        indent: Of every line.
    """
    *firsts, last = items
    pieces = [f" {item}," for item in firsts] + [f" {last}"]
    lines = ["".join(pieces)] if columns is None else _filled(pieces, columns - len(indent), "")
    for line in lines:
        yield from fold(indent + line.strip(), columns, indent, splits_words=True)


def isolated(name: str) -> str:
    """The name, kept from reordering the text around it where it is written right to left."""
    is_right_to_left = any(bidirectional(character) in _RIGHT_TO_LEFT for character in name)
    return f"{_ISOLATE}{name}{_POP}" if is_right_to_left else name


def _filled(pieces: Iterable[str], columns: int, indent: str) -> Iterator[str]:
    line: str | None = None
    for piece in pieces:
        if line is None:
            line = piece
        elif cell_len(line + piece) <= columns:
            line += piece
        else:
            yield line
            line = indent + piece.lstrip()
    yield line or ""


def _chopped(line: str, columns: int, indent: str) -> Iterator[str]:
    if cell_len(line) <= columns:
        yield line
        return
    first, *others = chop_cells(line, columns)
    yield first
    room = max(1, columns - cell_len(indent))
    for rest in chop_cells("".join(others), room):
        yield indent + rest
