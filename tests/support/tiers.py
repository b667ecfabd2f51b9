"""Tests by what they cost: `make test`, `test-integration`, `test-cluster`, `test-gpu`."""

import re
from collections.abc import Iterable, Mapping, Set
from enum import StrEnum
from pathlib import Path, PurePosixPath

ALL = "all"


class Tier(StrEnum):
    """What a test needs apart from this process."""

    QUICK = "quick"
    INTEGRATION = "integration"
    CLUSTER = "cluster"
    GPU = "gpu"


COMMANDS = {
    Tier.QUICK: "make test",
    Tier.INTEGRATION: "make test-integration",
    Tier.CLUSTER: "make test-cluster",
    Tier.GPU: "make test-gpu",
}

CONTENTS = {
    Tier.QUICK: "without a server, or with one that starts in a second",
    Tier.INTEGRATION: "with Prefect, PostgreSQL, Chromium, helm or a clean clone, and stories",
    Tier.CLUSTER: "with a Kubernetes",
    Tier.GPU: "on a real NVIDIA GPU",
}

_FOLDERS = {
    "cluster/": Tier.CLUSTER,
    "end_to_end/": Tier.INTEGRATION,
    "gpu/": Tier.GPU,
    "infra/": Tier.INTEGRATION,
    "notebooks/": Tier.INTEGRATION,
    "quickstart/": Tier.INTEGRATION,
}
_MARKS = {
    "browser": Tier.INTEGRATION,
    "gpu": Tier.GPU,
    "quickstart": Tier.INTEGRATION,
}
# Each of these tests starts processes that import or build everything.
_FIXTURES = {
    "clean_export": Tier.INTEGRATION,
    "focus_validators": Tier.INTEGRATION,
    "mlflow_process": Tier.INTEGRATION,
    "postgresql": Tier.INTEGRATION,
    "prefect_on_postgresql": Tier.INTEGRATION,
    "prefect_on_sqlite": Tier.INTEGRATION,
    "prefect_server": Tier.INTEGRATION,
}
_NEEDS = _MARKS | _FIXTURES
_WRITTEN = re.compile(rf"\bmark\.({'|'.join(_MARKS)})\b|\b({'|'.join(_FIXTURES)})\b")


def tier_of(path: str, needs: Iterable[str]) -> Tier:
    """Which tier is this test of?

    Args:
        path: Of its file, relative to `tests`, with slashes.
        needs: The names of its fixtures and markers.
    """
    by_need = [_NEEDS[name] for name in needs if name in _NEEDS]
    return max([_tier_of_folder(path), *by_need], key=list(Tier).index)


def tiers_of_file(path: str, texts: Iterable[str]) -> frozenset[Tier]:
    """Which tiers may the tests of this file be of? Files of no other tier need be imported.

    Args:
        path: Of the file, relative to `tests`, with slashes.
        texts: The file and each `conftest.py` that holds for it alone and its neighbors.
    """
    found = (_WRITTEN.finditer(text) for text in texts)
    names = (match[1] or match[2] for matches in found for match in matches)
    return frozenset({_tier_of_folder(path), *(tier_of(path, [name]) for name in names)})


def tiers_of_files(root: Path) -> dict[str, frozenset[Tier]]:
    """The tiers that the tests of each file below a folder may be of, by path relative to it."""
    conftests = {
        path.parent: path.read_text(encoding="utf-8")
        for path in root.rglob("conftest.py")
        if path.parent != root  # it holds for all
    }
    return {
        path.relative_to(root).as_posix(): tiers_of_file(
            path.relative_to(root).as_posix(),
            [path.read_text(encoding="utf-8"), *(conftests.get(at, "") for at in path.parents)],
        )
        for path in root.rglob("test_*.py")
    }


def tiers_below(files: Mapping[str, frozenset[Tier]]) -> dict[str, frozenset[Tier]]:
    """The tiers of each file, and of all files below each folder, by path.

    Args:
        files: The tiers of each file, by its path with slashes.
    """
    found: dict[str, frozenset[Tier]] = {}
    for file, tiers in files.items():
        for path in (file, *map(str, PurePosixPath(file).parents)):
            found[path] = found.get(path, frozenset()) | tiers
    return found


def why_misplaced(path: str, tier: Tier, tiers: Set[Tier]) -> str | None:
    """Why would a test not be collected for its own tier, and what helps? None: it would be.

    Args:
        path: Of its file, relative to `tests`.
        tier: Of the test.
        tiers: What `tiers_of_file` says of the file.
    """
    if tier in tiers:
        return None
    return (
        f"This test is of the tier {tier}, for which {path} is not read. Name the fixture or the"
        " mark that makes it so in that file, or in a conftest.py beside it."
    )


def left_out_lines(left_out: Set[Tier]) -> list[str]:
    """Which tests did not run, and which command runs them?"""
    return [f"tests {CONTENTS[tier]}: {COMMANDS[tier]}" for tier in Tier if tier in left_out]


def _tier_of_folder(path: str) -> Tier:
    tiers = (tier for folder, tier in _FOLDERS.items() if path.startswith(folder))
    return next(tiers, Tier.QUICK)
