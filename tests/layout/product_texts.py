"""The texts that the product may print, as sequences of words."""

import re
from collections.abc import Iterable, Iterator
from itertools import groupby
from pathlib import Path

VALUE = "*"
"""A value that is put into a text."""

_START, _END = "<", ">"
_LONGEST = 4

_LITERAL = re.compile(
    r"#[^\n]*|"
    r'(?P<prefix>[rbfRBF]{0,2})(?P<text>"""(?:[^\\]|\\.)*?"""'
    r"|'''(?:[^\\]|\\.)*?'''"
    r'|"(?:[^"\\\n]|\\.)*"'
    r"|'(?:[^'\\\n]|\\.)*')",
    re.DOTALL,
)
_BETWEEN = re.compile(r"\s*")
_FORMATTED = re.compile(r"\{[^{}]*(?:\{[^{}]*\}[^{}]*)*\}")
_PLACEHOLDER = re.compile(r"%[-+ 0-9.]*[sdrfgvq]|\{\{.*?\}\}|\{\w*\}")
_ESCAPE = re.compile(r"\\.", re.DOTALL)
_BREAK = re.compile(r"[\"`\n]")
_WORD = re.compile(r"[A-Za-z]+(?:['-][A-Za-z]+)*")
_AFTER = re.compile(r"[.,:;!?)'\"]+$")


def literals(source: str) -> Iterator[str]:
    """The texts in this Python code, adjacent ones joined, without docstrings; values are `*`."""
    joined: list[str] = []
    end = 0
    for found in _LITERAL.finditer(source):
        if found["text"] is None:
            continue
        if joined and _BETWEEN.fullmatch(source, end, found.start()) is None:
            yield "".join(joined)
            joined = []
        end = found.end()
        if not found["text"].startswith(('"""', "'''")):
            joined.append(_plain(found["text"][1:-1], is_formatted="f" in found["prefix"].lower()))
    if joined:
        yield "".join(joined)


def _plain(text: str, *, is_formatted: bool) -> str:
    text = text.replace("*", "")
    if is_formatted:
        text = _FORMATTED.sub(VALUE, text.replace("{{", "").replace("}}", ""))
    return _ESCAPE.sub(" | ", text)


def words(text: str) -> Iterator[str | None]:
    """The words of this text in lower case; None is what is no plain word, `*` a value.

    A name with other characters in it, or in quotes, is no plain word. Words on both sides of a
    comma or a period do not follow each other.
    """
    for part in text.split():
        word = _AFTER.sub("", part)
        if VALUE in word:
            yield VALUE
        else:
            yield word.lower() if _WORD.fullmatch(word) else None
        if word != part:
            yield None


class Phrases:
    """Which words come after each other in these texts?"""

    def __init__(self, texts: Iterable[str]) -> None:
        self._known: set[tuple[str | None, ...]] = set()
        for text in texts:
            parts = [_START, *words(_PLACEHOLDER.sub(VALUE, text)), _END]
            for length in range(2, _LONGEST + 1):
                self._known.update(zip(*(parts[first:] for first in range(length)), strict=False))

    def unknown(self, text: str) -> Iterator[str]:
        """Which words of this text do not follow each other here?

        A text of two words counts, else three words in a row or more. A value may stand for some of
        them, and they may be the end of one text and the start of another one.
        """
        parts = list(words(text))
        for is_plain, run in groupby(parts, lambda word: word not in (None, VALUE)):
            plain = tuple(run)
            if not is_plain or len(plain) < (2 if len(parts) == 2 else 3):
                continue
            length = min(len(plain), _LONGEST)
            for first in range(len(plain) - length + 1):
                phrase = plain[first : first + length]
                if not self._has(phrase):
                    yield " ".join(map(str, phrase))

    def _has(self, phrase: tuple[str | None, ...]) -> bool:
        if phrase in self._known:
            return True
        length = len(phrase)
        is_with_value = any(
            (*phrase[:first], VALUE, *phrase[last:]) in self._known
            for first in range(length)
            for last in range(first + 1, min(first + length - 2, length) + 1)
        )
        if is_with_value:
            return True
        return any(
            (*phrase[:place], _END) in self._known and (_START, *phrase[place:]) in self._known
            for place in range(1, length)
        )


def product_texts(roots: Iterable[Path]) -> Iterator[str]:
    """The texts in the code, charts and configuration of these folders."""
    for root in roots:
        for path in root.rglob("*"):
            if path.suffix == ".py":
                yield from literals(path.read_text(encoding="utf-8"))
            elif path.suffix in {".yaml", ".tpl", ".json", ".sh", ".ipynb", ".txt"}:
                yield from _BREAK.split(path.read_text(encoding="utf-8").replace("*", ""))
