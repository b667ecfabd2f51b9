"""A page of the documentation as what it is: files, commands in terminals, and what they print."""

import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

_FENCE = re.compile(r"^```(?P<info>[^\n`]+)\n(?P<body>.*?)^```$", re.MULTILINE | re.DOTALL)
_GAP = "…"


@dataclass(frozen=True, slots=True)
class Block:
    """A fenced block.

    Attributes:
        language: The first word of its info string.
        rest: The words after it: a terminal, a file's name or an exit code; empty: none.
        text: What stands in it.
        line: The page's line where it begins.
    """

    language: str
    rest: str
    text: str
    line: int


def blocks_of(page: Path) -> Iterator[Block]:
    """The fenced blocks of a page, the first one first."""
    text = page.read_text(encoding="utf-8")
    for found in _FENCE.finditer(text):
        language, _, rest = found["info"].strip().partition(" ")
        line = text.count("\n", 0, found.start()) + 1
        yield Block(language=language, rest=rest, text=found["body"], line=line)


def is_printed(expected: str, printed: str) -> bool:
    """Does this text stand in what was printed?

    Args:
        expected: `…` is any part of a line; alone on a line, any lines or none.
        printed: All of it.
    """
    parts = []
    for line in expected.rstrip("\n").split("\n"):
        if line.strip() == _GAP:
            parts.append(r"(?:[^\n]*\n)*?")
        else:
            words = (re.escape(part) for part in line.split(_GAP))
            parts.append(r"[^\n]*".join(words) + r"[ \t]*\n")
    return re.search("^" + "".join(parts), printed.rstrip("\n") + "\n", re.MULTILINE) is not None
