"""Who comes first by past usage: decay, weights, users, sweeps and bursts."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import ValidationError

from gpu_core.decisions.model.cluster import PastUsage
from gpu_core.decisions.model.pydantic_errors import input_errors
from gpu_core.decisions.policy.fair_share import FairSharePolicy
from gpu_core.decisions.quota.fair_share import Shares, UsageMeter, decayed

HOUR_S = 3600


def make_shares(used=None, gpus_by_group=None, worth_per_gpu_s=1.0, **rules):
    """Shares with these GPU-seconds by team and user."""
    policy = FairSharePolicy.model_validate(rules)
    usage = PastUsage(gpu_s_by_user=used or {})
    return Shares(policy, usage, gpus_by_group, worth_per_gpu_s)


def first(shares, *who):
    """Whose run comes first, in the order of submission among equals?"""
    return min(who, key=lambda run: shares.key(*run))


def test_a_half_life_of_zero_is_refused():
    """Kueue's issue 11134: there it silently switches the feature off."""
    with pytest.raises(ValidationError) as caught:
        FairSharePolicy.model_validate({"half_life": 0})
    errors = input_errors(caught.value, FairSharePolicy)
    assert [str(e) for e in errors] == ["half_life is too small (got 0). Allowed: 600 s or more."]
    assert FairSharePolicy().half_life_s == 24 * HOUR_S


def test_one_user_who_floods_the_line_waits_behind_another():
    """Kueue's issue 2297: after the first start of 1,000, bob's only run is next."""
    shares = make_shares()
    flood, bob = ("lab", "alice", None), ("lab", "bob", None)
    assert first(shares, flood, bob) == flood
    shares.admit(*flood, gpus=1, expected_s=None)
    assert first(shares, flood, bob) == bob
    shares.admit(*bob, gpus=1, expected_s=None)
    assert first(shares, flood, bob) == flood


def test_a_gang_that_ran_before_is_not_behind_its_users_fresh_runs():
    """Volcano's issue 5805: its own past and its size do not count against it alone."""
    shares = make_shares({("lab", "alice"): 64 * HOUR_S})
    line = [("small", 2), ("gang", 1), ("smaller", 3)]
    for _ in range(3):
        shares.admit("lab", "alice", None, gpus=1, expected_s=None)
        in_order = sorted(line, key=lambda run: (shares.key("lab", "alice", None), run[1]))
        assert [name for name, _ in in_order] == ["gang", "small", "smaller"]


def test_a_burst_in_one_cycle_cannot_win():
    """Eight places, two equal users, one with a hundred runs in line before the other's eight."""
    shares = make_shares()
    line = [("lab", "alice", None)] * 100 + [("lab", "bob", None)] * 8
    starts = []
    for _ in range(8):
        starts.append(first(shares, *line))
        line.remove(starts[-1])
        shares.admit(*starts[-1], gpus=1, expected_s=None)
    assert [user for _, user, _ in starts].count("alice") == 4


@pytest.mark.parametrize(
    ("by", "want_first"),
    [
        pytest.param("team", ("web", "carol", None), id="web has used 2 per weight, lab 3"),
        pytest.param("user", ("lab", "bob", None), id="bob has used 1 in both teams"),
        pytest.param("team-and-user", ("web", "carol", None), id="the team goes before the user"),
    ],
)
def test_between_whom(by, want_first):
    """Teams by weight, users by themselves, or both."""
    used = {("lab", "alice"): 2.0, ("lab", "bob"): 1.0, ("web", "carol"): 4.0}
    shares = make_shares(used, by=by, weights={"web": 2})
    runs = [(team, user, None) for team, user in used]
    assert first(shares, *runs) == want_first


def test_users_are_equal_inside_a_team():
    """Whatever their team's weight."""
    shares = make_shares({("lab", "alice"): 8.0, ("lab", "bob"): 4.0}, weights={"lab": 4})
    assert shares.key("lab", "alice", None) == (3.0, 8.0)
    assert shares.key("lab", "bob", None) == (3.0, 4.0)
    assert shares.key("lab", "new", None) == (3.0, 0.0)


@pytest.mark.parametrize("by", ["team", "user", "team-and-user"])
def test_a_sweep_stands_behind_its_users_other_runs(by):
    """By what it holds already, and what starts in this cycle; several sweeps gain nothing."""
    shares = make_shares({("lab", "alice"): 5.0}, {"sweep": 2}, by=by)
    sweep, other, single = [("lab", "alice", group) for group in ("sweep", "other", None)]
    assert first(shares, sweep, other) == other
    assert first(shares, sweep, single) == single
    shares.admit(*other, gpus=3, expected_s=None)
    assert first(shares, other, sweep) == sweep
    assert shares.key(*sweep) > make_shares({("lab", "alice"): 5.0}, by=by).key(*sweep)


