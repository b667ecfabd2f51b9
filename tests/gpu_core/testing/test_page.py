"""What docs/testing.md shows works."""

import inspect
import re
from pathlib import Path

import pytest

PAGE = Path(__file__).parents[3] / "docs" / "testing.md"
BLOCKS = re.findall(r"```python\n(.*?)```", PAGE.read_text(), re.DOTALL)


@pytest.mark.parametrize("block", BLOCKS, ids=range(len(BLOCKS)))
def test_the_example_passes(block: str, tmp_path: Path) -> None:
    names: dict[str, object] = {}
    exec(compile(block, str(PAGE), "exec"), names)  # noqa: S102 - our own page

    tests = [value for name, value in names.items() if name.startswith("test_")]
    assert len(tests) == 1
    wants_folder = "tmp_path" in inspect.signature(tests[0]).parameters
    tests[0](**({"tmp_path": tmp_path} if wants_folder else {}))


def test_there_are_examples() -> None:
    assert len(BLOCKS) == 2
