"""The findings of a reader in a text, and the rest that it leaves for the next one."""

import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from decimal import Decimal
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
            # A mark stays, so that the words around it do not become neighbors.
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


def numbers_left(line: TextLine) -> tuple[str, ...]:
    """The numbers that no reader took, each with up to two words before it and one behind it."""
    pattern = r"(?:(?<![\w.-])[a-z][\w-]* ){0,2}(?<![\w.-])\d[\w.,%/:-]*(?: [a-z][\w-]*)?"
    found = (match[0].strip(" .,:;") for match in re.finditer(pattern, line.text))
    return tuple(dict.fromkeys(text for text in found if not re.search(_PRECISION, text)))


def moments_left(line: TextLine) -> tuple[str, ...]:
    """Times of completion in words that no reader takes: `by tomorrow`, `overnight`."""
    return tuple(dict.fromkeys(match[0] for match in re.finditer(_MOMENT, line.text)))


_MOMENT = (
    r"\b(?:(?:by|before|until|till) (?:the end of )?(?:(?:this|next|the) )?"
    r"(?:(?:mon|tues|wednes|thurs|fri|satur|sun|to)day|tomorrow|tonight|midnight|noon|week(?:end)?"
    r"|month)|overnight)\b"
)
_PRECISION = r"\b\d+[- ]?bits?\b"

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
    (r"(?<=\d )(thousand|million|billion|trillion)s(?: of)?\b", r"\1"),
    (r"\btwice\b", "2 times"),
    (r"\bhalf an hour\b", "30 minutes"),
    (r"\bhalf a day\b", "12 hours"),
    (r"(?:[~≈] ?|\b(?:approx\.?|approximately|roughly) )(?=\d)", "about "),
    (r"\btoks?\b", "tokens"),
    (r"(?<![\w./])(\d[\d,]*k?) ?/ ?(\d[\d,]*k?) tokens\b", r"\1 tokens in, \2 tokens out"),
    (
        r"(?<![\w./])(\d[\d,]*k?)[ -]tokens? (?:prompts?|inputs?)(?:,| and)? "
        r"(\d[\d,]*k?)[ -]tokens? (?:completions?|outputs?|answers?|responses?)\b",
        r"\1 tokens in, \2 tokens out",
    ),
)


def normalized_line(text: str) -> TextLine:
    """A text in the form that all readers expect: lower case, one space, numbers as digits."""
    plain = " ".join(
        text.lower().replace("×", "x").replace("q&a", "qa").replace("q/a", "qa").split()
    )
    for pattern, number in _WORDS:
        plain = re.sub(pattern, number, plain)
    plain = re.sub(_OWNER, "", plain)
    plain = re.sub(_GROUPED, lambda match: re.sub("[_ '’]", "", match[0]), plain)
    return TextLine(re.sub(_POWER, _digits_of_power, plain))


# Of a model's name on a hub: `qwen/qwen2.5-7b`.
_OWNER = r"(?<![\w./-])[a-z][a-z_-]*/(?=[a-z][\w.]*-[\w.-]*\d)"

# `1_000_000`, `1'000'000` and `10 000`, and `7e9`, `10^9`, `3 x 10^9`. Of numbers with spaces only
# those that end in 000: `llama 2 512 tokens` is no number.
_GROUPED = r"(?<![\w.,-])\d{1,3}(?:(?:[_'’]\d{3})+|(?: \d{3})* 000)(?![\w.])"
_POWER = (
    r"(?<![\w.^-])(?:(?P<digits>\d+(?:\.\d+)?)e\+?(?P<e>\d{1,2})"
    r"|(?:(?P<factor>\d+(?:\.\d+)?) ?[x*] ?)?10(?:\^|\*\*)(?P<power>\d{1,2}))(?![\w.-])"
)


def _digits_of_power(match: re.Match[str]) -> str:
    digits, exponent = match["digits"] or match["factor"] or "1", match["e"] or match["power"]
    number = Decimal(f"{digits}e{exponent}")
    return f"{number:f}" if number == number.to_integral_value() else match[0]
