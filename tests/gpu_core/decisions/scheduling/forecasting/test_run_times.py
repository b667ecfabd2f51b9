"""How long a run will take, before it starts and while it runs."""

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpu_core.decisions.model.recent_sample import RecentSample
from gpu_core.decisions.model.workload import RunTime, RunTimeSource
from gpu_core.decisions.policy.run_times import RunTimePolicy
from gpu_core.decisions.scheduling.forecasting.run_times import (
    Estimate,
    RunKind,
    RunTimeHistory,
    estimate_of,
    expected_end_s,
    remaining_s,
    run_time,
)
from gpu_core.testing.builders.workloads import make_workload

POLICY = RunTimePolicy()
TRAIN_8 = RunKind(deployment="train", team="vision", gpus=8)
NINE = [100.0, 200.0, 300.0, 400.0, 500.0, 600.0, 700.0, 800.0, 900.0]

durations = st.lists(st.floats(0, 1e7), min_size=1, max_size=60)


def history_of(kind: RunKind, durations_s: list[float]) -> RunTimeHistory:
    history = RunTimeHistory()
    for duration_s in durations_s:
        history.observe(kind, duration_s)
    return history


@pytest.mark.parametrize(
    "seen",
    [
        pytest.param(TRAIN_8, id="same deployment and GPUs"),
        pytest.param(RunKind(deployment="train", team="x", gpus=1), id="same deployment"),
        pytest.param(RunKind(deployment="other", team="vision", gpus=8), id="same team and GPUs"),
        pytest.param(RunKind(deployment="other", team="vision", gpus=1), id="same team"),
        pytest.param(RunKind(gpus=64), id="same pool"),
    ],
)
def test_learns_from_runs_that_are_alike(seen: RunKind) -> None:
    learned = run_time(TRAIN_8, history_of(seen, NINE), POLICY)
    assert learned == RunTime(median_s=500, upper_s=800, source=RunTimeSource.LEARNED)


def test_prefers_the_most_alike_that_have_finished_often_enough() -> None:
    history = history_of(RunKind(deployment="train", team="vision", gpus=1), NINE)
    for _ in range(POLICY.min_runs - 1):
        history.observe(TRAIN_8, 10)
    before = run_time(TRAIN_8, history, POLICY)
    history.observe(TRAIN_8, 10)
    after = run_time(TRAIN_8, history, POLICY)
    assert before is not None
    assert before.upper_s > 10
    assert after == RunTime(median_s=10, upper_s=10, source=RunTimeSource.LEARNED)


@pytest.mark.parametrize(
    ("policy", "known", "expected"),
    [
        pytest.param(POLICY, {"stated_s": 60}, (60, 60, "stated"), id="stated first"),
        pytest.param(
            RunTimePolicy(use_stated=False), {"stated_s": 60}, (500, 800, "learned"), id="not used"
        ),
        pytest.param(POLICY, {"limit_s": 700}, (500, 700, "learned"), id="never over the limit"),
        pytest.param(
            POLICY, {"stated_s": 60, "limit_s": 50}, (50, 50, "stated"), id="stated over the limit"
        ),
        pytest.param(
            RunTimePolicy(min_runs=10), {"limit_s": 50}, (50, 50, "limit"), id="only the limit"
        ),
        pytest.param(RunTimePolicy(min_runs=10), {}, None, id="nothing"),
    ],
)
def test_the_first_source_that_is_known_counts(
    policy: RunTimePolicy, known: dict[str, float], expected: tuple[float, float, str] | None
) -> None:
    estimate = run_time(TRAIN_8, history_of(TRAIN_8, NINE), policy, **known)
    found = estimate and (estimate.median_s, estimate.upper_s, estimate.source.value)
    assert found == expected


def test_a_high_quantile_of_few_runs_is_not_made_up() -> None:
    assert run_time(TRAIN_8, history_of(TRAIN_8, NINE), RunTimePolicy(quantile=0.95)) is None


def test_forgets_old_runs_and_quiet_deployments() -> None:
    history = RunTimeHistory(runs_per_group=5, max_groups=2)
    for duration_s in (9e6, 1, 1, 1, 1, 1):
        history.observe(RunKind(deployment="old", gpus=1), duration_s)
    learned = run_time(RunKind(gpus=3), history, POLICY)
    assert learned is not None
    assert learned.upper_s == 1
    for duration_s in range(5):
        history.observe(RunKind(gpus=2), duration_s)  # the pool again: kept
        history.observe(RunKind(team="new", gpus=2), 7)
    assert run_time(RunKind(team="new", gpus=2), history, POLICY) is not None
    forgotten = run_time(RunKind(deployment="old", gpus=1), history, POLICY)
    assert forgotten is not None
    assert forgotten.median_s == 7, "the pool's, for want of its own"


@pytest.mark.parametrize(
    ("estimate", "elapsed_s", "rest_s"),
    [
        pytest.param(None, 10, None, id="nothing known"),
        pytest.param((100, 100, "stated"), 40, 60, id="exact: the rest of it"),
        pytest.param((100, 100, "stated"), 150, 150, id="outlasted: as long again"),
        pytest.param((100, 100, "limit"), 150, 0, id="over its limit: being stopped"),
        pytest.param((0, 0, "stated"), 0, 0, id="no time at all"),
        pytest.param((100, 300, "learned"), 0, 300, id="just started: the upper run time"),
        pytest.param((100, 100.0001, "learned"), 1e9, 1e9, id="beyond the precision of floats"),
    ],
)
def test_rest_of_a_run_from_its_run_time_alone(
    estimate: tuple[float, float, str] | None, elapsed_s: float, rest_s: float | None
) -> None:
    thought = estimate and RunTime(
        median_s=estimate[0], upper_s=estimate[1], source=RunTimeSource(estimate[2])
    )
    assert expected_end_s(thought, elapsed_s) == rest_s


