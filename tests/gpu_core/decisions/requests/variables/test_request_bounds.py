"""Job variables at and beyond the edges of what they may be: each is refused in one short line."""

import math

import pytest

from gpu_core.decisions.model import errors
from gpu_core.decisions.model.errors import InvalidInput
from gpu_core.decisions.model.plain_text import without_controls
from gpu_core.decisions.policy.policy import parse_policy
from gpu_core.decisions.requests.variables.job_variables import GpuRequest, parse_request

# Longer messages are no sentence for a person any more; 40 names are listed for an unknown one.
LONGEST_MESSAGE = 1_500

TOO_LONG_AN_INTEGER = 10**5_000


def nested(levels):
    value = []
    for _ in range(levels):
        value = [value]
    return value


def refused(**variables):
    """Why these variables are refused."""
    with pytest.raises(InvalidInput) as caught:
        parse_request(variables, ())
    return str(caught.value)


@pytest.mark.parametrize(
    ("variables", "want"),
    [
        pytest.param(
            {"deadline": "9999-12-31T23:59-14:00"},
            "deadline is out of range (got '9999-12-31T23:59-14:00'). Allowed: the years 1970 to",
            id="after the last moment of all",
        ),
        pytest.param(
            {"deadline": "0001-01-01T00:00+14:00"},
            "deadline is out of range",
            id="before the first moment of all",
        ),
        pytest.param({"deadline": "9" * 5_000}, "deadline is not a deadline", id="5,000 digits"),
        pytest.param({"max_duration": "9" * 5_000 + "h"}, "max_duration is not", id="a long unit"),
        pytest.param(
            {"max_duration": 10**400}, "max_duration is out of range", id="10 to the 400th"
        ),
        pytest.param(
            {"work": f"fine-tune a {'9' * 400}B model"},
            "work has too large a number",
            id="a model of 400 digits",
        ),
        pytest.param(
            {"work": "fine-tune a 7B model with LoRA " * 100},
            "work has 3,100 char",
            id="a long work",
        ),
        pytest.param(
            {"budget_usd": 1e308},
            "budget_usd is too large an amount in USD (got 1e+308). Allowed: 0 to 1,000,000,000",
            id="the largest budget of all",
        ),
        pytest.param(
            {"budget_usd": TOO_LONG_AN_INTEGER}, "budget_usd is too large", id="5,000 digits"
        ),
        pytest.param({"budget_usd": float("inf")}, "budget_usd is too large", id="infinite money"),
        pytest.param({"budget_usd": float("nan")}, "budget_usd is not an amount", id="no number"),
        pytest.param(
            {"gpu_count": TOO_LONG_AN_INTEGER}, "gpu_count is too large", id="so many GPUs"
        ),
        pytest.param({"gpu_type": ["t4"] * 100}, "gpu_type names 100 GPU types", id="types"),
        pytest.param(
            {"gpu_type": nested(5_000)}, "gpu_type is not a list of GPU", id="nested types"
        ),
        pytest.param(
            {"workload_type": nested(5_000)}, "workload_type is not one", id="a nested type"
        ),
        pytest.param({"gpu_fraction": 10**400}, "gpu_fraction is not a", id="a huge fraction"),
    ],
)
def test_numbers_are_bounded(variables, want):
    message = refused(**variables)
    assert message.startswith(want)
    assert len(message) < LONGEST_MESSAGE


@pytest.mark.parametrize("name", ["team", "project", "user", "model", "sweep", "gpu_priority"])
@pytest.mark.parametrize(
    ("text", "want"),
    [
        pytest.param("a\0b", "has the control character U+0000 (got 'a\\x00b')", id="NUL"),
        pytest.param("a\nb", "has the control character U+000A", id="two lines"),
        pytest.param("a\x1b[2J", "has the control character U+001B", id="a terminal's command"),
        pytest.param("a\ud800", "has the control character U+D800", id="half a character"),
        pytest.param("\u202eabc", "has the control character U+202E", id="from right to left"),
        pytest.param(" \t", "is blank", id="blank"),
        pytest.param("x" * 201, "has 201 characters", id="too long"),
        pytest.param("x" * 10**6, "has 1,000,000 characters", id="far too long"),
        pytest.param(nested(5_000), "is not text", id="a deep list"),
        pytest.param(TOO_LONG_AN_INTEGER, "is not text", id="a long integer"),
    ],
)
def test_text_is_checked(name, text, want):
    """PostgreSQL takes no NUL: one such run would throw back whatever is admitted with it."""
    message = refused(**{name: text})
    assert message.startswith(f"{name} {want}")
    assert message.isprintable()
    assert len(message) < LONGEST_MESSAGE


