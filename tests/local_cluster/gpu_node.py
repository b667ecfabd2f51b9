"""What a GPU node says of itself: labels and status."""

from dataclasses import dataclass

from kube_api import Api, Json

GPU = "nvidia.com/gpu"


@dataclass(frozen=True)
class NodeShape:
    """A node as an AWS instance with its GPUs presents it.

    Args:
        gpus: How many GPUs it has.
        gpu_product: Their name as GPU Feature Discovery writes it.
        gpu_memory_mib: The memory of each, as GPU Feature Discovery reads it.
        gpu_name: Their name as Karpenter writes it.
        instance_type: EC2's name of the machine.
        zone: Where it is.
        capacity_type: `on-demand`, `spot` or `reserved`.
        cpus: How many CPUs it has (nodes without a kubelet only).
        memory_gib: Its memory (nodes without a kubelet only).
    """

    # g5.12xlarge, with what nvidia-smi shows of an A10G.
    gpus: int = 4
    gpu_product: str = "NVIDIA-A10G"
    gpu_memory_mib: int = 23028
    gpu_name: str = "a10g"
    instance_type: str = "g5.12xlarge"
    zone: str = "us-east-1a"
    capacity_type: str = "on-demand"
    cpus: int = 48
    memory_gib: int = 192


def labels(shape: NodeShape) -> dict[str, str]:
    """Which labels do EKS, Karpenter and GPU Feature Discovery set on such a node?"""
    of_the_instance = {
        "node.kubernetes.io/instance-type": shape.instance_type,
        "topology.kubernetes.io/region": shape.zone[:-1],
        "topology.kubernetes.io/zone": shape.zone,
        "karpenter.sh/capacity-type": shape.capacity_type,
    }
    if shape.gpus == 0:
        return of_the_instance
    return of_the_instance | {
        "nvidia.com/gpu.present": "true",
        "nvidia.com/gpu.product": shape.gpu_product,
        "nvidia.com/gpu.memory": str(shape.gpu_memory_mib),
        "nvidia.com/gpu.count": str(shape.gpus),
        "karpenter.k8s.aws/instance-gpu-name": shape.gpu_name,
        "karpenter.k8s.aws/instance-gpu-count": str(shape.gpus),
    }


def declare_gpus(api: Api, node: str, gpus: int) -> None:
    """Make the node say that it has this many GPUs; its kubelet keeps what it does not know."""
    quantity: Json = {GPU: str(gpus)}
    api.patch(
        f"/api/v1/nodes/{node}/status",
        {"status": {"capacity": quantity, "allocatable": quantity}},
    )
