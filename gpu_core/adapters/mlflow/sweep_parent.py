"""A sweep as a parent run in MLflow, so that its pages show the trials together."""

from collections.abc import Sequence

from mlflow import MlflowClient
from mlflow.entities import Run

from gpu_core.adapters.mlflow.tags import PARENT_TAG, SWEEP_TAG

_NOTE_TAG = "mlflow.note.content"
"""MLflow's own: the description on the page of the run."""


def log_sweep(
    client: MlflowClient,
    sweep: str,
    trials: Sequence[Run],
    sentence: str,
    *,
    name: str,
    is_over: bool,
) -> None:
    """Have these trials under one parent, which says how far the sweep has come.

    The parent is made in the experiment of the first trial. A trial that has a parent keeps it.

    Args:
        sweep: By which later passes find the parent again.
        trials: The MLflow runs of the trials that have one.
        sentence: How far the sweep has come.
        name: The name of the parent.
        is_over: Nothing will change any more.

    Raises:
        MlflowException: MLflow cannot be reached, or refuses.
    """
    if not trials:
        return
    parent_id = _parent_id(client, sweep, trials, name)
    for trial in trials:
        if PARENT_TAG not in trial.data.tags:
            client.set_tag(trial.info.run_id, PARENT_TAG, parent_id)
    client.set_tag(parent_id, _NOTE_TAG, sentence)
    client.update_run(parent_id, status="FINISHED" if is_over else "RUNNING")


def _parent_id(client: MlflowClient, sweep: str, trials: Sequence[Run], name: str) -> str:
    experiment_ids = [trial.info.experiment_id for trial in trials]
    found = client.search_runs(
        sorted(set(experiment_ids)),
        filter_string=f"tags.`{SWEEP_TAG}` = '{sweep}'",
        order_by=["attributes.start_time ASC"],
        max_results=1,
    )
    if found:
        return str(found[0].info.run_id)
    made = client.create_run(experiment_ids[0], run_name=name, tags={SWEEP_TAG: sweep})
    return str(made.info.run_id)
