"""What GPUs did minute by minute survives being kept, and a month of it is small."""

from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpu_core.decisions.model.gpu_summary import GpuSummary
from gpu_core.decisions.telemetry.history import (
    GpuHour,
    GpuWindow,
    MinuteHistory,
    hours_of,
    merged,
    windows_of,
)
from gpu_core.decisions.telemetry.samples import GpuSample

HOUR = datetime(2026, 11, 25, 12, tzinfo=UTC)


def after(*samples):
    """The windows that these samples end, taken one by one."""
    history, found = MinuteHistory(), []
    for sample in samples:
        history, ended = history.with_samples([sample])
        found += ended
    return found


def at(seconds, **known):
    return GpuSample(gpu_id="GPU-a", at=HOUR + timedelta(seconds=seconds), **known)


def test_a_window_ends_with_the_first_sample_of_another_minute():
    samples = [at(s, utilization_ratio=s / 200, energy_j=10.0 * s) for s in range(0, 121, 10)]
    first, second = after(*samples)
    assert first.minute == HOUR
    assert first.summary.samples == 6
    assert first.summary.utilization_mean_ratio == pytest.approx(0.125)
    assert first.summary.energy_j == 500.0
    assert second.minute == HOUR + timedelta(minutes=1)
    assert second.summary.energy_j == 600.0, "with the gap to the minute before"


def test_a_minute_without_an_answer_has_no_window():
    found = after(at(0, power_w=1.0), at(60, power_w=1.0), at(600, power_w=1.0), at(660))
    minutes = [(window.minute - HOUR).total_seconds() / 60 for window in found]
    assert minutes == [0, 1, 10]


def test_a_lost_gpu_has_no_window():
    assert after(at(0, is_lost=True), at(60, is_lost=True), at(120, is_lost=True)) == []


RATIOS = st.none() | st.integers(0, 100).map(lambda percent: percent / 100)
WINDOWS = st.builds(
    GpuWindow,
    minute=st.integers(0, 179).map(lambda minute: HOUR + timedelta(minutes=minute)),
    summary=st.builds(
        GpuSummary,
        gpu_id=st.sampled_from(["GPU-a", "GPU-b"]),
        samples=st.integers(1, 254),
        utilization_mean_ratio=RATIOS,
        utilization_p95_ratio=RATIOS,
        busy_ratio=RATIOS,
        sm_active_mean_ratio=RATIOS,
        memory_used_max_bytes=st.none() | st.integers(0, 2**20).map(lambda mib: mib * 2**20),
        temperature_max_c=st.none() | st.integers(-40, 150).map(float),
        energy_j=st.none() | st.integers(0, 10**6).map(float),
    ),
)


@given(st.lists(WINDOWS, unique_by=lambda w: (w.minute, w.summary.gpu_id)))
def test_windows_are_read_as_they_were_written(windows):
    found = [window for hour in hours_of(windows) for window in windows_of(hour)]
    assert sorted(found, key=str) == sorted(windows, key=str)


@given(st.lists(WINDOWS), st.lists(WINDOWS))
def test_of_a_minute_that_both_have_the_first_counts(first, second):
    for before in hours_of(first):
        for later in hours_of(second):
            whole = merged(before.windows, later.windows)
            places = [whole[n] for n in range(0, len(whole), 16)]
            assert places == sorted(set(places))
            assert {*before.windows[::16]} <= {*places}
            assert merged(whole, before.windows) == whole


@given(st.binary(max_size=100))
def test_damaged_windows_are_left_out(damaged):
    for window in windows_of(GpuHour(gpu_id="GPU-a", hour=HOUR, windows=damaged)):
        assert HOUR <= window.minute < HOUR + timedelta(hours=1)
        ratio = window.summary.utilization_mean_ratio
        assert ratio is None or 0 <= ratio <= 1


def test_an_hour_of_a_gpu_has_960_bytes():
    summary = GpuSummary(gpu_id="GPU-a", samples=60)
    windows = [GpuWindow(minute=HOUR + timedelta(minutes=n), summary=summary) for n in range(60)]
    (hour,) = hours_of(windows)
    assert len(hour.windows) == 60 * 16
