"""Options that may hold a password: every user of a machine reads what processes were given."""

import argparse
import os
import sys
from pathlib import Path

from gpu_core.decisions.model.errors import InvalidInput
from gpu_core.decisions.model.redaction import secrets_in


def add_secret_option(command: argparse.ArgumentParser, name: str, help_text: str) -> None:
    """Add `--NAME`, and `--NAME-file` for values that nobody else may see."""
    command.add_argument(
        f"--{name}",
        help=f"{help_text}; a password in it is seen in the list of processes: give it in a file, "
        f"or in the variable {variable_of(name)}",
    )
    _add_file(command, name, f"a file with what --{name} takes; - reads standard input")


def add_secret_file(command: argparse.ArgumentParser, name: str, help_text: str) -> None:
    """Add `--NAME-file` alone, for what is nothing but a secret."""
    _add_file(command, name, f"a file with {help_text}; or in the variable {variable_of(name)}")


def _add_file(command: argparse.ArgumentParser, name: str, help_text: str) -> None:
    command.add_argument(f"--{name}-file", metavar="FILE", help=help_text)


def variable_of(name: str) -> str:
    """The environment variable that stands for an option."""
    return f"PREFECT_GPU_{name.replace('-', '_').upper()}"


def secret_option(options: argparse.Namespace, name: str) -> str | None:
    """What was given for this option: by itself, in a file, or in its environment variable?

    Raises:
        InvalidInput: It is given twice, or its file is empty or cannot be read.
    """
    key = name.replace("-", "_")
    value, file = getattr(options, key, None), getattr(options, f"{key}_file")
    if value is not None and file is not None:
        raise InvalidInput(
            f"--{name}-file", f"cannot be used with --{name}", remedy="leave one of them out"
        )
    if file is not None:
        return _read(name, file)
    if value is None:
        return os.environ.get(variable_of(name)) or None
    if secrets_in(value):
        print(
            f"  ! --{name}: its password stands in the list of processes while this command runs; "
            f"--{name}-file and {variable_of(name)} keep it hidden",
            file=sys.stderr,
        )
    return str(value)


def _read(name: str, file: str) -> str:
    field = f"--{name}-file"
    try:
        text = sys.stdin.read() if file == "-" else Path(file).read_text(encoding="utf-8")
    except (OSError, ValueError) as error:
        reason = error.strerror if isinstance(error, OSError) else "it is not text"
        raise InvalidInput(field, f"cannot be read: {reason}", got=file) from None
    if not text.strip():
        raise InvalidInput(field, "is empty", got=file)
    return text.strip()
