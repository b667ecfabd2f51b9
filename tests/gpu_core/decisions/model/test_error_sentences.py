"""The parts of a message are sentences, however they are joined and nested."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpu_core.decisions.model.errors import InvalidInput, as_sentences, ended, sentences


@pytest.mark.parametrize(
    ("clauses", "want_text"),
    [
        pytest.param(["gpu_count is missing"], "gpu_count is missing", id="one clause"),
        pytest.param(
            ["mode is unknown (got 'eazy')", "did you mean 'easy'?", "allowed: auto, easy"],
            "mode is unknown (got 'eazy'). Did you mean 'easy'? Allowed: auto, easy.",
            id="a question and a list",
        ),
        pytest.param(
            ["it failed", "first this. Then that."],
            "it failed. First this. Then that.",
            id="a clause that has its full stop",
        ),
        pytest.param(
            ["it failed", "gpu_type auto also works", "/etc/policy.yaml is read", "'a' is one"],
            "it failed. gpu_type auto also works. /etc/policy.yaml is read. 'a' is one.",
            id="names, paths and quotes keep their case",
        ),
        pytest.param(
            ["it failed", "start one with: prefect worker start --pool gpu"],
            "it failed. Start one with: prefect worker start --pool gpu",
            id="a command at the end is copied without a full stop",
        ),
        pytest.param(
            ["it failed", "run `prefect-gpu setup`"],
            "it failed. Run `prefect-gpu setup`.",
            id="a command in backticks",
        ),
        pytest.param(
            ["it said: no spac…", "free it"], "it said: no spac… Free it.", id="a cut text"
        ),
    ],
)
def test_clauses_become_sentences(clauses: list[str], want_text: str) -> None:
    assert sentences(*clauses) == want_text


def test_an_error_inside_another_has_no_second_full_stop() -> None:
    inner = InvalidInput("port", "is not a number", got="54x2", allowed="1 to 65535")
    want_text = "port is not a number (got '54x2'). Allowed: 1 to 65535."
    assert str(inner) == want_text
    assert ended(str(inner)) == want_text
    assert sentences(str(inner), "correct it") == f"{want_text} Correct it."


@given(st.lists(st.text(), min_size=2))
def test_sentences_stay_as_they_are(clauses: list[str]) -> None:
    """What is made of sentences already is not changed again."""
    once = as_sentences(clauses)
    assert as_sentences(once) == once
