"""The common parts of the builders of custom objects."""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

from gpu_core.decisions.kubernetes.manifests.container import main_container
from gpu_core.decisions.kubernetes.manifests.launch import Launch
from gpu_core.decisions.kubernetes.manifests.merge import Manifest, cleaned_job, overlaid
from gpu_core.decisions.kubernetes.manifests.names import HEAD, KUEUE_QUEUE_LABEL, ROLE_LABEL
from gpu_core.decisions.kubernetes.manifests.pod import (
    attempt_annotations,
    attempt_labels,
    named_by_label,
    pod_template,
)
from gpu_core.decisions.model.errors import InvalidInput
from gpu_core.decisions.model.workload import WHOLE_GPU_MILLI
from gpu_core.decisions.policy.kubernetes import KubernetesPolicy


@dataclass(frozen=True, slots=True, kw_only=True)
class PodSet:
    """Pods of one kind that an operator makes."""

    name: str
    count: int
    gpus_per_pod: int


@dataclass(frozen=True, slots=True, kw_only=True)
class CustomJob:
    """A custom object, and the pods that will come of it: all of them at once or none."""

    manifest: Manifest
    pod_sets: tuple[PodSet, ...]

    @property
    def total_gpus(self) -> int:
        """GPUs of all its pods."""
        return sum(pods.count * pods.gpus_per_pod for pods in self.pod_sets)


@dataclass(frozen=True, slots=True, kw_only=True)
class Request:
    """The input of a builder."""

    template: Manifest
    """The pool's Job, rendered and cleaned; of it the pod and the metadata count."""
    launch: Launch
    policy: KubernetesPolicy
    is_suspended: bool

    @property
    def command(self) -> tuple[str, ...]:
        """The command that the framework runs.

        Raises:
            InvalidInput: Not stated.
        """
        if self.launch.pod.container_command is None:
            raise InvalidInput(
                "container_command",
                "is missing",
                remedy=f"framework {self.launch.pod.framework!r} requires a command to run",
            )
        return self.launch.pod.container_command


def custom_job_request(
    template: Mapping[str, Any], launch: Launch, policy: KubernetesPolicy, *, is_suspended: bool
) -> Request:
    """The request; Kueue admits by lifting the suspension, so it needs one."""
    return Request(
        template=cleaned_job(template),
        launch=replace(launch, is_flow=False),
        policy=policy,
        is_suspended=is_suspended or policy.kueue_queue is not None,
    )


def metadata_of(request: Request) -> Manifest:
    """The object's metadata: found by the same labels as a Job."""
    launch, queue = request.launch, request.policy.kueue_queue
    labels = {} if queue is None else {KUEUE_QUEUE_LABEL: queue}
    return overlaid(
        named_by_label(request.template.get("metadata", {})),
        {
            "name": launch.name,
            "labels": {**attempt_labels(launch), **labels},
            "annotations": attempt_annotations(launch),
        },
    )


def member_pod(request: Request, *, is_alone: bool = True) -> Manifest:
    """The template of the pods that have the GPUs. The operator says what they run."""
    launch, policy = request.launch, request.policy
    pinned = () if policy.kueue_queue is not None else launch.node_names
    pod = pod_template(_pod(request.template), launch, policy, node_names=pinned)
    if not is_alone and "affinity" in pod["spec"]:
        pod["spec"]["affinity"].pop("podAntiAffinity", None)
    return _without_command(pod)


def head_pod(request: Request, role: str = HEAD) -> Manifest:
    """The template of a pod without GPUs that leads the others: it goes to any node."""
    launch = request.launch
    small = replace(
        launch,
        shape=launch.shape._replace(
            gpu_count=0,
            nodes=1,
            gpu_share_milli=WHOLE_GPU_MILLI,
            mig_profile=None,
            cpu_milli=0,
            memory_mib=0,
            node_labels=(),
        ),
        pod=launch.pod.model_copy(update=dict.fromkeys(_OF_MEMBERS)),
    )
    pod = pod_template(_pod(request.template), small, request.policy, node_names=None)
    pod["metadata"]["labels"][ROLE_LABEL] = role
    return _without_command(pod)


# What a run asks for the pods that have the GPUs: the one that leads them needs less.
_OF_MEMBERS = (
    "cpu_per_gpu",
    "cpu_request_milli",
    "cpu_limit_milli",
    "memory_gib_per_gpu",
    "memory_request_mib",
    "memory_limit_mib",
    "shm_size_mib",
)


def _pod(template: Manifest) -> Manifest:
    found: Manifest = template.get("spec", {}).get("template", {})
    return found


def _without_command(pod: Manifest) -> Manifest:
    """The pod with the run's container first, where operators look for it, and idle."""
    containers = list(pod["spec"]["containers"])
    main = containers.pop(main_container(pod["spec"]))
    idle = {key: value for key, value in main.items() if key not in ("command", "args")}
    return {**pod, "spec": {**pod["spec"], "containers": [idle, *containers]}}
