"""The quickstart's story on a real cluster: train, give way, go on, and cost what both took."""

import os
import subprocess
import sys
from pathlib import Path

import pytest
from mlflow import MlflowClient

from tests.support.prefect_stack import ENGINE
from tests.support.waiting import wait_for

TRAINING = "flows/train_digits.py:train_digits"
NOTHING = "tests/end_to_end/flows.py:do_nothing"
# About a quarter of a minute of training: time enough to be preempted during it.
PARAMETERS = {"hidden_units": 32, "epochs": 1500}


@pytest.fixture
def tracking_uri(tmp_path: Path) -> str:
    """An empty MLflow in a folder that worker, pods and tests share."""
    folder = tmp_path / "pool-0" / "shared"
    folder.mkdir(parents=True)
    uri = f"sqlite:///{folder}/mlflow.db"
    MlflowClient(uri).search_experiments()
    return uri


def mlflow_run(client: MlflowClient, flow_run_id: str):
    """The one MLflow run that has the flow run's metrics and its cost."""
    experiments = [experiment.experiment_id for experiment in client.search_experiments()]
    (run,) = client.search_runs(experiments, f"tags.`prefect.flow_run_id` = '{flow_run_id}'")
    return run


def undisturbed_digest(tracking_uri: str) -> str:
    """The fingerprint of the same training's weights, when it is not interrupted."""
    code = (
        "from flows.train_digits import train_digits; "
        f"print(train_digits.fn(**{PARAMETERS})['weights_sha256'])"
    )
    # A pod has none of this shell's choices of BLAS kernels, each of which rounds in its own way.
    own = {name: value for name, value in os.environ.items() if not name.startswith("OPENBLAS_")}
    # MLflow keeps what other tests chose in its process.
    trained = subprocess.run(
        [sys.executable, "-c", code],
        env={**own, "MLFLOW_TRACKING_URI": tracking_uri},
        capture_output=True,
        text=True,
        check=True,
    )
    return trained.stdout.split()[-1]


@pytest.mark.timeout(2400)
def test_a_preempted_training_learns_the_same_and_its_cost_stands_beside_its_accuracy(
    tracking_uri, new_pool
):
    pool = new_pool()
    pool.environment["PREFECT_INTEGRATIONS_GPU_MLFLOW_TRACKING_URI"] = tracking_uri
    pool.start_worker()
    victim = pool.submit(
        pool.deploy(TRAINING, queue="low", **ENGINE), "digits", PARAMETERS, gpu_count=8
    )
    wait_for(
        lambda: pool.run(victim)["labels"].get("prefect-gpu.checkpoint.checkpoint"),
        "it has told of a checkpoint",
        timeout_s=240,
    )
    urgent = pool.submit(
        pool.deploy(NOTHING, queue="critical"), "urgent", container_command="/bin/sh -c 'sleep 1'"
    )
    pool.wait_until(urgent, "Completed", timeout_s=120)
    pool.wait_until(victim, "Completed", timeout_s=240)
    client = MlflowClient(tracking_uri)
    wait_for(
        lambda: mlflow_run(client, victim).data.tags.get("cost.status") == "final",
        "its cost is final",
    )

    first, second = pool.attempts(victim)
    assert first.end_reason == "Preempted"
    assert first.preempted_by == urgent
    assert first.checkpoint is not None
    assert second.restored_from == first.checkpoint
    assert second.admitted_at >= first.released_at
    assert any("Resumed after epoch" in line for line in pool.logs(victim))

    trained = mlflow_run(client, victim)
    held_s = sum((a.released_at - a.admitted_at).total_seconds() for a in (first, second))
    # Eight GPUs at a dollar an hour, from the first to the last second of both attempts.
    assert trained.data.metrics["cost/total_usd"] == pytest.approx(8 * held_s / 3600, abs=1e-5)
    assert trained.data.metrics["test_accuracy"] > 0.9
    mine = trained.data.tags["weights_sha256"]
    assert mine == undisturbed_digest(tracking_uri)
