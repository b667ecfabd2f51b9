"""Metrics of several exporters become one sample for each GPU and moment."""

import math
from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpu_core.decisions.telemetry.metric_names import QUANTITIES, READINGS
from gpu_core.decisions.telemetry.series import Series, readings_of

NOW = datetime(2026, 11, 25, tzinfo=UTC)
LABELS = {"UUID": "GPU-a", "gpu": "GPU-a", "uuid": "a"}


def series(name, value, at=NOW, **labels):
    return Series(name=name, labels=LABELS | labels, value=value, at=at)


def only(*found):
    (reading,) = readings_of(found)
    return reading


@pytest.mark.parametrize(
    ("name", "value", "want"),
    [
        pytest.param("DCGM_FI_DEV_GPU_UTIL", 100, 1.0, id="the highest percentage"),
        pytest.param("DCGM_FI_DEV_GPU_UTIL", 101, None, id="over 100%"),
        pytest.param("DCGM_FI_DEV_GPU_UTIL_RATIO", 1, 1.0, id="the highest ratio"),
        pytest.param("DCGM_FI_DEV_GPU_UTIL_RATIO", 93, None, id="a percentage named as a ratio"),
        pytest.param("DCGM_FI_DEV_GPU_UTIL", 9223372036854775794, None, id="not supported"),
        pytest.param("DCGM_FI_DEV_GPU_UTIL", 9223372036854775792, None, id="blank"),
        pytest.param("DCGM_FI_DEV_GPU_UTIL", math.nan, None, id="not a number"),
        pytest.param("DCGM_FI_DEV_GPU_UTIL", -1, None, id="negative"),
        pytest.param("DCGM_FI_PROF_GR_ENGINE_ACTIVE", 0.5, 0.5, id="the engine's activity"),
    ],
)
def test_a_utilization_is_a_ratio_or_unknown(name, value, want):
    assert only(series(name, value)).sample.utilization_ratio == want


@pytest.mark.parametrize("value", [2**32 - 1, 9223372036854775794, math.nan, math.inf, 20_000])
def test_no_gpu_draws_that_much(value):
    assert only(series("DCGM_FI_DEV_POWER_USAGE", value)).sample.power_w is None


def test_the_better_source_counts_in_any_order():
    ranked = [
        series("prefect_gpu_device_utilization_ratio", 0.10),
        series("DCGM_FI_DEV_GPU_UTIL_RATIO", 0.20),
        series("DCGM_FI_DEV_GPU_UTIL", 30),
        series("DCGM_FI_PROF_GR_ENGINE_UTIL_RATIO", 0.40),
        series("DCGM_FI_PROF_GR_ENGINE_ACTIVE", 0.50),
        series("nvidia_smi_utilization_gpu_ratio", 0.60, uuid="GPU-a"),
    ]
    for first in range(len(ranked)):
        want = (first + 1) / 10
        rest = ranked[first:]
        assert only(*rest).sample.utilization_ratio == pytest.approx(want)
        assert only(*reversed(rest)).sample.utilization_ratio == pytest.approx(want)


def test_a_better_source_without_a_value_does_not_hide_another_one():
    found = only(
        series("DCGM_FI_DEV_GPU_UTIL", 9223372036854775794),
        series("DCGM_FI_PROF_GR_ENGINE_ACTIVE", 0.25),
    )
    assert found.sample.utilization_ratio == 0.25


def test_samples_are_in_the_order_of_their_moments():
    later = NOW + timedelta(seconds=30)
    first, second = readings_of(
        [series("DCGM_FI_DEV_GPU_TEMP", 60, later), series("DCGM_FI_DEV_GPU_TEMP", 50)]
    )
    assert (first.sample.at, first.sample.temperature_c) == (NOW, 50.0)
    assert (second.sample.at, second.sample.temperature_c) == (later, 60.0)


def test_the_pod_on_the_gpu_counts_and_not_that_of_the_exporter():
    labels = {"pod": "dcgm-exporter-x", "namespace": "gpu-operator"}
    exported = {"exported_pod": "train-0", "exported_namespace": "vision"}
    found = only(series("DCGM_FI_DEV_GPU_UTIL", 1, **labels, **exported))
    assert (found.namespace, found.pod) == ("vision", "train-0")


def test_every_name_has_one_meaning():
    named = [s.name for q in QUANTITIES for s in (*q.dcgm, *q.dcgm_base, *q.nvidia_smi)]
    assert len(named) == len(set(named))
    assert {q.exported_name for q in QUANTITIES} | set(named) <= set(READINGS)


@given(
    st.lists(
        st.tuples(
            st.sampled_from([*READINGS, "foreign"]),
            st.floats(),
            st.dictionaries(st.sampled_from([*LABELS, "GPU_I_ID", "pod"]), st.text(max_size=3)),
        )
    )
)
def test_nothing_that_an_exporter_says_breaks_the_reader(rows):
    found = [Series(name=name, labels=labels, value=v, at=NOW) for name, v, labels in rows]
    for reading in readings_of(found):
        sample = reading.sample
        assert sample.gpu_id
        for value in (sample.utilization_ratio, sample.sm_active_ratio, sample.memory_busy_ratio):
            assert value is None or 0 <= value <= 1
        for value in (sample.memory_used_bytes, sample.energy_j, sample.power_w):
            assert value is None or 0 <= value < 2**63
