"""The locks: every file of every package by its hash, no index, and one version everywhere."""

import re
import tomllib
from pathlib import Path

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

ROOT = Path(__file__).parents[2]
LOCKS = ("runtime", "quickstart", "dev", "sbom", "focus")
TOOLS = ("sbom", "focus")
"""Locks of tools in environments of their own, without this project."""
GROUPS = {
    "runtime": (),
    "quickstart": ("quickstart",),
    "dev": ("quickstart", "dev"),
    "sbom": ("sbom",),
    "focus": ("focus",),
}
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))


def locked(name):
    """The lock's requirements with their hashes: {package: (requirement, hashes)}."""
    text = (ROOT / "requirements" / f"{name}.txt").read_text(encoding="utf-8")
    lines = re.sub(r"^\s*#.*$", "", text, flags=re.MULTILINE).replace("\\\n", " ").splitlines()
    packages = {}
    for line in filter(str.strip, lines):
        stated, *hashes = line.split(" --hash=")
        requirement = Requirement(stated)
        packages[canonicalize_name(requirement.name)] = (requirement, hashes)
    return packages


def wanted_by(name):
    """What pyproject.toml asks for, for the use of this lock."""
    groups = PROJECT["dependency-groups"]
    stated = [*PROJECT["project"]["dependencies"], *PROJECT["build-system"]["requires"]]
    if name == "runtime":
        stated = PROJECT["project"]["dependencies"]
    if name in TOOLS:
        stated = []
    for group in GROUPS[name]:
        stated = [*stated, *groups[group]]
    return [Requirement(text) for text in stated]


@pytest.mark.parametrize("name", LOCKS)
def test_every_package_has_one_exact_version_and_its_hashes(name):
    packages = locked(name)
    loose = [
        package
        for package, (requirement, hashes) in packages.items()
        if not re.fullmatch(r"==[^,*]+", str(requirement.specifier))
        or not hashes
        or not all(re.fullmatch(r"sha256:[0-9a-f]{64} *", digest) for digest in hashes)
    ]
    assert len(packages) > (20 if name in TOOLS else 100)
    assert loose == []


@pytest.mark.parametrize("name", LOCKS)
def test_a_lock_names_no_place_to_download_from(name):
    text = (ROOT / "requirements" / f"{name}.txt").read_text(encoding="utf-8")
    assert re.findall(r"^-.*$|^.*(?:https?|file):.*$", text, flags=re.MULTILINE) == []


@pytest.mark.parametrize("name", LOCKS)
def test_a_lock_holds_what_the_project_asks_for(name):
    packages = locked(name)
    unmet = [
        str(wanted)
        for wanted in wanted_by(name)
        if not _is_met(wanted, packages.get(canonicalize_name(wanted.name)))
    ]
    assert unmet == [], "run `make lock`"


def test_the_development_lock_holds_the_other_two_in_the_same_versions():
    """One virtual environment serves `make quickstart` and `make test`."""
    development = versions("dev")
    quickstart = versions("quickstart")
    assert versions("runtime").items() <= quickstart.items()
    assert quickstart.items() <= development.items()


def test_no_lock_brings_a_deep_learning_framework():
    heavy = {"torch", "tensorflow", "tensorflow-cpu", "jax", "jaxlib"}
    assert heavy & {package for name in LOCKS for package in locked(name)} == set()


def versions(name):
    """What the lock pins: {package: "==version"}."""
    return {
        package: str(requirement.specifier) for package, (requirement, _) in locked(name).items()
    }


def _is_met(wanted, found):
    if found is None:
        return False
    (pin,) = found[0].specifier
    return wanted.specifier.contains(pin.version, prereleases=True)
