"""What a worker does about Prefect's keys before it starts its first run."""

import anyio
import pytest
from prefect_kubernetes.settings import KubernetesSettings

from gpu_core.decisions.kubernetes.manifests.prefect_secrets import prefect_secrets
from gpu_core.decisions.model.errors import InvalidInput
from gpu_core.decisions.policy.kubernetes import SecretReference
from gpu_core.worker import GpuKubernetesWorker


def test_a_worker_that_is_to_make_secrets_does_not_start(monkeypatch):
    monkeypatch.setenv("PREFECT_INTEGRATIONS_KUBERNETES_WORKER_CREATE_SECRET_FOR_API_KEY", "true")
    worker = GpuKubernetesWorker(work_pool_name="gpu")
    with pytest.raises(InvalidInput, match="CREATE_SECRET_FOR_API_KEY"):
        anyio.run(worker.setup)


def test_the_settings_are_those_of_prefect_kubernetes(monkeypatch):
    prefix = "PREFECT_INTEGRATIONS_KUBERNETES_WORKER_API_AUTH_STRING_SECRET"
    monkeypatch.setenv(f"{prefix}_NAME", "prefect")
    monkeypatch.setenv(f"{prefix}_KEY", "auth")
    found = prefect_secrets(KubernetesSettings().worker.model_dump())
    assert found == {"PREFECT_API_AUTH_STRING": SecretReference(name="prefect", key="auth")}
