"""The cause of a flow run's end before its flow started, from the output of its process."""

import re
from collections.abc import Iterable, Sequence
from dataclasses import replace
from pathlib import PurePosixPath
from typing import NamedTuple

from gpu_core.decisions.attempts.diagnosis import Diagnosis

_DEPLOYED_CODE = (
    "Ensure that the code is available in the image or on the worker's machine and that the "
    "deployment's entrypoint and pull steps are correct"
)
_INSTALL = (
    "Ensure that the package is installed in the run's environment or image and that the "
    "deployment's entrypoint and pull steps are correct"
)
_DRIVER = (
    "Ensure that the NVIDIA driver is installed on the node and is made available to "
    "containers by the NVIDIA Container Toolkit"
)


class _Sign(NamedTuple):
    """A line by which a reason is known."""

    line: re.Pattern[str]
    what: str
    """With the groups of the line."""
    remedy: str
    is_permanent: bool = False
    """Whether each further attempt would end in the same way."""


# A library of the driver, which nodes bring into containers; those of packages have other names.
_DRIVER_LIBRARY = r"(?P<why>lib(?:cuda|nvidia-[\w-]+|nvcuvid)\.so[^'\"]*)"

# The exception that the flow's file ends with. Those that it was raised from, or that the file
# handled before, stand in the output, too, and do not decide. Prefect 3.8: `load_script_as_module`.
_SCRIPT = re.compile(r"Script at '(?P<file>.+?)' encountered an exception: ")
_SCRIPT_SIGNS = (
    _Sign(
        re.compile(_SCRIPT.pattern + r"ImportError\(.*?" + _DRIVER_LIBRARY),
        "unable to import the flow code: {why}",
        _DRIVER,
    ),
    _Sign(
        re.compile(
            _SCRIPT.pattern
            + r"(?:ModuleNotFound|Import)Error\((?P<quote>['\"])(?P<why>.+)(?P=quote)"
        ),
        "unable to import the flow code: {why}",
        _INSTALL,
        is_permanent=True,
    ),
    _Sign(
        re.compile(
            _SCRIPT.pattern
            + r"(?:Syntax|Indentation|Tab)Error\((?P<quote>['\"])(?P<why>.+)(?P=quote), "
            r"\(['\"](?P<where>[^'\"]+)['\"], (?P<number>\d+),"
        ),
        "syntax error in {where}, line {number}: {why}",
        "Ensure that the code is valid for the Python version of the run",
        is_permanent=True,
    ),
    _Sign(
        re.compile(_SCRIPT.pattern + r"(?P<why>NameError\(.+|AttributeError\(\"module '.+)"),
        "failed to load {file}: {why}",
        "Ensure that the file can be imported without errors",
        is_permanent=True,
    ),
    _Sign(
        re.compile(_SCRIPT.pattern + r"(?P<why>.+)"),
        "failed to load {file}: {why}",
        "Ensure that the file can be imported without errors",
    ),
)
_NO_FILE = re.compile(r"FileNotFoundError: \[Errno 2\] No such file or directory: '(?P<file>.+?)'")

