"""What objects are called, and labels with any text in them."""

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpu_core.decisions.kubernetes.manifests.names import job_name, label_value

VALID_LABEL = re.compile(r"([A-Za-z0-9]([-A-Za-z0-9_.]{0,61}[A-Za-z0-9])?)?")
VALID_NAME = re.compile(r"[a-z]([-a-z0-9]*[a-z0-9])?")


@pytest.mark.parametrize(
    ("text", "want"),
    [
        pytest.param("vision", "vision", id="valid as it is"),
        pytest.param("", "", id="empty is valid"),
        pytest.param("a" * 63, "a" * 63, id="as long as it may be"),
        pytest.param("vision & speech", "vision-speech-46cdadda", id="a blank and an ampersand"),
        pytest.param("a" * 64, "a" * 54 + "-ffe054fe", id="too long"),
        pytest.param("größe", "gr-e-d353a267", id="letters that are not ASCII"),
        pytest.param("-", "3973e022", id="nothing that may stay"),
    ],
)
def test_label_value(text, want):
    assert label_value(text) == want


@given(st.text(max_size=200))
def test_any_text_becomes_a_valid_label_value(text):
    assert VALID_LABEL.fullmatch(label_value(text))


@given(st.text(max_size=100), st.text(max_size=100))
def test_different_texts_stay_different(one, other):
    assert (label_value(one) == label_value(other)) == (one == other)


@given(st.text(max_size=200))
def test_any_attempt_id_becomes_a_name_that_operators_accept(attempt_id):
    name = job_name(attempt_id)
    assert VALID_NAME.fullmatch(name)
    assert len(name) <= 47
    assert job_name(attempt_id) == name
