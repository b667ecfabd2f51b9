"""A block for a Kubernetes cluster with GPUs."""

from prefect.blocks.core import Block
from prefect_kubernetes.credentials import KubernetesClusterConfig
from pydantic import Field, HttpUrl

from gpu_core.adapters.kubernetes import KubernetesApi
from gpu_core.decisions.policy.kubernetes import Provisioner


class GpuCluster(Block):
    """Stores the configuration for connecting to a Kubernetes cluster with GPUs, and its
    provisioner.

    Example:
        List the nodes:
        ```python
        from gpu_core.blocks.gpu_cluster import GpuCluster

        gpu_cluster = GpuCluster.load("BLOCK_NAME")
        api = await gpu_cluster.connect()
        nodes = await api.get("/api/v1/nodes")
        await api.close()
        ```
    """

    _block_type_name = "GPU Cluster"
    _block_type_slug = "gpu-cluster"
    _documentation_url = HttpUrl("https://docs.prefect.io/integrations/prefect-kubernetes")

    credentials: KubernetesClusterConfig | None = Field(
        default=None,
        description="The kubeconfig of the cluster. Defaults to the cluster in which the flow "
        "runs, or to the kubeconfig of the machine.",
    )
    context: str | None = Field(
        default=None,
        description="The kubeconfig context to use. Defaults to the current context "
        "of the credentials.",
    )
    cloud: Provisioner = Field(
        default=Provisioner.FIXED,
        description="The provisioner of the nodes. Use the same value as for "
        "kubernetes.provisioner in the policy.",
    )

    async def connect(self) -> KubernetesApi:
        """Connects to the cluster. You must close the connection after use.

        Raises:
            KubernetesError: No cluster was found.
        """
        known = self.credentials
        return await KubernetesApi.connect(
            None if known is None else known.config,
            self.context or (None if known is None else known.context_name),
        )
