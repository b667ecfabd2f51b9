"""The size of a pod: its GPUs by the name that the device plugin gives them, CPU and memory."""

from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass
from fractions import Fraction
from math import ceil

from gpu_core.decisions.catalog.mig import mig_profile, slices_of
from gpu_core.decisions.kubernetes.variables.quantities import format_cpu, format_memory
from gpu_core.decisions.kubernetes.variables.variables import PodRequest
from gpu_core.decisions.model.errors import InvalidInput
from gpu_core.decisions.model.workload import WHOLE_GPU_MILLI, Shape, replica_milli
from gpu_core.decisions.policy.kubernetes import KubernetesPolicy, PerGpu
from gpu_core.decisions.policy.sharing import MIG_PREFIX

# What a Python process with a deep-learning framework needs before it does anything.
_LEAST_CPU_MILLI = 500
_LEAST_MEMORY_MIB = 1024

_MIB_PER_GIB = 1024
# The instances that a GPU of a type that we do not know is divided into (A30: 4, all others: 7).
_MOST_MIG_INSTANCES = 7


@dataclass(frozen=True, slots=True, kw_only=True)
class PodSize:
    """The resources that one pod requests of its node."""

    cpu_milli: int
    memory_mib: int
    cpu_limit_milli: int | None
    """The limit; None: there is none."""
    memory_limit_mib: int
    shm_mib: int
    """Shared memory, a part of the main memory."""
    gpus: Mapping[str, int]
    """Device-plugin resources by name; empty: no GPU."""

    def to_resources(self) -> dict[str, dict[str, str]]:
        """Requests and limits as a container has them.

        GPUs, and memory unless the run says otherwise, have limits equal to requests; CPU has none
        then, because a limit would only throttle data loading while cores are idle.
        """
        gpus = {name: str(count) for name, count in self.gpus.items()}
        limit = self.cpu_limit_milli
        cpu_limit = {} if limit is None else {"cpu": format_cpu(limit)}
        memory_limit = {"memory": format_memory(self.memory_limit_mib)}
        memory = {"memory": format_memory(self.memory_mib)}
        return {
            "requests": {"cpu": format_cpu(self.cpu_milli), **memory, **gpus},
            "limits": {**cpu_limit, **memory_limit, **gpus},
        }


def pod_size(
    shape: Shape,
    request: PodRequest,
    policy: KubernetesPolicy,
    gpu_type: str | None,
    resource: str | None = None,
) -> PodSize:
    """The size of each pod of this workload.

    What the scheduler planned with (`cpu_milli`, `memory_mib` of the shape) is what the pod gets;
    where it planned with nothing, the run's own value, else the policy's for the GPU type. A limit
    alone is the request, too, as everywhere in Kubernetes.

    Args:
        gpu_type: Of the GPUs that it gets; None: not known yet, or it has none.
        resource: What its node calls them; None: not known, and the policy's name counts.

    Raises:
        InvalidInput: A part of a GPU cannot be had so, a limit is below its request, or /dev/shm
            is larger than the memory.
    """
    row = policy.per_gpu_of(gpu_type if shape.gpu_count else None)
    gpus = max(1, shape.gpu_count) * _part_of_gpu(shape, gpu_type)
    cpu_milli = shape.cpu_milli or _cpu_milli(request, row, gpus)
    asked_mib = _memory_mib(request, row, gpus)
    memory_mib = shape.memory_mib or asked_mib
    _require_at_least("cpu_limit", request.cpu_limit_milli, cpu_milli, format_cpu)
    _require_at_least("memory_limit", request.memory_limit_mib, asked_mib, format_memory)
    memory_limit_mib = _memory_limit_mib(request, memory_mib, asked_mib)
    return PodSize(
        cpu_milli=cpu_milli,
        memory_mib=memory_mib,
        cpu_limit_milli=request.cpu_limit_milli,
        memory_limit_mib=memory_limit_mib,
        shm_mib=_shm_mib(request.shm_size_mib, memory_limit_mib),
        gpus=gpu_resources(shape, policy, resource),
    )


def _memory_limit_mib(request: PodRequest, memory_mib: int, asked_mib: int) -> int:
    """The run's own limit, larger in the proportion in which the plan enlarged its request."""
    limit_mib = request.memory_limit_mib
    if limit_mib is None:
        return memory_mib
    return limit_mib * max(memory_mib, asked_mib) // asked_mib


def _require_at_least(
    field: str, limit: int | None, request: int, text: Callable[[int], str]
) -> None:
    if limit is not None and limit < request:
        raise InvalidInput(
            field,
            "must not be lower than the request",
            got=text(limit),
            allowed=f"{text(request)} or more",
            remedy="increase it or reduce the request",
        )


def _cpu_milli(request: PodRequest, row: PerGpu, gpus: Fraction) -> int:
    """The CPU request: the run's for the pod, its own for each GPU, its limit, the policy's."""
    if request.cpu_request_milli is not None:
        return request.cpu_request_milli
    if request.cpu_per_gpu is None and request.cpu_limit_milli is not None:
        return request.cpu_limit_milli
    per_gpu = Fraction(request.cpu_per_gpu or row.cpu)
    return max(ceil(per_gpu * gpus * 1000), _LEAST_CPU_MILLI)


