"""From an attempt to the Jobs that run it: one pure function, the same answer every time.

The platform team's manifest comes in as Prefect has rendered it from the pool's base job template;
what they wrote is kept, except where the run would not work or would run twice (`DESIGN.md`).
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from gpu_core.decisions.kubernetes.manifests.affinity import combined_affinity, one_pod_at_a_time
from gpu_core.decisions.kubernetes.manifests.gang import gang_env, headless_service
from gpu_core.decisions.kubernetes.manifests.launch import Launch
from gpu_core.decisions.kubernetes.manifests.merge import Manifest, cleaned_job, filled, overlaid
from gpu_core.decisions.kubernetes.manifests.names import KUEUE_QUEUE_LABEL, NAME_LABEL, RANK_LABEL
from gpu_core.decisions.kubernetes.manifests.pod import (
    attempt_annotations,
    attempt_labels,
    named_by_label,
    pod_template,
)
from gpu_core.decisions.model.errors import InvalidInput
from gpu_core.decisions.policy.kubernetes import KubernetesPolicy


@dataclass(frozen=True, slots=True, kw_only=True)
class Manifests:
    """The objects to create for an attempt. What exists already under its name is already done."""

    jobs: tuple[Manifest, ...]
    """One; for a gang on a cluster before 1.26 one for each node, rank 0 first."""
    service: Manifest | None = None
    """To create after the first Job, which then owns it (`owned_by`)."""


def build_job(template: Mapping[str, Any], launch: Launch, policy: KubernetesPolicy) -> Manifests:
    """The objects that run this attempt.

    Args:
        template: The pool's job manifest as Prefect rendered it, with the run's variables in it.
            It is not changed.
        policy: The policy's section `kubernetes`.

    Raises:
        InvalidInput: The template is no Job, or the run asks for what cannot be had; the field is
            named as the run's owner wrote it.
    """
    base = cleaned_job(template)
    if base.get("kind", "Job") != "Job":
        raise InvalidInput(
            "job_manifest.kind", "is not a Job", got=base["kind"], allowed="Job (batch/v1)"
        )
    if not launch.is_gang:
        nodes = launch.node_names
        job = _job(base, launch, policy, launch.name, node_names=nodes)
        return Manifests(jobs=(_with_one_pod(job, policy),))
    service = headless_service(launch, policy, base.get("metadata", {}).get("namespace"))
    service["metadata"]["labels"] = attempt_labels(launch)
    known = policy.capabilities
    # Kueue admits a Job at a time: a gang in several could be admitted in part.
    if known.gangs_in_one_job or (known.indexed_jobs and policy.kueue_queue is not None):
        return Manifests(jobs=(_indexed_job(base, launch, policy),), service=service)
    jobs = tuple(_job_of_rank(base, launch, policy, rank) for rank in range(launch.shape.nodes))
    return Manifests(jobs=jobs, service=service)


def owned_by(manifest: Mapping[str, Any], job: Mapping[str, Any]) -> Manifest:
    """The manifest as property of this Job, so that Kubernetes deletes it with the Job.

    Args:
        job: The Job as the API returned it: it has a uid.
    """
    owner = {
        "apiVersion": job["apiVersion"],
        "kind": job["kind"],
        "name": job["metadata"]["name"],
        "uid": job["metadata"]["uid"],
    }
    return overlaid(dict(manifest), {"metadata": {"ownerReferences": [owner]}})


def _indexed_job(base: Manifest, launch: Launch, policy: KubernetesPolicy) -> Manifest:
    job = _job(
        base,
        launch,
        policy,
        launch.name,
        node_names=launch.node_names,
        extra_env=gang_env(launch, policy, None),
    )
    size = {"completions": launch.shape.nodes, "parallelism": launch.shape.nodes}
    job["spec"].update(size, completionMode="Indexed")
    job["spec"]["template"]["spec"]["subdomain"] = launch.name
    return job


def _job_of_rank(base: Manifest, launch: Launch, policy: KubernetesPolicy, rank: int) -> Manifest:
    """One node's Job; its pod gets the host name that an Indexed Job would have given it."""
    name = f"{launch.name}-{rank}"
    job = _job(
        base,
        launch,
        policy,
        name,
        node_names=launch.node_names[rank : rank + 1],
        extra_env=gang_env(launch, policy, rank),
    )
    job["spec"]["template"]["spec"].update(hostname=name, subdomain=launch.name)
    own = {"labels": {RANK_LABEL: str(rank)}}
    job["metadata"] = overlaid(job["metadata"], own)
    job["spec"]["template"]["metadata"] = overlaid(job["spec"]["template"]["metadata"], own)
    return _with_one_pod(job, policy)


