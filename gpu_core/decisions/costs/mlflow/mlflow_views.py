"""Saved views of an MLflow experiment, as the experiment tags that MLflow's UI keeps them in.

The form is that of MLflow 3.17: the tag `mlflow.sharedViewState.KEY` is JSON with the state of the
runs page, and `?viewStateShareKey=KEY` opens it.
"""

import json
from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

COST_AND_QUALITY = "prefect-gpu-cost-and-quality"
INTERRUPTIONS = "prefect-gpu-interruptions"

KIND_TAG = "mlflow.experimentKind"
MODEL_TRAINING = "custom_model_development"

_TAG_PREFIX = "mlflow.sharedViewState."
_NOT_QUALITY = ("cost/", "system/")
# A tag of an experiment holds 5,000 characters, and a table as wide as a screen some ten columns.
_MOST_QUALITY = 4


class MlflowPages(NamedTuple):
    """The addresses of a run in MLflow, and of the runs of its experiment."""

    run: str
    view: str
    """The experiment's runs in one of our views."""

    @classmethod
    def of(cls, pages_uri: str, experiment_id: str, run_id: str) -> "MlflowPages":
        """The pages of this run at this address of MLflow."""
        run = f"{pages_uri}/#/experiments/{experiment_id}/runs/{run_id}"
        return cls(run, view_link(pages_uri, experiment_id))


def view_link(pages_uri: str, experiment_id: str, view: str = COST_AND_QUALITY) -> str:
    """The page of an experiment's runs with this view."""
    page = f"{pages_uri}/#/experiments/{experiment_id}/runs"
    return f"{page}?viewStateShareKey={view}&workflowType=machine_learning"


def experiment_tags(there: Mapping[str, str], metrics: Collection[str]) -> dict[str, str]:
    """The tags that give an experiment its kind and its views. Only those that differ.

    Args:
        there: The tags that it has: a kind stays as it is, and metrics in our views stay there.
        metrics: Names of metrics of one of its runs; those of a model become columns.
    """
    known = _quality_columns(there.get(_TAG_PREFIX + COST_AND_QUALITY, ""))
    own = sorted(name for name in metrics if not name.startswith(_NOT_QUALITY))
    quality = list(dict.fromkeys([*known, *own]))[:_MOST_QUALITY]
    wanted = {
        KIND_TAG: there.get(KIND_TAG, MODEL_TRAINING),
        _TAG_PREFIX + COST_AND_QUALITY: _cost_and_quality(quality),
        _TAG_PREFIX + INTERRUPTIONS: _interruptions(),
    }
    return {name: text for name, text in wanted.items() if there.get(name) != text}


def _cost_and_quality(quality: Sequence[str]) -> str:
    metrics = [
        *quality,
        "cost/total_usd",
        "cost/improvement_per_usd",
        "cost/retry_waste_usd",
        "cost/gpu_hours",
    ]
    charts = [
        *(_scatter(number, "cost/total_usd", name) for number, name in enumerate(quality)),
        _bar(len(quality), "cost/total_usd"),
    ]
    return _view(
        "Cost and quality", metrics, ("cost.gpu_type", "cost.status"), "cost/total_usd", charts
    )


def _interruptions() -> str:
    metrics = (
        "cost/attempts",
        "cost/retry_waste_usd",
        "cost/gpu_hours_lost",
        "cost/checkpoint_saved_usd",
        "cost/wait_s",
    )
    charts = [_bar(0, "cost/retry_waste_usd"), _scatter(1, "cost/attempts", "cost/gpu_hours_lost")]
    tags = ("cost.capacity_type", "cost.status", "prefect.deployment")
    return _view("Interruptions", metrics, tags, "cost/retry_waste_usd", charts)


def _view(
    name: str,
    metrics: Sequence[str],
    tags: Sequence[str],
    order_by: str,
    charts: Sequence[Mapping[str, Any]],
) -> str:
    section = {"uuid": "ours", "name": name, "display": True, "isReordered": False}
    columns = [*map(_metric, metrics), *(f"tags.`{tag}`" for tag in tags)]
    state = {
        "orderByKey": _metric(order_by),
        "orderByAsc": False,
        "selectedColumns": columns,
        "columnOrder": columns,
        "compareRunCharts": charts,
        "compareRunSections": [section],
    }
    return json.dumps(state, separators=(",", ":"), ensure_ascii=False)


def _scatter(number: int, x: str, y: str) -> dict[str, Any]:
    axes = {"xaxis": {"key": x, "type": "METRIC"}, "yaxis": {"key": y, "type": "METRIC"}}
    return _chart("SCATTER", number, runsCountToCompare=100, **axes)


def _bar(number: int, metric: str) -> dict[str, Any]:
    return _chart("BAR", number, metricKey=metric, runsCountToCompare=10)


def _chart(kind: str, number: int, **of_kind: Any) -> dict[str, Any]:
    return {
        "type": kind,
        "uuid": f"ours-{number}",
        "metricSectionId": "ours",
        "deleted": False,
        "isGenerated": False,
        **of_kind,
    }


def _metric(name: str) -> str:
    return f"metrics.`{name}`"


def _quality_columns(view: str) -> Iterator[str]:
    """The metrics of models among the columns of a view; none of one that cannot be read."""
    try:
        columns = json.loads(view)["selectedColumns"]
    except (ValueError, KeyError, TypeError):
        return
    for column in columns if isinstance(columns, list) else ():
        name = str(column).removeprefix("metrics.`").removesuffix("`")
        if str(column).startswith("metrics.`") and not name.startswith(_NOT_QUALITY):
            yield name