def _memory_mib(request: PodRequest, row: PerGpu, gpus: Fraction) -> int:
    """The memory request, in the same order."""
    if request.memory_request_mib is not None:
        return request.memory_request_mib
    if request.memory_gib_per_gpu is None and request.memory_limit_mib is not None:
        return request.memory_limit_mib
    per_gpu_gib = Fraction(request.memory_gib_per_gpu or row.memory_gib)
    return max(ceil(per_gpu_gib * gpus * _MIB_PER_GIB), _LEAST_MEMORY_MIB)


def gpu_resources(
    shape: Shape, policy: KubernetesPolicy, resource: str | None = None
) -> dict[str, int]:
    """The extended resources that one pod of this shape asks for.

    Args:
        policy: Names the resources where no node is known.
        resource: What the node of the plan calls its GPUs (`Node.gpu_resource`); None: it is not
            known.

    Raises:
        InvalidInput: It wants a larger part of a GPU than one replica is, or several parts: the
            device plugin may hand out replicas of different GPUs, so neither is possible.
    """
    if shape.gpu_count == 0:
        return {}
    if shape.mig_profile is not None:
        return {mig_resource(shape.mig_profile, policy, resource): shape.gpu_count}
    if shape.gpu_share_milli == WHOLE_GPU_MILLI:
        return {resource or policy.gpu_resource: shape.gpu_count}
    if resource is not None:
        return {resource: 1}
    planned_share_milli(shape, policy)
    return {policy.shared_gpu_resource: 1}


def planned_share_milli(
    shape: Shape, policy: KubernetesPolicy, known: Collection[int] | None = ()
) -> int:
    """How many thousandths of each GPU does one pod of this shape take, at least?

    A run that asks for less than a replica gets a whole one: there is nothing less. Where nodes
    share GPUs by different numbers it is the smallest replica that is enough; on a node with larger
    ones it gets, and pays for, one of those.

    Args:
        known: By how many GPUs are shared on the nodes that are there; None: unknown yet.

    Raises:
        InvalidInput: As `gpu_resources` says.
    """
    if not shape.gpu_count or shape.is_whole or shape.mig_profile is not None:
        return shape.gpu_share_milli
    replicas = sorted(replica_milli(n) for n in policy.all_shares_per_gpu.union(known or ()))
    enough = [milli for milli in replicas if milli >= shape.gpu_share_milli]
    if shape.gpu_count == 1 and enough:
        return enough[0]
    if shape.gpu_count == 1 and known is None:
        return shape.gpu_share_milli
    raise InvalidInput(
        "gpu_fraction",
        "is not available from replicas of shared GPUs",
        got=f"{shape.gpu_count} × {shape.gpu_share_milli / WHOLE_GPU_MILLI:g}",
        allowed=f"one part of at most {replicas[-1] / WHOLE_GPU_MILLI:g} GPU",
        remedy="request a whole GPU or change `kubernetes.shares_per_gpu` in the policy",
    )


def mig_resource(profile: str, policy: KubernetesPolicy, resource: str | None = None) -> str:
    """The resource name by which the device plugin offers an instance of this profile.

    Args:
        profile: Such as `1g.10gb+me`.
        policy: Says it where no node is known.
        resource: What the node of the plan calls its instances, or how their names begin.

    >>> mig_resource("1g.10gb+me", KubernetesPolicy())
    'nvidia.com/mig-1g.10gb.me'
    """
    if resource is None:
        resource = policy.gpu_resource if policy.mig_strategy == "single" else MIG_PREFIX
    return resource if resource != MIG_PREFIX else f"{MIG_PREFIX}{profile.replace('+', '.')}"


def _part_of_gpu(shape: Shape, gpu_type: str | None) -> Fraction:
    """The part of each GPU's CPU and memory that goes with the part of the GPU itself."""
    if shape.mig_profile is None:
        return Fraction(shape.gpu_share_milli, WHOLE_GPU_MILLI)
    known = None if gpu_type is None else mig_profile(gpu_type, shape.mig_profile)
    if known is not None and gpu_type is not None:
        return Fraction(known.memory_slices, slices_of(gpu_type))
    slices, _, _ = shape.mig_profile.partition("g")
    return Fraction(int(slices), _MOST_MIG_INSTANCES) if slices.isdigit() else Fraction(1)


def _shm_mib(wanted_mib: int | None, memory_mib: int) -> int:
    if wanted_mib is None:
        return memory_mib // 2  # what Linux gives a tmpfs without a size: half of the memory
    if wanted_mib >= memory_mib:
        raise InvalidInput(
            "shm_size",
            "uses all of the memory that it is part of",
            got=format_memory(wanted_mib),
            allowed=f"less than {format_memory(memory_mib)}",
            remedy="increase `memory_gib_per_gpu` or `memory_limit`, or reduce `shm_size`",
        )
    return wanted_mib
