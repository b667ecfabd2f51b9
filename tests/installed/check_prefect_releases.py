"""Do the lowest and the highest Prefect that pyproject.toml allows have the parts that are used?

Each is installed into a folder of its own, without dependencies, which stands first in the path of
a process that looks. `make test-prefect` runs this; it needs a package index.
"""

import os
import subprocess
import sys
import tempfile
from importlib.metadata import requires

from packaging.requirements import Requirement
from packaging.specifiers import SpecifierSet

NAMES = ("prefect", "prefect-kubernetes")
LOOK = (
    "from importlib.metadata import version; "
    "from gpu_core.adapters.prefect.internals import USED, USED_BY_COMMANDS, missing_parts; "
    "lacks = (*missing_parts(USED), *missing_parts(USED_BY_COMMANDS)); "
    "print('prefect', version('prefect'), 'prefect-kubernetes', version('prefect-kubernetes'), "
    "'lacks', ', '.join(lacks) or 'nothing'); raise SystemExit(bool(lacks))"
)


def lowest(allowed: SpecifierSet) -> str:
    """The release that `>=` names."""
    (version,) = (each.version for each in allowed if each.operator == ">=")
    return version


def has_all(wanted: list[str]) -> bool:
    """Install these releases next to the others, and look."""
    with tempfile.TemporaryDirectory() as folder:
        install = ("install", "--quiet", "--no-deps", "--target", folder, *wanted)
        uv = (sys.executable, "-m", "uv", "pip", *install, "--python", sys.executable)
        if subprocess.run(uv).returncode:  # it knows no pip.conf
            pip = (sys.executable, "-m", "pip", *install, "--disable-pip-version-check")
            subprocess.run(pip, check=True)
        looked = subprocess.run(
            [sys.executable, "-c", LOOK], env={**os.environ, "PYTHONPATH": folder}
        )
    return looked.returncode == 0


def main() -> int:
    """0: both have all."""
    allowed = {each.name: each for each in map(Requirement, requires("prefect-gpu") or ())}
    bounds = [allowed[name] for name in NAMES]
    # `0.8` is the release 0.8.0 for an index.
    oldest = [f"{each.name}=={lowest(each.specifier)}" for each in bounds]
    newest = [f"{each.name}{each.specifier}" for each in bounds]
    return 0 if all([has_all(oldest), has_all(newest)]) else 1


if __name__ == "__main__":
    sys.exit(main())
