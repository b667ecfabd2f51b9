"""Worker and runs log in at MLflow as the block's user; the manifest of a pod does not show it."""

import json
from pathlib import Path
from types import SimpleNamespace

import anyio
import pytest
from mlflow.exceptions import MlflowException
from prefect.exceptions import ObjectNotFound

from gpu_core.adapters.ledger import Ledger
from gpu_core.adapters.mlflow.client import mlflow_client
from gpu_core.decisions.costs.mlflow.mlflow_access import CREDENTIAL_VARIABLES, MlflowAccess
from gpu_core.decisions.model.redaction import basic_credentials
from gpu_core.testing.builders.attempts import admit, make_attempt, make_run
from gpu_core.testing.builders.manifests import build, make_launch
from gpu_core.worker.kubernetes.worker import GpuKubernetesWorker
from gpu_core.worker.startup.connections import read_connections
from gpu_core.worker.startup.settings import GpuWorkerSettings
from gpu_core.worker.watch.run_costs import log_cost
from tests.support.mlflow_listener import mlflow_listener

PASSWORD = "canary-1"  # noqa: S105 - not a real one
IN_CLEAR = {"tracking_uri": f"http://ada:{PASSWORD}@mlflow:5000"}
IN_FIELDS = {"tracking_uri": "http://mlflow:5000", "username": "ada", "password": PASSWORD}


class Blocks:
    """A server with these blocks, by `slug/name`."""

    def __init__(self, **data):
        self._data = data

    async def read_block_document_by_name(self, name, slug, include_secrets):
        assert include_secrets
        data = self._data.get(f"{slug}/{name}")
        if data is None:
            raise ObjectNotFound(Exception(slug))
        return SimpleNamespace(name=name, data=data)


def connections(mlflow=None, **settings):
    return read({} if mlflow is None else {"gpu-mlflow-tracking/vision": mlflow}, **settings)


def read(blocks, pool="vision", **settings):
    return anyio.run(
        read_connections, Blocks(**blocks), GpuWorkerSettings(**settings), Path("/gpu"), pool
    )


@pytest.fixture(autouse=True)
def _no_user_is_logged_in(monkeypatch):
    for name in CREDENTIAL_VARIABLES:
        monkeypatch.setenv(name, "")
        monkeypatch.delenv(name)


@pytest.mark.parametrize("block", [IN_CLEAR, IN_FIELDS], ids=["in the address", "in fields"])
def test_the_worker_knows_the_blocks_user(block):
    found = connections(block)
    assert found.mlflow == MlflowAccess(
        tracking_uri="http://mlflow:5000", username="ada", password=PASSWORD
    )
    assert PASSWORD in found.secrets()
    assert PASSWORD not in repr(found)


def test_the_operator_is_warned_of_a_password_in_clear_without_it(caplog):
    connections(IN_FIELDS)
    assert not caplog.records
    connections(IN_CLEAR)
    (record,) = caplog.records
    assert "block gpu-mlflow-tracking/vision contains credentials" in caplog.text
    assert PASSWORD not in record.getMessage()


def test_a_token_comes_from_the_block_and_a_setting_stands_for_all_of_it():
    block = {"tracking_uri": "http://mlflow:5000", "token": PASSWORD}
    assert connections(block).mlflow.token == PASSWORD
    elsewhere = connections(block, mlflow_tracking_uri="http://elsewhere").mlflow
    assert elsewhere == MlflowAccess(tracking_uri="http://elsewhere")


SHARED = {
    "gpu-usage-ledger/default": {"url": "sqlite:///shared.db"},
    "gpu-checkpoint-store/default": {"uri": "/shared"},
    "gpu-mlflow-tracking/default": {"tracking_uri": "http://shared"},
}
OWN = {
    "gpu-usage-ledger/vision": {"url": "sqlite:///vision.db"},
    "gpu-checkpoint-store/vision": {"uri": "/vision"},
    "gpu-mlflow-tracking/vision": {"tracking_uri": "http://vision"},
}


