"""What the documentation says of the code is what the code has."""

from tests.layout.generated_docs import KUBERNETES, with_tables


def test_the_table_of_prefects_fields_is_current():
    """Otherwise `make docs` writes it anew."""
    text = KUBERNETES.read_text("utf-8")
    assert with_tables(text) == text
