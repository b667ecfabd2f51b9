"""When a GPU is taken out of use, and when it is not."""

import doctest
from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpu_core.decisions.model.gpu_health import HealthVerdict
from gpu_core.decisions.telemetry import xids
from gpu_core.decisions.telemetry.health import HOT_SAMPLES, STUCK_FOR, SURE_SAMPLES, GpuHealth
from gpu_core.decisions.telemetry.samples import GpuSample, RemappedRows, ThrottleReason
from gpu_core.decisions.telemetry.xids import XidClass, xid_class

START = datetime(2026, 11, 25, tzinfo=UTC)
WELL = {"temperature_c": 60.0, "slowdown_temperature_c": 87.0, "ecc_uncorrected": 7}


def rows(**changes):
    values = {"corrected": 1, "uncorrected": 1, "is_pending": False, "has_failed": False}
    return RemappedRows(**values | changes)


def health_after(*samples):
    health = GpuHealth(gpu_id="GPU-a")
    for second, values in enumerate(samples):
        at = START + timedelta(seconds=second)
        health = health.with_sample(GpuSample(gpu_id="GPU-a", at=at, **values))
    return health


@pytest.mark.parametrize(
    ("code", "want"),
    [
        pytest.param(13, HealthVerdict.HEALTHY, id="a graphics exception is the program's"),
        pytest.param(31, HealthVerdict.HEALTHY, id="a page fault is the program's"),
        pytest.param(43, HealthVerdict.HEALTHY, id="a stopped channel is the program's"),
        pytest.param(63, HealthVerdict.HEALTHY, id="a row that was remapped is information"),
        pytest.param(94, HealthVerdict.HEALTHY, id="a contained error ended its program"),
        pytest.param(48, HealthVerdict.DRAIN, id="an uncorrected error"),
        pytest.param(74, HealthVerdict.DRAIN, id="NVLink"),
        pytest.param(79, HealthVerdict.RESET, id="fallen off the bus"),
        pytest.param(95, HealthVerdict.RESET, id="an uncontained error"),
        pytest.param(109, HealthVerdict.DEGRADED, id="the sources do not agree"),
        pytest.param(999, HealthVerdict.DEGRADED, id="an unknown one asks a person"),
        pytest.param(0, HealthVerdict.DEGRADED, id="none of NVIDIA's"),
    ],
)
def test_one_xid_counts_at_once(code, want):
    assert health_after(WELL, WELL | {"xids": (code,)}, WELL).verdict == want


@pytest.mark.parametrize(
    ("condition", "needed", "want"),
    [
        pytest.param({"temperature_c": 85.0}, HOT_SAMPLES, HealthVerdict.DRAIN, id="85 C"),
        pytest.param(
            {"temperature_c": 80.0, "slowdown_temperature_c": 80.0},
            *(HOT_SAMPLES, HealthVerdict.DRAIN),
            id="its own lower threshold",
        ),
        pytest.param(
            {"temperature_c": 85.0, "slowdown_temperature_c": None},
            *(HOT_SAMPLES, HealthVerdict.DRAIN),
            id="85 C without a threshold",
        ),
        pytest.param({"is_lost": True}, SURE_SAMPLES, HealthVerdict.RESET, id="it does not answer"),
        pytest.param({"ecc_uncorrected": 8}, SURE_SAMPLES, HealthVerdict.RESET, id="memory errors"),
        pytest.param(
            {"remapped_rows": rows(is_pending=True)},
            SURE_SAMPLES,
            HealthVerdict.RESET,
            id="rows pending",
        ),
        pytest.param(
            {"remapped_rows": rows(has_failed=True, is_pending=True)},
            *(SURE_SAMPLES, HealthVerdict.REPLACE),
            id="no rows left",
        ),
    ],
)
def test_what_is_measured_counts_after_several_samples_in_a_row(condition, needed, want):
    ill, well = WELL | condition, [WELL] * SURE_SAMPLES  # until then its counters are not sure
    assert health_after(*well, *[ill] * (needed - 1)).verdict == HealthVerdict.HEALTHY
    assert health_after(*well, *[ill] * (needed - 1), WELL, ill).verdict == HealthVerdict.HEALTHY
    assert health_after(*well, *[ill] * needed).verdict == want
    # It stays until a person takes it back.
    assert health_after(*well, *[ill] * needed, *[WELL] * 20).verdict == want


