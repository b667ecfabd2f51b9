"""Which GPUs of a cluster are not well, by scrapes of our node exporter and of dcgm-exporter."""

import itertools
from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpu_core.decisions.model.gpu_health import HealthVerdict
from gpu_core.decisions.telemetry.cluster_health import ClusterHealth, health_queries
from gpu_core.decisions.telemetry.metric_names import SAMPLED
from gpu_core.decisions.telemetry.series import Series

START = datetime(2026, 11, 26, tzinfo=UTC)
POD = {"namespace": "vision", "pod": "train-0"}
OURS = {"gpu": "GPU-a", "node": "n1", **POD}
DCGM = {"UUID": "GPU-a", "gpu": "0", "Hostname": "n1", **POD}
DCGM_NEW = {"UUID": "GPU-a", "gpu": "0", "hostname": "n1", **POD}
BLANK = 9223372036854775794

DEVICE = "prefect_gpu_device_"
WELL = {
    f"{DEVICE}temperature_celsius": 60,
    f"{DEVICE}slowdown_temperature_celsius": 87,
    f"{DEVICE}ecc_uncorrected_total": 7,
    f"{DEVICE}remapped_rows_pending": 0,
    f"{DEVICE}remapped_rows_failed": 0,
    f"{DEVICE}lost": 0,
}
HOT = WELL | {f"{DEVICE}temperature_celsius": 90}
WELL_DCGM = {
    "DCGM_FI_DEV_GPU_TEMP": 60,
    "DCGM_FI_DEV_XID_ERRORS": 0,
    "DCGM_FI_DEV_ECC_DBE_VOL_TOTAL": 7,
    "DCGM_FI_DEV_ROW_REMAP_FAILURE": 0,
}
WELL_DCGM_NEW = {"DCGM_FI_DEV_GPU_TEMP_CELSIUS": 60, "DCGM_FI_DEV_XID_ERRORS": 0}


def at(second):
    return START + timedelta(seconds=second)


def scrape(second, values, labels=OURS):
    """One scrape: values by the metric's name, or by name and further labels."""
    found = []
    for key, value in values.items():
        name, further = key if isinstance(key, tuple) else (key, ())
        own = labels | dict(further)
        found.append(Series(name=name, labels=own, value=float(value), at=at(second)))
    return found


def xid(code, count):
    return {(f"{DEVICE}xid_errors_total", (("xid", str(code)),)): count}


def health_after(scrapes, *, labels=OURS, every_s=15, counts=None):
    """What is known after these scrapes, a question after each of them."""
    health, seen = ClusterHealth(), []
    for number, values in enumerate(scrapes):
        second = number * every_s
        seen += scrape(second, values, labels)
        recent = [each for each in seen if each.at > at(second - 120)]
        health = health.with_series(recent, counts or {"n1": 8}, at(second + 5))
    return health


def verdict_after(*arguments, **options):
    findings = health_after(*arguments, **options).findings
    assert {node for node, _gpu_id in findings} <= {"n1"}
    return {gpu_id: finding.verdict for (_node, gpu_id), finding in findings.items()}


