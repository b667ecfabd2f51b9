"""Tests by what they cost: `make test`, `test-integration`, `test-cluster`, `test-gpu`."""

from collections import Counter
from collections.abc import Iterable, Sequence
from enum import StrEnum

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
    "infra/": Tier.INTEGRATION,
    "notebooks/": Tier.INTEGRATION,
    "quickstart/": Tier.INTEGRATION,
}
_NEEDS = {
    "cluster": Tier.CLUSTER,
    "gpu": Tier.GPU,
    "browser": Tier.INTEGRATION,
    # Each of these tests starts processes that import or build everything.
    "clean_export": Tier.INTEGRATION,
    "focus_validators": Tier.INTEGRATION,
    "mlflow_process": Tier.INTEGRATION,
    "postgresql": Tier.INTEGRATION,
    "prefect_on_postgresql": Tier.INTEGRATION,
    "prefect_on_sqlite": Tier.INTEGRATION,
    "prefect_server": Tier.INTEGRATION,
    "quickstart": Tier.INTEGRATION,
}


def tier_of(path: str, needs: Iterable[str]) -> Tier:
    """Which tier is this test of?

    Args:
        path: Of its file, relative to `tests`, with slashes.
        needs: The names of its fixtures and markers.
    """
    by_folder = [tier for folder, tier in _FOLDERS.items() if path.startswith(folder)]
    by_need = [_NEEDS[name] for name in needs if name in _NEEDS]
    return max(by_folder + by_need, key=list(Tier).index, default=Tier.QUICK)


def left_out_lines(left_out: Sequence[Tier]) -> list[str]:
    """Which tests did not run, and which command runs them?

    Args:
        left_out: The tier of each test that was left out.
    """
    counts = Counter(left_out)
    return [_line(tier, counts[tier]) for tier in Tier if counts[tier]]


def _line(tier: Tier, count: int) -> str:
    noun = "test" if count == 1 else "tests"
    return f"{count:,} {noun} {CONTENTS[tier]}: {COMMANDS[tier]}"
