"""Experiments end to end: measured in processes, decided, published in Prefect and in MLflow."""

from collections.abc import Iterator
from pathlib import Path

import mlflow
import pytest
from mlflow import MlflowClient
from mlflow.entities import Run
from prefect.artifacts import Artifact

from flows import compare_inference, compare_scaling, compare_serving, optimize_inference
from gpu_core.decisions.model.errors import InvalidInput
from tests.support.mlflow_databases import new_mlflow_database

STUB = "tests.support.inference_stub:parity"
QUICK = {"workload": STUB, "usd_per_hour": 0.05, "repeats": 3, "seconds": 0.02}


@pytest.fixture(scope="module")
def tracking_uri(tmp_path_factory: pytest.TempPathFactory) -> str:
    """One database for the module."""
    return new_mlflow_database(tmp_path_factory.mktemp("mlflow"))


@pytest.fixture
def client(
    tracking_uri: str, tmp_path: Path, request: pytest.FixtureRequest, prefect_server: None
) -> Iterator[MlflowClient]:
    """MLflow with an active experiment of the test's own, and a Prefect server."""
    before = mlflow.get_tracking_uri()
    mlflow.set_tracking_uri(tracking_uri)
    client = MlflowClient(tracking_uri)
    client.create_experiment(request.node.name, artifact_location=tmp_path.as_uri())
    mlflow.set_experiment(request.node.name)
    yield client
    mlflow.set_tracking_uri(before)


def runs_of(client: MlflowClient, name: str) -> tuple[Run, list[Run]]:
    """The parent and its children, in the order of their start."""
    experiment = client.get_experiment_by_name(name)
    runs = client.search_runs([experiment.experiment_id], order_by=["attributes.start_time ASC"])
    (parent,) = (run for run in runs if "mlflow.parentRunId" not in run.data.tags)
    children = [run for run in runs if run.data.tags.get("mlflow.parentRunId")]
    assert {run.data.tags["mlflow.parentRunId"] for run in children} == {parent.info.run_id}
    return parent, children


def page_of(key: str) -> str:
    """The newest page as people see it."""
    artifact = Artifact.get(key)
    assert artifact is not None
    return str(artifact.data)


def test_batch_sizes_are_measured_and_compared(
    client: MlflowClient, request: pytest.FixtureRequest
) -> None:
    compare_inference.compare_inference("batch-size", **QUICK)
    parent, children = runs_of(client, request.node.name)
    assert parent.info.run_name.startswith("batch-size")
    assert {run.data.params["batch_size"] for run in children} == {"1", "4", "8", "16", "32"}
    assert {run.data.tags["experiment.origin"] for run in children} == {"measured"}
    assert all(run.data.metrics["inference/usd_per_1k"] > 0 for run in children)
    assert any(run.data.tags.get("experiment.on_front") for run in children)
    page = page_of(compare_inference.ARTIFACT_KEY)
    for text in ("the parity of whole numbers", "3 repeats", "cpu, fp32, batch 32", "data:image"):
        assert text in page
    assert client.list_artifacts(parent.info.run_id)[0].path == "comparison.md"


def test_a_precision_that_the_device_lacks_is_named_and_not_measured(
    client: MlflowClient, request: pytest.FixtureRequest
) -> None:
    compare_inference.compare_inference("precision", **QUICK)
    _, children = runs_of(client, request.node.name)
    assert {run.data.params["precision"] for run in children} == {"fp32", "int8"}
    assert "Not run: cpu, fp16, batch 8: numbers have no fp16." in page_of(
        compare_inference.ARTIFACT_KEY
    )


def test_other_gpu_types_are_projected_and_say_so(
    client: MlflowClient, request: pytest.FixtureRequest
) -> None:
    compare_inference.compare_inference("gpu-type", **QUICK)
    _, children = runs_of(client, request.node.name)
    origins = {run.data.params["device"]: run.data.tags["experiment.origin"] for run in children}
    assert origins.pop("cpu") == "measured"
    assert set(origins.values()) == {"projected"}
    assert {"t4", "a10g", "h100-80gb"} <= set(origins)
    assert "projected: llama-3-1b" in page_of(compare_inference.ARTIFACT_KEY)


