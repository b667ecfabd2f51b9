"""The signs of GPU types and capacity types on each cloud: its labels, taints and warnings.

Sources, all read 2026-08: Karpenter's AWS provider v1.14 (well-known labels), the user guides of
EKS, EKS Auto Mode, GKE and AKS, and GPU Feature Discovery v0.17.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import NamedTuple

from gpu_core.decisions.catalog.product_names import nearest_gpu_types
from gpu_core.decisions.kubernetes.manifests.names import CAPACITY_TYPE_LABEL
from gpu_core.decisions.kubernetes.nodes.instance_types import instance_types_with
from gpu_core.decisions.model.cluster import INSTANCE_TYPE_LABEL as INSTANCE_TYPE_LABEL
from gpu_core.decisions.model.cluster import ON_DEMAND, RESERVED, SPOT
from gpu_core.decisions.model.errors import InvalidInput, listed
from gpu_core.decisions.policy.kubernetes import Provisioner

PRODUCT_LABEL = "nvidia.com/gpu.product"
KARPENTER_CAPACITY_LABEL = "karpenter.sh/capacity-type"
EKS_CAPACITY_LABEL = "eks.amazonaws.com/capacityType"
GKE_SPOT_LABEL = "cloud.google.com/gke-spot"
GKE_ACCELERATOR_LABEL = "cloud.google.com/gke-accelerator"
AKS_PRIORITY_LABEL = "kubernetes.azure.com/scalesetpriority"


EKS_CAPACITY: Mapping[str, str] = MappingProxyType(
    {"SPOT": SPOT, "ON_DEMAND": ON_DEMAND, "CAPACITY_BLOCK": RESERVED}
)


LAUNCHES_BY_LABEL = frozenset({Provisioner.KARPENTER, Provisioner.EKS_AUTO})
"""Provisioners that launch nothing for a label that they do not know."""


@dataclass(frozen=True, slots=True)
class Expression:
    """One condition on a node's labels, as node affinity has it."""

    key: str
    operator: str
    values: tuple[str, ...] = ()

    def to_manifest(self) -> dict[str, object]:
        """The condition in a manifest's words."""
        body: dict[str, object] = {"key": self.key, "operator": self.operator}
        return {**body, "values": list(self.values)} if self.values else body


class AwsGpu(NamedTuple):
    """A GPU as Karpenter's AWS provider describes it in its labels `instance-gpu-...`."""

    name: str
    memory_mib: str
    """Of one GPU."""


AWS_GPUS: Mapping[str, AwsGpu] = MappingProxyType(
    {
        "t4": AwsGpu("t4", "16384"),
        "v100-16gb": AwsGpu("v100", "16384"),
        "v100-32gb": AwsGpu("v100", "32768"),
        "a10g": AwsGpu("a10g", "22888"),
        "l4": AwsGpu("l4", "22888"),
        "l40s": AwsGpu("l40s", "45776"),
        "a100-40gb": AwsGpu("a100", "40960"),
        "a100-80gb": AwsGpu("a100", "81920"),
        "h100-80gb": AwsGpu("h100", "81920"),
        "h200": AwsGpu("h200", "144384"),
        "b200": AwsGpu("b200", "183359"),
    }
)
"""By GPU type. Source: Karpenter's AWS provider v1.14, instance types reference."""

GKE_ACCELERATORS: Mapping[str, str] = MappingProxyType(
    {
        "nvidia-tesla-t4": "t4",
        "nvidia-tesla-v100": "v100-16gb",
        "nvidia-l4": "l4",
        "nvidia-tesla-a100": "a100-40gb",
        "nvidia-a100-80gb": "a100-80gb",
        "nvidia-h100-80gb": "h100-80gb",
        "nvidia-h100-mega-80gb": "h100-80gb",
        "nvidia-h200-141gb": "h200",
        "nvidia-b200": "b200",
    }
)