@pytest.mark.parametrize(
    ("counts", "want"),
    [
        pytest.param([0, *[12] * 9], HealthVerdict.HEALTHY, id="the first reading was false"),
        pytest.param([5] * 3 + [99, 7, 123_456] + [5] * 9, HealthVerdict.HEALTHY, id="garbage"),
        pytest.param([12] * 3 + [0] * 9, HealthVerdict.HEALTHY, id="the driver was loaded anew"),
        pytest.param([12] * 3 + [0] * 3 + [5] * 3, HealthVerdict.RESET, id="errors after that"),
        pytest.param([12] * 3 + [0] + [12] * 9, HealthVerdict.HEALTHY, id="one false reading"),
        pytest.param([4] * 3 + [5, 9, 30], HealthVerdict.RESET, id="it rises in each sample"),
        pytest.param([4] * 3 + [5, None, 5, None, 5], HealthVerdict.RESET, id="with gaps"),
    ],
)
def test_memory_errors_are_counted_from_what_is_sure(counts, want):
    samples = [WELL | {"ecc_uncorrected": count} for count in counts]
    assert health_after(*samples).verdict == want


@pytest.mark.parametrize(
    ("shutdown_c", "slowdown_c", "want"),
    [
        pytest.param(92.0, 87.0, HealthVerdict.DEGRADED, id="no measurement"),
        pytest.param(92.0, None, HealthVerdict.DEGRADED, id="without a slowdown threshold"),
        pytest.param(0.0, 87.0, HealthVerdict.DRAIN, id="a shutdown threshold that no device has"),
        pytest.param(80.0, 87.0, HealthVerdict.DRAIN, id="thresholds that contradict each other"),
        pytest.param(None, 87.0, HealthVerdict.DRAIN, id="an unknown one"),
    ],
)
def test_over_its_own_shutdown_the_sensor_is_at_fault_and_the_gpu_in_use(
    shutdown_c, slowdown_c, want
):
    hot = WELL | {
        "temperature_c": 149.0,
        "shutdown_temperature_c": shutdown_c,
        "slowdown_temperature_c": slowdown_c,
    }
    assert health_after(*[hot] * (HOT_SAMPLES - 1)).verdict == HealthVerdict.HEALTHY
    assert health_after(*[hot] * HOT_SAMPLES).verdict == want


@pytest.mark.parametrize(
    "condition",
    [
        pytest.param({"temperature_c": 84.9}, id="warm"),
        pytest.param({"slowdown_temperature_c": 0.0}, id="a threshold that no device has"),
        pytest.param({"temperature_c": None}, id="an unknown temperature"),
        pytest.param({"ecc_uncorrected": None}, id="an unknown counter"),
        pytest.param({"ecc_uncorrected": 3}, id="a counter that ran backwards"),
        pytest.param({"remapped_rows": rows(uncorrected=9)}, id="rows that were replaced"),
        pytest.param({"utilization_ratio": 0.0}, id="idle"),
        pytest.param({"utilization_ratio": 1.0, "power_w": 700.0}, id="busy"),
    ],
)
def test_what_is_no_fault_never_counts(condition):
    assert health_after(WELL, *[WELL | condition] * 100).verdict == HealthVerdict.HEALTHY


def test_errors_before_the_first_sample_say_nothing():
    assert health_after(*[WELL | {"ecc_uncorrected": 500}] * 10).verdict == HealthVerdict.HEALTHY


def test_the_worst_finding_stays():
    replaced = WELL | {"remapped_rows": rows(has_failed=True)}
    found = health_after(*[replaced] * SURE_SAMPLES, WELL | {"xids": (48, 999)})
    assert (found.verdict, found.finding.reason) == (
        HealthVerdict.REPLACE,
        "no spare memory rows are left",
    )


def test_the_reason_and_the_remedy_are_for_people():
    finding = health_after(WELL | {"xids": (79,)}).finding
    assert finding.reason == "XID 79 (the GPU has fallen off the bus)"
    assert finding.remedy == "restart the machine"
    hot = health_after(*[WELL | {"temperature_c": 90.0}] * HOT_SAMPLES).finding
    assert hot.reason == "90 °C, from 85 °C on it is too hot"


SAMPLES = st.fixed_dictionaries(
    {},
    optional={
        "temperature_c": st.one_of(st.none(), st.floats(0, 120)),
        "slowdown_temperature_c": st.one_of(st.none(), st.floats(60, 110)),
        "ecc_uncorrected": st.one_of(st.none(), st.integers(0, 5)),
        "is_lost": st.booleans(),
        "xids": st.lists(st.integers(0, 200), max_size=2).map(tuple),
    },
)


