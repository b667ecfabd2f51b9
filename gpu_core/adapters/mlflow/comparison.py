"""Read back from MLflow what runs cost and how good they are, to compare experiments."""

import pandas as pd
from mlflow import MlflowClient
from mlflow.entities import Run

from gpu_core.adapters.mlflow.cost import CostStatus, all_experiments

COLUMNS = (
    "experiment",
    "run",
    "quality",
    "total_usd",
    "retry_waste_usd",
    "gpu_hours",
    "gpu_type",
    "team",
    "status",
)
_RUNS_PER_PAGE = 200


def read_comparison(client: MlflowClient, quality_metric: str) -> pd.DataFrame:
    """The cost of each run that has one, and its quality.

    One row for each MLflow run that carries the cost of a flow run; a cost that moved to a newer
    run counts there only. What is unknown (no price, no such metric) is NaN, never 0.

    Args:
        quality_metric: The metric that says how good a run is, such as `accuracy`.
    """
    rows = [
        _row(experiment.name, run, quality_metric)
        for experiment in all_experiments(client)
        for run in _costed_runs(client, experiment.experiment_id)
    ]
    table = pd.DataFrame(rows, columns=list(COLUMNS))
    return table.sort_values(["experiment", "run"], ignore_index=True)


def _costed_runs(client: MlflowClient, experiment_id: str) -> list[Run]:
    found: list[Run] = []
    token: str | None = None
    while True:
        page = client.search_runs(
            [experiment_id],
            filter_string="tags.`cost.basis` = 'allocated'",
            max_results=_RUNS_PER_PAGE,
            page_token=token,
        )
        found.extend(page)
        token = page.token
        if not token:
            break
    superseded = CostStatus.SUPERSEDED.value
    return [run for run in found if run.data.tags.get("cost.status") != superseded]


def _row(experiment: str, run: Run, quality_metric: str) -> tuple[object, ...]:
    metrics, tags = run.data.metrics, run.data.tags
    unknown = float("nan")
    return (
        experiment,
        run.info.run_name,
        metrics.get(quality_metric, unknown),
        # An unpriced run may still carry the cost of an earlier time when all of it had a price.
        unknown
        if tags.get("cost.status") == "unpriced"
        else metrics.get("cost/total_usd", unknown),
        metrics.get("cost/retry_waste_usd", unknown),
        metrics.get("cost/gpu_hours", unknown),
        tags.get("cost.gpu_type"),
        tags.get("finops.team"),
        tags.get("cost.status"),
    )