@pytest.mark.parametrize("text", ["Équipe 7", "研究", "team/vision: a+b", "x" * 200, "👩‍🔬"])
def test_names_of_all_languages_are_text(text):
    assert parse_request({"team": text}, ()).team == text


@pytest.mark.parametrize(
    ("name", "want"),
    [
        pytest.param("gpu\0count", r"gpu\x00count is not a known name", id="NUL"),
        pytest.param("x" * 10**6, "x" * 299 + "… is not a known name", id="a long one"),
    ],
)
def test_unknown_names_are_shown_in_one_short_line(name, want):
    message = refused(**{name: 1})
    assert message.startswith(want)
    assert message.isprintable()
    assert len(message) < LONGEST_MESSAGE


def test_of_very_many_mistakes_the_first_are_shown():
    lines = refused(**{f"unknown_{number}": 1 for number in range(100_000)}).splitlines()
    assert len(lines) == 11
    assert lines[-1] == "job_variables contain 100,000 unknown names"


@pytest.mark.parametrize(
    ("field", "data"),
    [
        ("prices.t4.spot", {"prices": {"t4": {"spot": 1e13}}}),
        (
            "budgets.0.usd",
            {"budgets": [{"name": "a", "scope": "pool", "period": "day", "usd": 1e13}]},
        ),
        (
            "budgets.0.gpu_hours",
            {"budgets": [{"name": "a", "scope": "pool", "period": "day", "gpu_hours": 1e308}]},
        ),
    ],
)
def test_amounts_of_the_policy_fit_into_the_ledger(field, data):
    """A price of 1e13 was more than the ledger's 64 bits: no GPU of its type could be given."""
    with pytest.raises(InvalidInput, match=f"{field} is too large"):
        parse_policy({"version": 1, **data})


def test_names_that_no_user_can_correct_are_cleaned():
    assert without_controls("a\0b\ud800c" + "x" * 100, 10) == "a\ufffdb\ufffdcxxxxx"


def test_bounds_are_no_narrower_than_they_say():
    """The largest values that the messages allow are taken."""
    request = parse_request(
        {
            "budget_usd": 1_000_000_000,
            "deadline": "2199-12-31T23:59:59Z",
            "max_duration": "3650d",
            "gpu_count": 64,
            "checkpoint_uri": "s3://" + "x" * 2_043,
        },
        (),
    )
    assert isinstance(request, GpuRequest)
    assert request.budget_micro_usd == 10**15


def test_only_the_beginning_of_a_value_is_looked_at_for_secrets():
    """A list of a million characters took half a second, in each of many mistakes."""
    longest = max(len(text) for text in _redacted(["token=" * 200_000]))
    assert longest < 5_000


def _redacted(value):
    """What is searched for secrets while the refusal of this team is written."""
    searched = []

    def redact(text):
        searched.append(text)
        return text

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(errors, "redact", redact)
        refused(team=value)
    return searched


def _nested(levels: int) -> object:
    value: object = "x"
    for level in range(levels):
        value = [value] if level % 2 else {"key": value}
    return value


@pytest.mark.parametrize(
    ("levels", "want"),
    [
        pytest.param(40, None, id="as deep as allowed"),
        pytest.param(41, "volumes is nested too deeply. Allowed: 40 levels at most", id="deeper"),
        pytest.param(200, "volumes is nested too deeply. Allowed: 40 levels", id="much deeper"),
        pytest.param(100_000, "volumes is nested too deeply", id="too deep for any recursion"),
    ],
)
def test_a_variable_of_the_infrastructure_has_bounded_levels(levels, want):
    """The worker remembers it with the attempt, whether it reads it or not."""
    variables = {"volumes": _nested(levels)}
    if want is None:
        parse_request(variables, {"volumes"})
        return
    with pytest.raises(InvalidInput, match=want):
        parse_request(variables, {"volumes"})


@pytest.mark.parametrize("number", [math.inf, -math.inf, math.nan])
@pytest.mark.parametrize("levels", [0, 1, 40])
def test_a_variable_of_the_infrastructure_has_finite_numbers(number, levels):
    """PostgreSQL's JSON has no others; the ledger could not remember the attempt."""
    value: object = number
    for level in range(levels):
        value = [0, value] if level % 2 else {"key": value}
    with pytest.raises(
        InvalidInput, match=r"^volumes has a number that is not finite \(got -?(inf|nan)"
    ):
        parse_request({"volumes": value}, {"volumes"})
