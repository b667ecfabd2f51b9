"""What a run took of its machine adds up, and what is unknown stays so."""

import doctest

import pytest

from gpu_core.decisions.model.host_summary import HostSummary
from gpu_core.decisions.telemetry import host_totals
from gpu_core.decisions.telemetry.host_totals import HostTotals, host_text

GIB = 2**30


def total(*samples):
    totals = HostTotals()
    for cores, memory in samples:
        totals = totals.with_sample(cores, memory)
    return totals.summary()


def test_means_and_peaks():
    assert total((None, 2 * GIB), (1.0, 8 * GIB), (3.0, 4 * GIB)) == HostSummary(
        samples=3, cores_mean=2.0, cores_max=3.0, memory_max_bytes=8 * GIB
    )


@pytest.mark.parametrize(
    ("samples", "want"),
    [
        pytest.param([], None, id="no sample"),
        pytest.param([(None, None)], None, id="nothing is known"),
        pytest.param([(None, GIB)], "at most 1,024.0 MiB of memory", id="memory only"),
        pytest.param([(0.0, None)], "0.0 cores on average", id="an idle run"),
    ],
)
def test_only_what_is_known_is_said(samples, want):
    summary = total(*samples)
    assert (None if summary is None else host_text(summary)) == want


def test_the_examples_hold():
    assert doctest.testmod(host_totals).failed == 0
