"""The policy's section on Kubernetes: what the platform team decides for every Job of the pool."""

import re
import shlex
from collections.abc import Mapping
from enum import StrEnum
from typing import Annotated, Literal
from urllib.parse import urlsplit

from pydantic import Field

from gpu_core.decisions.model.errors import InvalidInput
from gpu_core.decisions.model.pydantic_errors import parsed_by
from gpu_core.decisions.model.section import Name, PositiveDuration, Section
from gpu_core.decisions.policy.kubernetes_version import Capabilities, capabilities_of
from gpu_core.decisions.policy.provisioned_nodes import (
    ProvisionedNodes,
    provisioned_contradictions,
)
from gpu_core.decisions.policy.sharing import (
    SHARING_FIELDS,
    GpuSharing,
    MigStrategy,
    NodePoolSharing,
    SharesPerGpu,
    sharing_contradictions,
    stated_fields,
)

# A day: longer than any outage of the worker that goes unnoticed, and the exit code is still there.
_KEPT_AFTER_END_S = 24 * 3600

LEAST_TERMINATION_GRACE_S = 35
"""Prefect ends a flow within 30 s of SIGTERM, whatever the pod allows (3.8,
`ProcessManager.kill`), and then has to report it."""


def _path(value: object, field: str) -> str:
    if not isinstance(value, str) or not re.fullmatch(r"/[^:]*", value):
        raise InvalidInput(field, "is not a path", allowed="an absolute path without colons")
    return value


def _object_name(value: object, field: str) -> str:
    # A DNS subdomain (RFC 1123), as names of Kubernetes objects are.
    pattern = r"[a-z0-9]([-a-z0-9.]{0,251}[a-z0-9])?"
    if not isinstance(value, str) or not re.fullmatch(pattern, value):
        raise InvalidInput(
            field, "is not a name of a Kubernetes object", allowed="lower case, digits, '-' and '.'"
        )
    return value


def _version(value: object, field: str) -> str:
    if not isinstance(value, str):
        raise InvalidInput(
            field, "is not text", allowed="a version such as '1.34'", remedy="put it in quotes"
        )
    capabilities_of(value)
    return value


AbsolutePath = Annotated[str, parsed_by(_path)]
ObjectName = Annotated[str, parsed_by(_object_name)]


class PerGpu(Section):
    """Main memory and CPU that come with one GPU of a type, unless the run says otherwise."""

    cpu: Annotated[float, Field(gt=0, le=256, allow_inf_nan=False)]
    memory_gib: Annotated[float, Field(gt=0, le=4096, allow_inf_nan=False)]


DEFAULT = "default"
"""The row of `per_gpu` for GPU types that have none, and for runs without a GPU."""

# 85 % of one GPU's part of the smallest machine that has it, so that kubelet and daemons keep
# theirs (EC2, Compute Engine and Azure machine types, read 2026-08).
_PER_GPU: Mapping[str, PerGpu] = {
    DEFAULT: PerGpu(cpu=3, memory_gib=13),
    "t4": PerGpu(cpu=3, memory_gib=13),
    "a10g": PerGpu(cpu=3, memory_gib=13),
    "l4": PerGpu(cpu=3, memory_gib=13),
    "l40s": PerGpu(cpu=3, memory_gib=27),
    "v100-16gb": PerGpu(cpu=6, memory_gib=51),
    "v100-32gb": PerGpu(cpu=10, memory_gib=81),
    "a100-40gb": PerGpu(cpu=10, memory_gib=67),
    "a100-80gb": PerGpu(cpu=10, memory_gib=122),
    "h100-80gb": PerGpu(cpu=13, memory_gib=185),
    "h200": PerGpu(cpu=20, memory_gib=217),
    "b200": PerGpu(cpu=20, memory_gib=217),
}


# EKS node monitoring agent (user guide, read 2026-08), AKS node problem detector (GPU health
# monitoring, read 2026-08), Nebius health checks (read 2026-08).
_GPU_CONDITIONS: Mapping[str, Literal["True", "False"]] = {
    "AcceleratedHardwareReady": "False",
    "GPUMissing": "True",
    "NVLinkStatusInactive": "True",
    "NebiusGPUError": "True",
}


class ModelCache(Section):
    """Where downloaded models are kept between runs: a claim, or a folder of each node."""

    mount_path: AbsolutePath = "/models"
    claim: ObjectName | None = None
    """A PersistentVolumeClaim that many pods may use."""
    host_path: AbsolutePath | None = None
    """A folder of the node; Pod Security `restricted` forbids it."""
    is_read_only: bool = Field(default=False, alias="read_only")


class SecretReference(Section):
    """One key of a Kubernetes Secret in the namespace of the Jobs."""

    name: ObjectName
    key: Name


