"""What a reader finds in a text, and what it leaves for the next one."""

import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TypeVar

from gpu_core.decisions.model.errors import InvalidInput

T = TypeVar("T")


class NoEstimate(InvalidInput):
    """A text names what nothing is known of, or cannot be estimated; GPUs may be chosen without."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Found:
    """One fact for the reader of the answer."""

    note: str
    is_assumed: bool = False


@dataclass(slots=True)
class TextLine:
    """A text in lower case; what a reader takes is not read a second time."""

    text: str
    notes: list[Found] = field(default_factory=list)

    def take(self, pattern: str) -> re.Match[str] | None:
        """Find the first match of whole words, and remove it from the rest."""
        match = re.search(rf"(?<![\w.]){pattern}(?!\w)", self.text)
        if match is not None:
            # A mark stays, so that the words around it do not become neighbours.
            self.text = f"{self.text[: match.start()]} ; {self.text[match.end() :]}"
        return match

    def has(self, pattern: str) -> bool:
        """Is one of these whole words left?"""
        return re.search(rf"(?<![\w.-])(?:{pattern})(?!\w)", self.text) is not None

    def understand(self, note: str) -> None:
        """The text says this."""
        self.notes.append(Found(note=note))

    def assume(self, note: str) -> None:
        """The text does not say this."""
        self.notes.append(Found(note=note, is_assumed=True))


def first(table: Sequence[tuple[str, T]], line: TextLine) -> T | None:
    """The value of the first pattern of the table that the line has as whole words."""
    return next((value for pattern, value in table if line.has(pattern)), None)


_WORDS = (
    (r"half a million", "0.5 million"),
    (r"half a billion", "0.5 billion"),
    (r"\b(?:a|one) (?=(?:thousand|million|billion|trillion|single)\b)", "1 "),
    (r"\ba hundred\b", "100"),
    (r"\ba dozen\b", "12"),
    *(
        (rf"\b{word}\b", str(number))
        for number, word in enumerate(
            ["one", "two", "three", "four", "five", "six", "seven", "eight", "nine", "ten"], start=1
        )
    ),
    (r"\b(\d+) hundred\b", r"\g<1>00"),
)


def line_of(text: str) -> TextLine:
    """A text in the form that all readers expect: lower case, one space, numbers as digits."""
    plain = " ".join(text.lower().replace("×", "x").replace("q&a", "qa").split())
    for pattern, number in _WORDS:
        plain = re.sub(pattern, number, plain)
    return TextLine(plain)
