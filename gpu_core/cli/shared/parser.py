"""The parser of `prefect-gpu`: a mistake is one sentence, and `--help` names the exit codes."""

import argparse
import re
from ast import literal_eval
from collections.abc import Mapping, Sequence
from typing import Any, NoReturn

from gpu_core.decisions.model.errors import InvalidInput, listed, nearest_name

DONE, NO, WRONG_INPUT, INTERRUPTED = 0, 1, 2, 130

# argparse's sentence for a value that Python's own type refuses.
_NO_NUMBER = re.compile(r"argument (\S+): invalid (int|float) value: (.*)", re.DOTALL)
_KINDS = {"int": "a whole number", "float": "a number"}

_NO_SERVER = "the server refused or stopped answering"

MEANING_OF_1: Mapping[str, str] = {
    "prefect-gpu quickstart": "something was not as it should be",
    "prefect-gpu setup": "the server refused a step or stopped answering",
    "prefect-gpu check": "a file has an error",
    "prefect-gpu doctor": "something has failed",
    "prefect-gpu queue": _NO_SERVER,
    "prefect-gpu hold": _NO_SERVER,
    "prefect-gpu release": _NO_SERVER,
    "prefect-gpu move-up": _NO_SERVER,
    "prefect-gpu simulate": "the ledger's database cannot be read",
    "prefect-gpu plan": "nothing does what is wished, or the ledger's database cannot be read",
    "prefect-gpu catalog show": "the system refused to read or to print",
    "prefect-gpu catalog refresh": "nothing could be looked at, or not be kept",
    "prefect-gpu spot-replay": "a deadline was missed, or the ledger's database cannot be read",
}
"""What exit code 1 says, by command."""


def exit_codes(command: str) -> str | None:
    """The sentence of `--help` on a command's exit codes; None: it is a group of commands."""
    meaning = MEANING_OF_1.get(command)
    if meaning is None:
        return None
    return (
        f"Exit codes: {DONE}: done. {NO}: {meaning}. {WRONG_INPUT}: what was given cannot be used, "
        f"and nothing was changed. {INTERRUPTED}: interrupted."
    )


class CommandParser(argparse.ArgumentParser):
    """Its subparsers are of the same class; the parsed options name the innermost as `parser`."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.epilog = exit_codes(self.prog)
        self.set_defaults(parser=self)

    def error(self, message: str) -> NoReturn:
        """End with one sentence instead of the whole usage."""
        number = _NO_NUMBER.fullmatch(message)
        if number is not None:
            problem = f"is not {_KINDS[number[2]]}"
            message = str(InvalidInput(number[1], problem, got=literal_eval(number[3])))
        self.exit(WRONG_INPUT, f"{self.prog}: {message}; see `{self.prog} --help`\n")

    def _check_value(self, action: argparse.Action, value: Any) -> None:
        if action.choices is None or value in action.choices:
            return
        names = [str(choice) for choice in action.choices]
        mistake = InvalidInput(
            "/".join(action.option_strings) or str(action.metavar or action.dest),
            "is not one of the choices",
            got=value,
            allowed=listed(names, limit=20),
            nearest=nearest_name(str(value), names),
        )
        self.error(str(mistake))


def parse_options(
    parser: argparse.ArgumentParser, arguments: Sequence[str] | None
) -> argparse.Namespace:
    """Which options are these? Ends the process where they cannot be used."""
    options, unknown = parser.parse_known_args(arguments)
    if unknown:
        _refuse_unknown(options.parser, unknown[0])
    return options


def _refuse_unknown(parser: argparse.ArgumentParser, argument: str) -> NoReturn:
    name = argument.partition("=")[0]
    is_option = name.startswith("-")
    known = sorted(set(re.findall(r"(?<![\w-])--[a-z][a-z-]*", parser.format_help())))
    mistake = InvalidInput(
        name if is_option else "an argument",
        "is not a known option" if is_option else "is one too many",
        got=None if is_option else argument,
        allowed=listed(known, limit=40) if is_option else None,
        nearest=nearest_name(name, known) if is_option else None,
    )
    parser.error(str(mistake))