@pytest.mark.parametrize(
    ("blocks", "pool", "want"),
    [
        pytest.param(
            SHARED | OWN, "vision", ("sqlite:///vision.db", "/vision", "http://vision"), id="own"
        ),
        pytest.param(
            SHARED | OWN, "speech", ("sqlite:///shared.db", "/shared", "http://shared"), id="shared"
        ),
        pytest.param(
            OWN, "speech", ("sqlite:////gpu/ledger.db", "/gpu/checkpoints", None), id="of another"
        ),
        pytest.param(
            {**SHARED, "gpu-checkpoint-store/vision": {"uri": "/vision"}},
            "vision",
            ("sqlite:///shared.db", "/vision", "http://shared"),
            id="each block by itself",
        ),
    ],
)
def test_a_pool_uses_its_own_blocks_else_those_that_pools_share(blocks, pool, want):
    found = read(blocks, pool)
    mlflow = None if found.mlflow is None else found.mlflow.tracking_uri
    assert (found.ledger_url, found.checkpoint_uri, mlflow) == want


def test_without_a_block_there_is_no_mlflow():
    found = connections(ledger_url=f"postgresql://gpu:{PASSWORD}@db/ledger")
    assert found.mlflow is None
    assert PASSWORD in found.secrets()
    assert PASSWORD not in repr(found)


@pytest.mark.parametrize(
    ("login", "want"),
    [
        ({"username": "ada", "password": PASSWORD}, f"Basic {basic_credentials('ada', PASSWORD)}"),
        ({"token": PASSWORD}, f"Bearer {PASSWORD}"),
    ],
)
def test_costs_are_logged_as_the_blocks_user(login, want, monkeypatch, tmp_path):
    monkeypatch.setenv("MLFLOW_TRACKING_USERNAME", "somebody else")
    monkeypatch.setenv("MLFLOW_TRACKING_PASSWORD", "other")
    run = make_run()
    with Ledger.open(f"sqlite:///{tmp_path / 'ledger.db'}") as ledger, mlflow_listener() as mlflow:
        admit(ledger, make_attempt(run.flow_run_id), run)
        access = MlflowAccess.of(f"http://{mlflow.address}", **login)
        with pytest.raises(MlflowException, match="PERMISSION_DENIED"):
            log_cost(access, ledger, run.flow_run_id)
    assert set(mlflow.authorizations) == {want}
    assert any("cost/" in body for body in mlflow.bodies)
    assert not [body for body in mlflow.bodies if PASSWORD in body]


def test_a_client_without_credentials_uses_those_of_its_environment(monkeypatch):
    monkeypatch.setenv("MLFLOW_TRACKING_TOKEN", PASSWORD)
    with mlflow_listener() as mlflow:
        mlflow_client(MlflowAccess.of(f"http://{mlflow.address}")).search_experiments()
    assert mlflow.authorizations == [f"Bearer {PASSWORD}"]


@pytest.mark.parametrize(
    "address", [IN_CLEAR["tracking_uri"], f"postgresql://ada:{PASSWORD}@db/mlflow"]
)
def test_a_pods_manifest_has_the_address_alone_and_the_policys_secret_the_rest(address):
    access = MlflowAccess.of(address)
    secrets = {name: {"name": "mlflow", "key": name.lower()} for name in access.environment()}
    launch = make_launch(environment=access.public_environment())
    (plain,) = build(launch).jobs
    (job,) = build(launch, secrets=secrets).jobs
    assert PASSWORD not in json.dumps([plain, job])
    assert access.tracking_uri in json.dumps(plain)
    assert json.dumps(job).count("secretKeyRef") == len(secrets)


def test_the_operator_reads_which_secrets_pods_lack(caplog):
    worker = GpuKubernetesWorker(work_pool_name="gpu")
    worker._stores.connections = connections(IN_FIELDS)
    worker._warn_of_missing_secrets(["MLFLOW_TRACKING_USERNAME"])
    (record,) = caplog.records
    assert (
        "MLFLOW_TRACKING_PASSWORD is set for the worker but is not passed to runs"
        in record.getMessage()
    )
    assert PASSWORD not in record.getMessage()
