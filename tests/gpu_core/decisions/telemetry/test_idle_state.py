"""Which runs hold GPUs for nothing, and which only wait."""

import math
from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpu_core.decisions.policy.idle import IdlePolicy
from gpu_core.decisions.telemetry.activity import RunActivity
from gpu_core.decisions.telemetry.idle_state import IdleState, RunUse, idle_state, is_under_used
from gpu_core.decisions.telemetry.samples import GpuSample

START = datetime(2026, 11, 25, tzinfo=UTC)
POLICY = IdlePolicy()
QUIET = {
    "utilization_ratio": 0.0,
    "sm_active_ratio": 0.0,
    "power_w": 70.0,
    "power_limit_w": 700.0,
    "memory_used_bytes": 40 * 2**30,
    "process_ids": (17,),
}
BUSY = QUIET | {"utilization_ratio": 0.9, "sm_active_ratio": 0.6, "power_w": 500.0}
UNTOUCHED = QUIET | {"memory_used_bytes": 2**29, "process_ids": ()}


def minutes(n):
    return START + timedelta(minutes=n)


def followed(activity, values, until, *, cores=0.01, io=0.0, gpu_ids=("GPU-a",)):
    """A sample a minute from the last one to this minute."""
    while activity.at < minutes(until):
        at = activity.at + timedelta(minutes=1)
        samples = {g: GpuSample(gpu_id=g, at=at, **values) for g in gpu_ids}
        activity = activity.with_samples(samples, at, cores=cores, io_bytes_per_s=io)
    return activity


def begun(*gpu_ids):
    return RunActivity.of(gpu_ids or ("GPU-a",), START)


def used_then(values, minute=60, **host):
    """A run that worked for ten minutes, and then did this."""
    return followed(followed(begun(), BUSY, 10), values, minute, **host)


def judged(activity, use=None, workload_type="training", now=None):
    return idle_state(activity, use or RunUse(), workload_type, POLICY, now or activity.at)


@pytest.mark.parametrize(
    ("activity", "want", "want_idle"),
    [
        pytest.param(used_then(BUSY), IdleState.WORKING, False, id="busy"),
        pytest.param(used_then(QUIET, 20), IdleState.STALLED, False, id="quiet for ten minutes"),
        pytest.param(used_then(QUIET, 41), IdleState.FINISHED, True, id="quiet for half an hour"),
        pytest.param(
            used_then(QUIET, 600, cores=0.8), IdleState.STALLED, False, id="its processor works"
        ),
        pytest.param(
            used_then(QUIET, 600, io=5e6), IdleState.STALLED, False, id="it reads data slowly"
        ),
        pytest.param(
            used_then(QUIET | {"power_w": 400.0}, 600), IdleState.WORKING, False, id="draws power"
        ),
        pytest.param(
            used_then(QUIET | {"sm_active_ratio": None}, 600),
            *(IdleState.WORKING, False),
            id="a signal that was there is gone",
        ),
        pytest.param(
            used_then(QUIET | {"utilization_ratio": math.nan}, 600),
            *(IdleState.WORKING, False),
            id="a value that is none",
        ),
        pytest.param(
            followed(begun(), UNTOUCHED, 39), IdleState.NEVER_TOUCHED, False, id="in its grace"
        ),
        pytest.param(
            followed(begun(), UNTOUCHED, 41), IdleState.NEVER_TOUCHED, True, id="never touched"
        ),
    ],
)
def test_the_state_of_a_training(activity, want, want_idle):
    found = judged(activity)
    assert (found.state, found.is_idle) == (want, want_idle)


