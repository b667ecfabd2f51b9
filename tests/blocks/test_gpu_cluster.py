"""The cluster block reaches the cluster that it names."""

import anyio
import pytest
from prefect_kubernetes.credentials import KubernetesClusterConfig

from blocks.gpu_cluster import GpuCluster
from gpu_core.adapters.kubernetes import KubernetesError
from gpu_core.decisions.policy.kubernetes import Provisioner


def credentials(*contexts: str) -> KubernetesClusterConfig:
    """A kubeconfig with a cluster for each context; the first context is the current one."""
    config = {
        "apiVersion": "v1",
        "kind": "Config",
        "current-context": contexts[0],
        "clusters": [
            {"name": name, "cluster": {"server": f"http://{name}.invalid"}} for name in contexts
        ],
        "users": [{"name": "ada", "user": {}}],
        "contexts": [
            {"name": name, "context": {"cluster": name, "user": "ada"}} for name in contexts
        ],
    }
    return KubernetesClusterConfig(config=config, context_name=contexts[0])


@pytest.mark.parametrize(
    ("context", "want"),
    [
        pytest.param(None, "http://here.invalid", id="the credentials' own context"),
        pytest.param("there", "http://there.invalid", id="another context"),
    ],
)
def test_it_connects_to_the_context_that_is_named(context: str | None, want: str) -> None:
    async def host() -> str:
        block = GpuCluster(credentials=credentials("here", "there"), context=context)
        api = await block.connect()
        try:
            return str(api._client.configuration.host)
        finally:
            await api.close()

    assert anyio.run(host) == want


def test_a_context_that_is_not_there_is_refused() -> None:
    block = GpuCluster(credentials=credentials("here"), context="elsewhere")
    with pytest.raises(KubernetesError, match="elsewhere"):
        anyio.run(block.connect)


def test_the_cloud_is_the_policys_word() -> None:
    assert GpuCluster(cloud="karpenter").cloud is Provisioner.KARPENTER
