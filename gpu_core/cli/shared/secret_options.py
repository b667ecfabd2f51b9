"""Options that may hold a password: every user of a machine reads what processes were given."""

import os
import sys
from pathlib import Path

from cyclopts import Parameter

from gpu_core.cli.shared.terminal import print_notice
from gpu_core.decisions.model.errors import InvalidInput
from gpu_core.decisions.model.redaction import secrets_in


def secret(name: str, help_text: str) -> Parameter:
    """`--NAME`, whose help names the ways that keep a password hidden."""
    return Parameter(
        help=f"{help_text}. If the value contains a password, use --{name}-file or the "
        f"{variable_of(name)} environment variable instead, because command lines are "
        "visible to other users."
    )


def secret_file(name: str, help_text: str | None = None) -> Parameter:
    """`--NAME-file`, with the variable of the environment where it is the only option."""
    what = f"Path to a file containing the value of --{name}" if help_text is None else help_text
    other = "" if help_text is None else f" Can also be set with {variable_of(name)}."
    return Parameter(
        help=f"{what}, or `-` for stdin.{other}",
        allow_leading_hyphen=True,  # `-` would be taken for an option
    )


def variable_of(name: str) -> str:
    """The environment variable that stands for an option."""
    return f"PREFECT_GPU_{name.replace('-', '_').upper()}"


def secret_option(name: str, value: str | None, file: str | None) -> str | None:
    """The value of this option: given by itself, in a file, or in its environment variable.

    Raises:
        InvalidInput: It is given twice, or its file is empty or cannot be read.
    """
    if value is not None and file is not None:
        raise InvalidInput(
            f"--{name}-file",
            f"cannot be used with --{name}",
            remedy="please specify only one of these options",
        )
    if file is not None:
        return _read(name, file)
    if value is None:
        return os.environ.get(variable_of(name)) or None
    if secrets_in(value):
        print_notice(
            f"  ! --{name}: the password is visible to other users while this command is "
            f"running. Use --{name}-file or {variable_of(name)} instead."
        )
    return str(value)


def _read(name: str, file: str) -> str:
    field = f"--{name}-file"
    try:
        text = sys.stdin.read() if file == "-" else Path(file).read_text(encoding="utf-8")
    except (OSError, ValueError) as error:
        reason = error.strerror if isinstance(error, OSError) else "the file is not valid UTF-8"
        raise InvalidInput(field, f"cannot be read: {reason}", got=file) from None
    if not text.strip():
        raise InvalidInput(field, "is empty", got=file)
    return text.strip()
