"""The cause of an attempt's failure after its start, and whether further ones would fail alike."""

import re
from collections.abc import Sequence
from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class Diagnosis:
    """The cause of an attempt's failure."""

    message: str
    """The failure and the remedy."""
    is_permanent: bool
    """Whether each further attempt would fail in the same way."""


# Prefect 3.8: the message of a flow's Failed state begins with one of these. What comes after the
# first line belongs to the exception.
_RAISED = re.compile(r"Flow run encountered an exception: (?P<error>.+)")
_PARAMETERS = re.compile(r"Validation of flow parameters failed with error: (?P<error>.+)", re.S)

# Of `checkpointing()`: neither class is raised for what may pass.
_STORE = re.compile(r"\bStoreMisconfigured: (?P<what>the checkpoint store .+)")
_ADDRESS = re.compile(r"\bInvalidInput: (?P<what>checkpoint_uri .+)")
_MODULE = re.compile(r"(?:\w+\.)*ModuleNotFoundError: (?P<what>No module named .+)")

_INSTALL = "Ensure that the module is installed in the run's environment or image"


def why_flow_failed(message: str | None) -> Diagnosis | None:
    """Is this the state of a flow that would fail in the same way each time?

    Args:
        message: Of the Failed state that the flow gave itself.

    Returns:
        None: another attempt may succeed.
    """
    text = message or ""
    if wrong := _PARAMETERS.match(text):
        what = " ".join(wrong["error"].split())
        return _permanent(
            f"Validation of the flow parameters failed: {what}. Please submit a new run "
            "with valid parameters"
        )
    raised = _RAISED.match(text)
    return None if raised is None else _why_raised(raised["error"])


def why_container_failed(lines: Sequence[str]) -> Diagnosis | None:
    """Is this the output of a program that would fail in the same way each time?

    Args:
        lines: The end of what a container without Prefect wrote, oldest first. A missing module
            counts where it is the last line: a program may handle an earlier one.

    Returns:
        None: another attempt may succeed.
    """
    for line in reversed(lines):
        if found := _STORE.search(line):
            return _permanent(found["what"])
    last = next((line for line in reversed(lines) if line.strip()), "")
    return _why_raised(last)


def _why_raised(error: str) -> Diagnosis | None:
    """The diagnosis by the last line of a traceback; None: another attempt may succeed."""
    if found := _STORE.match(error) or _ADDRESS.match(error):
        return _permanent(found["what"])
    if found := _MODULE.match(error):
        return _permanent(f"{found['what']}. {_INSTALL}")
    return None


def _permanent(message: str) -> Diagnosis:
    return Diagnosis(message=message, is_permanent=True)
