"""Large numbers as people write them."""

import pytest

from gpu_core.decisions.model.errors import InvalidInput
from gpu_core.decisions.requests.requirements.jobs.number_words import parse_count, short_count


@pytest.mark.parametrize(
    ("text", "want"),
    [
        pytest.param("7B", 7e9, id="a letter"),
        pytest.param("1.5 billion", 1.5e9, id="a word"),
        pytest.param("20 thousand", 20e3, id="thousand is not trillion"),
        pytest.param("2T", 2e12, id="trillion"),
        pytest.param("1,281,167", 1_281_167, id="commas"),
        pytest.param("1e9", 1e9, id="an exponent"),
        pytest.param(" 350m ", 350e6, id="spaces around it"),
    ],
)
def test_numbers(text, want):
    assert parse_count(text, "amount") == want


@pytest.mark.parametrize("text", ["", "many", "0", "-1", "7X", "1e999", "nan"])
def test_what_is_no_number_is_reported(text):
    with pytest.raises(InvalidInput, match="amount is not a number above zero"):
        parse_count(text, "amount")


@pytest.mark.parametrize(
    ("number", "want"),
    [(6.74e9, "6.74B"), (350e6, "350M"), (20_000, "20k"), (7, "7"), (1.5e12, "1.5T")],
)
def test_large_numbers_are_short(number, want):
    assert short_count(number) == want
