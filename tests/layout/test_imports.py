"""Imports form no circle: each file can be read, tested and moved without those that import it."""

from collections.abc import Iterable, Mapping
from graphlib import CycleError, TopologicalSorter

import grimp
import pytest


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