@pytest.mark.parametrize(
    ("ill", "labels", "well", "needed", "want"),
    [
        pytest.param(xid(79, 1), OURS, WELL, 2, HealthVerdict.RESET, id="ours: off the bus"),
        pytest.param(xid(48, 1), OURS, WELL, 2, HealthVerdict.DRAIN, id="ours: memory error"),
        pytest.param(xid(999, 1), OURS, WELL, 2, HealthVerdict.DEGRADED, id="ours: an unknown XID"),
        pytest.param(
            {f"{DEVICE}temperature_celsius": 90}, OURS, WELL, 3, HealthVerdict.DRAIN, id="hot"
        ),
        pytest.param(
            {f"{DEVICE}temperature_celsius": 80, f"{DEVICE}slowdown_temperature_celsius": 80},
            *(OURS, WELL, 3, HealthVerdict.DRAIN),
            id="its own lower threshold",
        ),
        pytest.param(
            {f"{DEVICE}temperature_celsius": 99, f"{DEVICE}shutdown_temperature_celsius": 92},
            *(OURS, WELL, 3, HealthVerdict.DEGRADED),
            id="over its own shutdown",
        ),
        pytest.param(
            {f"{DEVICE}ecc_uncorrected_total": 8},
            OURS,
            WELL,
            3,
            HealthVerdict.RESET,
            id="ours: ECC",
        ),
        pytest.param(
            {f"{DEVICE}remapped_rows_pending": 1},
            OURS,
            WELL,
            3,
            HealthVerdict.RESET,
            id="rows pending",
        ),
        pytest.param(
            {f"{DEVICE}remapped_rows_failed": 1},
            OURS,
            WELL,
            3,
            HealthVerdict.REPLACE,
            id="rows failed",
        ),
        pytest.param({f"{DEVICE}lost": 1}, OURS, WELL, 3, HealthVerdict.RESET, id="ours: lost"),
        pytest.param(
            {"DCGM_FI_DEV_XID_ERRORS": 79}, DCGM, WELL_DCGM, 3, HealthVerdict.RESET, id="DCGM: XID"
        ),
        pytest.param(
            {"DCGM_FI_DEV_GPU_TEMP": 90}, DCGM, WELL_DCGM, 5, HealthVerdict.DRAIN, id="DCGM: hot"
        ),
        pytest.param(
            {"DCGM_FI_DEV_ECC_DBE_VOL_TOTAL": 8},
            DCGM,
            WELL_DCGM,
            5,
            HealthVerdict.RESET,
            id="DCGM: ECC",
        ),
        pytest.param(
            {"DCGM_FI_DEV_ROW_REMAP_FAILURE": 1},
            *(DCGM, WELL_DCGM, 5, HealthVerdict.REPLACE),
            id="DCGM: rows failed",
        ),
        pytest.param(
            {"DCGM_FI_DEV_ROW_REMAP_PENDING": 1},
            *(DCGM, WELL_DCGM, 5, HealthVerdict.RESET),
            id="DCGM: rows pending",
        ),
        pytest.param(
            {"DCGM_FI_DEV_GPU_TEMP_CELSIUS": 90},
            *(DCGM_NEW, WELL_DCGM_NEW, 5, HealthVerdict.DRAIN),
            id="DCGM in base units: hot",
        ),
        pytest.param(
            {"DCGM_FI_DEV_XID_ERRORS": 95},
            *(DCGM_NEW, WELL_DCGM_NEW, 3, HealthVerdict.RESET),
            id="DCGM in base units: XID",
        ),
    ],
)
def test_what_is_seen_again_and_again_is_found(ill, labels, well, needed, want):
    before = [well] * 10  # of dcgm-exporter every second scrape counts, and the last of these not
    assert verdict_after([*before, *[well | ill] * (needed - 1)], labels=labels) == {}
    assert verdict_after([*before, *[well | ill] * needed], labels=labels) == {"GPU-a": want}


@pytest.mark.parametrize(
    ("every_s", "within_s"),
    [pytest.param(5, 25, id="as documented"), pytest.param(15, 55, id="with seldom scrapes")],
)
@pytest.mark.parametrize(
    "ill", [pytest.param(HOT, id="hot"), pytest.param(WELL | xid(79, 1), id="off the bus")]
)
def test_within_which_time_a_gpu_is_held(ill, every_s, within_s):
    """A question each 10 s: whenever it becomes ill, between two scrapes and two questions."""
    took_s = set()
    for ill_s, first_question_s in itertools.product(range(60, 60 + every_s), range(10)):
        health, seen, second = ClusterHealth(), [], 0
        while not health.findings:
            if second % every_s == 0:
                seen += scrape(second, ill if second > ill_s else WELL)
            if second % 10 == first_question_s:
                health = health.with_series(seen[-16 * len(WELL) :], {"n1": 8}, at(second))
            second += 1
        took_s.add(second - 1 - ill_s)
    assert within_s - 5 <= max(took_s) <= within_s if ill is HOT else max(took_s) <= within_s


def test_a_sample_that_an_exporter_shows_again_counts_once():
    """The driver hangs after a false answer: for a minute the exporter shows what it had last."""
    sampled = [number if number < 6 else 6 for number in range(18)]
    shown = [(HOT if s == 6 else WELL) | {SAMPLED: s} for s in sampled]
    assert verdict_after(shown, every_s=5) == {}
    afresh = [each | {SAMPLED: number} for number, each in enumerate(shown)]
    assert verdict_after(afresh, every_s=5) == {"GPU-a": HealthVerdict.DRAIN}


def test_an_error_counts_where_the_exporter_shows_its_last_sample_again():
    """What falls off the bus may take the driver with it."""
    shown = [WELL | {SAMPLED: 1}] * 3 + [WELL | {SAMPLED: 2} | xid(79, 1)] * 2
    assert verdict_after(shown, every_s=5) == {"GPU-a": HealthVerdict.RESET}


