"""Kubernetes quantities, read and written."""

from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpu_core.decisions.kubernetes.variables.quantities import (
    cpu_milli,
    format_cpu,
    format_memory,
    memory_mib,
    parse_quantity,
    parse_whole,
)
from gpu_core.decisions.model.errors import InvalidInput

SUFFIXES = {
    "n": Fraction(1, 10**9),
    "u": Fraction(1, 10**6),
    "m": Fraction(1, 1000),
    "": 1,
    **{letter: 1000**power for power, letter in enumerate("kMGTPE", start=1)},
    **{f"{letter}i": 1024**power for power, letter in enumerate("KMGTPE", start=1)},
}


@pytest.mark.parametrize(
    ("text", "want"),
    [
        pytest.param("500m", Fraction(1, 2), id="thousandths"),
        pytest.param("1.5Gi", Fraction(3, 2) * 1024**3, id="a fraction of a binary unit"),
        pytest.param("2e3", Fraction(2000), id="an exponent"),
        pytest.param("2E3", Fraction(2000), id="an exponent, not exa"),
        pytest.param("1E", Fraction(10**18), id="exa, not an exponent"),
        pytest.param("1e-3", Fraction(1, 1000), id="a negative exponent"),
        pytest.param("-1", Fraction(-1), id="less than nothing"),
        pytest.param(".5", Fraction(1, 2), id="nothing before the point"),
        pytest.param("5.", Fraction(5), id="nothing behind the point"),
        pytest.param(4, Fraction(4), id="a number as YAML gives it"),
        pytest.param(0.5, Fraction(1, 2), id="a fraction as YAML gives it"),
    ],
)
def test_parse_quantity(text, want):
    assert parse_quantity(text, "cpu") == want


@pytest.mark.parametrize(
    "text",
    [
        pytest.param("", id="nothing"),
        pytest.param("1 Gi", id="a blank"),
        pytest.param("1GB", id="a unit that Kubernetes does not have"),
        pytest.param("1K", id="a capital kilo"),
        pytest.param("1Gie3", id="a suffix and an exponent"),
        pytest.param("1e999", id="an exponent beyond reason"),
        pytest.param("NaN", id="not a number"),
        pytest.param(True, id="a truth value"),
        pytest.param(None, id="null"),
    ],
)
def test_what_is_no_quantity_is_refused(text):
    with pytest.raises(InvalidInput, match=r"limits\.memory is not a quantity"):
        parse_quantity(text, "limits.memory")


@given(st.integers(0, 10**6), st.integers(0, 999), st.sampled_from(sorted(SUFFIXES)))
def test_every_suffix_multiplies(number, thousandths, suffix):
    text = f"{number}.{thousandths:03}{suffix}"
    want = (number + Fraction(thousandths, 1000)) * SUFFIXES[suffix]
    assert parse_quantity(text, "cpu") == want


@given(st.integers(0, 10**7))
def test_what_is_written_reads_the_same(amount):
    assert cpu_milli(format_cpu(amount), "cpu") == amount
    assert memory_mib(format_memory(amount), "memory") == amount


@given(st.fractions(0, 10**6, max_denominator=10**6))
def test_room_is_rounded_down_and_needs_up(cores):
    text = f"{float(cores):.9f}"
    assert cpu_milli(text, "cpu") <= parse_quantity(text, "cpu") * 1000
    assert cpu_milli(text, "cpu", up=True) - cpu_milli(text, "cpu") in (0, 1)


def test_pieces_are_whole():
    assert parse_whole("8", "nvidia.com/gpu") == 8
    assert parse_whole("2e0", "nvidia.com/gpu") == 2
    with pytest.raises(InvalidInput, match=r"nvidia\.com/gpu is not a whole number"):
        parse_whole("0.5", "nvidia.com/gpu")