def test_two_processes_share_the_device(
    client: MlflowClient, request: pytest.FixtureRequest
) -> None:
    compare_inference.compare_inference("sharing", **QUICK)
    _, children = runs_of(client, request.node.name)
    assert {run.data.params["processes"] for run in children} == {"1", "2"}


def test_the_challenge_is_one_table_and_one_plot(
    client: MlflowClient, request: pytest.FixtureRequest
) -> None:
    optimize_inference.optimize_inference(**QUICK, other_gpu_type="a10g")
    _, children = runs_of(client, request.node.name)
    steps = [run.data.params | {"origin": run.data.tags["experiment.origin"]} for run in children]
    assert [(s["device"], s["batch_size"], s["precision"], s["origin"]) for s in steps] == [
        ("cpu", "1", "fp32", "measured"),
        ("cpu", "8", "fp32", "measured"),
        ("cpu", "8", "int8", "measured"),
        ("t4", "1", "fp32", "projected"),
        ("t4", "8", "fp32", "projected"),
        ("t4", "8", "fp16", "projected"),
        ("a10g", "8", "fp16", "projected"),
    ]
    assert "inference/cumulative_saving" in children[-1].data.metrics
    page = page_of(optimize_inference.ARTIFACT_KEY)
    assert page.count("data:image/svg") == 1
    assert sum(line.startswith("| ---") for line in page.splitlines()) == 1
    assert "llama-3-1b from t4: 9" in page


def test_a_backlog_is_served_in_batches_that_were_measured(
    client: MlflowClient, request: pytest.FixtureRequest
) -> None:
    compare_serving.compare_serving(**QUICK, requests=200)
    parent, children = runs_of(client, request.node.name)
    assert parent.info.run_name.startswith("low-priority")
    batches = [run.data.params["low_priority_batch"] for run in children]
    assert batches == ["0", "1", "4", "8", "16", "32"]
    assert {run.data.tags["experiment.origin"] for run in children} == {"computed"}
    assert all(run.data.metrics["serving/usd_per_1k"] > 0 for run in children[1:])
    page = page_of(compare_serving.ARTIFACT_KEY)
    for text in (
        "the parity of whole numbers",
        "interactive p99",
        "batches of 32",
        "| measured |",
        "| computed |",
        "data:image",
    ):
        assert text in page


def test_a_backlog_is_not_measured_for_a_demand_that_cannot_be() -> None:
    with pytest.raises(InvalidInput, match="interactive_batch"):
        compare_serving.compare_serving.fn(**QUICK, interactive_batch=3)


def test_a_day_is_computed_from_one_request_that_was_measured(
    client: MlflowClient, request: pytest.FixtureRequest
) -> None:
    compare_scaling.compare_scaling(**QUICK, startup_s=0.0)
    _, children = runs_of(client, request.node.name)
    names = [run.info.run_name for run in children]
    assert names == ["3 fixed", "4 fixed", "scaled at the hour", "scaled ahead"]
    assert {run.data.tags["experiment.origin"] for run in children} == {"computed"}
    hours = [run.data.metrics["scaling/replica_hours"] for run in children]
    assert hours == [72, 96, 67, 67]
    page = page_of(compare_scaling.ARTIFACT_KEY)
    for text in ("the parity of whole numbers", "| computed |", "data:image"):
        assert text in page


@pytest.mark.parametrize(
    ("change", "want_field"),
    [
        pytest.param({"usd_per_hour": None}, "usd_per_hour", id="a CPU without a price"),
        pytest.param({"usd_per_hour": 0.0}, "usd_per_hour", id="a price of nothing"),
        pytest.param({"projected_model": "lama"}, "model", id="an unknown model"),
        pytest.param({"workload": "no.such:x"}, "status 1", id="an unknown workload"),
    ],
)
def test_bad_parameters_are_refused(
    client: MlflowClient, change: dict[str, object], want_field: str
) -> None:
    with pytest.raises(Exception, match=want_field) as caught:
        compare_inference.compare_inference("batch-size", **QUICK | change)
    assert isinstance(caught.value, InvalidInput) or want_field == "status 1"
