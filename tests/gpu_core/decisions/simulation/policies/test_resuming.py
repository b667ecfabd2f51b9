"""The gain of taking turns, in words."""

from dataclasses import fields

import pytest

from gpu_core.decisions.simulation.cluster.trace import TraceJob
from gpu_core.decisions.simulation.policies.metrics import Metrics, Spread
from gpu_core.decisions.simulation.policies.resuming import gain_text, share_that_resumes

JOBS = (
    TraceJob(job_id="a", submit_s=0, duration_s=3_600, gpu_count=3),
    TraceJob(job_id="b", submit_s=0, duration_s=3_600, has_resumed=False),
)


def replayed(wait_s, long_wait_s=None):
    """The metrics that count; of the others none is read."""

    def spread(mean_s):
        return None if mean_s is None else Spread(mean=mean_s, p50=0, p95=0, p99=0)

    others = dict.fromkeys((field.name for field in fields(Metrics)), 0)
    return Metrics(**others | {"wait_s": spread(wait_s), "long_wait_s": spread(long_wait_s)})


@pytest.mark.parametrize(
    ("metrics", "want"),
    [
        pytest.param({"default": replayed(60)}, None, id="nothing to compare"),
        pytest.param({"default": replayed(None), "resumable": replayed(None)}, None, id="no wait"),
        pytest.param(
            {"default": replayed(3_600), "resumable": replayed(60)},
            "75% of the GPU-hours are of deployments whose runs have resumed from complete "
            "checkpoints. Under 'resumable' the mean wait is 1m 00s instead of 1h 00m ('default').",
            id="no long runs",
        ),
        pytest.param(
            {"default": replayed(3_600, 60), "resumable": replayed(60, 7_200)},
            "75% of the GPU-hours are of deployments whose runs have resumed from complete "
            "checkpoints. Under 'resumable' the mean wait is 1m 00s instead of 1h 00m ('default'), "
            "and 2h 00m instead of 1m 00s for runs over 255 GPU-hours.",
            id="long runs pay",
        ),
    ],
)
def test_the_gain(metrics, want):
    """Both sides of it."""
    assert gain_text(JOBS, metrics) == want


def test_nothing_resumes_where_there_is_nothing():
    assert share_that_resumes(()) == 0
