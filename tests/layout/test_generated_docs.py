"""What the documentation says of the code is what the code has."""

import pytest

from tests.layout.generated_docs import TABLES, with_tables


@pytest.mark.parametrize("path", [pytest.param(path, id=path.name) for path in TABLES])
def test_the_tables_are_current(path):
    """Otherwise `make docs` writes them anew."""
    assert with_tables(path) == path.read_text("utf-8")
