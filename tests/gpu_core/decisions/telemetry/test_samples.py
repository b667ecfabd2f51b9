"""Readings become base units, and what is no measurement becomes None."""

import doctest
import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpu_core.decisions.telemetry import samples
from gpu_core.decisions.telemetry.samples import (
    count_of,
    known,
    ratio_of_percent,
    scaled,
    temperature_c,
    watts_of_milliwatts,
)

BLANKS = [
    pytest.param(2**32 - 1, id="NVML, 32 bits"),
    pytest.param(2**64 - 1, id="NVML, 64 bits"),
    pytest.param(9223372036854775792, id="DCGM, blank"),
    pytest.param(9223372036854775794, id="DCGM, not supported"),
    pytest.param(2**63 - 1, id="DCGM, the last of its blanks"),
    pytest.param(9.223372036854775794e18, id="DCGM, as a floating point number"),
    pytest.param(0x7FFFFFF0, id="DCGM, blank in 32 bits"),
    pytest.param(0x7FFFFFF1, id="DCGM, not found in 32 bits"),
    pytest.param(0x7FFFFFF2, id="DCGM, not supported in 32 bits"),
    pytest.param(0x7FFFFFF3, id="DCGM, not permitted in 32 bits"),
    pytest.param(2.147483632e9, id="DCGM, 32 bits as a floating point number"),
    pytest.param(140737488355328.0, id="DCGM, blank of floating point numbers"),
    pytest.param(140737488355330.0, id="DCGM, not supported, of floating point numbers"),
    pytest.param(-1, id="negative"),
    pytest.param(math.nan, id="not a number"),
    pytest.param(math.inf, id="infinite"),
    pytest.param(None, id="missing"),
]


@pytest.mark.parametrize("value", BLANKS)
def test_what_stands_for_nothing_is_none(value):
    for reading in (known, ratio_of_percent, count_of, watts_of_milliwatts):
        assert reading(value) is None
    assert scaled(value, 1e6) is None


@pytest.mark.parametrize(
    "value", [0, 0x7FFFFFEF, 2**31, 192 * 2**30, 2.0**47 - 1, 5e12], ids=lambda value: f"{value:g}"
)
def test_a_measurement_next_to_what_stands_for_nothing_is_known(value):
    """192 GiB of memory, and two years of energy in mJ at 80 W."""
    assert known(value) == value


@given(st.integers(0, 100))
def test_a_percentage_becomes_a_ratio(percent):
    assert ratio_of_percent(percent) == percent / 100


@given(st.one_of(st.floats(), st.integers()))
def test_a_ratio_is_between_0_and_1_or_unknown(percent):
    ratio = ratio_of_percent(percent)
    assert ratio is None or 0 <= ratio <= 1


@pytest.mark.parametrize(
    ("celsius", "want"),
    [
        pytest.param(0, 0.0, id="freezing is a measurement"),
        pytest.param(-10, -10.0, id="a cold start"),
        pytest.param(92, 92.0, id="hot"),
        pytest.param(255, None, id="a byte with all bits set"),
        pytest.param(math.nan, None, id="not a number"),
    ],
)
def test_temperatures(celsius, want):
    assert temperature_c(celsius) == want


def test_the_examples_are_true():
    assert doctest.testmod(samples).failed == 0
