"""The reference of the commands, from what their `--help` says."""

import inspect
import textwrap
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Literal, get_args, get_origin

from cyclopts import App, Argument

from gpu_core.cli.main import app
from gpu_core.cli.shared.exit_codes import DONE, INTERRUPTED, MEANING_OF_1, NO, WRONG_INPUT


def exit_code_table() -> str:
    """What the exit codes mean, as a table in Markdown."""
    rows = [
        ("every command", DONE, "The command completed successfully."),
        *((f"`{command}`", NO, f"{says[0].upper()}{says[1:]}.") for command, says in _ones()),
        ("every command", WRONG_INPUT, "Invalid arguments; no changes were made."),
        ("every command", INTERRUPTED, "Ctrl-C interrupted the command."),
        ("a worker", WRONG_INPUT, "A person has to correct the configuration; its log says how."),
    ]
    head = ["| Exit code | Of | Meaning |", "|---|---|---|"]
    return "\n".join([*head, *(f"| {code} | {of} | {says} |" for of, code, says in rows)]) + "\n"


def command_sections() -> str:
    """A section for each command: what it does, its arguments and examples."""
    return "\n".join(line for path, command in _commands() for line in _section(path, command))


def _ones() -> Iterator[tuple[str, str]]:
    return ((command, says) for command, says in MEANING_OF_1.items())


def _commands() -> Iterator[tuple[str, App]]:
    for name in _names(app):
        command = app[name]
        parts = _names(command)
        if not parts or command.default_command is not None:
            yield f"prefect-gpu {name}", command
        yield from ((f"prefect-gpu {name} {part}", command[part]) for part in parts)


def _names(group: App) -> list[str]:
    return [name for name in group if not name.startswith("-")]


def _section(path: str, command: App) -> Iterator[str]:
    yield f"## `{path}`\n"
    yield f"{command.help}\n"
    yield "| Argument | Default | Description |\n|---|---|---|"
    arguments = command.assemble_argument_collection()
    # What only groups arguments has no sentence of its own.
    yield from (_row(argument) for argument in arguments if argument.parameter.help)
    examples, _, _ = str(command.help_epilogue).removeprefix("Examples:\n").partition("\n\n")
    yield f"\n```sh\n{textwrap.dedent(examples)}\n```\n"


def _row(argument: Argument) -> str:
    said = " ".join(str(argument.parameter.help).split()).replace("|", "\\|")
    choices = _choices(argument.hint)
    listed = f" One of {', '.join(f'`{value}`' for value in choices)}." if choices else ""
    return f"| `{argument.names[0]}` | {_default(argument)} | {said}{listed} |"


def _default(argument: Argument) -> str:
    if argument.required:
        return "required"
    value: Any = argument.field_info.default
    if value in (None, False, (), inspect.Parameter.empty):
        return ""
    if isinstance(value, tuple):
        return ", ".join(f"`{part}`" for part in value)
    return f"`{value.as_posix() if isinstance(value, Path) else value}`"


def _choices(hint: Any) -> tuple[str, ...]:
    """The values that can be chosen, also inside a list of them."""
    if get_origin(hint) is Literal:
        return get_args(hint)
    return next((found for part in get_args(hint) if (found := _choices(part))), ())
