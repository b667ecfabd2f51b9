"""On which nodes a pod may run: affinities, added to the template's own."""

from collections.abc import Iterator, Mapping, Sequence
from itertools import product
from typing import Any

from gpu_core.decisions.catalog.gpu_types import GPU_TYPES
from gpu_core.decisions.kubernetes.manifests.launch import Launch, Wanted
from gpu_core.decisions.kubernetes.manifests.merge import Manifest
from gpu_core.decisions.kubernetes.manifests.names import (
    ATTEMPT_ID_LABEL,
    MEMBER,
    ROLE_LABEL,
    label_value,
)
from gpu_core.decisions.kubernetes.nodes.clouds import (
    Expression,
    capacity_type_expressions,
    gpu_type_expressions,
    selectable_gpu_types,
)
from gpu_core.decisions.policy.kubernetes import KubernetesPolicy

_REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"
_PREFERRED = "preferredDuringSchedulingIgnoredDuringExecution"
_HOSTNAME_LABEL = "kubernetes.io/hostname"
# Every kubelet sets it (since 1.14), and GPUs are on Linux: one domain that is the whole cluster.
_SHARED_BY_ALL = "kubernetes.io/os"

# The weights of what is wanted most (Kubernetes allows 1 to 100); the next gets half, a third, ...
_GPU_TYPE_WEIGHT = 100
_CAPACITY_TYPE_WEIGHT = 10


def affinity(launch: Launch, policy: KubernetesPolicy, node_names: Sequence[str]) -> Manifest:
    """The affinity of the pod: the nodes that it may run on.

    A node of the plan is required by its name, not written into `nodeName`: the kube-scheduler
    still checks that there is room.

    Args:
        node_names: The nodes of the plan that this pod may get; empty: it is not pinned.
    """
    result: Manifest = {}
    terms = _node_terms(launch, policy, node_names)
    if terms:
        result["nodeAffinity"] = {_REQUIRED: {"nodeSelectorTerms": terms}}
    preferred = [] if node_names or policy.kueue_queue else list(_preferences(launch, policy))
    if preferred:
        result.setdefault("nodeAffinity", {})[_PREFERRED] = preferred
    if launch.is_gang:
        result["podAntiAffinity"] = {_REQUIRED: [_near_own_gang(launch, _HOSTNAME_LABEL)]}
    zone = launch.shape.same_label or policy.gangs.zone_label
    if launch.is_gang and not node_names and not policy.kueue_queue and zone:
        result["podAffinity"] = {_REQUIRED: [_near_own_gang(launch, zone)]}
    return result


def one_pod_at_a_time(job: str) -> Manifest:
    """The affinity that keeps a Job's pod off all nodes while another one of it is on any.

    Before 1.26 a Job has another pod made for one that is being deleted while that one still ends;
    both would write the same checkpoints. The kube-scheduler counts a pod until it is gone.

    Args:
        job: The Job's name, which Kubernetes makes a label of its pods.
    """
    own = {"labelSelector": {"matchLabels": {"job-name": job}}, "topologyKey": _SHARED_BY_ALL}
    return {"podAntiAffinity": {_REQUIRED: [own]}}


def combined_affinity(base: Mapping[str, Any], ours: Mapping[str, Any]) -> Manifest:
    """The affinity that holds where both hold: the platform team's and ours.

    Terms of node affinity are alternatives, so each of ours is combined with each of theirs.
    """
    result = {key: dict(value) for key, value in base.items()}
    for kind, rules in ours.items():
        theirs = result.setdefault(kind, {})
        for strength, rule in rules.items():
            theirs[strength] = _combined_rule(theirs.get(strength), rule)
    return result


def _node_terms(
    launch: Launch, policy: KubernetesPolicy, node_names: Sequence[str]
) -> list[Manifest]:
    if node_names:
        # A field selector takes one name, so each node is an alternative of its own.
        fields = ({"key": "metadata.name", "operator": "In", "values": [n]} for n in node_names)
        return [{"matchFields": [field]} for field in fields]
    shared = [Expression(name, "In", (value,)) for name, value in launch.node_labels]
    if policy.kueue_queue is None:
        shared += capacity_type_expressions(policy.provisioner, launch.capacity_types)
    # In order: Karpenter tries the first alternative first.
    alternatives = [_type_expressions(launch, policy, name) for name in _gpu_types(launch, policy)]
    terms = [[*own, *shared] for own in alternatives or [()]]
    return [_term(term) for term in terms if term]


def _gpu_types(launch: Launch, policy: KubernetesPolicy) -> tuple[str, ...]:
    """The types it may get, most wanted first; empty: any."""
    shape = launch.shape
    if not shape.gpu_count:
        return ()
    chosen = launch.place.gpu_types if isinstance(launch.place, Wanted) else ()
    wanted = chosen or shape.gpu_types
    least_gib = shape.gpu_memory_gib
    if wanted or least_gib is None:
        return wanted
    enough = (name for name, known in GPU_TYPES.items() if known.memory_gib >= least_gib)
    return selectable_gpu_types(enough, policy.provisioner, shape.gpu_count, policy.gpu_type_labels)


def _type_expressions(
    launch: Launch, policy: KubernetesPolicy, gpu_type: str
) -> tuple[Expression, ...]:
    return gpu_type_expressions(
        policy.provisioner, gpu_type, launch.shape.gpu_count, policy.gpu_type_labels
    )


def _preferences(launch: Launch, policy: KubernetesPolicy) -> Iterator[Manifest]:
    """The preferred affinity terms among acceptable nodes; the GPU type counts more."""
    types = _gpu_types(launch, policy)
    by_type = [_type_expressions(launch, policy, name) for name in types]
    capacity = launch.capacity_types
    by_capacity = [capacity_type_expressions(policy.provisioner, (name,)) for name in capacity]
    for weight, ordered in ((_GPU_TYPE_WEIGHT, by_type), (_CAPACITY_TYPE_WEIGHT, by_capacity)):
        # The last needs no weight: it is what remains.
        for place, expressions in enumerate(ordered[:-1], start=1):
            if expressions:
                yield {"weight": max(1, weight // place), "preference": _term(expressions)}


def _term(expressions: Sequence[Expression]) -> Manifest:
    return {"matchExpressions": [expression.to_manifest() for expression in expressions]}


def _near_own_gang(launch: Launch, topology_key: str) -> Manifest:
    own = {ATTEMPT_ID_LABEL: label_value(launch.context.attempt_id), ROLE_LABEL: MEMBER}
    return {"labelSelector": {"matchLabels": own}, "topologyKey": topology_key}


def _combined_rule(theirs: Any, ours: Any) -> Any:
    if theirs is None:
        return ours
    if isinstance(theirs, list):
        return [*theirs, *ours]
    pairs = product(ours["nodeSelectorTerms"], theirs["nodeSelectorTerms"])
    return {"nodeSelectorTerms": [_both(one, other) for one, other in pairs]}


def _both(one: Mapping[str, Any], other: Mapping[str, Any]) -> Manifest:
    keys = [key for key in ("matchExpressions", "matchFields") if key in one or key in other]
    return {key: [*other.get(key, ()), *one.get(key, ())] for key in keys}
