"""Which XID errors are new, scrape by scrape."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpu_core.decisions.telemetry.xid_readings import LastXid, XidCounters, XidReadings


def folded(state, readings):
    found = []
    for reading in readings:
        state, new = state.with_reading(reading)
        found += new
    return found


@pytest.mark.parametrize(
    ("readings", "want"),
    [
        pytest.param([{}, {}, {79: 1}, {79: 1}], [79], id="the first error of a code"),
        pytest.param([{}, {}, {79: 1}], [], id="one scrape says nothing"),
        pytest.param([{}, {}, {79: 1}, {}, {79: 1}], [79], id="it is missing once"),
        pytest.param([{79: 3}] * 9, [], id="what was there before"),
        pytest.param([{}, {79: 3}, *[{79: 3}] * 9], [], id="missing in the first reading"),
        pytest.param([{79: 3}, {79: 3}, {79: 4}, {79: 5}], [79], id="it rises again"),
        pytest.param([{79: 3}, {79: 3}, {79: 9}, {79: 3}, {79: 3}], [], id="one false count"),
        pytest.param([{79: 3}, {79: 3}, {79: 0}, *[{79: 3}] * 5], [], id="one that is too low"),
        pytest.param([{79: 3}, {79: 3}, {}, {}, {79: 3}, {79: 3}], [], id="it stays away"),
        pytest.param([{79: 3}] * 2 + [{79: 1}] * 3, [], id="a counter that falls begins anew"),
        pytest.param([{79: 3}] * 2 + [{79: 1}] * 2 + [{79: 2}] * 2, [79], id="an error after that"),
        pytest.param([{}, {}, {31: 1, 48: 1}, {31: 1, 48: 1}], [31, 48], id="two codes"),
    ],
)
def test_our_counters(readings, want):
    assert folded(XidCounters(), readings) == want


@pytest.mark.parametrize(
    ("codes", "want"),
    [
        pytest.param([0, 0, 79, 79, 79], [79], id="an error"),
        pytest.param([0, 0, 79], [], id="one scrape says nothing"),
        pytest.param([0, 0, 79, 0, 79, 0], [], id="a value that comes and goes"),
        pytest.param([79] * 9, [], id="one from before the worker started"),
        pytest.param([79, 79, 0, 0], [], id="dcgm-exporter was restarted"),
        pytest.param([31, 31, 79, 79, 31, 31], [79, 31], id="one after the other"),
        pytest.param([0, 0, None, 79, None, 79], [79], id="with gaps"),
        pytest.param([None] * 9, [], id="never read"),
    ],
)
def test_the_last_code_of_dcgm(codes, want):
    assert folded(LastXid(), codes) == want


def test_exporters_that_come_and_go_are_forgotten():
    """Each start of a pod has another address."""
    readings = XidReadings()
    for number in range(100):
        readings, new = readings.with_counts(f"10.0.0.{number}:9401", {79: 1})
        assert new == ()
    assert len(readings.counters) < 10


CODES = st.sampled_from([31, 48, 79])


@given(
    counts=st.dictionaries(CODES, st.integers(1, 5)),
    false=st.dictionaries(CODES, st.integers(0, 99)),
    before=st.integers(2, 5),
    after=st.integers(2, 5),
)
def test_one_reading_of_any_content_shows_no_error(counts, false, before, after):
    assert folded(XidCounters(), [counts] * before + [false] + [counts] * after) == []
    codes = [79] * before + [next(iter(false.values()), None)] + [79] * after
    assert folded(LastXid(), codes) == []