class GangNetwork(Section):
    """How the nodes of a gang find each other."""

    master_port: Annotated[int, Field(ge=1024, le=65535)] = 29500
    """Where rank 0 listens; torchrun's own default."""
    zone_label: Name | None = "topology.kubernetes.io/zone"
    """Nodes of a gang that are still to be provisioned share this label's value; None: any."""


class OperatorPolicy(Section):
    """What runs of the frameworks ray, kubeflow and spark name beside themselves."""

    training_runtime: ObjectName = "torch-distributed"
    """The ClusterTrainingRuntime of Kubeflow Trainer."""
    spark_version: Name = "3.5"
    spark_gpu_script: AbsolutePath = "/opt/spark/examples/src/main/scripts/getGpusResources.sh"
    """Where the image has Spark's script that lists an executor's GPUs."""


def _command(value: object, field: str) -> str:
    try:
        words = shlex.split(value) if isinstance(value, str) else []
    except ValueError as error:
        raise InvalidInput(field, f"cannot be split into words: {error}", got=value) from None
    if not words:
        raise InvalidInput(field, "is not a command", got=value, allowed="text, such as nvidia-smi")
    return str(value)


def _metadata_url(value: object, field: str) -> str:
    address = urlsplit(value) if isinstance(value, str) else None
    if address is None or address.scheme != "http" or not address.hostname:
        raise InvalidInput(field, "is no address", got=value, allowed="http://host[:port]")
    return str(value)


class Preflight(Section):
    """A test that a GPU node has to pass before it gets work. Nodes with divided GPUs are left
    alone: a pod cannot have all parts of them."""

    image: Name
    command: Annotated[str, parsed_by(_command)] = "nvidia-smi"
    """What is run with the node's free GPUs; exit code 0: the node is well."""
    every_s: PositiveDuration = Field(default=24 * 3600, alias="every")
    """How long a success counts; afterwards the node is tested again once it is idle."""


class Provisioner(StrEnum):
    """Who makes the nodes come, and so which labels may be selected by before they exist."""

    KARPENTER = "karpenter"
    """Karpenter on AWS."""
    EKS_AUTO = "eks-auto"
    """EKS Auto Mode."""
    EKS_NODE_GROUPS = "eks-node-groups"
    """EKS managed node groups, with or without the cluster autoscaler."""
    GKE = "gke"
    AKS = "aks"
    FIXED = "fixed"
    """No provisioner: the nodes exist, labelled by GPU Feature Discovery."""


