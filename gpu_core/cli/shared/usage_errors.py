"""A mistake on the command line, in the form of all errors of this project."""

import sys
from collections.abc import Iterable, Iterator, Sequence
from typing import Any, Literal, get_args, get_origin

from cyclopts import (
    CoercionError,
    CycloptsError,
    MissingArgumentError,
    UnknownCommandError,
    UnknownOptionError,
    UnusedCliTokensError,
)

from gpu_core.cli.shared.folding import fold
from gpu_core.cli.shared.terminal import terminal_width
from gpu_core.decisions.model.errors import (
    InvalidInput,
    as_sentences,
    listed,
    nearest_name,
    sentences,
)


def usage_error(error: CycloptsError, example: str | None = None) -> InvalidInput:
    """The error for a wrong command line: the field, and what is allowed there.

    Args:
        example: A whole command line, for an argument that is missing.
    """
    unused = error.unused_tokens or [""]
    match error:
        case UnknownCommandError():
            names = sorted(name for name in error.app or () if not name.startswith("-"))
            return _no_choice("COMMAND", unused[0], names)
        case UnknownOptionError():
            known = {name for each in error.argument_collection for name in each.names}
            return unknown_option(error.token.keyword or error.token.value, {*known, "--help"})
        case CoercionError():
            return _wrong_value(error)
        case MissingArgumentError() if error.argument is not None:
            given = {token.partition("=")[0] for token in error.root_input_tokens or ()}
            is_given = not given.isdisjoint(error.argument.names)
            name = error.argument.name.replace("_", "-")
            if is_given:
                return InvalidInput(name, "needs a value")
            remedy = None if example is None else f"example: `{example}`"
            return InvalidInput(name, "is required", remedy=remedy)
        case UnusedCliTokensError():
            return InvalidInput("an argument", "was not expected", got=unused[0])
    return InvalidInput("the command line", "cannot be read", got=str(error))


def error_text(mistakes: Sequence[Sequence[str]]) -> str:
    """Mistakes for stderr: on a terminal a line or more for each sentence, else a line for each."""
    columns = terminal_width(sys.stderr)
    if columns is None:
        return "\n".join(sentences(*clauses) for clauses in mistakes)
    return "\n".join(line for clauses in mistakes for line in _folded(clauses, columns))


def _folded(clauses: Sequence[str], columns: int) -> Iterator[str]:
    first, *others = as_sentences(clauses)
    yield from fold(first, columns, "  ")
    for each in others:
        yield from fold(f"  {each}", columns, "    ")


def _no_choice(field: str, got: str, names: list[str]) -> InvalidInput:
    return InvalidInput(
        field,
        "is not one of the choices",
        got=got,
        allowed=listed(names, limit=20),
        nearest=nearest_name(got, names),
    )


def unknown_option(given: str, names: Iterable[str]) -> InvalidInput:
    """The error for an option that a command with these option names does not have."""
    name = given.partition("=")[0]
    known = sorted(name for name in names if name.startswith("--"))
    return InvalidInput(
        name,
        "is not a known option",
        allowed=listed(known, limit=40),
        nearest=_nearest_option(name, known),
    )


def _nearest_option(name: str, known: Sequence[str]) -> str | None:
    """The option that was probably meant; the two hyphens of all of them are no likeness."""
    found = nearest_name(name.lstrip("-"), [each.lstrip("-") for each in known])
    return None if found is None else f"--{found}"


def _wrong_value(error: CoercionError) -> InvalidInput:
    argument = error.argument
    token = error.token or (argument.tokens[0] if argument and argument.tokens else None)
    if token is None:
        return InvalidInput("the command line", "cannot be read", got=str(error))
    field = token.keyword or (argument.name if argument else "an argument")
    kind = _plain(error.target_type or (argument.hint if argument else None))
    if get_origin(kind) is Literal:
        return _no_choice(field, token.value, [str(choice) for choice in get_args(kind)])
    problem = {int: "is not a whole number", float: "is not a number", bool: "takes no value"}
    allowed = {int: "a whole number such as 8", float: "a number such as 0.5"}.get(kind)
    problem_here = problem.get(kind, "cannot be used")
    return InvalidInput(field, problem_here, got=token.value, allowed=allowed)


def _plain(hint: Any) -> Any:
    """The type without `| None`."""
    kinds = [kind for kind in get_args(hint) if kind is not type(None)]
    return kinds[0] if len(kinds) == 1 and get_origin(hint) is not Literal else hint
