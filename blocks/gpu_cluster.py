"""A Kubernetes cluster with GPUs, and who we are there."""

from prefect.blocks.core import Block
from prefect_kubernetes.credentials import KubernetesClusterConfig
from pydantic import Field, HttpUrl

from gpu_core.adapters.kubernetes import KubernetesApi
from gpu_core.decisions.policy.kubernetes import Provisioner


class GpuCluster(Block):
    """
    A Kubernetes cluster with GPUs: how to reach it, and who brings its nodes.

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
        description="A kubeconfig; by default that of the cluster that the flow runs in, or of "
        "the machine.",
    )
    context: str | None = Field(
        default=None, description="The kubeconfig's context, by default the credentials' own."
    )
    cloud: Provisioner = Field(
        default=Provisioner.FIXED,
        description="Who brings the nodes; the same word as the policy's kubernetes.provisioner.",
    )

    async def connect(self) -> KubernetesApi:
        """Connect to the cluster; close the connection after use.

        Raises:
            KubernetesError: There is no cluster to be found.
        """
        known = self.credentials
        return await KubernetesApi.connect(
            None if known is None else known.config,
            self.context or (None if known is None else known.context_name),
        )
