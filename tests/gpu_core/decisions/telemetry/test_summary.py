"""Samples one by one against the same numbers taken from all of them at once."""

import math
import statistics
from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpu_core.decisions.model.gpu_summary import GpuSummary
from gpu_core.decisions.telemetry.samples import GpuSample
from gpu_core.decisions.telemetry.summary import BUSY_RATIO, GpuTotals, GpuUse, gpu_use

START = datetime(2026, 11, 25, tzinfo=UTC)
PERCENT = st.one_of(st.none(), st.integers(0, 100).map(lambda percent: percent / 100))


def sample(second, **values):
    return GpuSample(gpu_id="GPU-a", at=START + timedelta(seconds=second), **values)


def summary_of(samples):
    totals = GpuTotals(gpu_id="GPU-a")
    for each in samples:
        totals = totals.with_sample(each)
    return totals.summary()


@given(st.lists(st.tuples(PERCENT, PERCENT), min_size=1, max_size=60))
def test_one_by_one_is_what_all_at_once_give(readings):
    found = summary_of(
        sample(second, utilization_ratio=used, sm_active_ratio=active)
        for second, (used, active) in enumerate(readings)
    )
    known = sorted(used for used, _ in readings if used is not None)
    active = [active for _, active in readings if active is not None]
    assert found.samples == len(readings)
    if known:
        assert math.isclose(found.utilization_mean_ratio, statistics.fmean(known), abs_tol=1e-9)
        assert found.utilization_p95_ratio == known[math.ceil(0.95 * len(known)) - 1]
        assert found.busy_ratio == sum(each >= BUSY_RATIO for each in known) / len(known)
    else:
        assert found.utilization_mean_ratio is found.utilization_p95_ratio is None
        assert found.busy_ratio is None
    want_active = statistics.fmean(active) if active else None
    assert found.sm_active_mean_ratio == pytest.approx(want_active)


@pytest.mark.parametrize(
    ("samples", "want_j"),
    [
        pytest.param([sample(0, energy_j=100.0)], None, id="one sample says nothing"),
        pytest.param(
            [sample(0, energy_j=100.0), sample(1, energy_j=150.0), sample(2, energy_j=170.0)],
            70.0,
            id="by the counter",
        ),
        pytest.param(
            [sample(0, energy_j=100.0), sample(1), sample(600, energy_j=170.0)],
            70.0,
            id="the counter bridges a gap",
        ),
        pytest.param(
            [sample(0, energy_j=100.0), sample(1, energy_j=30.0), sample(2, energy_j=50.0)],
            50.0,
            id="a counter that ran backwards began at zero",
        ),
        pytest.param(
            [
                *(sample(at, power_w=100.0, energy_j=9e8 + 100 * at) for at in range(3)),
                sample(3, power_w=100.0, energy_j=0.0),
                *(sample(at, power_w=100.0, energy_j=9e8 + 100 * at) for at in range(4, 7)),
            ],
            500.0,
            id="a false reading does not count all that the counter has counted",
        ),
        pytest.param(
            [sample(0, energy_j=5.0), sample(1, energy_j=9e8), sample(2, energy_j=9e8 + 100)],
            100.0,
            id="a counter that jumps by more than a GPU draws counts from then on",
        ),
        pytest.param(
            [sample(0, power_w=100.0), sample(1, power_w=300.0), sample(3, power_w=300.0)],
            800.0,
            id="by power, where there is no counter",
        ),
        pytest.param(
            [sample(0, power_w=100.0), sample(60, power_w=100.0), sample(61, power_w=100.0)],
            100.0,
            id="power says nothing about a gap of a minute",
        ),
        pytest.param(
            [sample(0, power_w=100.0, energy_j=5.0), sample(1, power_w=100.0)],
            100.0,
            id="by power, until the counter is read again",
        ),
        pytest.param(
            [
                *(sample(at, power_w=100.0, energy_j=5.0) for at in range(4)),
                sample(4, power_w=100.0, energy_j=385.0),
                sample(5, power_w=100.0, energy_j=385.0),
            ],
            480.0,
            id="what the counter says replaces what power said before it changed",
        ),
        pytest.param(
            [
                sample(0, power_w=100.0),
                sample(1, power_w=100.0, energy_j=5.0),
                sample(2, power_w=100.0, energy_j=85.0),
            ],
            80.0,
            id="a counter that comes late counts from then on",
        ),
        pytest.param([sample(0), sample(1)], None, id="neither"),
    ],
)
def test_energy(samples, want_j):
    assert summary_of(samples).energy_j == want_j


@pytest.mark.parametrize(
    "ignored",
    [
        pytest.param(sample(2, is_lost=True), id="of a lost GPU"),
        pytest.param(sample(0, utilization_ratio=1.0), id="not later than the one before"),
    ],
)
def test_a_sample_that_says_nothing_changes_nothing(ignored):
    totals = GpuTotals(gpu_id="GPU-a").with_sample(sample(1, utilization_ratio=0.5))
    assert totals.with_sample(ignored) == totals


def test_without_samples_there_is_no_summary():
    assert GpuTotals(gpu_id="GPU-a").summary() is None
    assert gpu_use([]) == GpuUse()


def test_the_highest_memory_and_temperature_are_kept():
    found = summary_of(
        sample(second, memory_used_bytes=used, temperature_c=degrees)
        for second, (used, degrees) in enumerate([(5, 60.0), (None, None), (3, 70.0)])
    )
    assert (found.memory_used_max_bytes, found.temperature_max_c) == (5, 70.0)


def test_several_gpus_count_by_their_samples():
    use = gpu_use(
        [
            GpuSummary(
                gpu_id="GPU-a",
                samples=30,
                utilization_mean_ratio=0.9,
                utilization_p95_ratio=1.0,
                busy_ratio=1.0,
                energy_j=3_000_000.0,
            ),
            GpuSummary(
                gpu_id="GPU-b",
                samples=10,
                utilization_mean_ratio=0.1,
                utilization_p95_ratio=0.3,
                busy_ratio=0.5,
                sm_active_mean_ratio=0.2,
                energy_j=600_000.0,
            ),
        ]
    )
    assert use.utilization_mean_ratio == pytest.approx(0.7)
    assert (use.utilization_p95_ratio, use.busy_ratio) == (1.0, 0.875)
    assert (use.sm_active_mean_ratio, use.energy_kwh) == (0.2, 1.0)


def test_one_unknown_energy_makes_the_sum_unknown():
    measured = GpuSummary(gpu_id="GPU-a", samples=1, energy_j=5.0)
    assert gpu_use([measured, GpuSummary(gpu_id="GPU-b", samples=1)]).energy_j is None
