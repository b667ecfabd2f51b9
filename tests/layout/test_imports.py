"""What may be imported: nothing in a circle, and no package that an installation can lack."""

import ast
import sys
from collections.abc import Iterable, Iterator, Mapping
from graphlib import CycleError, TopologicalSorter
from importlib.metadata import packages_distributions
from pathlib import Path

import grimp
import pytest
from packaging.utils import canonicalize_name

from tests.installed.check_installed import OF_OTHERS
from tests.layout.test_locks import locked

ROOT = Path(__file__).parents[2]
OURS = {"blocks", "flows", "gpu_core"}
EXAMPLES = {"flows.classify_digits", "flows.train_digits"}
"""They stay behind when the wheel is built, and want what the quickstart installs."""


def circle(imports: Mapping[str, Iterable[str]]) -> list[str]:
    """The modules of one circle of imports, the first one again at the end; none: no circle."""
    try:
        TopologicalSorter(imports).prepare()
    except CycleError as error:
        found: list[str] = error.args[1]
        return found
    return []


def test_there_is_no_circle_of_imports():
    graph = grimp.build_graph("gpu_core", "blocks", "flows", cache_dir=None)
    imports = {module: graph.find_modules_directly_imported_by(module) for module in graph.modules}
    assert len(imports) > 500
    assert circle(imports) == []


@pytest.mark.parametrize(
    ("imports", "want_modules"),
    [
        pytest.param({"a": {"b"}, "b": {"c"}, "c": set()}, set(), id="a chain"),
        pytest.param({"a": {"b", "c"}, "b": {"c"}}, set(), id="two ways to one module"),
        pytest.param({"a": {"b"}, "b": {"a"}}, {"a", "b"}, id="two modules"),
        pytest.param({"a": {"b"}, "b": {"c"}, "c": {"b"}}, {"b", "c"}, id="a circle further down"),
    ],
)
def test_a_planted_circle_is_found(imports, want_modules):
    assert set(circle(imports)) == want_modules


def imported_at_once(node: ast.AST) -> Iterator[str]:
    """The top-level names that Python imports while it runs this module, without its functions."""
    for child in ast.iter_child_nodes(node):
        match child:
            case ast.Import():
                yield from (name.name.partition(".")[0] for name in child.names)
            case ast.ImportFrom(level=0, module=str(module)):
                yield module.partition(".")[0]
            case ast.FunctionDef() | ast.AsyncFunctionDef() | ast.Lambda():
                pass
            case ast.If(test=ast.Name(id="TYPE_CHECKING")):
                yield from (name for other in child.orelse for name in imported_at_once(other))
            case _:
                yield from imported_at_once(child)


def test_what_a_module_imports_is_in_the_runtime_lock():
    """A package of a user is imported in a function, or in a module that is listed."""
    installed = set(locked("runtime"))
    distributions = packages_distributions()
    lacking = {}
    for path in (path for folder in OURS for path in (ROOT / folder).rglob("*.py")):
        module = ".".join(path.relative_to(ROOT).with_suffix("").parts)
        for name in imported_at_once(ast.parse(path.read_text(encoding="utf-8"))):
            if name in sys.stdlib_module_names or name in OURS or module in EXAMPLES:
                continue
            if not installed & {canonicalize_name(of) for of in distributions.get(name, ())}:
                lacking[module] = name
    assert lacking == OF_OTHERS


@pytest.mark.parametrize(
    ("source", "want"),
    [
        pytest.param("import torch.nn", ["torch"], id="at the top"),
        pytest.param("from torch import nn", ["torch"], id="from a package"),
        pytest.param("try:\n import torch\nexcept ImportError:\n pass", ["torch"], id="tried"),
        pytest.param("class A:\n import torch", ["torch"], id="in a class"),
        pytest.param("def a():\n import torch", [], id="in a function"),
        pytest.param("if TYPE_CHECKING:\n import torch", [], id="for types"),
        pytest.param("from . import torch", [], id="of our own"),
    ],
)
def test_imports_of_functions_and_types_come_later(source, want):
    assert list(imported_at_once(ast.parse(source))) == want