@pytest.mark.parametrize("blank", [2**31 - 16, 2**31 - 14, BLANK, 2.0**47])
@pytest.mark.parametrize("name", sorted(WELL_DCGM))
def test_a_blank_of_dcgm_says_nothing(name, blank):
    scrapes = [WELL_DCGM] * 6 + [WELL_DCGM | {name: blank}] * 20
    assert health_after(scrapes, labels=DCGM).findings == {}


def test_what_was_in_an_answer_before_is_not_read_again():
    """Of 512 GPUs an answer has 100,000 points: each is judged once."""
    seen = [each for number in range(24) for each in scrape(5 * number, WELL)]
    health = ClusterHealth().with_series(seen, {"n1": 8}, at(116))
    assert health.with_series(seen, {"n1": 8}, at(118)) == health
    hot = [each for number in range(24, 27) for each in scrape(5 * number, HOT)]
    later = health.with_series([*seen, *hot], {"n1": 8}, at(131))
    assert {each.verdict for each in later.findings.values()} == {HealthVerdict.DRAIN}


@pytest.mark.parametrize("code", [13, 31, 43])
def test_an_error_of_the_program_finds_nothing(code):
    assert verdict_after([WELL] * 3 + [WELL | xid(code, 1)] * 9) == {}
    dcgm = [WELL_DCGM] * 6 + [WELL_DCGM | {"DCGM_FI_DEV_XID_ERRORS": code}] * 12
    assert verdict_after(dcgm, labels=DCGM) == {}


@pytest.mark.parametrize(
    ("labels", "counts"),
    [
        pytest.param(OURS | {"node": "other"}, {"n1": 8}, id="a node that we do not have"),
        pytest.param({"gpu": "GPU-a"}, {"n1": 8}, id="no node"),
        pytest.param(OURS, {"n2": 8}, id="another cluster's"),
        pytest.param({"node": "n1"}, {"n1": 8}, id="no GPU"),
    ],
)
def test_foreign_series_say_nothing(labels, counts):
    assert verdict_after([WELL, *[HOT] * 9], labels=labels, counts=counts) == {}


def test_a_node_with_more_gpus_than_it_has_shares_its_name_and_says_nothing():
    health = ClusterHealth()
    for number in range(9):
        foreign = OURS | {"gpu": "GPU-of-another-cluster"}
        both = [*scrape(15 * number, HOT), *scrape(15 * number, WELL, foreign)]
        health = health.with_series(both, {"n1": 1}, at(15 * number + 5))
    assert health.findings == {}


@pytest.mark.parametrize(
    "false",
    [
        pytest.param(float("inf"), id="infinite"),
        pytest.param(151, id="no GPU can have it"),
        pytest.param(BLANK, id="a blank of DCGM"),
    ],
)
def test_what_can_be_no_temperature_says_nothing(false):
    assert verdict_after([WELL] + [WELL | {f"{DEVICE}temperature_celsius": false}] * 20) == {}


def test_a_false_answer_of_the_driver_that_dcgm_shows_in_each_scrape_counts_once():
    """dcgm-exporter asks every 30 s: with a scrape each second, 30 of them have one answer."""
    hot = WELL_DCGM | {"DCGM_FI_DEV_GPU_TEMP": 90}
    scrapes = [WELL_DCGM] * 40 + [hot] * 30 + [WELL_DCGM] * 120
    assert verdict_after(scrapes, labels=DCGM, every_s=1) == {}


def test_samples_on_both_sides_of_a_gap_are_not_in_a_row():
    assert verdict_after([HOT] * 9, every_s=60) == {"GPU-a": HealthVerdict.DRAIN}
    assert verdict_after([HOT] * 9, every_s=151) == {}


def test_late_samples_say_nothing():
    late = [each for number in range(9) for each in scrape(15 * number, HOT)]
    assert ClusterHealth().with_series(late, {"n1": 8}, at(120)).findings != {}
    assert ClusterHealth().with_series(late, {"n1": 8}, at(15 * 8 + 121)).findings == {}
    assert ClusterHealth().with_series(late, {"n1": 8}, at(-121)).findings == {}


