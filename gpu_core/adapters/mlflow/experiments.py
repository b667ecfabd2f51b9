"""Experiments as a parent run with a child for each configuration, so that MLflow compares them."""

from collections.abc import Iterable

from mlflow import MlflowClient

from gpu_core.adapters.mlflow.tags import CONFIGURATION_TAG, PARENT_TAG
from gpu_core.decisions.optimization.experiments.mlflow_runs import ChildRun

_PAGE = "comparison.md"


def log_experiment(
    client: MlflowClient, parent_run_id: str, children: Iterable[ChildRun], page: str
) -> None:
    """Log each configuration as a child of this run, and the page with the parent.

    Those of an earlier attempt, whole or not, are deleted: page and children are of one attempt.
    Other children of the run stay.

    Raises:
        MlflowException: MLflow cannot be reached, or refuses.
    """
    experiment_id = client.get_run(parent_run_id).info.experiment_id
    for run_id in _earlier(client, experiment_id, parent_run_id):
        client.delete_run(run_id)
    for child in children:
        _log_child(client, experiment_id, parent_run_id, child)
    client.log_text(parent_run_id, page, _PAGE)


def _log_child(
    client: MlflowClient, experiment_id: str, parent_run_id: str, child: ChildRun
) -> None:
    tags = {PARENT_TAG: parent_run_id, CONFIGURATION_TAG: child.name, **child.tags}
    run = client.create_run(experiment_id, run_name=child.name, tags=tags)
    run_id = run.info.run_id
    for name, text in child.params.items():
        client.log_param(run_id, name, text)
    for name, values in child.repeats.items():
        for number, value in enumerate(values):
            client.log_metric(run_id, name, value, step=number)
    for name, value in child.metrics.items():
        client.log_metric(run_id, name, value)
    client.set_terminated(run_id)


def _earlier(client: MlflowClient, experiment_id: str, parent_run_id: str) -> list[str]:
    found = client.search_runs(
        [experiment_id], filter_string=f"tags.`{PARENT_TAG}` = '{parent_run_id}'"
    )
    return [run.info.run_id for run in found if CONFIGURATION_TAG in run.data.tags]
