"""Every duration of the policy is read the same way, and every mistake in one is named."""

import re

import pytest
from pydantic import ValidationError

from gpu_core.decisions.model.pydantic_errors import input_errors
from gpu_core.decisions.model.section import Section
from gpu_core.decisions.policy.policy import Policy
from tests.layout.policy_reference import kind_of_field, sections

_DURATIONS = [
    pytest.param(section, field.alias or name, id=f"{path}.{field.alias or name}")
    for path, section in sections("", Policy)
    for name, field in section.model_fields.items()
    if "duration" in kind_of_field(section, name)
]


def _mistakes(section: type[Section], key: str, value: object) -> list[str]:
    """What is said of this key with this value; nothing of other keys that are missing."""
    try:
        section.model_validate({key: value})
    except ValidationError as error:
        return [str(each) for each in input_errors(error, section) if each.field == key]
    return []


def test_the_policy_has_durations_in_most_sections() -> None:
    assert {"fair_share.half_life", "limits.max_duration"} <= {each.id for each in _DURATIONS}


@pytest.mark.parametrize(("section", "key"), _DURATIONS)
@pytest.mark.parametrize(
    ("value", "want"),
    [
        pytest.param("7 fortnights", "{} is not a duration (got '7 fortnights'). Allowed: whole"),
        pytest.param(7.5, "{} is not a duration (got 7.5). Allowed: whole seconds, or text such"),
        pytest.param(True, "{} is not a duration (got true). Allowed: whole seconds, or text"),
        pytest.param("7 days", "{} is not a duration (got '7 days'). Did you mean '7d'?"),
        pytest.param("1e3", "{} is not a duration (got '1e3'). Allowed: whole seconds, or text"),
        pytest.param(-7, "{} is out of range (got -7). Allowed: 0 seconds to 3650 days"),
        pytest.param("3651d", "{} is out of range (got '3651d'). Allowed: 0 seconds to 3650 days"),
    ],
)
def test_what_is_no_duration_is_named_with_what_is(section, key, value, want) -> None:
    (said,) = _mistakes(section, key, value)
    assert said.startswith(want.format(key))


@pytest.mark.parametrize(("section", "key"), _DURATIONS)
def test_a_number_that_is_too_small_comes_with_its_unit(section, key) -> None:
    """Each field takes 7 seconds, or says that 7 are seconds, and how days are written."""
    for said in _mistakes(section, key, 7):
        assert said.startswith(f"{key} is too small (got 7). Allowed: ")
        assert said.endswith("A number without a unit is seconds: write '7m', '7h' or '7d'.")
    assert any(not _mistakes(section, key, text) for text in ("1h", "35d"))


@pytest.mark.parametrize(("section", "key"), _DURATIONS)
def test_the_least_that_is_allowed_is_what_is_said(section, key) -> None:
    for said in _mistakes(section, key, 0):
        least = re.search(r"Allowed: ([\d,]+) ", said)
        assert least is not None
        least_s = int(least[1].replace(",", ""))
        assert not _mistakes(section, key, least_s)
        assert _mistakes(section, key, least_s - 1)
