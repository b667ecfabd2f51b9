"""The linter: every rule over every place of a manifest that it is about."""

from collections.abc import Callable, Iterator, Mapping
from typing import Any

from gpu_core.decisions.kubernetes.lint.findings import (
    JobPlace,
    LintFinding,
    ObjectPlace,
    PodPlace,
    items,
    mapping,
)
from gpu_core.decisions.kubernetes.lint.gpu_rules import GPU_RULES, asks_for_gpus
from gpu_core.decisions.kubernetes.lint.job_rules import JOB_RULES
from gpu_core.decisions.kubernetes.lint.node_rules import NODE_RULES
from gpu_core.decisions.kubernetes.lint.object_rules import OBJECT_RULES
from gpu_core.decisions.kubernetes.lint.secret_rules import SECRET_RULES
from gpu_core.decisions.kubernetes.lint.security_rules import SECURITY_RULES
from gpu_core.decisions.kubernetes.manifests.names import PREFIX
from gpu_core.decisions.policy.kubernetes import KubernetesPolicy

_NODE_POD_RULES: tuple[Callable[[PodPlace], Iterator[LintFinding]], ...] = (
    *GPU_RULES,
    *NODE_RULES,
    *SECRET_RULES,
)
_POD_RULES = (*_NODE_POD_RULES, *SECURITY_RULES)


def lint(manifest: Mapping[str, Any], policy: KubernetesPolicy) -> tuple[LintFinding, ...]:
    """The mistakes in this manifest that its schema does not find.

    Args:
        manifest: Any Kubernetes object; kinds that no rule is about have no findings.

    Returns:
        Findings in the order of the rules; none: nothing was found.
    """
    found = [
        f for rule in OBJECT_RULES for f in rule(ObjectPlace(manifest=manifest, policy=policy))
    ]
    for job in filter(_is_run, _jobs(manifest, policy)):
        found += [finding for rule in JOB_RULES for finding in rule(job)]
    # What runs on every node, such as a device plugin, needs what `restricted` forbids.
    rules = _NODE_POD_RULES if manifest.get("kind") == "DaemonSet" else _POD_RULES
    for pod in _pods(manifest, "", policy):
        found += [finding for rule in rules for finding in rule(pod)]
    return tuple(found)


def _jobs(manifest: Mapping[str, Any], policy: KubernetesPolicy) -> Iterator[JobPlace]:
    spec = mapping(manifest.get("spec"))
    match manifest.get("kind"):
        case "Job":
            yield JobPlace(path="spec", spec=spec, policy=policy)
        case "CronJob":
            template = mapping(mapping(spec.get("jobTemplate")).get("spec"))
            yield JobPlace(path="spec.jobTemplate.spec", spec=template, policy=policy)


def _is_run(job: JobPlace) -> bool:
    """Does it run work on GPUs, or for Prefect? A chart's hook may try as often as it likes."""
    labels = mapping(mapping(mapping(job.spec.get("template")).get("metadata")).get("labels"))
    pod = PodPlace(path="", metadata={}, spec=job.pod_spec, policy=job.policy)
    return any(str(name).startswith(_RUN_LABELS) for name in labels) or asks_for_gpus(pod)


_RUN_LABELS = (PREFIX, "prefect.io/")


def _pods(value: Any, path: str, policy: KubernetesPolicy) -> Iterator[PodPlace]:
    """Every pod or template of one in a manifest of any kind: it has a spec with containers."""
    if isinstance(value, Mapping):
        spec = mapping(value.get("spec"))
        if items(spec.get("containers")):
            metadata = mapping(value.get("metadata"))
            yield PodPlace(path=path.removeprefix("."), metadata=metadata, spec=spec, policy=policy)
            return
        for key, item in value.items():
            yield from _pods(item, f"{path}.{key}", policy)
    for index, item in enumerate(items(value)):
        yield from _pods(item, f"{path}[{index}]", policy)
