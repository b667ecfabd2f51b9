"""Intervals and comparisons of repeats: as SciPy has them, and no winner within noise."""

import math
from types import ModuleType

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpu_core.decisions.optimization.experiments.repeats import (
    is_lower,
    leaders,
    mean_interval,
    mean_of,
    pareto_front,
    t_quantile,
)

VALUES = st.floats(1e-6, 1e6, allow_nan=False)
REPEATS = st.lists(VALUES, min_size=1, max_size=6)
# SciPy's statistics take more than a second to import: one process of several imports them.
WITH_SCIPY = pytest.mark.xdist_group("scipy")


@pytest.fixture(scope="module")
def stats() -> ModuleType:
    from scipy import stats

    return stats


@WITH_SCIPY
@pytest.mark.parametrize("freedom", [1.0, 1.5, 2.0, 4.0, 9.7, 30.0, 1e4])
@pytest.mark.parametrize("probability", [0.5, 0.75, 0.975, 0.9975, 0.99995])
def test_the_quantiles_are_those_of_scipy(
    stats: ModuleType, probability: float, freedom: float
) -> None:
    want_t = stats.t.ppf(probability, freedom)
    assert t_quantile(probability, freedom) == pytest.approx(want_t, rel=1e-6, abs=1e-9)


@WITH_SCIPY
def test_the_interval_is_that_of_scipy(stats: ModuleType) -> None:
    values = [3.0, 4.5, 3.9, 5.2]
    found = mean_interval(values)
    assert found is not None
    want = stats.t.interval(0.95, 3, np.mean(values), stats.sem(values))
    assert (found.low, found.high) == pytest.approx(want)


def test_one_repeat_has_no_interval() -> None:
    assert mean_interval([3.0]) is None


@WITH_SCIPY
@given(REPEATS, REPEATS, st.integers(1, 50))
def test_the_comparison_is_welchs_test(
    stats: ModuleType, one: list[float], other: list[float], comparisons: int
) -> None:
    found = is_lower(one, other, comparisons)
    if min(len(one), len(other)) < 2 or mean_of(one) >= mean_of(other):
        assert not found
        return
    if any(np.ptp(values) < 1e-9 * mean_of(values) for values in (one, other)):
        return  # SciPy warns that nothing is left of a variance
    p = stats.ttest_ind(one, other, equal_var=False).pvalue
    limit = 0.05 / comparisons
    if not math.isclose(p, limit, rel_tol=1e-3) and t_quantile(1 - limit / 2, 1) < 1e6:
        assert found == (p < limit)


@given(REPEATS, REPEATS)
def test_not_both_are_lower_than_the_other(one: list[float], other: list[float]) -> None:
    assert not (is_lower(one, other) and is_lower(other, one))


def test_repeats_without_any_noise_differ() -> None:
    assert is_lower([1.0, 1.0], [2.0, 2.0])
    assert not is_lower([1.0, 1.0], [1.0, 1.0])


@given(st.dictionaries(st.text(min_size=1, max_size=3), REPEATS, min_size=1, max_size=6))
def test_the_lowest_mean_is_among_the_leaders(samples: dict[str, list[float]]) -> None:
    found = leaders(samples)
    lowest = min(mean_of(values) for values in samples.values())
    assert any(mean_of(samples[name]) == lowest for name in found)


def test_among_equals_a_winner_is_rare_and_a_clear_one_is_found() -> None:
    rng = np.random.default_rng(7)
    rounds, false_winners, found_winners = 400, 0, 0
    for _ in range(rounds):
        equal = {str(n): rng.normal(1.0, 0.1, 5).tolist() for n in range(5)}
        false_winners += len(leaders(equal)) == 1
        better = equal | {"0": rng.normal(0.5, 0.1, 5).tolist()}
        found_winners += leaders(better) == ("0",)
    # 5% are permitted; 400 rounds at 5% exceed 34 in 1 of 1,000 series (binomial).
    assert false_winners <= 34
    assert found_winners >= 0.9 * rounds


@given(
    st.dictionaries(
        st.text(min_size=1, max_size=3),
        st.tuples(
            st.lists(VALUES, min_size=3, max_size=4), st.lists(VALUES, min_size=3, max_size=4)
        ),
        min_size=1,
        max_size=6,
    )
)
def test_the_front_is_never_empty_and_has_the_lowest_of_each_objective_or_its_equal(
    points: dict[str, tuple[list[float], list[float]]],
) -> None:
    front = pareto_front(points)
    assert front
    for objective in (0, 1):
        lowest = min(mean_of(both[objective]) for both in points.values())
        at_lowest = [name for name, both in points.items() if mean_of(both[objective]) == lowest]
        assert set(at_lowest) & set(front)


@pytest.mark.parametrize(
    ("points", "want_front"),
    [
        pytest.param(
            {"cheap": ([1.0, 1.1], [9.0, 9.1]), "fast": ([5.0, 5.1], [2.0, 2.1])},
            ("cheap", "fast"),
            id="a trade-off",
        ),
        pytest.param(
            {"good": ([1.0, 1.01], [2.0, 2.01]), "bad": ([5.0, 5.01], [9.0, 9.01])},
            ("good",),
            id="worse in both",
        ),
        pytest.param(
            {"good": ([1.0, 2.0], [2.0, 3.0]), "near": ([1.1, 2.1], [2.1, 3.1])},
            ("good", "near"),
            id="worse in both by noise only",
        ),
        pytest.param(
            {"good": ([1.0, 1.01], [2.0, 2.0]), "dear": ([5.0, 5.01], [2.0, 2.0])},
            ("good",),
            id="equal in one, worse in the other",
        ),
    ],
)
def test_the_front(points: dict, want_front: tuple[str, ...]) -> None:
    assert pareto_front(points) == want_front


def test_few_repeats_need_more_than_many_for_the_same_error() -> None:
    """One false name in 1,000: 3.3 standard errors are enough of a normal distribution only."""
    gap = 3.3
    few, many = (
        ([0.0, 2 * spread] * half, [gap, gap + 2 * spread] * half)
        for half in (5, 500)
        # The standard error of the difference is 1.
        for spread in ((half * (2 * half - 1) / (2 * half)) ** 0.5,)
    )
    assert is_lower(*many, 1, 0.002)
    assert not is_lower(*few, 1, 0.002)