def test_the_pods_on_a_gpu_are_those_of_its_last_sample():
    health = health_after([WELL] * 3)
    assert health.pods_on(["GPU-a"], at(45)) == {("vision", "train-0")}
    assert health.pods_on(["GPU-a"], at(45 + 121)) == set(), "late"
    assert health.pods_on(["GPU-b"], at(45)) == set()
    free = OURS | {"namespace": "", "pod": ""}
    later = health.with_series(scrape(45, WELL, free), {"n1": 8}, at(50))
    assert later.pods_on(["GPU-a"], at(50)) == set()


def test_pods_on_mig_instances_are_on_their_gpu():
    pod = {"namespace": "asr", "pod": "asr-0"}
    instance = {"gpu": "MIG-c", "parent_gpu": "GPU-a", "node": "n1", **pod}
    rows = [
        *scrape(0, WELL, OURS | {"namespace": "", "pod": ""}),
        *scrape(0, {f"{DEVICE}memory_used_bytes": 1}, instance),
    ]
    health = ClusterHealth().with_series(rows, {"n1": 1}, at(5))
    assert health.pods_on(["GPU-a"], at(5)) == {("asr", "asr-0")}


def test_what_a_person_frees_is_judged_anew():
    health = health_after([WELL, *[HOT] * 3])
    assert set(health.findings) == {("n1", "GPU-a")}
    health = health.without("GPU-a")
    for number in range(4, 7):
        assert health.findings == {}
        health = health.with_series(scrape(15 * number, HOT), {"n1": 8}, at(15 * number + 5))
    assert set(health.findings) == {("n1", "GPU-a")}


def of(instance, values, second):
    """A scrape of one of several exporters on the node."""
    return scrape(second, values, OURS | {"instance": instance})


@pytest.mark.parametrize("later", ["one", "other"])
def test_a_new_error_is_seen_by_two_exporters_that_count_from_their_own_starts(later):
    """The other one was restarted after an error of the same code."""
    before, after = {"one": 1, "other": 0}, {"one": 2, "other": 1}
    health, seen = ClusterHealth(), []
    order = ["one", "other"] if later == "other" else ["other", "one"]
    for number in range(12):
        counts = before if number < 6 else after
        values = WELL | (xid(48, counts[order[number % 2]]) if counts[order[number % 2]] else {})
        seen += of(order[number % 2], values, 8 * number)
        if number == 5:
            assert health.findings == {}
        health = health.with_series(seen, {"n1": 8}, at(8 * number + 1))
    assert {gpu: each.verdict for (_, gpu), each in health.findings.items()} == {
        "GPU-a": HealthVerdict.DRAIN
    }


HISTORY = WELL | xid(79, 2) | xid(31, 5)
WRONG = st.sampled_from([90.0, 79.0, 1.0, 1e9, -1.0, float(BLANK)])


@given(
    exporter=st.sampled_from(["ours", "dcgm"]),
    place=st.integers(2, 11),
    gone=st.sets(st.integers(0, 8)),
    shift_s=st.sampled_from([0, -200, 200]),
    wrong=st.dictionaries(st.integers(0, 8), WRONG),
)
def test_one_reading_with_values_missing_stale_or_false_drains_nothing(
    exporter, place, gone, shift_s, wrong
):
    """Also of a GPU with a past: errors that were counted before, and other programs'."""
    own, well = (OURS, HISTORY) if exporter == "ours" else (DCGM, WELL_DCGM)
    every_s = 15 if exporter == "ours" else 30
    health, seen = ClusterHealth(), []
    for number in range(14):
        second = number * every_s
        rows = scrape(second, well, own)
        if number == place:
            moment = at(second + shift_s)
            rows = [
                Series(
                    name=each.name,
                    labels=each.labels,
                    value=wrong.get(index, each.value),
                    at=moment,
                )
                for index, each in enumerate(rows)
                if index not in gone
            ]
        seen += rows
        recent = [each for each in seen if at(second - 120) < each.at]
        health = health.with_series(recent, {"n1": 8}, at(second + 5))
    assert [f for f in health.findings.values() if not f.verdict.is_usable] == []


def test_the_questions_name_our_nodes_and_no_others():
    questions = health_queries(["n1", "gpu.b"])
    for question, label in zip(questions, ("node", "hostname", "Hostname"), strict=True):
        assert question.endswith(f'{label}=~"gpu\\\\.b|n1"}}[120s]'), question
        assert "DCGM_FI_DEV_XID_ERRORS" in question
        assert f"{DEVICE}xid_errors_total" in question
    assert health_queries([]) == ()
