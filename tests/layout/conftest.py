"""The checkout as git sees it: what is not tracked does not exist for other users."""

import shutil
import subprocess
from pathlib import Path

import pytest

from tests.support.tools import require

ROOT = Path(__file__).parents[2]


@pytest.fixture(scope="session")
def tracked_files() -> list[str]:
    """Paths of the tracked files that are there, relative to the root."""
    git = require(shutil.which("git"), "git")
    if not (ROOT / ".git").exists():
        pytest.skip("this is no git checkout")
    listing = subprocess.run(
        # The checkout may belong to another user than the one who runs the tests.
        [git, "-c", f"safe.directory={ROOT}", "ls-files", "-z"],
        cwd=ROOT,
        check=True,
        capture_output=True,
        text=True,
    )
    return [path for path in listing.stdout.split("\0") if path and (ROOT / path).exists()]


@pytest.fixture(scope="session")
def clean_export(tracked_files, tmp_path_factory) -> Path:
    """A copy of the tracked files alone, as a fresh clone has them."""
    export = tmp_path_factory.mktemp("export") / "checkout"
    for path in tracked_files:
        target = export / path
        target.parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(ROOT / path, target)
    return export
