"""Prefect reads its settings when it is imported: what is said when they cannot be used."""

import os
import sys
from contextlib import redirect_stderr
from io import StringIO

from gpu_core.decisions.checks.prefect.api_address import NAME, check_api_address
from gpu_core.decisions.model.errors import InvalidInput

_REMEDY = (
    "please check your environment variables and the active profile in ~/.prefect/profiles.toml"
)


def load_prefect() -> None:
    """Import Prefect and have it read its settings.

    Raises:
        InvalidInput: A variable PREFECT_... or the active profile cannot be used.
    """
    address = os.environ.get(NAME)
    if address:
        check_api_address(address)  # Prefect's own error does not name the variable
    # Prefect's plugins print the same error in pydantic's words first.
    printed = StringIO()
    try:
        with redirect_stderr(printed):
            from prefect.settings import get_current_settings

            get_current_settings()
    except (ValueError, OSError) as error:
        raise _unusable(error) from None
    sys.stderr.write(printed.getvalue())


def _unusable(error: Exception) -> InvalidInput:
    from pydantic import ValidationError

    if not isinstance(error, ValidationError):
        return InvalidInput("Prefect's settings", "cannot be read", got=str(error), remedy=_REMEDY)
    # The first is the cause; further ones follow from it.
    first = error.errors(include_url=False)[0]
    if not first["loc"]:
        return InvalidInput("Prefect's settings", "cannot be used", got=first["msg"])
    return InvalidInput(
        _variable(str(first["loc"][-1])),
        "is not a valid value for this setting",
        got=first["input"],
        remedy=_REMEDY,
    )


def _variable(field: str) -> str:
    """The variable of the environment that sets this field, or the field where none does."""
    names = [
        name
        for name in sorted(os.environ)
        if name.startswith("PREFECT_") and name.endswith(f"_{field.upper()}")
    ]
    return names[0] if len(names) == 1 else f"Prefect's setting {field}"
