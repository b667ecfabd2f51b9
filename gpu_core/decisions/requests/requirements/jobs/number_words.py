"""Large numbers as people write them: `7B`, `1.5 billion`, `20k`."""

import re

from gpu_core.decisions.model.errors import InvalidInput

NUMBER = r"(\d[\d,]*(?:\.\d+)?)\s*(k|thousand|million|m|billion|bn|b|trillion|t)?\b"
"""Two groups: the digits, and the word or letter for their size."""

_LARGEST = 1e18
_SIZES = {"k": 1e3, "t": 1e12, "m": 1e6, "b": 1e9}


def number_of(match: re.Match[str]) -> float:
    """The number that `NUMBER` has found.

    Raises:
        InvalidInput: It is over 10 to the 18th: no model and no data set is so large.
    """
    size = match[2]
    scale = 1e3 if size == "thousand" else _SIZES.get(size[0], 1) if size else 1
    number = float(match[1].replace(",", "")) * scale
    if number > _LARGEST:
        raise InvalidInput("text", "has too large a number", got=match[0], allowed="at most 1e18")
    return number


def parse_count(text: str, field: str) -> float:
    """The number that a text states.

    Args:
        text: Such as `7B`, `1.5 billion`, `1,000,000` or `1e9`.

    Raises:
        InvalidInput: The text is not a number above zero.
    """
    squeezed = text.strip().lower()
    match = re.fullmatch(NUMBER, squeezed)
    is_exponent = re.fullmatch(r"\d+(\.\d+)?e\d{1,2}", squeezed) is not None
    number = float(squeezed) if is_exponent else number_of(match) if match else 0.0
    if not number > 0:
        raise InvalidInput(
            field, "is not a number above zero", got=text, allowed="such as 7B, 350M, 20k or 1e9"
        )
    return number


def short_count(number: float) -> str:
    """A large number as people write it: `7B`, `1.5B`, `350M`, `20k`."""
    for size, letter in ((1e12, "T"), (1e9, "B"), (1e6, "M"), (1e3, "k")):
        if number >= size:
            return f"{number / size:.3g}{letter}"
    return f"{number:g}"
