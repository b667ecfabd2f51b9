"""What the quotas of a policy may say, and what a person reads who contradicted themself."""

from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import ValidationError

from gpu_core.decisions.model.pydantic_errors import input_errors
from gpu_core.decisions.policy.quotas import QuotaPolicy, quota_contradictions
from gpu_core.decisions.quota.entitlement import divide, nominal_quota_of_teams, shares_by_weight
from gpu_core.testing.builders.quotas import make_quotas


def messages(data):
    """What is wrong with this section, one line each."""
    try:
        policy = QuotaPolicy.model_validate(data)
    except ValidationError as error:
        return [str(e) for e in input_errors(error, QuotaPolicy)]
    return [str(error) for error in quota_contradictions(policy)]


@pytest.mark.parametrize(
    ("data", "want_messages"),
    [
        pytest.param(
            {"teams": {"vision": {"nominal_quto": {"*": 4}}}},
            [
                "teams.vision.nominal_quto is not a known name. Did you mean 'nominal_quota'? "
                "Allowed: borrowing_limit, cohort, lending_limit, max_gpus_per_user, "
                "nominal_quota, weight."
            ],
            id="a misspelled key inside a team",
        ),
        pytest.param(
            {"teams": {"vision": {"nominal_quota": {"*": -1}}}},
            [
                "teams.vision.nominal_quota.* is not a number of GPUs (got -1). "
                "Allowed: GPUs, 0 or more, with at most three decimals."
            ],
            id="negative",
        ),
        pytest.param(
            {"teams": {"vision": {"nominal_quota": {"*": float("inf")}}}},
            [
                "teams.vision.nominal_quota.* is not finite (got inf). "
                "Allowed: GPUs, 0 or more, with at most three decimals."
            ],
            id="infinite",
        ),
        pytest.param(
            {"teams": {"vision": {"nominal_quota": {"a100/spto": 1}}}},
            [
                "teams.vision.nominal_quota.a100/spto has no known capacity type (got "
                "'a100/spto'). Did you mean 'spot'? Allowed: on-demand, spot, reserved."
            ],
            id="a misspelled capacity type",
        ),
        pytest.param(
            {"teams": {"vision": {"nominal_quota": {"A 100": 1}}}},
            [
                "teams.vision.nominal_quota.A 100 is not a flavor (got 'A 100'). Allowed: '*', a "
                "GPU type such as 'a100-80gb', a capacity type as '*/spot', or 'a100-80gb/spot'."
            ],
            id="no flavor at all",
        ),
        pytest.param(
            {"teams": {"vision": {"cohort": "reserch"}}, "cohorts": {"research": {}}},
            [
                "quotas.teams.vision.cohort is not one of the cohorts (got 'reserch'). "
                "Did you mean 'research'? Allowed: research."
            ],
            id="an unknown cohort",
        ),
        pytest.param(
            {"cohorts": {"a": {"parent": "b"}, "b": {"parent": "c"}, "c": {"parent": "b"}}},
            [
                "quotas.cohorts.b.parent is a cycle (got 'b → c → b'). Leave out the parent of the "
                "one that holds the others."
            ],
            id="a cycle, named once",
        ),
        pytest.param(
            {"teams": {"vision": {"nominal_quota": {"*": 2}, "lending_limit": {"*": 3}}}},
            [
                "quotas.teams.vision.lending_limit.* exceeds the quota that can be lent "
                "(got 3.0). Allowed: at most its nominal_quota, 2."
            ],
            id="lending more than it has",
        ),
        pytest.param(
            {
                "teams": {
                    "vision": {"nominal_quota": {"*": 8}},
                    "speech": {"nominal_quota": {"a100-80gb": 4}},
                }
            },
            [
                "quotas.teams.vision.nominal_quota does not specify a value for a100-80gb "
                "(got 'a number for *, while a100-80gb is counted by itself'). Add a100-80gb."
            ],
            id="a wide key next to another team's narrower one",
        ),
        pytest.param(
            {"teams": {"vision": {"lending_limit": {"a100-80bg": 4}}, "b": {"nominal_quota": {}}}},
            [
                "quotas.teams.vision.lending_limit.a100-80bg is a flavor that is not used "
                "in any nominal_quota or borrowing_limit. Allowed: *."
            ],
            id="a limit of a flavor that is free quota of",
        ),
        pytest.param(
            {"strategy": "static", "teams": {"vision": {"borrowing_limit": {"*": 1}}}},
            [
                "quotas.teams.vision.borrowing_limit has no effect with strategy static. "
                "Remove it or use strategy hybrid."
            ],
            id="static does not borrow",
        ),
        pytest.param(
            {"strategy": "dynamic", "reserved_ratio": 0.5},
            [
                "quotas.reserved_ratio has no effect with strategy dynamic. Remove it or "
                "use strategy hybrid."
            ],
            id="dynamic reserves nothing",
        ),
        pytest.param(
            {"teams": {"vision": {"weight": 0}}},
            ["teams.vision.weight is too small (got 0). Allowed: over 0."],
            id="no weight at all",
        ),
    ],
)
def test_refused(data, want_messages):
    """Each mistake is named with its field and the remedy."""
    assert messages(data) == want_messages


def test_users_are_limited_by_their_team():
    """Teams that are not listed have no such limit."""
    policy = make_quotas(teams={"vision": {"max_gpus_per_user": 4}, "speech": {}})
    limits = [policy.max_gpus_per_user(team) for team in ("vision", "speech", "other", None)]
    assert limits == [4, None, None, None]


def test_fractions_of_gpus_are_exact():
    """0.3 is 300 thousandths."""
    policy = make_quotas(teams={"vision": {"nominal_quota": {"*": 0.3}}})
    assert policy.teams["vision"].nominal_quota_milli == {"*": 300}


def test_weights_divide_along_the_tree():
    """The cohort has two thirds; its members divide those."""
    policy = make_quotas(
        cohorts={"research": {"weight": 2}},
        teams={
            "vision": {"cohort": "research", "weight": 3},
            "speech": {"cohort": "research"},
            "web": {},
        },
    )
    assert shares_by_weight(policy) == {
        "vision": Fraction(1, 2),
        "speech": Fraction(1, 6),
        "web": Fraction(1, 3),
    }
    assert nominal_quota_of_teams(policy, "*", 20_000) == {
        "vision": 3000,
        "speech": 1000,
        "web": 2000,
    }


def test_who_states_a_quota_does_not_divide_what_is_left():
    """7 of 14 are left, half of them reserved: 3 GPUs for two teams, the odd one by name."""
    policy = make_quotas(
        reserved_ratio=0.5,
        teams={"vision": {"nominal_quota": {"*": 6}}, "speech": {}, "web": {}},
        cohorts={"lab": {"nominal_quota": {"*": 1}}},
    )
    assert nominal_quota_of_teams(policy, "*", 14_000) == {
        "vision": 6000,
        "speech": 2000,
        "web": 1000,
    }
    assert nominal_quota_of_teams(policy, "*", 4_000) == {"vision": 6000, "speech": 0, "web": 0}


@given(
    st.integers(0, 1000),
    st.dictionaries(st.sampled_from("abcdefgh"), st.fractions(Fraction(1, 99), 99), min_size=1),
)
def test_dividing_gives_everything_away_and_no_team_a_whole_one_wrongly(total, shares):
    """Each is within one of the exact share."""
    parts = divide(total, shares)
    assert sum(parts.values()) == total
    whole = sum(shares.values())
    assert all(abs(parts[name] - total * share / whole) < 1 for name, share in shares.items())
