"""Tools beside Python that some tests need: run with them, or say in one line what is missing."""

import os
from typing import TypeVar

import pytest

Found = TypeVar("Found")

REQUIRE_ALL_VARIABLE = "PREFECT_GPU_REQUIRE_ALL"


def require(found: Found | None, what: str) -> Found:
    """The tool that was found; without it the test is skipped, or fails where all are required.

    Args:
        found: What a look-up such as `shutil.which` gave; None: the tool is not here.
        what: The tool's name for people, as in "a C compiler".
    """
    if found is not None:
        return found
    if os.environ.get(REQUIRE_ALL_VARIABLE) == "1":
        pytest.fail(
            f"{what} is missing, and {REQUIRE_ALL_VARIABLE}=1 forbids to skip", pytrace=False
        )
    pytest.skip(f"{what} is missing: `make system-deps` installs it")
