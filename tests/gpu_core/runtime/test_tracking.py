"""One MLflow run per flow run, against a real MLflow on SQLite."""

from collections.abc import Callable, Iterator

import mlflow
import pytest
from mlflow.tracking import MlflowClient

from gpu_core.decisions.requests.runs.run_context import RunContext
from gpu_core.runtime import tracked_run
from gpu_core.runtime.mlflow_context import GpuRunContextProvider
from tests.support.mlflow_databases import new_mlflow_database

StartAttempt = Callable[..., RunContext]


@pytest.fixture(scope="module")
def tracking_uri(tmp_path_factory: pytest.TempPathFactory) -> str:
    """One database for the module."""
    return new_mlflow_database(tmp_path_factory.mktemp("mlflow"))


@pytest.fixture
def client(tracking_uri: str, request: pytest.FixtureRequest) -> Iterator[MlflowClient]:
    """MLflow with an active experiment of the test's own."""
    before = mlflow.get_tracking_uri()
    mlflow.set_tracking_uri(tracking_uri)
    mlflow.set_experiment(request.node.name)
    yield MlflowClient(tracking_uri)
    mlflow.set_tracking_uri(before)


def test_all_attempts_are_one_mlflow_run(client: MlflowClient, start_attempt: StartAttempt) -> None:
    """The second attempt goes on in the run of the first, and says which attempt it is."""
    start_attempt(1, team="vision", deployment="train/nightly")
    with tracked_run("resnet") as first:
        mlflow.log_metric("loss", 2.0, step=1)
    # A run that was killed is still RUNNING in MLflow.
    client.update_run(first.info.run_id, status="RUNNING")
    start_attempt(2, team="vision", deployment="train/nightly")
    with tracked_run("resnet") as second:
        mlflow.log_metric("loss", 1.0, step=2)

    assert second.info.run_id == first.info.run_id
    run = client.get_run(first.info.run_id)
    assert [m.value for m in client.get_metric_history(run.info.run_id, "loss")] == [2.0, 1.0]
    assert run.info.status == "FINISHED"
    assert {name: run.data.tags.get(name) for name in WANT_TAGS} == WANT_TAGS


WANT_TAGS = {
    "mlflow.runName": "resnet",
    "prefect.flow_run_id": "3f0c",
    "prefect.deployment": "train/nightly",
    "prefect.attempt": "2",
    "finops.team": "vision",
}


def test_another_flow_run_has_another_mlflow_run(
    client: MlflowClient, start_attempt: StartAttempt
) -> None:
    """Only attempts of the same flow run share one."""
    start_attempt(1)
    with tracked_run() as one:
        pass
    start_attempt(1, flow_run_id="another")
    with tracked_run() as other:
        pass
    assert one.info.run_id != other.info.run_id


def test_runs_that_the_flow_starts_itself_are_not_resumed(
    client: MlflowClient, start_attempt: StartAttempt
) -> None:
    """They carry the flow run's id as well, but are not the run of the flow run."""
    start_attempt(1)
    tags = GpuRunContextProvider().tags()
    with mlflow.start_run(tags=tags):
        pass
    with tracked_run() as first, mlflow.start_run(nested=True, tags=tags):
        pass
    start_attempt(2)
    with tracked_run() as second:
        pass
    assert second.info.run_id == first.info.run_id


def test_outside_a_gpu_run_it_is_an_ordinary_run(client: MlflowClient) -> None:
    """The same flow tracks anywhere."""
    with tracked_run("local") as run:
        mlflow.log_param("lr", 0.1)
    found = client.get_run(run.info.run_id)
    assert (found.info.run_name, found.data.params) == ("local", {"lr": "0.1"})
    assert not [name for name in found.data.tags if name.startswith("prefect")]


def test_the_context_is_known_only_inside_a_run(start_attempt: StartAttempt) -> None:
    """Outside a run there is nothing to say; inside, what is unknown has no tag."""
    provider = GpuRunContextProvider()
    assert (provider.in_context(), provider.tags()) == (False, {})
    start_attempt(3)
    assert provider.in_context()
    assert provider.tags() == {"prefect.flow_run_id": "3f0c", "prefect.attempt": "3"}