class KubernetesPolicy(Section):
    """What the Jobs of a gpu-kubernetes pool look like. The pool's template says the rest."""

    provisioner: Provisioner = Field(default=Provisioner.FIXED, strict=False)
    version: Annotated[str, parsed_by(_version)] = "1.34"
    """Of the cluster: what an older one does not know is left out."""

    gpu_resource: Name = "nvidia.com/gpu"
    shared_gpu_resource: Name = "nvidia.com/gpu.shared"
    """`nvidia.com/gpu` where the device plugin does not rename GPUs that are shared."""
    shares_per_gpu: SharesPerGpu = 4
    """Replicas of each GPU that is shared by time-slicing or MPS."""
    mig_strategy: MigStrategy = "mixed"
    """Of the device plugin: `single` offers MIG instances under the name of whole GPUs."""
    node_pools: tuple[NodePoolSharing, ...] = Field(default=(), strict=False)
    """Nodes whose GPUs are offered in another way."""
    per_gpu: Mapping[Name, PerGpu] = Field(default=_PER_GPU)
    """By GPU type; `default` is for those that are not listed, and for runs without a GPU."""
    gpu_type_labels: Mapping[Name, Mapping[Name, str]] = Field(default={})
    """Labels of nodes by GPU type, where the cloud's own do not tell."""
    gpu_conditions: Mapping[Name, Literal["True", "False"]] = Field(default=_GPU_CONDITIONS)
    """The status of a node's condition that says that its GPUs are in trouble."""

    pod_security: Literal["restricted", "template"] = "restricted"
    """`restricted` fills in what that Pod Security Standard asks for and the template leaves open;
    `template` leaves it to the template."""
    run_as_user: Annotated[int, Field(ge=1)] | None = 1000
    """The user id that `restricted` fills in; None: the image's own, which must not be root."""
    has_priority_classes: bool = Field(default=False, alias="priority_classes")
    """Our PriorityClasses are installed, and pods name the one of their queue."""
    termination_grace_s: Annotated[PositiveDuration, Field(ge=LEAST_TERMINATION_GRACE_S)] = Field(
        default=120, alias="termination_grace"
    )
    """From SIGTERM until the kill, on nodes that do not go by themselves."""
    instance_metadata_url: Annotated[str, parsed_by(_metadata_url)] | None = None
    """Where runs on spot ask EC2's metadata service for interruptions (`http://169.254.169.254`,
    which pods reach with a hop limit of 2); None: only the node's taints tell."""
    kept_after_end_s: PositiveDuration = Field(default=_KEPT_AFTER_END_S, alias="kept_after_end")
    """Jobs that ended stay so long, for whoever was away to learn how they ended."""

    pending_timeout_s: PositiveDuration = Field(default=600, alias="pending_timeout")
    """How long pods may take to start; afterwards the attempt is ended with the reason."""
    provisioned: tuple[ProvisionedNodes, ...] = Field(default=(), strict=False)
    """What the provisioner may still add; runs are planned on it after what is there."""
    silent_after_s: PositiveDuration = Field(default=60, alias="silent_after")
    """A node that has not been ready for so long is given up: its runs are to go on elsewhere."""
    fenced_after_s: PositiveDuration | None = Field(default=None, alias="fenced_after")
    """Pods of a node that has been silent for so long count as ended, although they may still work:
    a run may then execute twice. None: only a node that is deleted or whose machine is known to be
    off, by the taint `node.kubernetes.io/out-of-service` or the cloud's, is given up."""

    preflight: Preflight | None = None
    """A test of each GPU node before it gets work; None: none."""
    prepull: tuple[Name, ...] = Field(default=(), strict=False)
    """Images that are pulled to each GPU node as soon as it is there."""

    model_cache: ModelCache | None = None
    secrets: Mapping[Name, SecretReference] = Field(default={})
    """Environment variables from Secrets; they replace literal values of that name. Those whose
    names begin with `PREFECT_` are for flows: container jobs get none."""
    gangs: GangNetwork = GangNetwork()
    operators: OperatorPolicy = OperatorPolicy()
    kueue_queue: ObjectName | None = None
    """A LocalQueue: then Kueue admits and places, and our own placement is left out."""

    def per_gpu_of(self, gpu_type: str | None) -> PerGpu:
        """What comes with one GPU of this type?"""
        fallback = self.per_gpu.get(DEFAULT, _PER_GPU[DEFAULT])
        return self.per_gpu.get(gpu_type or DEFAULT, fallback)

    def sharing_of(self, labels: Mapping[str, str]) -> GpuSharing:
        """How are the GPUs of a node with these labels offered, as far as the policy says?"""
        found = stated_fields(self, "kubernetes")
        values = {name: getattr(self, name) for name in SHARING_FIELDS}
        number = next((n for n, pool in enumerate(self.node_pools) if pool.matches(labels)), None)
        own: dict[str, str] = {}
        if number is not None:
            pool = self.node_pools[number]
            own = stated_fields(pool, f"kubernetes.node_pools.{number}")
            values |= {name: getattr(pool, name) for name in own}
        return GpuSharing(**values, is_shared="shares_per_gpu" in own, stated=found | own)

    @property
    def all_shares_per_gpu(self) -> frozenset[int]:
        """By how many is a GPU shared anywhere, as far as the policy says?"""
        own = (pool.shares_per_gpu for pool in self.node_pools)
        return frozenset({self.shares_per_gpu, *(shares for shares in own if shares is not None)})

    @property
    def all_gpu_resources(self) -> frozenset[str]:
        """What are whole GPUs called anywhere, as far as the policy says?"""
        own = (pool.gpu_resource for pool in self.node_pools)
        return frozenset({self.gpu_resource, *(name for name in own if name is not None)})

    @property
    def all_shared_gpu_resources(self) -> frozenset[str]:
        """What are shared GPUs called anywhere, as far as the policy says?"""
        own = (pool.shared_gpu_resource for pool in self.node_pools)
        return frozenset({self.shared_gpu_resource, *(name for name in own if name is not None)})

    @property
    def capabilities(self) -> Capabilities:
        """What the cluster can do."""
        return capabilities_of(self.version)


def kubernetes_contradictions(policy: KubernetesPolicy) -> list[InvalidInput]:
    """Which parts of this section contradict each other?

    Returns:
        An error for each, with field paths from `kubernetes` on; none: it can be used.
    """
    errors = provisioned_contradictions(policy.provisioned)
    errors += sharing_contradictions(policy.node_pools)
    cache = policy.model_cache
    if cache is not None and (cache.claim is None) == (cache.host_path is None):
        errors.append(
            InvalidInput("kubernetes.model_cache", "needs one place", allowed="claim or host_path")
        )
    if cache is not None and cache.host_path is not None and policy.pod_security == "restricted":
        errors.append(
            InvalidInput(
                "kubernetes.model_cache.host_path",
                "is forbidden by Pod Security 'restricted'",
                got=cache.host_path,
                remedy="use a claim, or set kubernetes.pod_security to 'template'",
            )
        )
    if policy.kueue_queue is not None and not policy.capabilities.suspended_jobs:
        errors.append(
            InvalidInput(
                "kubernetes.kueue_queue",
                "needs Kubernetes 1.22 or newer",
                got=policy.version,
                remedy="leave it out",
            )
        )
    return errors