def _with_one_pod(job: Manifest, policy: KubernetesPolicy) -> Manifest:
    """The Job, with no two pods of it on nodes at a time where Kubernetes does not see to that."""
    if policy.capabilities.pod_failure_policy:
        return job
    pod = job["spec"]["template"]["spec"]
    alone = one_pod_at_a_time(job["metadata"]["name"])
    pod["affinity"] = combined_affinity(pod.get("affinity", {}), alone)
    return job


def _job(
    base: Manifest,
    launch: Launch,
    policy: KubernetesPolicy,
    name: str,
    *,
    node_names: Sequence[str],
    extra_env: Sequence[Manifest] = (),
) -> Manifest:
    pinned = () if policy.kueue_queue is not None else node_names
    named = named_by_label(base.get("metadata", {}))
    metadata = overlaid(
        named,
        {
            "name": name,
            "labels": attempt_labels(launch),
            "annotations": attempt_annotations(launch),
        },
    )
    spec = {key: value for key, value in base.get("spec", {}).items() if key not in _NOT_OURS}
    spec = filled(spec, {"ttlSecondsAfterFinished": policy.kept_after_end_s})
    spec |= {"backoffLimit": 0, "completions": 1, "parallelism": 1}
    if policy.capabilities.pod_failure_policy:
        spec["podFailurePolicy"] = _failure_policy(base.get("spec", {}))
    if policy.kueue_queue is not None:
        metadata = overlaid(metadata, {"labels": {KUEUE_QUEUE_LABEL: policy.kueue_queue}})
        spec["suspend"] = True
    pod = filled(spec.get("template", {}), {"metadata": {"labels": _name_label(named)}})
    spec["template"] = pod_template(pod, launch, policy, node_names=pinned, extra_env=extra_env)
    return {"apiVersion": "batch/v1", "kind": "Job", "metadata": metadata, "spec": spec}


def _name_label(metadata: Manifest) -> dict[str, str]:
    labels = metadata.get("labels", {})
    return {NAME_LABEL: labels[NAME_LABEL]} if NAME_LABEL in labels else {}


# What would give Kubernetes a say in retries, or only makes sense together with such, and what
# would make the Job controller count the pods of other Jobs.
_NOT_OURS = frozenset(
    {
        "backoffLimitPerIndex",
        "completionMode",
        "manualSelector",
        "maxFailedIndexes",
        "podFailurePolicy",
        "podReplacementPolicy",
        "selector",
        "successPolicy",
    }
)

_DISRUPTED: Manifest = {
    "action": "FailJob",
    "onPodConditions": [{"type": "DisruptionTarget", "status": "True"}],
}
"""An eviction ends the Job for the reason PodFailurePolicy, which nothing else does. `Ignore` would
make Kubernetes start another pod while the worker starts another attempt: the run would run twice.
It comes first, because the first rule that matches counts."""


def _failure_policy(spec: Mapping[str, Any]) -> Manifest:
    """Ours first; of the template's rules those that end the Job, which here adds a reason."""
    theirs = spec.get("podFailurePolicy", {}).get("rules", [])
    ending = (_with_status(rule) for rule in theirs if rule.get("action") == "FailJob")
    return {"rules": [_DISRUPTED, *(rule for rule in ending if rule != _DISRUPTED)]}


def _with_status(rule: Manifest) -> Manifest:
    # Required by the API before 1.35, and what it means after.
    conditions = rule.get("onPodConditions")
    if conditions is None:
        return rule
    return {**rule, "onPodConditions": [{"status": "True", **item} for item in conditions]}
