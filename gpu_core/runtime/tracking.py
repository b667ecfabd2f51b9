"""One MLflow run per flow run, over all its attempts."""

import os
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from gpu_core.adapters.mlflow.tags import (
    ATTEMPT_TAG,
    DEPLOYMENT_TAG,
    FLOW_RUN_TAG,
    TEAM_TAG,
    TRACKED_RUN_TAG,
)
from gpu_core.decisions.requests.runs.run_context import RunContext

if TYPE_CHECKING:
    from mlflow import ActiveRun


def run_tags(run: RunContext) -> dict[str, str]:
    """Tags an MLflow run with the flow run that it belongs to."""
    tags = {
        FLOW_RUN_TAG: run.flow_run_id,
        DEPLOYMENT_TAG: run.deployment,
        ATTEMPT_TAG: str(run.attempt),
        TEAM_TAG: run.team,
    }
    return {name: value for name, value in tags.items() if value is not None}


@contextmanager
def tracked_run(run_name: str | None = None) -> Iterator["ActiveRun"]:
    """The MLflow run of this flow run: started by its first attempt, resumed by later ones.

    It is searched in the active experiment. Outside a run of a GPU work pool it is an ordinary
    MLflow run. Like `mlflow.start_run`, it ends as FINISHED, or as FAILED with an exception.

    Args:
        run_name: The name in MLflow, for the first attempt; by default the flow run's.
    """
    # Imported here: MLflow takes a second to load, and many flows track nothing.
    import mlflow

    run = RunContext.from_environment(os.environ)
    if run is None:
        with mlflow.start_run(run_name=run_name) as active:
            yield active
        return
    _ensure_experiment()
    tags = {**run_tags(run), TRACKED_RUN_TAG: "true"}
    run_id = _tracked_run_id(run.flow_run_id)
    if run_id is None:
        with mlflow.start_run(run_name=run_name or run.name, tags=tags) as active:
            yield active
        return
    with mlflow.start_run(run_id=run_id) as active:
        mlflow.set_tags(tags)
        yield active


def _ensure_experiment() -> None:
    # The runs of a new experiment often start together, and MLflow would let one of them create it
    # and fail the others.
    from mlflow import MlflowClient

    from gpu_core.adapters.mlflow.experiment import experiment_id

    name = os.environ.get("MLFLOW_EXPERIMENT_NAME")
    if name:
        experiment_id(MlflowClient(), name)


def _tracked_run_id(flow_run_id: str) -> str | None:
    import mlflow

    found = mlflow.search_runs(
        filter_string=f"tags.`{FLOW_RUN_TAG}` = '{flow_run_id}'"
        f" and tags.`{TRACKED_RUN_TAG}` = 'true'",
        order_by=["attributes.start_time ASC"],
        max_results=1,
        output_format="list",
    )
    return str(found[0].info.run_id) if found else None
