"""Saved views of an experiment: their columns, what stays, and the link that opens one."""

import json

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from gpu_core.decisions.costs.mlflow.cost_ratios import improvement_per_usd, usd_per_count
from gpu_core.decisions.costs.mlflow.mlflow_views import experiment_tags, view_link

QUALITY_VIEW = "mlflow.sharedViewState.prefect-gpu-cost-and-quality"
INTERRUPTIONS_VIEW = "mlflow.sharedViewState.prefect-gpu-interruptions"


def columns(tags):
    return json.loads(tags[QUALITY_VIEW])["selectedColumns"]


def test_a_new_experiment_is_model_training_with_two_views():
    tags = experiment_tags({}, ["accuracy", "cost/total_usd", "system/cpu"])
    assert tags.keys() == {"mlflow.experimentKind", QUALITY_VIEW, INTERRUPTIONS_VIEW}
    assert tags["mlflow.experimentKind"] == "custom_model_development"
    assert columns(tags)[:3] == [
        "metrics.`accuracy`",
        "metrics.`cost/total_usd`",
        "metrics.`cost/improvement_per_usd`",
    ]
    assert "metrics.`system/cpu`" not in columns(tags)


def test_a_kind_that_a_user_set_stays():
    tags = experiment_tags({"mlflow.experimentKind": "forecasting"}, [])
    assert "mlflow.experimentKind" not in tags


def test_metrics_of_other_runs_stay_columns():
    there = experiment_tags({}, ["loss"])
    assert experiment_tags(there, ["loss"]) == {}
    more = experiment_tags(there, ["accuracy"])
    assert more.keys() == {QUALITY_VIEW}
    assert columns(more)[:2] == ["metrics.`loss`", "metrics.`accuracy`"]


@pytest.mark.parametrize("damaged", ["", "{", "[]", "{}", '{"selectedColumns": 5}', "null"])
def test_a_damaged_view_is_replaced(damaged):
    assert columns(experiment_tags({QUALITY_VIEW: damaged}, ["loss"]))[0] == "metrics.`loss`"


METRIC = st.text(st.characters(categories=["L", "Nd"]) | st.sampled_from("_-./ :"), min_size=1)


@example([{250 * letter for letter in "äöüß"}])
@given(st.lists(st.sets(METRIC, max_size=6), max_size=4))
def test_a_tag_is_never_longer_than_mlflow_takes_and_the_second_time_changes_nothing(runs):
    """An experiment's tag holds 5,000 characters, a metric's name 250: letters of any script."""
    there = {}
    for metrics in runs:
        there |= experiment_tags(there, metrics)
        assert experiment_tags(there, metrics) == {}
    assert all(len(text) <= 5000 for text in there.values())


def test_the_link_opens_a_view():
    assert view_link("http://mlflow:5000", "7") == (
        "http://mlflow:5000/#/experiments/7/runs"
        "?viewStateShareKey=prefect-gpu-cost-and-quality&workflowType=machine_learning"
    )


@pytest.mark.parametrize(
    ("total_usd", "metrics", "want"),
    [
        pytest.param(2.0, {"steps": 500}, {"cost/usd_per_1k_steps": 4.0}, id="steps"),
        pytest.param(
            3.0,
            {"samples": 6000, "tokens": 1e6, "epochs": 3},
            {
                "cost/usd_per_1k_samples": 0.5,
                "cost/usd_per_1m_tokens": 3.0,
                "cost/usd_per_epoch": 1.0,
            },
            id="all that it counts",
        ),
        pytest.param(2.0, {"steps": 0, "epochs": -1}, {}, id="no count"),
        pytest.param(2.0, {"accuracy": 0.9}, {}, id="it counts nothing"),
        pytest.param(None, {"steps": 5}, {}, id="no price"),
    ],
)
def test_what_a_step_costs(total_usd, metrics, want):
    assert usd_per_count(total_usd, metrics) == want


@pytest.mark.parametrize(
    ("quality", "baseline", "goal", "total_usd", "want"),
    [
        pytest.param(0.75, 0.5, "higher", 0.5, 0.5, id="better"),
        pytest.param(0.5, 0.75, "higher", 0.5, -0.5, id="worse"),
        pytest.param(0.5, 0.75, "lower", 0.5, 0.5, id="a lower loss is better"),
        pytest.param(0.5, 0.75, "lowest", 0.5, None, id="a misspelled goal"),
        pytest.param(None, 0.5, "higher", 1.0, None, id="the run has no such metric"),
        pytest.param(0.5, None, "higher", 1.0, None, id="the baseline has none"),
        pytest.param(0.5, 0.25, "higher", None, None, id="no price"),
        pytest.param(0.5, 0.25, "higher", 0.0, None, id="it cost nothing"),
    ],
)
def test_improvement_for_each_dollar(quality, baseline, goal, total_usd, want):
    assert improvement_per_usd(quality, baseline, goal, total_usd) == want
