"""What a Prometheus is asked about pods, and what its answers add up to."""

from datetime import UTC, datetime, timedelta

import pytest

from gpu_core.decisions.telemetry.pod_summaries import queries_for, summaries_from
from gpu_core.decisions.telemetry.series import Series

BEGUN = datetime(2026, 11, 25, tzinfo=UTC)


@pytest.mark.parametrize(
    ("lasted", "want"),
    [
        pytest.param(timedelta(seconds=1), 15, id="a second"),
        pytest.param(timedelta(hours=1), 15, id="an hour"),
        pytest.param(timedelta(days=1), 87, id="a day"),
        pytest.param(timedelta(days=30), 2592, id="a month"),
    ],
)
def test_the_step_is_longer_for_long_attempts(lasted, want):
    (query,) = queries_for("vision", ["train-0"], BEGUN, BEGUN + lasted)
    assert query.step_s == want
    assert lasted / timedelta(seconds=want) <= 1000


def test_a_gang_is_asked_about_eight_pods_at_a_time():
    pods = [f"train-{number}" for number in range(20)]
    queries = queries_for("vision", pods, BEGUN, BEGUN + timedelta(hours=1))
    assert [query.query.count("train-") for query in queries] == [16, 16, 8]
    assert 'namespace="vision", pod=~"train-0|train-1|' in queries[0].query
    assert 'exported_namespace="vision", exported_pod=~"train-0|' in queries[0].query


def points(name, values, **labels):
    return [
        Series(name=name, labels=labels, value=value, at=BEGUN + timedelta(seconds=15 * place))
        for place, value in enumerate(values)
    ]


def test_points_add_up_for_each_gpu_and_weigh_as_long_as_they_last():
    first, second = (
        {"UUID": uuid, "gpu": "0", "Hostname": "n", "pod": "train-0"} for uuid in ("GPU-a", "GPU-b")
    )
    found = summaries_from(
        [
            *points("DCGM_FI_DEV_GPU_UTIL", [0, 100, 80], **first),
            *points("DCGM_FI_DEV_FB_USED", [10, 30, 20], **first),
            *points("DCGM_FI_DEV_TOTAL_ENERGY_CONSUMPTION", [5000, 20000, 35000], **first),
            *points("DCGM_FI_DEV_GPU_TEMP", [60, 70, 65], **first),
            *points("DCGM_FI_DEV_GPU_TEMP", [50], **second),
            *points("node_load1", [1.0], instance="n"),
        ],
        step_s=15,
    )
    assert [each.gpu_id for each in found] == ["GPU-a", "GPU-b"]
    assert found[0].samples == 45
    assert found[0].utilization_mean_ratio == pytest.approx(0.6)
    assert found[0].utilization_p95_ratio == 1.0
    assert found[0].busy_ratio == pytest.approx(2 / 3)
    assert found[0].memory_used_max_bytes == 30 * 2**20
    assert found[0].energy_j == pytest.approx(30.0)
    assert found[0].temperature_max_c == 70.0
    assert found[1].utilization_mean_ratio is None, "missing is missing"
    assert found[1].energy_j is None


def test_without_a_point_there_is_no_summary():
    assert summaries_from([], 15) == ()