# Without such a line. Prefect 3.8: `load_function_and_convert_to_flow`, `run_step`; what says more
# comes first.
_SIGNS = (
    _Sign(
        re.compile(r"No module named '?prefect'?$"),
        "Prefect is not installed in the run's environment or image",
        "Ensure that Prefect is installed in the run's environment or image",
        is_permanent=True,
    ),
    _Sign(
        # Of our launcher.
        re.compile(
            r"^(?P<command>\S+) cannot be started: "
            r"(?P<why>No such file or directory|Permission denied|Exec format error)$"
        ),
        "failed to start the command {command}: {why}",
        "Ensure that the `command` job variable is correct and that the program is installed",
        is_permanent=True,
    ),
    _Sign(
        re.compile(r"Encountered error while running (?P<step>[\w.]+)"),
        "failed to run the deployment's pull step {step}",
        "Ensure that the step's URL, credentials and branch are correct",
    ),
    _Sign(
        re.compile(r"[Ff]unction with name '(?P<name>.+?)' not found in '(?P<file>.+?)'"),
        "flow {name!r} was not found in {file}",
        "Ensure that the deployment's entrypoint is correct and that the code is up to date",
        is_permanent=True,
    ),
    _Sign(
        re.compile(r"httpx\.Connect(?:Error|Timeout)\b"),
        "unable to connect to the Prefect API",
        "Ensure that PREFECT_API_URL is set to a URL that can be reached by the run",
    ),
    _Sign(
        re.compile(r"httpx\.ReadTimeout\b"),
        "the Prefect API did not respond in time",
        (
            "The server is running but responding slowly. Ensure that the server and its "
            "database have sufficient CPU resources"
        ),
    ),
)
# A flow that is deployed as a module; or what a program handled that a signal ended.
_MODULE_SIGNS = (
    _Sign(
        re.compile(r"^ImportError: " + _DRIVER_LIBRARY),
        "unable to import the flow code: {why}",
        _DRIVER,
    ),
    _Sign(
        re.compile(r"^(?:ModuleNotFound|Import)Error: (?P<why>.+)"),
        "unable to import the flow code: {why}",
        _INSTALL,
        is_permanent=True,
    ),
)
_LOADING = "Unexpected exception encountered when trying to load flow"

# An exception may quote a whole document, and the time of a search grows with its square.
_LONGEST_WHAT = 400
_LONGEST_LINE = 2_000


def why_unbegun(lines: Sequence[str]) -> Diagnosis | None:
    """The cause for which the flow of a run did not begin, with its remedy.

    Returns:
        None: no line shows the cause.
    """
    lines = [line[:_LONGEST_LINE] for line in lines]
    script = next((line for line in reversed(lines) if _SCRIPT.search(line)), None)
    if script is None:
        return _first(_SIGNS, lines) or _why_module_failed(lines)
    return _why_script_is_missing(script, lines) or _first(_SCRIPT_SIGNS, (script,))


def is_load_error_logged(lines: Iterable[str]) -> bool:
    """Is the traceback in this output on the run's page already?

    Prefect's engine logs to the run why it cannot load its flow. A second process, for the flow's
    hooks, prints the same traceback again.
    """
    return any(_LOADING in line for line in lines)


def _first(signs: Iterable[_Sign], lines: Sequence[str]) -> Diagnosis | None:
    for sign in signs:
        for line in reversed(lines):
            found = sign.line.search(line)
            if found is not None:
                what = sign.what.format(**found.groupdict())
                return _diagnosis(what, sign.remedy, is_permanent=sign.is_permanent)
    return None


def _why_module_failed(lines: Sequence[str]) -> Diagnosis | None:
    found = _first(_MODULE_SIGNS, lines)
    if found is None or is_load_error_logged(lines):
        return found
    return replace(found, is_permanent=False)


def _why_script_is_missing(script: str, lines: Sequence[str]) -> Diagnosis | None:
    """Is the file of the flow not there, and not one that it reads?"""
    deployed = _SCRIPT.search(script)
    found = next(filter(None, (_NO_FILE.search(line) for line in reversed(lines))), None)
    if deployed is None or found is None or "FileNotFoundError(" not in script:
        return None
    missing, entrypoint = PurePosixPath(found["file"]), PurePosixPath(deployed["file"])
    if missing.parts[-len(entrypoint.parts) :] != entrypoint.parts:
        return None
    return _diagnosis(f"file {missing} does not exist", _DEPLOYED_CODE, is_permanent=True)


def _diagnosis(what: str, remedy: str, *, is_permanent: bool) -> Diagnosis:
    message = f"Failed to start the flow: {what[:_LONGEST_WHAT].rstrip('.')}. {remedy}."
    return Diagnosis(message=message, is_permanent=is_permanent)
