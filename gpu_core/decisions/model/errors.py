"""The errors of this library; each says what was wrong, with what, and the remedy."""

import difflib
import re
from collections.abc import Iterable, Sequence

from gpu_core.decisions.model.redaction import redact

# Characters of one value, and of a field with the file that it is in, that a message shows.
_LONGEST_VALUE = 120
# A password must not be cut in front of the `@` by which it is known.
_LONGEST_ADDRESS = 4_000
_LONGEST_FIELD = 300
# A shorter beginning is that of too many names.
_SHORTEST_BEGINNING = 3
# An ordinary word: no name with `_`, `-` or `.`, no path, no quoted text.
_ORDINARY_WORD = re.compile(r"[a-z]+(?=[ ,:]|$)")
# The end of a clause is a command without quotes: a full stop would be copied with it.
_COMMAND_AT_END = re.compile(r"\b(?:run|with|then): [^`]*$")


class GpuSchedulingError(Exception):
    """The base of every error raised by this library."""


class InvalidInput(GpuSchedulingError):
    """Something a person wrote cannot be used; nothing was changed.

    Args:
        field: The dotted path of the field, as the person wrote it.
        problem: What is wrong, as a clause ("is not a known GPU type").
        got: The value that came, if there was one to show; passwords in addresses are hidden.
        allowed: What would have been accepted, in words.
        nearest: The nearest known name, where one was misspelled; several, where each may be meant.
        remedy: What to do about it, if that is not obvious from the rest.
    """

    def __init__(
        self,
        field: str,
        problem: str,
        *,
        got: object = None,
        allowed: str | None = None,
        nearest: str | Sequence[str] | None = None,
        remedy: str | None = None,
    ) -> None:
        super().__init__(field, problem)
        self.field = field
        self.problem = problem
        self.got = got
        self.allowed = allowed
        self.nearest = nearest
        self.remedy = remedy

    def at(self, field: str) -> "InvalidInput":
        """The same mistake in the field of this name."""
        return InvalidInput(
            field,
            self.problem,
            got=self.got,
            allowed=self.allowed,
            nearest=self.nearest,
            remedy=self.remedy,
        )

    @property
    def mistakes(self) -> tuple[tuple[str, ...], ...]:
        """For each mistake: what is wrong, the nearest name, what is allowed, the remedy."""
        parts = [f"{one_line(self.field, _LONGEST_FIELD)} {self.problem}"]
        if self.got is not None:
            parts[0] += f" (got {_shown(self.got)})"
        meant = alternatives(self.nearest)
        if meant is not None:
            parts.append(f"Did you mean {meant}?")
        if self.allowed is not None:
            parts.append(f"Allowed: {self.allowed}")
        if self.remedy is not None:
            parts.append(self.remedy)
        return (tuple(parts),)

    def __str__(self) -> str:
        return "\n".join(sentences(*clauses) for clauses in self.mistakes)

    def __reduce__(self) -> tuple[object, ...]:
        # Exceptions cross process boundaries in Prefect; keyword-only arguments
        # do not survive the default pickling of exceptions.
        return (_rebuild, (type(self), self.__dict__))


def sentences(*clauses: str) -> str:
    """One message of these clauses: a sentence for each."""
    return " ".join(as_sentences(clauses))


def as_sentences(clauses: Sequence[str]) -> tuple[str, ...]:
    """The clauses of a message, each as a sentence of its own.

    Args:
        clauses: The first begins with the name of a field and keeps its case, as does one that
            begins with a name, a path or quoted text. A clause alone gets no full stop.
    """
    if len(clauses) < 2:
        return tuple(clauses)
    first, *others = clauses
    return tuple(map(ended, (first, *map(_capitalized, others))))


def ended(clause: str) -> str:
    """The clause with a full stop, unless it ends with such a mark or with a command."""
    is_ended = clause.endswith((".", "?", "!", "…")) or _COMMAND_AT_END.search(clause)
    return clause if is_ended else f"{clause}."


def _capitalized(clause: str) -> str:
    return clause if _ORDINARY_WORD.match(clause) is None else clause[0].upper() + clause[1:]


def nearest_name(name: str, known: Iterable[str]) -> str | None:
    """The known name that was probably meant by `name`; None: nothing is close."""
    if len(name) > _LONGEST_VALUE:
        return None  # it is no misspelling, and to compare it takes long
    by_lower = {each.lower(): each for each in sorted(known, reverse=True)}
    matches = difflib.get_close_matches(name.lower(), by_lower, n=1, cutoff=0.6)
    if not matches and len(name) >= _SHORTEST_BEGINNING:
        matches = [each for each in by_lower if each.startswith(name.lower())]
    return by_lower[matches[0]] if len(matches) == 1 else None


def alternatives(names: str | Sequence[str] | None) -> str | None:
    """Names as a choice for a message: `'a', 'b' or 'c'`. None: there is no name."""
    quoted = [repr(name) for name in ([names] if isinstance(names, str) else names or ())]
    if len(quoted) < 2:
        return quoted[0] if quoted else None
    return f"{', '.join(quoted[:-1])} or {quoted[-1]}"


def listed(names: Iterable[str], limit: int = 12) -> str:
    """Names as a short, ordered list for a message, each once: `a, b and 7 others`."""
    ordered = sorted(set(names))
    if len(ordered) <= limit + 1:  # `1 others` is longer than most names
        return ", ".join(ordered) or "none"
    return f"{', '.join(ordered[:limit])} and {len(ordered) - limit} others"


def one_line(text: str, limit: int) -> str:
    """The text as one line that every database and page takes: escaped and cut where it has to be.

    Args:
        text: Anything, control characters and lone surrogates included.
    """
    shortened = _shorten(text, limit)
    if shortened.isprintable():
        return shortened
    return _shorten("".join(c if c.isprintable() else ascii(c)[1:-1] for c in shortened), limit)


def _shown(value: object) -> str:
    """The value as its owner wrote it, shortened so that it can be read."""
    if isinstance(value, str | bytes):
        value = value[:_LONGEST_ADDRESS]  # only the beginning is shown
    try:
        written = str(value).lower() if isinstance(value, bool) else repr(value)
        return _shorten(redact(written[:_LONGEST_ADDRESS]), _LONGEST_VALUE)
    except (ValueError, RecursionError):
        # Python writes no integer of more than 4,300 digits, and nothing of 1,000 levels.
        return f"{type(value).__name__} that is too large to show"


def _shorten(text: str, limit: int) -> str:
    return text if len(text) <= limit else text[: limit - 1] + "…"


def _rebuild(cls: type[InvalidInput], attributes: dict[str, object]) -> InvalidInput:
    error = cls.__new__(cls)
    Exception.__init__(error, attributes["field"], attributes["problem"])
    error.__dict__.update(attributes)
    return error
