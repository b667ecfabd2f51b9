"""An experiment in MLflow: a child for each configuration."""

from dataclasses import replace
from pathlib import Path

import pytest
from mlflow import MlflowClient

from gpu_core.adapters.mlflow.experiments import log_experiment
from gpu_core.decisions.optimization.experiments.mlflow_runs import ChildRun
from tests.support.mlflow_databases import new_mlflow_database


@pytest.fixture(scope="module")
def client(tmp_path_factory: pytest.TempPathFactory) -> MlflowClient:
    """A database of the module's own."""
    folder: Path = tmp_path_factory.mktemp("mlflow")
    client = MlflowClient(new_mlflow_database(folder))
    client.create_experiment("inference", artifact_location=(folder / "artifacts").as_uri())
    return client


def test_children_are_those_of_the_last_attempt_with_their_repeats(client: MlflowClient) -> None:
    experiment = client.get_experiment_by_name("inference")
    parent = client.create_run(experiment.experiment_id)
    child = ChildRun(
        name="cpu, fp32, batch 8",
        params={"batch_size": "8"},
        metrics={"inference/usd_per_1k": 0.5},
        tags={"experiment.origin": "measured"},
        repeats={"repeat/usd_per_1k": (0.4, 0.6)},
    )
    earlier = replace(child, params={"batch_size": "4"})
    of_parent = {"mlflow.parentRunId": parent.info.run_id}
    other = client.create_run(experiment.experiment_id, tags=of_parent).info.run_id
    for attempt in (earlier, child):
        log_experiment(client, parent.info.run_id, [attempt], "# The page")
    children = client.search_runs(
        [experiment.experiment_id],
        filter_string=f"tags.`mlflow.parentRunId` = '{parent.info.run_id}'",
    )
    # What someone else hung below the run stays.
    (found,) = (each for each in children if each.info.run_id != other)
    assert len(children) == 2
    assert found.info.status == "FINISHED"
    assert found.data.params == {"batch_size": "8"}
    assert found.data.metrics["inference/usd_per_1k"] == 0.5
    assert found.data.tags["experiment.origin"] == "measured"
    history = client.get_metric_history(found.info.run_id, "repeat/usd_per_1k")
    assert [(metric.step, metric.value) for metric in history] == [(0, 0.4), (1, 0.6)]
    assert [each.path for each in client.list_artifacts(parent.info.run_id)] == ["comparison.md"]
