"""Node objects as the clouds and NVIDIA's components label them; written from their documents."""

from typing import Any

READY = {"type": "Ready", "status": "True", "reason": "KubeletReady"}

GFD_A100 = {
    "nvidia.com/gpu.product": "NVIDIA-A100-SXM4-80GB",
    "nvidia.com/gpu.memory": "81920",
    "nvidia.com/gpu.count": "8",
    "nvidia.com/gpu.replicas": "1",
    "nvidia.com/gpu.present": "true",
}
KARPENTER_SPOT = {
    "karpenter.sh/capacity-type": "spot",
    "karpenter.sh/nodepool": "gpu",
    "karpenter.k8s.aws/instance-gpu-name": "a10g",
    "karpenter.k8s.aws/instance-gpu-memory": "22888",
    "karpenter.k8s.aws/instance-gpu-count": "1",
    "node.kubernetes.io/instance-type": "g5.xlarge",
    "topology.kubernetes.io/zone": "us-west-2a",
}
EKS_AUTO = {
    "eks.amazonaws.com/compute-type": "auto",
    "eks.amazonaws.com/instance-gpu-name": "l4",
    "eks.amazonaws.com/instance-gpu-memory": "22888",
    "karpenter.sh/capacity-type": "on-demand",
}
EKS_NODE_GROUP = {
    "eks.amazonaws.com/capacityType": "SPOT",
    "eks.amazonaws.com/nodegroup": "gpu",
    "node.kubernetes.io/instance-type": "p4d.24xlarge",
}
GKE_SPOT = {
    "cloud.google.com/gke-accelerator": "nvidia-tesla-t4",
    "cloud.google.com/gke-spot": "true",
    "cloud.google.com/gke-nodepool": "gpu",
    "node.kubernetes.io/instance-type": "n1-standard-8",
}
AKS_SPOT = {
    "kubernetes.azure.com/accelerator": "nvidia",
    "kubernetes.azure.com/scalesetpriority": "spot",
    "node.kubernetes.io/instance-type": "Standard_NC24ads_A100_v4",
}


def make_node_object(
    labels: dict[str, str] | None = None,
    *,
    gpus: Any = 8,
    resource: str = "nvidia.com/gpu",
    healthy: Any = None,
    conditions: tuple[dict[str, str], ...] = (READY,),
    taints: tuple[dict[str, str], ...] = (),
    **spec: Any,
) -> dict[str, Any]:
    """A Node with `gpus` GPUs, 96 cores and 1,000 GiB; `healthy`: GPUs that may be allocated."""
    amounts = {"cpu": "96", "memory": "1000Gi", "pods": "110"}
    gpu_amounts = {resource: str(gpus)} if gpus else {}
    usable = {resource: str(gpus if healthy is None else healthy)} if gpus else {}
    return {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {"name": "n1", "labels": GFD_A100 if labels is None else labels},
        "spec": {"taints": list(taints), **spec},
        "status": {
            "capacity": {**amounts, **gpu_amounts},
            "allocatable": {**amounts, "cpu": "95500m", **usable},
            "conditions": list(conditions),
        },
    }


def make_pod_object(
    requests: dict[str, str] | None = None,
    *,
    name: str = "p1",
    pool: str | None = None,
    phase: str = "Running",
    **spec: Any,
) -> dict[str, Any]:
    """A pod with one container that requests this."""
    labels = {} if pool is None else {"prefect-gpu.dev/pool": pool}
    container = {"name": "main", "resources": {"requests": requests or {}}}
    return {
        "metadata": {"name": name, "namespace": "ml", "labels": labels},
        "spec": {"containers": [container], **spec},
        "status": {"phase": phase},
    }
