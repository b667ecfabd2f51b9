"""Tools that some tests need apart from Python: run with them, or say what is missing."""

import os
from typing import NoReturn, TypeVar

import pytest

Found = TypeVar("Found")

REQUIRE_ALL_VARIABLE = "PREFECT_GPU_REQUIRE_ALL"


def require(found: Found | None, what: str) -> Found:
    """The tool that was found; without it the test is skipped, or fails where all are required.

    Args:
        found: What a look-up such as `shutil.which` gave; None: the tool is not here.
        what: The tool's name for people, as in "a C compiler".
    """
    if found is None:
        do_without(f"{what} is missing", "`make system-deps` installs it")
    return found


def do_without(reason: str, remedy: str) -> NoReturn:
    """Skip the test, or fail it where everything is required.

    Args:
        reason: Why the test cannot run here.
        remedy: What would make it run.
    """
    if os.environ.get(REQUIRE_ALL_VARIABLE) == "1":
        pytest.fail(f"{reason}, and {REQUIRE_ALL_VARIABLE}=1 forbids to skip", pytrace=False)
    pytest.skip(f"{reason}: {remedy}")
