"""What a forecast sees of the queue, and what people read of it."""

import pytest

from gpu_core.decisions.model.reasons import Explanation, Reason
from gpu_core.decisions.model.workload import RunTime, RunTimeSource
from gpu_core.decisions.scheduling.forecasting.queue_features import (
    gpus_by_type,
    queue_features,
    waits_for,
    with_forecast,
)
from gpu_core.decisions.scheduling.forecasting.start_times import QueueFeatures, StartForecast
from gpu_core.testing.builders.workloads import NOW, ago, make_node, make_workload

TOTALS = {"a100-80gb": 16, "t4": 4}


def hours(number):
    return RunTime(median_s=1.0, upper_s=number * 3_600, source=RunTimeSource.LEARNED)


def test_gpus_are_counted_by_type_the_most_common_first():
    """Over all nodes."""
    nodes = [make_node("a", gpus=4, gpu_type="t4"), make_node("b"), make_node("c")]
    assert list(gpus_by_type(nodes).items()) == [("a100-80gb", 16), ("t4", 4)]


@pytest.mark.parametrize(
    ("wants", "line"),
    [
        pytest.param({}, "a100-80gb", id="any: where there are most"),
        pytest.param(
            {"gpu_types": ("h100", "t4", "a100-80gb")}, "t4", id="the first that there is"
        ),
        pytest.param({"gpu_types": ("h100",)}, None, id="none that there is"),
        pytest.param({"gpus": 0}, None, id="no GPU"),
    ],
)
def test_a_workload_stands_in_one_line(wants, line):
    """The one whose starts say most about its own."""
    assert waits_for(make_workload(**wants), TOTALS) == line


def test_those_ahead_are_those_of_the_same_line():
    """Their GPUs, their planned work, and how long the first of them has waited."""
    line = [
        make_workload("head", gpus=4, run_time=hours(1), submitted_at=ago(600)),
        make_workload("other", gpus=2, gpu_types=("t4",), submitted_at=ago(9_000)),
        make_workload("unknown", gpus=8),
        make_workload("last", gpus=1, submitted_at=ago(3_000)),
    ]
    features = queue_features(line, TOTALS, {"a100-80gb": 36}, NOW)
    assert features["last"] == QueueFeatures(
        gpus_wanted=1,
        gpus_ahead=12,
        gpu_s_ahead=4 * 3_600,
        total_gpus=16,
        started_gpus_per_s=0.01,
        head_waited_s=600,
    )
    assert features["other"] == QueueFeatures(
        gpus_wanted=2,
        gpus_ahead=0,
        gpu_s_ahead=0,
        total_gpus=4,
        started_gpus_per_s=0,
        head_waited_s=0,
    )


def reported(expected_start_at=None):
    explanation = Explanation(
        workload_id="w",
        reason=Reason.BEHIND_OTHERS,
        summary="",
        resolution="",
        position=3,
        expected_start_at=expected_start_at,
    )
    made = with_forecast(explanation, StartForecast(low_s=60, median_s=120, high_s=600), NOW)
    return made.expected_start_from, made.expected_start_at, made.expected_start_until


@pytest.mark.parametrize(
    ("planned", "expected"),
    [
        pytest.param(None, (ago(-60), ago(-120), ago(-600)), id="the planner knows nothing"),
        pytest.param(ago(-90), (ago(-60), ago(-90), ago(-600)), id="the planner's own is kept"),
        pytest.param(ago(-30), (ago(-30), ago(-30), ago(-600)), id="earlier than the interval"),
        pytest.param(ago(-900), (ago(-60), ago(-900), ago(-900)), id="later than the interval"),
    ],
)
def test_the_interval_holds_the_expected_start(planned, expected):
    """Or a reader could believe neither."""
    assert reported(planned) == expected
