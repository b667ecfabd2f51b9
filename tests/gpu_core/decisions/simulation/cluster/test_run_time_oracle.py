"""What the scheduler is informed of run times."""

from gpu_core.decisions.policy.run_times import RunTimePolicy
from gpu_core.decisions.simulation.cluster.run_time_oracle import (
    LearnedRunTimes,
    NoisyRunTimes,
    NoRunTimes,
    RunTimeOracle,
    StatedRunTimes,
    TrueRunTimes,
)
from gpu_core.decisions.simulation.cluster.trace import TraceJob

JOBS = [
    TraceJob(job_id=str(i), submit_s=i, duration_s=100.0, stated_s=50.0 if i else None)
    for i in range(200)
]


def reported_s(knowledge: RunTimeOracle, job: TraceJob) -> float | None:
    run_time = knowledge.run_time(job)
    return None if run_time is None else run_time.median_s


def test_none_true_and_stated() -> None:
    """Nothing, the truth, the owner's word where there is one."""
    assert reported_s(NoRunTimes(), JOBS[0]) is None
    assert reported_s(TrueRunTimes(), JOBS[0]) == 100
    assert [reported_s(StatedRunTimes(), job) for job in JOBS[:2]] == [None, 50]


def test_noise_is_one_to_five_times_the_truth_and_belongs_to_the_seed() -> None:
    """The mean of 200 of U[1, 5] × 100 s is near 300 s; the order of the questions is nothing."""
    first = [reported_s(NoisyRunTimes(1), job) or 0.0 for job in JOBS]
    backwards = [reported_s(NoisyRunTimes(1), job) for job in reversed(JOBS)]
    assert first == backwards[::-1]
    assert first != [reported_s(NoisyRunTimes(2), job) for job in JOBS]
    assert all(100 <= estimate <= 500 for estimate in first)
    # The standard error is 100 × 4 / √12 / √200 = 8.2 s.
    assert abs(sum(first) / len(first) - 300) < 33


def test_learning_needs_finished_jobs() -> None:
    """After ten alike, the next one is thought to take as long."""
    knowledge = LearnedRunTimes(RunTimePolicy(min_runs=3))
    assert reported_s(knowledge, JOBS[0]) is None
    for job in JOBS[:10]:
        knowledge.observe(job, job.duration_s)
    assert reported_s(knowledge, JOBS[10]) == 100
