"""Options that several commands have, and numbers as people write them."""

from collections.abc import Sequence
from typing import Annotated

from cyclopts import Parameter, Token

AsJson = Annotated[bool, Parameter(name="--json", show_default=False, help="Print JSON.")]
"""`--json`: machines read the answer."""


def whole_number(help_text: str) -> Parameter:
    """An option that takes a whole number; `2.7` is refused instead of rounded."""
    return Parameter(converter=_whole_number, help=help_text)


def _whole_number(_kind: type, tokens: Sequence[Token]) -> int:
    return int(tokens[0].value)


def flag(help_text: str, name: str | None = None) -> Parameter:
    """An option without a value."""
    return Parameter(name=name, show_default=False, help=help_text)


def repeated(help_text: str) -> Parameter:
    """An option that may be given several times."""
    return Parameter(show_default=False, help=f"{help_text}; may be repeated.")
