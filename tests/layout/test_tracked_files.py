"""Nothing in the repository depends on the machine it was written on, or on a package index."""

import re
from pathlib import Path

import pytest

MOST_BYTES = 500 * 1024

ROOT = Path(__file__).parents[2]

# Written in pieces, so that this file does not hold what it looks for.
FORBIDDEN = [
    pytest.param(r"pypi" + r"\.org", id="the address of the public package index"),
    pytest.param(r"python" + r"hosted\.org", id="the address of its files"),
    pytest.param(r"--(extra-)?index" + r"-url\b(?!`)[ =]", id="a choice of package index"),
    pytest.param(r"(?<![\w.}/])/(work|root|tmp/(wt|venv))" + r"(/|\b)", id="a machine's path"),
    pytest.param(r"(?<![\w.}/])/(home|Users)" + r"/\w+/", id="a person's folder"),
]


@pytest.mark.parametrize("pattern", FORBIDDEN)
def test_no_tracked_file_holds(pattern, tracked_files):
    forbidden = re.compile(pattern)
    found = [
        f"{path}:{number}: {line.strip()}"
        for path in tracked_files
        for number, line in enumerate(_lines(path), start=1)
        if forbidden.search(line)
    ]
    assert found == []


def _lines(path: str) -> list[str]:
    return (ROOT / path).read_text(encoding="utf-8", errors="replace").splitlines()


def test_no_tracked_file_is_a_package_or_large(tracked_files):
    """What a stray download leaves in the folder is not ours to carry."""
    strays = [
        path
        for path in tracked_files
        if path.endswith((".whl", ".gz", ".zip")) or (ROOT / path).stat().st_size > MOST_BYTES
    ]
    assert not strays
