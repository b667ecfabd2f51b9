"""Loading a flow puts `flows/` and the checkout in front of `sys.path`: nothing may be shadowed."""

import ast
import sys
from importlib.metadata import packages_distributions
from pathlib import Path

import pytest

import blocks
import flows

ROOT = Path(__file__).parents[2]
# Folders that Prefect puts on `sys.path`, with a file of ours in them loaded by its bare name.
ENTRY_FOLDERS = ("flows", "blocks")
ENTRY_FILES = sorted(
    path
    for folder in ENTRY_FOLDERS
    for path in (ROOT / folder).glob("*.py")
    if path.stem != "__init__"
)


@pytest.mark.parametrize("package", [flows, blocks], ids=["flows", "blocks"])
def test_the_package_is_ours_and_not_an_installed_one_of_that_name(package):
    assert Path(package.__file__).parent == ROOT / package.__name__


def test_no_entry_file_has_the_name_of_another_module():
    taken = sys.stdlib_module_names | set(packages_distributions())
    assert {path.stem for path in ENTRY_FILES} & taken == set()


def test_no_entry_file_imports_relatively():
    """A flow is loaded by its bare name: it has no package that a relative import could mean."""
    relative = [
        f"{path.relative_to(ROOT)}:{node.lineno}"
        for path in ENTRY_FILES
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8")))
        if isinstance(node, ast.ImportFrom) and node.level > 0
    ]
    assert relative == []
