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
from gpu_core.decisions.model.section import Duration, Name, PositiveDuration, Section
from gpu_core.decisions.policy.kubernetes_version import Capabilities, capabilities_of
from gpu_core.decisions.policy.provisioned_nodes import (
    ProvisionedNodes,
    provisioned_contradictions,
)
from gpu_core.decisions.policy.sharing import (
    SHARING_FIELDS,
    MigStrategy,
    NodePoolSharing,
    SharesPerGpu,
    SharingSettings,
    sharing_contradictions,
    stated_fields,
)

# A day: longer than any outage of the worker that goes unnoticed, and the exit code is still there.
_KEPT_AFTER_END_S = 24 * 3600

LEAST_TERMINATION_GRACE_S = 35
"""Prefect ends a flow within 30 s of SIGTERM, even if the pod allows more (3.8,
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
    """The default CPU and main memory for each GPU. Both can be overridden by the run."""

    cpu: Annotated[float, Field(gt=0, le=256, allow_inf_nan=False)]
    """The number of CPU cores."""
    memory_gib: Annotated[float, Field(gt=0, le=4096, allow_inf_nan=False)]
    """The amount of main memory in GiB."""


DEFAULT = "default"
"""The row of `per_gpu` for GPU types that have none, and for runs without a GPU."""

# 85% of one GPU's part of the smallest machine that has it, so that kubelet and daemons keep
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
    """A volume for downloaded models that is kept between runs."""

    mount_path: AbsolutePath = "/models"
    """The path at which the volume is mounted in the container."""
    claim: ObjectName | None = None
    """The name of a PersistentVolumeClaim that can be mounted by several pods."""
    host_path: AbsolutePath | None = None
    """A directory on the node. Not allowed under the Pod Security Standard `restricted`."""
    is_read_only: bool = Field(default=False, alias="read_only")
    """Whether to mount the volume as read-only."""


class SecretReference(Section):
    """A key of a Kubernetes Secret in the namespace of the Jobs."""

    name: ObjectName
    """The name of the Secret."""
    key: Name
    """The key to read from the Secret."""


class GangNetwork(Section):
    """Network settings for the nodes of a gang."""

    master_port: Annotated[int, Field(ge=1024, le=65535)] = 29500
    """The port on which rank 0 listens. Defaults to the port of torchrun."""
    zone_label: Name | None = "topology.kubernetes.io/zone"
    """A node label that must have the same value on all nodes of a gang, if the nodes have not been
    added yet. If null, nodes can have different values."""


class OperatorPolicy(Section):
    """Settings for runs that use the Kubeflow or Spark operator."""

    training_runtime: ObjectName = "torch-distributed"
    """The name of the ClusterTrainingRuntime of Kubeflow Trainer."""
    spark_version: Name = "3.5"
    """The Spark version of SparkApplications."""
    spark_gpu_script: AbsolutePath = "/opt/spark/examples/src/main/scripts/getGpusResources.sh"
    """The path of the Spark script in the image that lists the GPUs of an executor."""


def _command(value: object, field: str) -> str:
    try:
        words = shlex.split(value) if isinstance(value, str) else []
    except ValueError as error:
        raise InvalidInput(field, f"is not a valid command: {error}", got=value) from None
    if not words:
        raise InvalidInput(field, "is not a command", got=value, allowed="text, such as nvidia-smi")
    return str(value)


def _metadata_url(value: object, field: str) -> str:
    address = urlsplit(value) if isinstance(value, str) else None
    if address is None or address.scheme != "http" or not address.hostname:
        raise InvalidInput(field, "is no address", got=value, allowed="http://host[:port]")
    return str(value)


class Preflight(Section):
    """A test that each GPU node must pass before runs are placed on it. Nodes with shared GPUs or
    MIG are not tested because a pod cannot use all parts of their GPUs."""

    image: Name
    """The container image of the test."""
    command: Annotated[str, parsed_by(_command)] = "nvidia-smi"
    """The command to run with all free GPUs of the node. The node passes the test if the exit code
    is 0."""
    every_s: PositiveDuration = Field(default=24 * 3600, alias="every")
    """How long a passed test is valid. After this time, the node is tested again as soon as it is
    idle."""


class Provisioner(StrEnum):
    """The provisioner of nodes. It decides which labels can select nodes before they exist."""

    KARPENTER = "karpenter"
    """Karpenter on AWS."""
    EKS_AUTO = "eks-auto"
    """EKS Auto Mode."""
    EKS_NODE_GROUPS = "eks-node-groups"
    """EKS managed node groups, with or without the cluster autoscaler."""
    GKE = "gke"
    AKS = "aks"
    FIXED = "fixed"
    """No provisioner: the nodes exist, labeled by GPU Feature Discovery."""


class KubernetesPolicy(Section):
    """Settings for the Jobs of a `gpu-kubernetes` pool, in addition to the base job template."""

    provisioner: Provisioner = Field(default=Provisioner.FIXED, strict=False)
    """The provisioner that adds nodes to the cluster. Use `fixed` if nodes are not added
    automatically."""
    version: Annotated[str, parsed_by(_version)] = "1.34"
    """The Kubernetes version of the cluster. Fields that are not supported by this version are
    omitted."""

    gpu_resource: Name = "nvidia.com/gpu"
    """The resource name of whole GPUs."""
    shared_gpu_resource: Name = "nvidia.com/gpu.shared"
    """The resource name of shared GPUs. Use `nvidia.com/gpu` if the device plugin does not rename
    shared GPUs."""
    shares_per_gpu: SharesPerGpu = 4
    """The number of replicas of each GPU that is shared with time-slicing or MPS."""
    mig_strategy: MigStrategy = "mixed"
    """The MIG strategy of the device plugin. With `single`, MIG instances have the same resource
    name as whole GPUs."""
    node_pools: tuple[NodePoolSharing, ...] = Field(default=(), strict=False)
    """Overrides for nodes with different resource names, shares or MIG strategies."""
    per_gpu: Mapping[Name, PerGpu] = Field(default=_PER_GPU)
    """CPU and memory for each GPU, by GPU type. `default` is used for GPU types that are not
    listed, and for runs without a GPU."""
    gpu_type_labels: Mapping[Name, Mapping[Name, str]] = Field(default={})
    """Node labels that identify each GPU type. Only needed if the GPU type cannot be determined
    from well-known labels."""
    gpu_conditions: Mapping[Name, Literal["True", "False"]] = Field(default=_GPU_CONDITIONS)
    """Node conditions that mark the GPUs of a node as unhealthy, with the status that each
    condition must have."""

    pod_security: Literal["restricted", "template"] = "restricted"
    """The security context of the pods. `restricted` adds the fields that are required by this Pod
    Security Standard and not set in the template. `template` does not add any fields."""
    run_as_user: Annotated[int, Field(ge=1)] | None = 1000
    """The user ID that is set by `restricted`. If null, the user of the image is used, which must
    not be root."""
    has_priority_classes: bool = Field(default=False, alias="priority_classes")
    """Whether to assign the PriorityClass of the queue to pods. The PriorityClasses are installed
    by the Helm chart."""
    termination_grace_s: Annotated[Duration, Field(ge=LEAST_TERMINATION_GRACE_S)] = Field(
        default=120, alias="termination_grace"
    )
    """The time between SIGTERM and SIGKILL on nodes that are not spot nodes."""
    instance_metadata_url: Annotated[str, parsed_by(_metadata_url)] | None = None
    """The URL from which runs on spot read the interruption notices of EC2, which is
    `http://169.254.169.254`. Pods require a hop limit of 2. If not set, only the taints of the node
    are used."""
    kept_after_end_s: PositiveDuration = Field(default=_KEPT_AFTER_END_S, alias="kept_after_end")
    """How long finished Jobs are kept. This allows a worker to read them after downtime."""

    pending_timeout_s: PositiveDuration = Field(default=600, alias="pending_timeout")
    """The maximum time for pods to start. If this time is exceeded, the attempt ends with the
    reason."""
    provisioned: tuple[ProvisionedNodes, ...] = Field(default=(), strict=False)
    """A list of nodes that the provisioner can add. Existing nodes are used first."""
    silent_after_s: PositiveDuration = Field(default=60, alias="silent_after")
    """How long a node must be not Ready before its runs are asked to stop."""
    fenced_after_s: PositiveDuration | None = Field(default=None, alias="fenced_after")
    """How long a node must be silent before its pods are considered ended. Note that the pods might
    still be running, so a run might be executed twice. If not set, pods are only considered ended
    if the Node is deleted, or has the taint `node.kubernetes.io/out-of-service` or the shutdown
    taint of the cloud provider."""

    preflight: Preflight | None = None
    """A test that each GPU node must pass before runs are placed on it. If not set, nodes are not
    tested."""
    prepull: tuple[Name, ...] = Field(default=(), strict=False)
    """A list of images to pull on each GPU node when the node is added."""

    model_cache: ModelCache | None = None
    secrets: Mapping[Name, SecretReference] = Field(default={})
    """Environment variables to read from Secrets. They replace literal values with the same name.
    Variables that start with `PREFECT_` are not passed to container jobs."""
    gangs: GangNetwork = GangNetwork()
    operators: OperatorPolicy = OperatorPolicy()
    kueue_queue: ObjectName | None = None
    """The name of the LocalQueue through which Kueue admits and places the pods. If not set, Kueue
    is not used."""

    def per_gpu_of(self, gpu_type: str | None) -> PerGpu:
        """The CPU, memory and the like that come with one GPU of this type."""
        fallback = self.per_gpu.get(DEFAULT, _PER_GPU[DEFAULT])
        return self.per_gpu.get(gpu_type or DEFAULT, fallback)

    def sharing_of(self, labels: Mapping[str, str]) -> SharingSettings:
        """The way in which nodes with these labels offer GPUs, as far as the policy says."""
        found = stated_fields(self, "kubernetes")
        values = {name: getattr(self, name) for name in SHARING_FIELDS}
        number = next((n for n, pool in enumerate(self.node_pools) if pool.matches(labels)), None)
        own: dict[str, str] = {}
        if number is not None:
            pool = self.node_pools[number]
            own = stated_fields(pool, f"kubernetes.node_pools.{number}")
            values |= {name: getattr(pool, name) for name in own}
        return SharingSettings(**values, is_shared="shares_per_gpu" in own, stated=found | own)

    @property
    def all_shares_per_gpu(self) -> frozenset[int]:
        """The numbers of shares into which GPUs are divided anywhere, as far as the policy says."""
        own = (pool.shares_per_gpu for pool in self.node_pools)
        return frozenset({self.shares_per_gpu, *(shares for shares in own if shares is not None)})

    @property
    def all_gpu_resources(self) -> frozenset[str]:
        """The resource names of whole GPUs anywhere, as far as the policy says."""
        own = (pool.gpu_resource for pool in self.node_pools)
        return frozenset({self.gpu_resource, *(name for name in own if name is not None)})

    @property
    def all_shared_gpu_resources(self) -> frozenset[str]:
        """The resource names of shared GPUs anywhere, as far as the policy says."""
        own = (pool.shared_gpu_resource for pool in self.node_pools)
        return frozenset({self.shared_gpu_resource, *(name for name in own if name is not None)})

    @property
    def capabilities(self) -> Capabilities:
        """The capabilities of the cluster."""
        return capabilities_of(self.version)


def kubernetes_contradictions(policy: KubernetesPolicy) -> list[InvalidInput]:
    """The parts of this section that contradict each other.

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
