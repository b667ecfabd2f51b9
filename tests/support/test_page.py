"""What counts as printed."""

import pytest

from tests.support.page import blocks_of, is_printed

PRINTED = "one\n  two 12:00 three\nfour\nfive\n"


@pytest.mark.parametrize(
    ("expected", "want"),
    [
        pytest.param("one\n", True, id="a line"),
        pytest.param("five\n", True, id="the last line"),
        pytest.param("on\n", False, id="a part of a line"),
        pytest.param("four\nfive\n", True, id="lines"),
        pytest.param("one\nfour\n", False, id="lines that do not follow each other"),
        pytest.param("one\n…\nfour\n", True, id="with others between"),
        pytest.param("four\n…\nfive\n", True, id="with none between"),
        pytest.param("four\n…\none\n", False, id="in another order"),
        pytest.param("  two … three\n", True, id="a part that differs"),
        pytest.param("…three\n", True, id="what begins in any way"),
        pytest.param("two … three\n", False, id="without its spaces"),
        pytest.param("  two .* three\n", False, id="no pattern"),
    ],
)
def test_what_is_printed(expected, want):
    assert is_printed(expected, PRINTED) is want


def test_the_blocks_of_a_page(tmp_path):
    page = tmp_path / "page.md"
    page.write_text("A page.\n\n```sh worker\nrun\n```\n\n```text 2\nno\n```\n\n`a` ```b```\n")
    found = [(b.language, b.rest, b.text, b.line) for b in blocks_of(page)]
    assert found == [("sh", "worker", "run\n", 3), ("text", "2", "no\n", 7)]
