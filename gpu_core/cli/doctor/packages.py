"""Which packages does prefect-gpu need, and which are installed?"""

from collections.abc import Iterator
from importlib.metadata import PackageNotFoundError, requires, version

from packaging.requirements import Requirement as Declared

from gpu_core.decisions.checks.doctor.versions import Requirement


def requirements() -> Iterator[Requirement]:
    """The packages that the installed prefect-gpu declares, those of its extras left out."""
    for line in requires("prefect-gpu") or ():
        declared = Declared(line)
        if declared.marker is not None and not declared.marker.evaluate({"extra": ""}):
            continue
        installed = _installed(declared.name)
        is_met = installed is not None and declared.specifier.contains(installed, prereleases=True)
        yield Requirement(
            name=declared.name,
            wanted=str(declared.specifier),
            installed=installed,
            is_met=is_met,
        )


def _installed(name: str) -> str | None:
    try:
        return version(name)
    except PackageNotFoundError:
        return None