# As GPU Feature Discovery writes the driver's product name.
_PRODUCTS: Mapping[str, tuple[str, ...]] = {
    "t4": ("Tesla-T4",),
    "v100-16gb": ("Tesla-V100-SXM2-16GB", "Tesla-V100-PCIE-16GB"),
    "v100-32gb": ("Tesla-V100-SXM2-32GB", "Tesla-V100-SXM3-32GB", "Tesla-V100-PCIE-32GB"),
    "a10g": ("NVIDIA-A10G",),
    "l4": ("NVIDIA-L4",),
    "l40s": ("NVIDIA-L40S",),
    "a100-40gb": ("NVIDIA-A100-SXM4-40GB", "NVIDIA-A100-PCIE-40GB"),
    "a100-80gb": ("NVIDIA-A100-SXM4-80GB", "NVIDIA-A100-80GB-PCIe"),
    "h100-80gb": ("NVIDIA-H100-80GB-HBM3", "NVIDIA-H100-PCIe"),
    "h200": ("NVIDIA-H200",),
    "b200": ("NVIDIA-B200",),
}


def gpu_type_expressions(
    provisioner: Provisioner,
    gpu_type: str,
    gpus_per_node: int,
    own_labels: Mapping[str, Mapping[str, str]],
) -> tuple[Expression, ...]:
    """The conditions that a node with this type of GPU meets, before it exists.

    Args:
        gpu_type: Such as `a100-80gb`.
        gpus_per_node: How many GPUs it has at least; where machines are chosen by their type, only
            those that are large enough are named.
        own_labels: Labels of the platform team's own by GPU type; they come first.

    Raises:
        InvalidInput: This provisioner's labels cannot say it.
    """
    if gpu_type in own_labels:
        pairs = sorted(own_labels[gpu_type].items())
        return tuple(Expression(key, "In", (value,)) for key, value in pairs)
    found = _known_expressions(provisioner, gpu_type, gpus_per_node)
    if not found:
        raise InvalidInput(
            "gpu_type",
            f"cannot be selected on {provisioner.value}",
            got=gpu_type,
            allowed=listed(AWS_GPUS),
            nearest=nearest_gpu_types(gpu_type, AWS_GPUS),
            remedy="specify its node labels in `kubernetes.gpu_type_labels` in the policy",
        )
    return found


def selectable_gpu_types(
    gpu_types: Iterable[str],
    provisioner: Provisioner,
    gpus_per_node: int,
    own_labels: Mapping[str, Mapping[str, str]],
) -> tuple[str, ...]:
    """The types among these that can be selected before their nodes exist."""
    return tuple(
        gpu_type
        for gpu_type in gpu_types
        if gpu_type in own_labels or _known_expressions(provisioner, gpu_type, gpus_per_node)
    )


def _known_expressions(
    provisioner: Provisioner, gpu_type: str, gpus_per_node: int
) -> tuple[Expression, ...]:
    match provisioner:
        case Provisioner.KARPENTER:
            return _aws("karpenter.k8s.aws", gpu_type)
        case Provisioner.EKS_AUTO:
            return _aws("eks.amazonaws.com", gpu_type)
        case Provisioner.GKE:
            names = tuple(name for name, known in GKE_ACCELERATORS.items() if known == gpu_type)
            return _in(GKE_ACCELERATOR_LABEL, names)
        case Provisioner.EKS_NODE_GROUPS:
            return _in(INSTANCE_TYPE_LABEL, instance_types_with(gpu_type, gpus_per_node, "aws"))
        case Provisioner.AKS:
            return _in(INSTANCE_TYPE_LABEL, instance_types_with(gpu_type, gpus_per_node, "azure"))
        case Provisioner.FIXED:
            products = _PRODUCTS.get(gpu_type, ())
            return _in(PRODUCT_LABEL, (*products, *(f"{name}-SHARED" for name in products)))


def _aws(domain: str, gpu_type: str) -> tuple[Expression, ...]:
    if gpu_type not in AWS_GPUS:
        return ()
    gpu = AWS_GPUS[gpu_type]
    found = _in(f"{domain}/instance-gpu-name", (gpu.name,))
    if sum(other.name == gpu.name for other in AWS_GPUS.values()) == 1:
        return found  # the name is enough
    return (*found, *_in(f"{domain}/instance-gpu-memory", (gpu.memory_mib,)))


def _in(key: str, values: tuple[str, ...]) -> tuple[Expression, ...]:
    return (Expression(key, "In", values),) if values else ()


