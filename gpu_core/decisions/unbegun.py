"""Why a flow run ended before its flow began, as the output of its process tells."""

import re
from collections.abc import Sequence
from typing import NamedTuple

_DEPLOYED_CODE = (
    "Put the code where the run runs, such as into its image, or correct the deployment's "
    "entrypoint or pull steps"
)


class _Sign(NamedTuple):
    """A line by which a reason is known."""

    line: re.Pattern[str]
    what: str
    """With the groups of the line."""
    remedy: str


# Prefect 3.8: `load_flow_from_entrypoint`, `load_function_and_convert_to_flow`, `run_step`. What
# tells more comes first: Prefect's own errors stand behind those that they were raised from.
_SIGNS = (
    _Sign(
        re.compile(r"No module named '?prefect'?$"),
        "Prefect is not where the run runs",
        "Install it there, such as in the image",
    ),
    _Sign(
        re.compile(r"Encountered error while running (?P<step>[\w.]+)"),
        "the deployment's pull step {step} failed",
        "Correct the step, or what it needs: address, credentials, branch",
    ),
    _Sign(
        re.compile(r"[Ff]unction with name '(?P<name>.+?)' not found in '(?P<file>.+?)'"),
        "{file} has no flow {name!r}",
        "Correct the deployment's entrypoint, or bring the code that is there up to date",
    ),
    _Sign(
        re.compile(r"FileNotFoundError: \[Errno 2\] No such file or directory: '(?P<file>.+?)'"),
        "the file {file} is not there",
        _DEPLOYED_CODE,
    ),
    _Sign(
        re.compile(r"(?:ModuleNotFound|Import)Error: (?P<why>.+)"),
        "its code cannot be imported: {why}",
        "Install what is missing where the run runs, such as in its image; if it is the run's own "
        "code, correct the deployment's entrypoint or pull steps",
    ),
    _Sign(
        re.compile(r"Script at '(?P<file>.+?)' encountered an exception: (?P<why>.+)"),
        "loading {file} failed: {why}",
        "Mend what the file does when it is imported",
    ),
    _Sign(
        re.compile(r"httpx\.Connect(?:Error|Timeout)\b"),
        "Prefect's API does not answer it",
        "Let PREFECT_API_URL name an address that can be reached from there",
    ),
)

# Somebody's exception may quote a whole document.
_LONGEST_WHAT = 400


def why_unbegun(lines: Sequence[str]) -> str | None:
    """Why did the flow of a run not begin, and what helps?

    Args:
        lines: The end of what its process wrote.

    Returns:
        Two sentences for the run's page; None: no line tells.
    """
    for sign in _SIGNS:
        for line in reversed(lines):
            found = sign.line.search(line)
            if found is not None:
                what = sign.what.format(**found.groupdict())[:_LONGEST_WHAT]
                return f"The flow did not begin: {what.rstrip('.')}. {sign.remedy}."
    return None