@pytest.mark.parametrize(
    ("use", "workload_type", "want", "want_idle"),
    [
        pytest.param(RunUse(), "interactive", IdleState.BETWEEN_REQUESTS, False, id="unknown use"),
        pytest.param(
            RunUse(used_at=minutes(100)),
            "interactive",
            IdleState.BETWEEN_REQUESTS,
            False,
            id="used",
        ),
        pytest.param(
            RunUse(used_at=minutes(30)), "interactive", IdleState.FINISHED, True, id="left alone"
        ),
        pytest.param(
            RunUse(used_at=minutes(30)),
            "inference",
            IdleState.BETWEEN_REQUESTS,
            False,
            id="a night",
        ),
        pytest.param(
            RunUse(progressed_at=minutes(110)), "training", IdleState.STALLED, False, id="a step"
        ),
        pytest.param(
            RunUse(progressed_at=minutes(500)), None, IdleState.STALLED, False, id="a wrong clock"
        ),
    ],
)
def test_what_a_run_reports_counts(use, workload_type, want, want_idle):
    found = judged(used_then(QUIET, 120), use, workload_type)
    assert (found.state, found.is_idle) == (want, want_idle)


def test_every_signal_is_named():
    found = judged(used_then(QUIET), RunUse(progressed_at=minutes(8), used_at=minutes(5)))
    assert found.text == (
        "Finished, but holding its GPUs for 49m 00s: utilization 0%, SM activity 0%, power 10% "
        "of the limit, 40.0 GiB of GPU memory held, 0.01 processor cores, last step 52m 00s ago, "
        "last use 55m 00s ago."
    )


@pytest.mark.parametrize("late", [timedelta(seconds=121), timedelta(hours=-1)])
def test_samples_that_are_late_count_as_activity(late):
    activity = used_then(QUIET)
    assert judged(activity).is_idle
    assert not judged(activity, now=activity.at + late).is_idle


def test_a_gap_begins_the_time_anew():
    activity = used_then(QUIET)
    after = activity.with_samples(
        {"GPU-a": GpuSample(gpu_id="GPU-a", at=minutes(64), **QUIET)}, minutes(64), cores=0.0
    )
    assert judged(after).state is IdleState.STALLED


def test_one_gpu_that_works_keeps_all_and_the_unused_are_named():
    activity = begun("GPU-a", "GPU-b")
    while activity.at < minutes(60):
        at = activity.at + timedelta(minutes=1)
        samples = {
            "GPU-a": GpuSample(gpu_id="GPU-a", at=at, **BUSY),
            "GPU-b": GpuSample(gpu_id="GPU-b", at=at, **UNTOUCHED),
        }
        activity = activity.with_samples(samples, at, cores=0.0)
    found = judged(activity)
    assert (found.state, found.unused_gpu_ids) == (IdleState.WORKING, ("GPU-b",))


def test_processes_that_are_not_read_yet_count_as_activity():
    activity = followed(RunActivity.of(["GPU-a"], START, has_host=True), QUIET, 60, cores=None)
    assert not judged(activity).is_idle
    assert judged(followed(activity, QUIET, 120)).is_idle


def test_a_gpu_that_is_lost_counts_as_activity():
    activity = used_then(QUIET)
    lost = {"GPU-a": GpuSample(gpu_id="GPU-a", at=minutes(61), is_lost=True)}
    assert not judged(activity.with_samples(lost, minutes(61), cores=0.0)).is_idle


_ANY = st.none() | st.floats(allow_nan=True, allow_infinity=True)


@given(
    utilization=_ANY,
    sm_active=_ANY,
    power=_ANY,
    cores=_ANY,
    at=st.integers(-3600, 3600),
)
def test_no_single_sample_makes_a_run_idle(utilization, sm_active, power, cores, at):
    """Whatever comes after 29 quiet minutes, the run is not idle a minute early."""
    activity = used_then(QUIET, 39)
    values = QUIET | {
        "utilization_ratio": utilization,
        "sm_active_ratio": sm_active,
        "power_w": power,
    }
    now = activity.at + timedelta(seconds=at)
    after = activity.with_samples(
        {"GPU-a": GpuSample(gpu_id="GPU-a", at=now, **values)}, now, cores=cores
    )
    assert not idle_state(after, RunUse(), "training", POLICY, minutes(40)).is_idle


def test_what_is_unknown_is_not_under_used():
    assert [is_under_used(ratio, POLICY) for ratio in (None, 0.29, 0.3)] == [False, True, False]
