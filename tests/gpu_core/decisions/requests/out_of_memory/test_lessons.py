"""Which runs of a deployment show how much memory it needs."""

from dataclasses import replace

import pytest

from gpu_core.decisions.model.attempts import EndReason
from gpu_core.decisions.requests.out_of_memory.lessons import MemoryLessons
from gpu_core.testing.builders.attempts import at, make_attempt

TORCH = "Failure 1 of 3: OutOfMemoryError: CUDA out of memory. Retrying the run."
KILLED = "Failure 1 of 3: exit code 137 (OOMKilled). Retrying the run."


def failed(run, number, message, hours):
    return make_attempt(
        *(run, number),
        released_at=at(hours),
        end_reason=EndReason.FAILED,
        end_message=message,
        settlement={"end_reason": "Failed"},
    )


def completed(run, number, hours):
    return make_attempt(
        run, number, released_at=at(hours), end_reason=EndReason.COMPLETED, end_message="Completed."
    )


GPU_RUN = (failed("gpu", 1, TORCH, 1), completed("gpu", 2, 2))
HOST_RUN = (failed("host", 1, KILLED, 3), completed("host", 2, 4))
BOTH = (failed("both", 1, TORCH, 1), failed("both", 2, KILLED, 2), completed("both", 3, 3))
LATER_GPU_RUN = (failed("later", 1, TORCH, 5), completed("later", 2, 6))


@pytest.mark.parametrize(
    ("runs", "want"),
    [
        pytest.param([GPU_RUN], GPU_RUN, id="a run that ran out and completed"),
        pytest.param([GPU_RUN, GPU_RUN], GPU_RUN, id="seen twice"),
        pytest.param([BOTH], BOTH, id="a run that ran out of both"),
        pytest.param([HOST_RUN, GPU_RUN], (*GPU_RUN, *HOST_RUN), id="one for each kind of memory"),
        pytest.param(
            [LATER_GPU_RUN, GPU_RUN, HOST_RUN],
            (*HOST_RUN, *LATER_GPU_RUN),
            id="the last of a kind, in whichever order they are seen",
        ),
        pytest.param([(completed("fine", 1, 1),)], (), id="a run that never ran out"),
        pytest.param([GPU_RUN[:1]], (), id="a run that has not completed"),
        pytest.param(
            [(*GPU_RUN[:1], replace(GPU_RUN[1], released_at=None, end_reason=None))],
            (),
            id="a run whose last attempt still runs",
        ),
        pytest.param([()], (), id="a run without attempts"),
    ],
)
def test_what_is_learned(runs, want):
    lessons = MemoryLessons()
    for attempts in runs:
        lessons.observe("train/gpu", attempts)
    assert lessons.of("train/gpu", at(0)) == want
    assert lessons.of("train/other", at(0)) == ()


def test_a_run_that_ended_long_ago_says_nothing():
    lessons = MemoryLessons()
    lessons.observe("train/gpu", GPU_RUN)
    assert lessons.of("train/gpu", at(2)) == GPU_RUN
    assert lessons.of("train/gpu", at(2.01)) == ()


def test_runs_without_a_deployment_teach_each_other_nothing():
    lessons = MemoryLessons()
    lessons.observe(None, GPU_RUN)
    assert lessons.of(None, at(0)) == ()