@given(st.floats(1, 1e6), st.floats(1.05, 50), st.floats(0.01, 20))
def test_what_has_run_longer_ends_later(median_s: float, spread: float, times: float) -> None:
    estimate = RunTime(median_s=median_s, upper_s=median_s * spread, source=RunTimeSource.LEARNED)
    moments = [0.0, *(median_s * times * step for step in range(1, 6))]
    ends = [elapsed + (expected_end_s(estimate, elapsed) or 0) for elapsed in moments]
    assert all(later >= earlier * (1 - 1e-9) for earlier, later in pairwise(ends))


def test_history_gives_the_rest_of_runs_that_lasted() -> None:
    history = history_of(TRAIN_8, NINE)
    assert remaining_s(None, 0, history, TRAIN_8, POLICY) == 800
    assert remaining_s(None, 450, history, TRAIN_8, POLICY) == 450, "the last of five over 450"
    assert remaining_s(None, 650, history, TRAIN_8, POLICY) is None, "three are too few"


@pytest.mark.parametrize(
    ("source", "elapsed_s", "rest_s"),
    [
        pytest.param("stated", 50, 50, id="a statement holds"),
        pytest.param("stated", 450, 450, id="until it is outlasted: then history"),
        pytest.param("limit", 50, 50, id="a limit holds"),
        pytest.param("limit", 450, 0, id="a limit holds always"),
    ],
)
def test_rest_of_a_run_with_an_exact_estimate(source: str, elapsed_s: float, rest_s: float) -> None:
    exact = RunTime(median_s=100, upper_s=100, source=RunTimeSource(source))
    history = history_of(TRAIN_8, NINE)
    assert remaining_s(exact, elapsed_s, history, TRAIN_8, POLICY) == rest_s


@given(durations, st.floats(0.05, 0.95), st.integers(1, 40))
def test_a_sample_is_its_latest_values(values: list[float], q: float, size: int) -> None:
    sample = RecentSample(size)
    for value in values:
        sample.add(value)
    kept = values[-size:]
    assert sample.values() == tuple(kept)
    upper = sample.upper(q)
    if upper is not None:
        assert sum(value <= upper for value in kept) >= q * (len(kept) + 1)


def test_an_upper_run_time_covers_what_the_policy_asks() -> None:
    """Of each later run of an exchangeable sequence; here, a shuffled 0, 1, ..., 1008."""
    sequence = [float(step * 419 % 1009) for step in range(1009)]
    history = history_of(TRAIN_8, sequence[:100])
    under = 0
    for duration_s in sequence[100:]:
        estimate = run_time(TRAIN_8, history, POLICY)
        assert estimate is not None
        under += duration_s <= estimate.upper_s
        history.observe(TRAIN_8, duration_s)
    assert under / 909 == pytest.approx(0.8, abs=0.03)


HOUR_S = 3_600


def known(
    saved_s: float | None,
    history: RunTimeHistory | None = None,
    expected_duration_s: int | None = None,
) -> Estimate:
    return estimate_of(
        make_workload(team="vision", expected_duration_s=expected_duration_s),
        saved_s,
        deployment="train/gpu",
        limit_s=10 * HOUR_S,
        history=history or RunTimeHistory(),
        policy=RunTimePolicy(min_runs=1),
    )


@pytest.mark.parametrize(
    ("saved_s", "want_remaining_s"),
    [
        pytest.param(5 * HOUR_S, 3 * HOUR_S, id="the rest, where checkpoints hold five hours"),
        pytest.param(0, 8 * HOUR_S, id="all of it, where nothing was saved"),
        pytest.param(None, None, id="unknown, where nothing is known of earlier attempts"),
    ],
)
def test_a_stated_run_time_shrinks_by_what_was_saved(
    saved_s: float | None, want_remaining_s: float | None
) -> None:
    estimate = known(saved_s, expected_duration_s=8 * HOUR_S)
    assert estimate.run_time == RunTime(
        median_s=8 * HOUR_S, upper_s=8 * HOUR_S, source=RunTimeSource.STATED
    )
    assert estimate.remaining_s == want_remaining_s


def test_a_learned_run_time_is_that_of_the_same_deployment() -> None:
    """Without a stated one."""
    history = RunTimeHistory()
    for _ in range(9):
        history.observe(RunKind(deployment="train/gpu", team="vision", gpus=1), 2 * HOUR_S)
        history.observe(RunKind(deployment="other", team="vision", gpus=1), 9 * HOUR_S)
    estimate = known(None, history)
    assert estimate.run_time is not None
    assert estimate.run_time.source is RunTimeSource.LEARNED
    assert estimate.run_time.median_s == 2 * HOUR_S
    assert estimate.remaining_s is None


def test_a_limit_is_for_each_attempt() -> None:
    """What earlier ones saved does not shorten it."""
    estimate = known(2 * HOUR_S)
    assert estimate.run_time is not None
    assert estimate.run_time.source is RunTimeSource.LIMIT
    assert estimate.remaining_s is None
