"""What the attempts of a job in a replay leave behind, for the job and for the scheduler."""

from dataclasses import replace

import pytest

from gpu_core.decisions.model.workload import RunTime, RunTimeSource
from gpu_core.decisions.simulation.cluster.life import JobLife, SpentTime
from gpu_core.decisions.simulation.cluster.trace import TraceJob
from gpu_core.testing.builders.workloads import make_allocation, make_workload

JOB = TraceJob(
    job_id="j",
    submit_s=0.0,
    duration_s=1000.0,
    gpu_count=2,
    checkpoint_interval_s=100.0,
    checkpoint_stall_s=10.0,
)


def life(**fields):
    """The job on two GPUs since second 0, with nothing lost to its start."""
    workload = make_workload("j", gpus=2)
    allocation = make_allocation(workload, {"n1": "0 1"})
    found = JobLife(JOB, workload, JOB.duration_s, None, allocation=allocation, attempt=1)
    return replace(found, **fields)


def test_of_the_work_until_it_stops_only_what_is_saved_counts():
    """It saves for 10 s after each 100 s of work: at 165 s it has worked 155 s, and saved 100 s."""
    found = life()
    assert found.stop(165.0) == SpentTime(lost_s=55.0, stalled_s=10.0, stopped_s=165.0)
    assert found.left_s == 900.0


def test_what_drains_has_stopped_working_once():
    found = life(spent=SpentTime(5.0, 0.0, 50.0))
    assert found.stop(165.0) == SpentTime(5.0, 0.0, 50.0)
    assert found.left_s == JOB.duration_s


@pytest.mark.parametrize(
    ("was_interrupted", "want_cost_s"),
    [pytest.param(False, 75.0, id="preempted"), pytest.param(True, None, id="interrupted")],
)
def test_a_preemption_costs_the_work_that_is_lost_and_what_it_drains(was_interrupted, want_cost_s):
    """It stops at 165 s with 55 s unsaved, and holds its GPUs for 20 s more."""
    found = life()
    found.end_attempt(185.0, found.stop(165.0), was_interrupted=was_interrupted)
    assert found.workload.preemption_cost_s == want_cost_s
    assert found.workload.attained_gpu_s == 2 * 185.0


def test_the_restart_after_a_preemption_is_a_cost_of_it():
    found = life()
    found.end_attempt(165.0, found.stop(165.0), was_interrupted=False)
    found.started_s, found.begins_s = 300.0, 330.0
    found.end_attempt(440.0, found.stop(440.0), was_interrupted=True)
    assert found.workload.preemption_cost_s == 55.0 + 30.0


@pytest.mark.parametrize(
    ("median_s", "want_s"),
    [
        pytest.param(None, None, id="unknown"),
        pytest.param(700.0, 600.0, id="the estimate less what is saved"),
        pytest.param(50.0, 0.0, id="longer than it was thought to take"),
    ],
)
def test_the_scheduler_does_not_learn_a_run_time_from_a_preemption(median_s, want_s):
    run_time = median_s and RunTime(
        median_s=median_s, upper_s=median_s, source=RunTimeSource.STATED
    )
    found = life(run_time=run_time)
    found.end_attempt(165.0, found.stop(165.0), was_interrupted=False)
    assert found.workload.remaining_s == want_s
