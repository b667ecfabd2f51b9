"""The errors of this library; each says what was wrong, with what, and the remedy."""

import difflib
from collections.abc import Iterable


class GpuSchedulingError(Exception):
    """The base of every error raised by this library."""


class InvalidInput(GpuSchedulingError):
    """Something a person wrote cannot be used; nothing was changed.

    Args:
        field: The dotted path of the field, as the person wrote it.
        problem: What is wrong, as a clause ("is not a known GPU type").
        got: The value that came, if there was one to show.
        allowed: What would have been accepted, in words.
        nearest: The nearest known name, where a name was misspelt.
        remedy: What to do about it, if that is not obvious from the rest.
    """

    def __init__(
        self,
        field: str,
        problem: str,
        *,
        got: object = None,
        allowed: str | None = None,
        nearest: str | None = None,
        remedy: str | None = None,
    ) -> None:
        super().__init__(field, problem)
        self.field = field
        self.problem = problem
        self.got = got
        self.allowed = allowed
        self.nearest = nearest
        self.remedy = remedy

    def __str__(self) -> str:
        parts = [f"{self.field} {self.problem}"]
        if self.got is not None:
            parts[0] += f" (got {_shorten(repr(self.got))})"
        if self.nearest is not None:
            parts.append(f"did you mean {self.nearest!r}?")
        if self.allowed is not None:
            parts.append(f"allowed: {self.allowed}")
        if self.remedy is not None:
            parts.append(self.remedy)
        return "; ".join(parts)

    def __reduce__(self) -> tuple[object, ...]:
        # Exceptions cross process boundaries in Prefect; keyword-only arguments
        # do not survive the default pickling of exceptions.
        return (_rebuild, (type(self), self.__dict__))


def nearest_name(name: str, known: Iterable[str]) -> str | None:
    """Which known name was probably meant by `name`? None if nothing is close."""
    matches = difflib.get_close_matches(
        name.lower(), {k.lower(): k for k in known}, n=1, cutoff=0.6
    )
    if not matches:
        return None
    return next(k for k in sorted(known) if k.lower() == matches[0])


def listed(names: Iterable[str], limit: int = 12) -> str:
    """Names as a short, ordered list for a message: `a, b and 7 others`."""
    ordered = sorted(names)
    if len(ordered) <= limit:
        return ", ".join(ordered) or "none"
    return f"{', '.join(ordered[:limit])} and {len(ordered) - limit} others"


def _shorten(text: str, limit: int = 120) -> str:
    return text if len(text) <= limit else text[: limit - 1] + "…"


def _rebuild(cls: type[InvalidInput], attributes: dict[str, object]) -> InvalidInput:
    error = cls.__new__(cls)
    Exception.__init__(error, attributes["field"], attributes["problem"])
    error.__dict__.update(attributes)
    return error