@given(st.lists(st.sampled_from([13, 31, 43, 45, 94]), max_size=50))
def test_no_number_of_application_errors_condemns_a_gpu(codes):
    assert (
        health_after(*(WELL | {"xids": (code,)} for code in codes)).verdict == HealthVerdict.HEALTHY
    )


@given(st.lists(SAMPLES, max_size=30))
def test_a_verdict_never_gets_better_by_itself(samples):
    order = list(HealthVerdict)
    verdicts = [health_after(*samples[:end]).verdict for end in range(len(samples) + 1)]
    places = [order.index(verdict) for verdict in verdicts]
    assert places == sorted(places)


@given(st.lists(SAMPLES.map(lambda s: {k: v for k, v in s.items() if k != "xids"}), max_size=30))
def test_one_false_sample_moves_no_run(between):
    """Whatever is measured: one sample among well ones changes nothing."""
    samples = [each for false in between for each in (WELL, false)]
    assert health_after(*samples, WELL).verdict == HealthVerdict.HEALTHY


def test_every_code_of_the_sources_has_one_class():
    known = [code for codes in xids._CLASSES.values() for code in codes]
    assert len(known) == len(set(known))
    assert xid_class(109) is XidClass.UNKNOWN
    assert doctest.testmod(xids).failed == 0


STUCK_S = int(STUCK_FOR.total_seconds())
ZERO = WELL | {"utilization_ratio": 0.0, "process_ids": (7,)}
HELD_DOWN = {"throttle_reasons": frozenset({ThrottleReason.HARDWARE_THERMAL})}
CAPPED = {"throttle_reasons": frozenset({ThrottleReason.POWER_CAP, ThrottleReason.THERMAL})}


def at_zero(*samples, peers=False):
    health = GpuHealth(gpu_id="GPU-a")
    for second, values in enumerate(samples):
        at = START + timedelta(seconds=second)
        sample = GpuSample(gpu_id="GPU-a", at=at, **values)
        health = health.with_sample(sample, are_peers_busy=peers)
    return health.verdict


@pytest.mark.parametrize(
    ("values", "peers", "want"),
    [
        pytest.param(HELD_DOWN, False, HealthVerdict.DRAIN, id="its hardware holds it down"),
        pytest.param(HELD_DOWN, True, HealthVerdict.DRAIN, id="both agree"),
        pytest.param({}, True, HealthVerdict.DEGRADED, id="all others of its run compute"),
        pytest.param({}, False, HealthVerdict.HEALTHY, id="nothing agrees"),
        pytest.param(CAPPED, False, HealthVerdict.HEALTHY, id="software holds it down"),
        pytest.param(
            HELD_DOWN | {"process_ids": ()}, True, HealthVerdict.HEALTHY, id="no job on it"
        ),
        pytest.param(
            HELD_DOWN | {"process_ids": None}, True, HealthVerdict.HEALTHY, id="job unknown"
        ),
        pytest.param(
            HELD_DOWN | {"utilization_ratio": None}, True, HealthVerdict.HEALTHY, id="use unknown"
        ),
        pytest.param(
            HELD_DOWN | {"utilization_ratio": 0.01}, True, HealthVerdict.HEALTHY, id="it works"
        ),
    ],
)
def test_at_zero_with_a_job_counts_where_something_else_agrees(values, peers, want):
    stuck = ZERO | values
    assert at_zero(*[stuck] * STUCK_S, peers=peers) == HealthVerdict.HEALTHY
    assert at_zero(*[stuck] * (STUCK_S + 1), peers=peers) == want
    busy = stuck | {"utilization_ratio": 0.5}
    again = [*[stuck] * 200, busy, *[stuck] * 200]
    assert at_zero(*again, peers=peers) == HealthVerdict.HEALTHY, "it computes in between"


@given(
    gaps=st.sets(st.integers(0, 600), min_size=1, max_size=5),
    field=st.sampled_from(["utilization_ratio", "process_ids", "throttle_reasons"]),
)
def test_at_zero_a_missing_value_begins_it_anew(gaps, field):
    gaps = {*gaps, 250, 500}  # no five minutes without a gap
    samples = [ZERO | HELD_DOWN | ({field: None} if n in gaps else {}) for n in range(700)]
    assert at_zero(*samples) == HealthVerdict.HEALTHY
