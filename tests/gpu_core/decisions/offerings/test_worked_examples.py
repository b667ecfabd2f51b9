"""The worked examples of the three DESIGN.md files are what the code says."""

from datetime import UTC, datetime, timedelta

import pytest

from gpu_core.adapters.files.catalog_file import shipped_catalog
from gpu_core.decisions.catalog.gpu_types import GPU_TYPES, Precision
from gpu_core.decisions.offerings.constraints import Constraints
from gpu_core.decisions.offerings.estimates import observed_on
from gpu_core.decisions.offerings.interruption_overhead import daly_overhead, interval_s
from gpu_core.decisions.offerings.options import Certainty
from gpu_core.decisions.offerings.rank import choose
from gpu_core.decisions.requests.requirements.estimates.duration import (
    Hardware,
    duration_of,
    flop_per_unit,
    learned,
    prior,
)
from gpu_core.decisions.requests.requirements.estimates.fit import best_fit
from gpu_core.decisions.requests.requirements.estimates.memory import WHOLE
from gpu_core.decisions.requests.requirements.jobs.job import Recompute
from gpu_core.testing.builders.jobs import make_job

NOW = datetime(2026, 11, 21, tzinfo=UTC)
JOB = make_job("llama-2-7b", "lora", amount=100e6)
GIB = 1024**3


def options(deadline_at=None):
    catalog = shipped_catalog()
    constraints = Constraints(deadline_at=deadline_at)
    choice = choose(JOB, catalog, tuple(catalog.offerings.values()), constraints, NOW)
    return {str(c.option.key): (c.option, c.certainty) for c in choice.candidates}


@pytest.mark.parametrize(
    ("gpu_type", "want_gib", "want_recompute"),
    [("a10g", 14.0, Recompute.FULL), ("l40s", 22.0, Recompute.SELECTIVE)],
)
def test_the_fit(gpu_type, want_gib, want_recompute):
    fit = best_fit(JOB, 1, GPU_TYPES[gpu_type].reported_memory_mib)
    assert fit.memory.bytes / GIB == pytest.approx(want_gib, abs=0.05)
    assert fit.job.recompute is want_recompute


def test_writing_10_000_answers_on_an_l4():
    job = make_job(
        "llama-2-7b",
        "inference",
        precision=Precision.FP16,
        amount=10_000,
        batch_per_gpu=8,
        sequence_length=768,
    )
    found = duration_of(job, Hardware(gpu=GPU_TYPES["l4"], gpus=1), WHOLE, prior(job))
    hours = [seconds / 3600 for seconds in (found.low_s, found.likely_s, found.high_s)]
    assert hours == pytest.approx([8.2, 11.0, 16.5], abs=0.06)


def test_what_one_a100_reached_says_of_an_h100():
    job = make_job("llama-2-7b")
    reached = learned(job, observed_on("a100-80gb", 1, (2400, 2500, 2600)), WHOLE, "h100-80gb")
    peak_per_s = 989e12 / flop_per_unit(job)
    speeds = [part * peak_per_s for part in (reached.low, reached.likely, reached.high)]
    assert speeds == pytest.approx([5901, 7925, 10632], abs=1)


@pytest.mark.parametrize(
    ("save_s", "restart_s", "want_interval_s", "want_overhead"),
    [(1, 314, 123, 1.059), (98, 412, 1156, 1.245)],
)
def test_overheads(save_s, restart_s, want_interval_s, want_overhead):
    assert interval_s(save_s, 7600) == pytest.approx(want_interval_s, abs=0.5)
    assert daly_overhead(save_s, restart_s, 7600) == pytest.approx(want_overhead, abs=0.0006)


@pytest.mark.parametrize(
    ("key", "want_hours", "want_usd"),
    [
        ("aws g6e.xlarge us-east-2 on-demand", 6.0, 11.16),
        ("aws g6e.xlarge us-east-2 use2-az3 spot", 6.35, 3.34),
        ("aws p5.48xlarge us-east-2 use2-az1 spot", 0.37, 4.20),
    ],
)
def test_time_and_cost(key, want_hours, want_usd):
    option, _ = options()[key]
    assert option.wall_s / 3600 == pytest.approx(want_hours, abs=0.01)
    assert option.cost.total / 1e6 == pytest.approx(want_usd, abs=0.005)


def test_a_price_far_under_its_neighbors_does_not_win():
    """p4d.24xlarge in use1-az1 is listed at a third of what other zones take, and is a year old."""
    found = list(options())
    assert found[0] == "aws g6e.xlarge us-east-2 use2-az3 spot"
    assert "aws p4d.24xlarge us-east-1 use1-az1 spot" not in found


@pytest.mark.parametrize(
    ("hours", "want"), [(12, Certainty.LIKELY), (24, Certainty.SAFE)], ids=["12 h", "24 h"]
)
def test_certainty(hours, want):
    found = options(NOW + timedelta(hours=hours))
    assert found["aws g6e.xlarge us-east-2 use2-az3 spot"][1] is want