@pytest.mark.parametrize(
    ("expected_s", "want_gpu_s"),
    [
        pytest.param(None, 2 * HOUR_S, id="unknown: the penalty"),
        pytest.param(1, 2 * HOUR_S, id="a short word does not lower it"),
        pytest.param(5 * HOUR_S, 10 * HOUR_S, id="known to be longer"),
    ],
)
def test_what_an_admission_is_charged(expected_s, want_gpu_s):
    """GPUs times the longer of the penalty and what is expected; dollars by their price."""
    for worth in (1.0, 500.0):
        shares = make_shares(worth_per_gpu_s=worth)
        shares.admit("lab", "alice", None, gpus=2, expected_s=expected_s)
        assert shares.key("lab", "alice", None) == (want_gpu_s * worth,) * 2


accounts = st.sampled_from([None, "a", "b"])
runs = st.tuples(accounts, accounts, st.sampled_from([None, "s"]))


@given(
    st.dictionaries(st.tuples(accounts, accounts), st.floats(0, 1e6)),
    st.sampled_from(["team", "user", "team-and-user"]),
    st.lists(st.tuples(runs, st.integers(1, 8), st.one_of(st.none(), st.floats(0, 1e5)))),
    runs,
)
def test_keys_only_grow(used, by, admitted, run):
    """A run behind another may only fall further behind when the other is not admitted."""
    shares = make_shares(used, by=by, weights={"a": 3})
    key = shares.key(*run)
    for who, gpus, expected_s in admitted:
        shares.admit(*who, gpus=gpus, expected_s=expected_s)
        grown = shares.key(*run)
        assert grown[0] >= key[0]
        assert grown[1] >= key[1]
        if who == run:
            assert grown > key
        key = grown


@pytest.mark.parametrize(
    ("elapsed_s", "want"),
    [
        pytest.param(0, 8.0, id="now"),
        pytest.param(HOUR_S, 4.0, id="one half-life"),
        pytest.param(3 * HOUR_S, 1.0, id="three half-lives"),
    ],
)
def test_decay(elapsed_s, want):
    """Half after each half-life."""
    assert decayed(8.0, elapsed_s, HOUR_S) == want


intervals = st.lists(
    st.tuples(st.sampled_from("ab"), st.integers(0, 9000), st.integers(1, 9000), st.integers(1, 8)),
    max_size=8,
)


@given(intervals, st.integers(600, 20_000), st.randoms(use_true_random=False))
def test_the_meter_is_the_integral_of_decayed_usage(held, half_life_s, rng):
    """Against a sum over 1-second steps, with the news in any order, some of it not ended."""
    now_s = 10_000
    meter = UsageMeter(half_life_s)
    news = []
    for account, start_s, length_s, gpus in held:
        news.append((account, gpus, start_s))
        if start_s + length_s <= now_s:
            news.append((account, -gpus, start_s + length_s))
    rng.shuffle(news)
    for account, gpus, at_s in news:
        (meter.start if gpus > 0 else meter.stop)(account, abs(gpus), at_s)
    second_s = np.arange(now_s) + 0.5
    weight = 0.5 ** ((now_s - second_s) / half_life_s)
    for account, amount in meter.usage(now_s).items():
        want = sum(
            gpus * weight[start_s : min(now_s, start_s + length_s)].sum()
            for name, start_s, length_s, gpus in held
            if name == account
        )
        assert amount == pytest.approx(want, rel=1e-6, abs=1e-6)


def test_time_alone_costs_nothing_and_overflows_nothing():
    """A year of silence at a half-life of a minute."""
    meter = UsageMeter(60)
    meter.start("a", 8, 0)
    meter.stop("a", 8, 600)
    meter.start("b", 1, 365 * 24 * HOUR_S)
    usage = meter.usage(366 * 24 * HOUR_S)
    assert usage["a"] == 0
    assert usage["b"] == pytest.approx(60 / np.log(2))


def test_rounding_leaves_nothing_below_zero():
    """0.3 − 0.1 − 0.2 GPUs are less than none in floats, and stay so for ever."""
    meter = UsageMeter(60)
    meter.start("a", 0.3, 0)
    meter.stop("a", 0.1, 60)
    meter.stop("a", 0.2, 60)
    assert meter.usage(24 * HOUR_S) == {"a": 0.0}
