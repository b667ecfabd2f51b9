"""Text of one line without control characters, for pages, labels and databases."""

import unicodedata

from pydantic import BeforeValidator

from gpu_core.decisions.model.errors import InvalidInput
from gpu_core.decisions.model.pydantic_errors import parsed_by

# They let a text look like another one (Unicode Technical Report 36, section 3.5).
_DIRECTIONS = "\u202a\u202b\u202c\u202d\u202e\u2066\u2067\u2068\u2069"


def checked_text(longest: int) -> BeforeValidator:
    """A validator for a pydantic field with text for pages, labels and databases.

    Text of one line, not blank, without control characters: PostgreSQL takes no NUL, and a
    terminal obeys some of the others.
    """

    def check(value: object, field: str) -> object:
        if not isinstance(value, str):
            return value  # the field's own type refuses it
        allowed = f"1 to {longest:,} characters of one line"
        if len(value) > longest:
            raise InvalidInput(field, f"has {len(value):,} characters", got=value, allowed=allowed)
        if value and not value.strip():
            raise InvalidInput(field, "is blank", got=value, allowed=allowed)
        bad = next((c for c in value if is_control(c)), None)
        if bad is not None:
            raise InvalidInput(
                field,
                f"has the control character U+{ord(bad):04X}",
                got=value,
                allowed=allowed,
                remedy="remove it",
            )
        return value

    return parsed_by(check)


def is_control(character: str) -> bool:
    """Does it control something instead of being text: NUL, line ends, half a surrogate pair?"""
    return unicodedata.category(character) in ("Cc", "Cs", "Zl", "Zp") or character in _DIRECTIONS


def without_controls(text: str, longest: int) -> str:
    """The same text for a page or a database, where no one can correct it.

    Args:
        text: Such as the name that a person gave to a flow run.
        longest: Characters of the result at most.
    """
    return "".join("\ufffd" if is_control(c) else c for c in text[:longest])
