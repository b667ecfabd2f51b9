"""Results: the numbers, and under which circumstances they were measured."""

import json
import os
import platform
import subprocess
from collections.abc import Sequence
from datetime import UTC, datetime
from importlib.metadata import version
from math import ceil
from pathlib import Path


def percentile(values: Sequence[float], share: float) -> float:
    """The smallest value that at least this share of all values does not exceed (nearest rank).

    Args:
        values: At least one.
        share: Above 0, up to 1.
    """
    return sorted(values)[ceil(share * len(values)) - 1]


def write(path: Path, circumstances: dict[str, object], results: object) -> None:
    """Write results as JSON, with the circumstances that held when the bench started."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps({**circumstances, "results": results}, indent=2) + "\n")
    print(f"\nWritten to {path}")


def circumstances() -> dict[str, object]:
    """Where, when and with which versions is measured from now on?"""
    return {
        "measured_at": datetime.now(UTC).isoformat(timespec="seconds"),
        "commit": _commit(),
        "machine": {
            "system": platform.platform(),
            "processor": platform.machine(),
            "cores": os.cpu_count(),
            # Others may use the machine too; the load says how much was asked of it.
            "load_average_1_5_15_min": os.getloadavg(),
        },
        "versions": {
            "python": platform.python_version(),
            **{name: version(name) for name in ("prefect", "sqlalchemy", "fastapi", "asyncpg")},
        },
    }


def _commit() -> str | None:
    """The commit that was measured, marked where files differ from it."""
    found = subprocess.run(
        ["git", "describe", "--always", "--dirty", "--abbrev=12"],
        capture_output=True,
        text=True,
        check=False,
    )
    return found.stdout.strip() or None