def capacity_type_expressions(
    provisioner: Provisioner, capacity_types: tuple[str, ...]
) -> tuple[Expression, ...]:
    """The conditions that a node of one of these capacity types meets, before it exists.

    Args:
        capacity_types: `spot`, `on-demand`, `reserved`; empty: any.
    """
    if not capacity_types:
        return ()
    match provisioner:
        case Provisioner.KARPENTER | Provisioner.EKS_AUTO:
            return _in(KARPENTER_CAPACITY_LABEL, capacity_types)
        case Provisioner.EKS_NODE_GROUPS:
            words = (word for word, known in EKS_CAPACITY.items() if known in capacity_types)
            return _in(EKS_CAPACITY_LABEL, tuple(words))
        case Provisioner.GKE:
            return _spot_or_not(GKE_SPOT_LABEL, "true", capacity_types)
        case Provisioner.AKS:
            return _spot_or_not(AKS_PRIORITY_LABEL, SPOT, capacity_types)
        case Provisioner.FIXED if ON_DEMAND in capacity_types:
            # Nodes without the label count as on-demand.
            others = tuple(name for name in (SPOT, RESERVED) if name not in capacity_types)
            return (Expression(CAPACITY_TYPE_LABEL, "NotIn", others),) if others else ()
        case Provisioner.FIXED:
            return _in(CAPACITY_TYPE_LABEL, capacity_types)


def _spot_or_not(key: str, value: str, capacity_types: tuple[str, ...]) -> tuple[Expression, ...]:
    """For clouds that label spot nodes and no others."""
    if SPOT not in capacity_types:
        return (Expression(key, "NotIn", (value,)),)
    return _in(key, (value,)) if capacity_types == (SPOT,) else ()


GPU_TAINT = "nvidia.com/gpu"
"""Every convention agrees on the key and none on the value, so it is tolerated by its key."""

AKS_GPU_TAINT = ("sku", "gpu")
"""Key and value of the taint that AKS's guide gives to GPU node pools (read 2026-11)."""

SPOT_TAINTS: Mapping[str, str] = MappingProxyType(
    {GKE_SPOT_LABEL: "true", AKS_PRIORITY_LABEL: SPOT}
)
"""The taints of spot nodes, with their values."""

INTERRUPTION_TAINTS = frozenset(
    {
        "karpenter.sh/disrupted",
        "karpenter.sh/disruption",
        "aws-node-termination-handler/spot-itn",
        "aws-node-termination-handler/asg-lifecycle-termination",
        "aws-node-termination-handler/scheduled-maintenance",
        "cloud.google.com/impending-node-termination",
        "remediator.kubernetes.azure.com/unschedulable",
        "remediator.aks.microsoft.com/unschedulable",
        "node.cloudprovider.kubernetes.io/shutdown",
        "ToBeDeletedByClusterAutoscaler",
    }
)
"""Taints that say: this node is about to go."""

MACHINE_OFF_TAINTS = frozenset(
    {"node.kubernetes.io/out-of-service", "node.cloudprovider.kubernetes.io/shutdown"}
)
"""Taints that say of a node that does not report: its machine is off. An operator sets the first
(Kubernetes, "Non-graceful node shutdown", read 2026-11), the cloud's node controller the second."""

WARNING_TAINTS = frozenset(
    {
        # More likely to be interrupted than others: a recommendation that may come without an end.
        "aws-node-termination-handler/rebalance-recommendation",
        "nvidia.com/gpu-driver-upgrade",
    }
)
"""Taints that say: start nothing new here. What runs continues until it is evicted."""

DRIVER_UPGRADE_LABEL = "nvidia.com/gpu-driver-upgrade-state"
"""The state of NVIDIA's GPU operator's driver upgrade of a node; absent where it upgrades none."""

DRIVER_USABLE = frozenset({"", "upgrade-required", "upgrade-done"})
"""Its states in which pods may use the GPUs; `upgrade-required` waits for its turn, maybe long.
Source: GPU operator v26.7, driver upgrades, upgrade state machine (read 2026-11)."""

_TERMINATION_WARNING_S: Mapping[Provisioner, int] = {
    Provisioner.KARPENTER: 120,
    Provisioner.EKS_AUTO: 120,
    Provisioner.EKS_NODE_GROUPS: 120,
    # The system keeps the other 15 s of Google's 30 for itself.
    Provisioner.GKE: 15,
    Provisioner.AKS: 30,
}


def termination_warning_s(provisioner: Provisioner, capacity_type: str) -> int | None:
    """How long before its node goes does a pod get notice? None: the node does not go by itself."""
    return _TERMINATION_WARNING_S.get(provisioner) if capacity_type == SPOT else None
