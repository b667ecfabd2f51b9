"""Options that several commands have, and numbers as people write them."""

from collections.abc import Sequence
from datetime import date
from typing import Annotated

from cyclopts import Parameter, Token

from gpu_core.decisions.model.errors import InvalidInput
from gpu_core.decisions.model.units import parse_duration_s

_FIRST_YEAR, _LAST_YEAR = 1970, 9998

AsJson = Annotated[
    bool, Parameter(name="--json", show_default=False, help="Output in JSON format.")
]
"""`--json`: machines read the answer."""


def whole_number(help_text: str) -> Parameter:
    """An option that takes a whole number; `2.7` is refused instead of rounded."""
    return Parameter(converter=_whole_number, help=help_text)


def _whole_number(_kind: type, tokens: Sequence[Token]) -> int:
    return int(tokens[0].value)


def duration(name: str, help_text: str) -> Parameter:
    """An option that takes whole seconds, or text such as `90m` or `1h30m`."""

    def seconds(_kind: type, tokens: Sequence[Token]) -> int:
        return parse_duration_s(tokens[0].value, name)

    return Parameter(
        name=f"--{name}",
        converter=seconds,
        metavar="DURATION",
        show_default=False,
        help=help_text,
    )


def parse_day(text: str, field: str) -> date:
    """The day that a text names.

    Args:
        text: Such as `2026-11-24`.
        field: The option's name, for the error.

    Raises:
        InvalidInput: It is not a date, or of no year that can be counted.
    """
    try:
        day = date.fromisoformat(text)
    except ValueError:
        raise InvalidInput(
            field, "is not a date", got=text, allowed="a date such as 2026-11-24"
        ) from None
    return require_countable(day, field, text)


def require_countable(day: date, field: str, text: str) -> date:
    """The day, if months before and after it have dates, too.

    Raises:
        InvalidInput: They have not, as with a mistyped year.
    """
    if not _FIRST_YEAR <= day.year <= _LAST_YEAR:
        allowed = f"{_FIRST_YEAR}-01-01 to {_LAST_YEAR}-12-31"
        raise InvalidInput(field, "is out of range", got=text, allowed=allowed)
    return day


def require_rows(limit: int) -> int:
    """Check the maximum number of rows of a table.

    Raises:
        InvalidInput: It is negative.
    """
    if limit < 0:
        raise InvalidInput("limit", "is negative", got=limit, allowed="0 or more rows")
    return limit


def flag(help_text: str, name: str | None = None) -> Parameter:
    """An option without a value."""
    return Parameter(name=name, show_default=False, help=help_text)


def repeated(help_text: str) -> Parameter:
    """An option that may be given several times."""
    return Parameter(show_default=False, help=f"{help_text}; may be repeated.")
