"""The bench of job variables sees what is lost, and loses nothing itself."""

import pytest

from benchmarks import job_variables
from benchmarks.job_variables import is_presentable, measure
from tests.support.examples import examples


def test_of_some_inputs_none_is_lost():
    inputs = examples(3_000)
    outcome = measure(inputs, first_seed=1)
    assert outcome.lost == ()
    assert outcome.read > inputs / 6
    assert outcome.refused > inputs / 6


def test_an_error_that_is_no_refusal_is_a_lost_input(monkeypatch):
    def read(variables, _policy):
        if "team" in variables:
            raise OverflowError("date value out of range")
        return "team has\0 a NUL"

    monkeypatch.setattr(job_variables, "read", read)
    outcome = measure(20, first_seed=1)
    assert not outcome.is_good
    assert any("OverflowError" in line for line in outcome.lost)
    assert any("has\\x00 a NUL" in line for line in outcome.lost)


@pytest.mark.parametrize(
    ("message", "want"),
    [
        ("team is empty", True),
        ("two\nlines", True),
        ("a\0b", False),
        ("\x1b[2J", False),
        ("x" * 20_000, False),
    ],
)
def test_what_a_page_can_show(message, want):
    assert is_presentable(message) is want
