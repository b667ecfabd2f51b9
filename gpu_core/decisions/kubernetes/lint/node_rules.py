"""Rules about the nodes that a pod asks for, and about how it leaves them."""

from collections.abc import Iterator

from gpu_core.decisions.kubernetes.lint.findings import (
    LintFinding,
    PodPlace,
    Severity,
    items,
    mapping,
    objects,
)
from gpu_core.decisions.kubernetes.nodes.clouds import LAUNCHES_BY_LABEL, termination_warning_s
from gpu_core.decisions.model.cluster import SPOT
from gpu_core.decisions.policy.kubernetes import LEAST_TERMINATION_GRACE_S

# Kubernetes' own default.
_DEFAULT_GRACE_S = 30

_OPERATORS = frozenset({"In", "NotIn", "Exists", "DoesNotExist", "Gt", "Lt"})
_DO_NOT_DISRUPT = "karpenter.sh/do-not-disrupt"
_OLD_ANNOTATIONS = frozenset({"karpenter.sh/do-not-evict", "karpenter.sh/do-not-consolidate"})

# Labels that a node gets from what runs on it, so only after it has joined.
_LATE_PREFIXES = ("nvidia.com/", "feature.node.kubernetes.io/", "prefect-gpu.dev/")
# Karpenter's own domains are closed: any other key of theirs is a typing error (AWS provider 1.14).
_INSTANCE_KEYS = (
    *("category", "family", "generation", "size", "tenancy", "hypervisor", "local-nvme"),
    *("cpu", "cpu-manufacturer", "cpu-sustained-clock-speed-mhz", "memory", "capability-flex"),
    *("ebs-bandwidth", "network-bandwidth", "encryption-in-transit-supported"),
    *("gpu-name", "gpu-manufacturer", "gpu-count", "gpu-memory"),
    *("accelerator-name", "accelerator-manufacturer", "accelerator-count"),
)
_KARPENTER_KEYS = frozenset(
    {
        "karpenter.sh/capacity-type",
        "karpenter.sh/nodepool",
        "karpenter.k8s.aws/ec2nodeclass",
        *(f"karpenter.k8s.aws/instance-{name}" for name in _INSTANCE_KEYS),
        *(f"karpenter.k8s.aws/capacity-reservation-{n}" for n in ("id", "type", "interruptible")),
        *(f"karpenter.k8s.aws/placement-group-{name}" for name in ("id", "partition")),
    }
)


def operators(pod: PodPlace) -> Iterator[LintFinding]:
    """Node affinity has fewer operators than a NodePool, and compares with one number."""
    for path, condition in pod.conditions():
        operator, values = str(condition.get("operator")), items(condition.get("values"))
        if operator not in _OPERATORS:
            yield LintFinding(
                code="affinity-operator",
                path=path,
                problem=f"{operator!r} is not a valid node affinity operator",
                remedy="use Gt or Lt with an adjusted value, for example Gt 3 instead of Gte 4",
            )
        elif operator in ("Gt", "Lt") and not (len(values) == 1 and str(values[0]).isdigit()):
            yield LintFinding(
                code="affinity-number",
                path=path,
                problem=f"{operator} requires exactly one integer value",
                remedy="specify one number as a string",
            )


def node_fields(pod: PodPlace) -> Iterator[LintFinding]:
    """A node is named by one field selector with one name."""
    for path, term in pod.node_terms():
        for index, field in objects(term.get("matchFields")):
            if field.get("key") != "metadata.name" or len(items(field.get("values"))) != 1:
                yield LintFinding(
                    code="affinity-field",
                    path=f"{path}.matchFields[{index}]",
                    problem="only metadata.name with a single value is supported",
                    remedy="use a separate nodeSelectorTerm for each node",
                )
    if pod.spec.get("nodeName"):
        yield LintFinding(
            code="node-name",
            path=pod.at("spec.nodeName"),
            problem="this bypasses the kube-scheduler and its checks for available resources",
            remedy="use node affinity to select the node by name",
        )


def launchable_labels(pod: PodPlace) -> Iterator[LintFinding]:
    """Labels that keep Karpenter from launching: those that come with the node or are never set."""
    if pod.policy.provisioner not in LAUNCHES_BY_LABEL or pod.is_pinned:
        return
    for path, condition in pod.conditions():
        key = str(condition.get("key"))
        is_ours = any(key in labels for labels in pod.policy.gpu_type_labels.values())
        if is_ours or condition.get("operator") in ("NotIn", "DoesNotExist"):
            continue
        if key.startswith(_LATE_PREFIXES) or key == "kubernetes.io/hostname":
            yield LintFinding(
                code="karpenter-late-label",
                path=path,
                problem=f"{key} is only set after a node has joined, so no node is "
                "provisioned and the pod remains pending",
                remedy="use karpenter.k8s.aws/instance-gpu-name or declare the label on the "
                "NodePool",
            )
        elif key.startswith("karpenter.") and key not in _KARPENTER_KEYS:
            yield LintFinding(
                code="karpenter-unknown-label",
                path=path,
                problem=f"{key} is not a well-known Karpenter label",
                remedy="use one of the well-known labels",
            )


def disruption(pod: PodPlace) -> Iterator[LintFinding]:
    """A pod on spot capacity may be evicted, or it gets no notice of its end."""
    annotations = mapping(pod.metadata.get("annotations"))
    path = pod.at("metadata.annotations")
    for name in sorted(_OLD_ANNOTATIONS & annotations.keys()):
        yield LintFinding(
            code="karpenter-old-annotation",
            path=f"{path}.{name}",
            problem="not supported by Karpenter v1",
            remedy=f"write {_DO_NOT_DISRUPT}",
        )
    if pod.is_spot and _DO_NOT_DISRUPT in annotations:
        yield LintFinding(
            code="spot-do-not-disrupt",
            path=f"{path}.{_DO_NOT_DISRUPT}",
            problem=(
                "Karpenter does not evict the pod on an interruption warning, so no SIGTERM is sent"
            ),
            remedy="remove it for spot capacity",
        )


def grace(pod: PodPlace) -> Iterator[LintFinding]:
    """The grace period is long enough for Prefect, and no longer than the provider's warning."""
    path = pod.at("spec.terminationGracePeriodSeconds")
    grace_s = pod.spec.get("terminationGracePeriodSeconds", _DEFAULT_GRACE_S)
    if not isinstance(grace_s, int):
        return
    if grace_s < LEAST_TERMINATION_GRACE_S and _runs_a_flow(pod):
        yield LintFinding(
            code="grace-too-short",
            path=path,
            problem=(
                f"the grace period is {grace_s} seconds, but Prefect requires up to 30 "
                "seconds to stop and report a flow run"
            ),
            remedy=f"must be at least {LEAST_TERMINATION_GRACE_S}",
        )
    warning_s = termination_warning_s(pod.policy.provisioner, SPOT) if pod.is_spot else None
    if warning_s is not None and grace_s > max(warning_s, LEAST_TERMINATION_GRACE_S):
        yield LintFinding(
            code="grace-beyond-warning",
            path=path,
            problem=(
                f"the provider terminates the node {warning_s} seconds after the "
                f"warning, before the grace period of {grace_s} seconds"
            ),
            remedy=f"must be less than {warning_s} seconds",
            severity=Severity.WARNING,
        )


def _runs_a_flow(pod: PodPlace) -> bool:
    return any(
        "flow-run" in [*items(c.get("args")), *items(c.get("command"))] for _, c in pod.containers()
    )


NODE_RULES = (operators, node_fields, launchable_labels, disruption, grace)
