"""What a replay is said to have been like, against numbers worked out by hand."""

import pytest

from gpu_core.decisions.model.cluster import Flavor
from gpu_core.decisions.simulation.cluster.outcomes import JobOutcome, SimulatedAttempt, Simulation
from gpu_core.decisions.simulation.cluster.trace import TraceJob
from gpu_core.decisions.simulation.policies.metrics import (
    cost_micro_usd,
    jain,
    metrics,
    share_error,
    spread,
)

A100 = Flavor("a100-80gb", "on-demand")


def outcome(
    job_id: str,
    submit_s: float,
    *spans: tuple[float, float],
    gpus: int = 1,
    team: str = "a",
    lost_s: float = 0.0,
    finished: bool = True,
    deadline_s: float | None = None,
) -> JobOutcome:
    """A job that held its GPUs in these spans; what was lost was lost in the first."""
    held = tuple(
        SimulatedAttempt(start, end, 0.0 if i else lost_s, A100)
        for i, (start, end) in enumerate(spans)
    )
    worked_s = sum(h.end_s - h.start_s - h.lost_s for h in held)
    return JobOutcome(
        job=TraceJob(
            job_id=job_id,
            submit_s=submit_s,
            duration_s=worked_s,
            gpu_count=gpus,
            team=team,
            deadline_s=deadline_s,
        ),
        attempts=held,
        finished_s=held[-1].end_s if finished else None,
        preemptions=len(held) - 1,
        interruptions=0,
    )


def test_the_numbers_of_a_small_replay() -> None:
    """One job of 16 GPUs runs at once, one of 1 GPU is preempted and loses 100 s."""
    found = metrics(
        Simulation(
            outcomes=(
                outcome("a", 0, (0, 1000), gpus=16, deadline_s=1000),
                outcome("b", 0, (200, 400), (600, 1000), lost_s=100, deadline_s=999),
            ),
            cycles=4,
        ),
        gpus=20,
    )
    assert found.wait_s is not None
    assert found.gang_wait_s is not None
    assert (found.wait_s.mean, found.wait_s.p95) == (250, 500)
    assert found.gang_wait_s.mean == 0
    assert found.mean_completion_s == 1000
    assert found.mean_bounded_slowdown == pytest.approx((1 + 1000 / 600) / 2)
    assert found.allocated == pytest.approx((16_000 + 600) / 20_000)
    assert found.utilization == pytest.approx((16_000 + 500) / 20_000)
    assert found.lost_gpu_h == pytest.approx(100 / 3600)
    assert (found.preemptions, found.deadlines, found.deadlines_met) == (1, 2, 1)
    assert found.cost_micro_usd is None


def test_nothing_finished_gives_no_waits() -> None:
    """Unknown is None, never 0."""
    found = metrics(Simulation(outcomes=(), cycles=0), gpus=4)
    assert (found.wait_s, found.mean_completion_s, found.jain) == (None, None, None)


def test_what_interruptions_and_checkpoints_cost() -> None:
    """Two GPUs: an hour to 1800 s lost, half an hour of repair, then 900 of 3600 s of saving."""
    interrupted = JobOutcome(
        job=TraceJob(job_id="a", submit_s=0, duration_s=4500, gpu_count=2),
        attempts=(
            SimulatedAttempt(0, 3600, 1800, A100, was_interrupted=True),
            SimulatedAttempt(5400, 9000, 0, A100, stalled_s=900),
        ),
        finished_s=9000,
        preemptions=0,
        interruptions=1,
    )
    found = metrics(Simulation(outcomes=(interrupted,), cycles=2), gpus=2)
    assert (found.interruptions, found.recoveries, found.mean_recovery_s) == (1, 1, 1800)
    assert (found.lost_gpu_h, found.checkpoint_gpu_h) == (1.0, 0.5)
    assert found.utilization == pytest.approx(4500 / 9000)


def test_an_interrupted_job_that_never_gets_gpus_again_has_not_recovered() -> None:
    """Unknown is None, never 0."""
    lost = JobOutcome(
        job=TraceJob(job_id="a", submit_s=0, duration_s=10),
        attempts=(SimulatedAttempt(0, 5, 0, A100, was_interrupted=True),),
        finished_s=None,
        preemptions=0,
        interruptions=1,
    )
    found = metrics(Simulation(outcomes=(lost,), cycles=1), gpus=1)
    assert (found.interruptions, found.recoveries, found.mean_recovery_s) == (1, 0, None)


@pytest.mark.parametrize(
    ("outcomes", "expected"),
    [
        pytest.param([outcome("x", 0, (0, 100))], 0, id="who never waits has no error"),
        pytest.param(
            # Team a waits for 100 s with nothing, entitled to 2 of 4 GPUs.
            [outcome("x", 0, (100, 200))],
            200,
            id="nothing instead of half the cluster",
        ),
        pytest.param(
            # Team a holds 3 while it waits for one more: one too many, for 50 s.
            [outcome("x", 0, (0, 100), gpus=3), outcome("y", 0, (50, 60))],
            50,
            id="too much counts like too little",
        ),
        pytest.param(
            # Preempted from 50 to 70, it waits again: 20 s without 2 GPUs.
            [outcome("x", 0, (0, 50), (70, 90))],
            40,
            id="a preempted job waits again",
        ),
        pytest.param(
            [outcome("x", 0, (0, 50)), outcome("z", 0, (30, 40), team="nobody")],
            0,
            id="a team without entitlement is not looked at",
        ),
    ],
)
def test_share_error(outcomes: list[JobOutcome], expected: float) -> None:
    """Teams a and b are entitled to half of 4 GPUs each."""
    error = share_error(outcomes, {"a": 1, "b": 1}, 4)
    assert error.net_gpu_s == pytest.approx(expected)


def test_a_surplus_does_not_make_up_for_a_shortfall() -> None:
    """Team a waits with 4 GPUs for 10 s, then with none: net nothing, and 20 GPU-s short."""
    first = outcome("x", 0, (0, 10), gpus=4, team="a")
    second = outcome("y", 0, (20, 30), gpus=4, team="a")
    error = share_error([first, second], {"a": 1, "b": 1}, 4)
    assert error.net_gpu_s == pytest.approx(0)
    assert error.shortfall_gpu_s == pytest.approx(20)


def test_cost_is_of_all_that_was_held() -> None:
    """Two GPUs for half an hour cost one GPU-hour; an unpriced GPU makes the sum unknown."""
    outcomes = [outcome("x", 0, (0, 1800), gpus=2)]
    assert cost_micro_usd(outcomes, {A100: 3_600_000}) == 3_600_000
    assert cost_micro_usd(outcomes, {}) is None


def test_percentiles_are_values_that_occurred() -> None:
    """Of 1 to 100, p95 is the 96th: index floor(0.95 × 100)."""
    found = spread(range(1, 101))
    assert found is not None
    assert (found.mean, found.p50, found.p95, found.p99) == (50.5, 51, 96, 100)


@pytest.mark.parametrize(
    ("values", "expected"),
    [([1, 1, 1, 1], 1.0), ([1, 0, 0, 0], 0.25), ([], None), ([0, 0], None)],
    ids=["even", "one has all", "none", "all zero"],
)
def test_jain(values: list[float], expected: float | None) -> None:
    """1 is even, 1/n is the worst."""
    assert jain(values) == expected
