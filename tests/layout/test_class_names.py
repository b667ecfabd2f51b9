"""One name, one thing: a reader who searches for a class of `gpu_core` finds one."""

import ast
from collections import defaultdict
from collections.abc import Iterable, Mapping
from pathlib import Path

import pytest

GPU_CORE = Path(__file__).parents[2] / "gpu_core"

TWICE: Mapping[str, str] = {
    "SaveWhenDue": "flows import it from the module of their trainer, `hugging_face` or `lightning`"
}
"""Names of several classes, each with its reason."""


def defined_twice(sources: Iterable[tuple[str, str]]) -> dict[str, list[str]]:
    """The public names of more than one class at the top of these modules, with where they are."""
    places = defaultdict(list)
    for path, source in sources:
        for node in ast.parse(source).body:
            if isinstance(node, ast.ClassDef) and not node.name.startswith("_"):
                places[node.name].append(path)
    return {name: sorted(paths) for name, paths in places.items() if len(paths) > 1}


def test_no_public_class_name_is_defined_twice() -> None:
    paths = sorted(GPU_CORE.rglob("*.py"))
    assert len(paths) > 500
    found = defined_twice((str(path.relative_to(GPU_CORE)), path.read_text()) for path in paths)
    assert found.keys() - TWICE.keys() == set(), found
    assert TWICE.keys() - found.keys() == set(), "these names are defined once"


@pytest.mark.parametrize(
    ("sources", "want"),
    [
        pytest.param(["class A: ...", "class B: ..."], {}, id="two names"),
        pytest.param(["class A: ...", "class A: ..."], {"A": ["0", "1"]}, id="one name"),
        pytest.param(["class _A: ...", "class _A: ..."], {}, id="of a module's own"),
        pytest.param(["class A: ...", "class B:\n    class A: ..."], {}, id="inside another class"),
    ],
)
def test_a_planted_second_class_is_found(sources: list[str], want: dict[str, list[str]]) -> None:
    numbered = ((str(number), source) for number, source in enumerate(sources))
    assert defined_twice(numbered) == want
