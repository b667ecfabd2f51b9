"""Rules about the objects around the runs: NodePools, disruption budgets, alerts."""

import json
import re
from collections.abc import Iterator
from typing import Any

from gpu_core.decisions.kubernetes.lint.findings import (
    LintFinding,
    ObjectPlace,
    Severity,
    mapping,
    objects,
)
from gpu_core.decisions.kubernetes.manifests.names import PREFIX
from gpu_core.decisions.model.errors import InvalidInput
from gpu_core.decisions.model.units import parse_duration_s

_NEW_KINDS = {"Provisioner": "NodePool", "AWSNodeTemplate": "EC2NodeClass"}

# Not in DCGM exporter's default counters, nor in those of the GPU operator (4.6, operator 26.7).
_MISSING_METRICS = re.compile(
    r"DCGM_FI_DEV_FB_TOTAL|DCGM_FI_DEV_ECC_\w+|DCGM_FI_DEV_(?:POWER|THERMAL)_VIOLATION"
    r"|DCGM_FI_PROF_SM_\w+"
)


def old_karpenter(place: ObjectPlace) -> Iterator[LintFinding]:
    """Kinds and fields of Karpenter before v1, which v1 refuses or drops."""
    kind, version = str(place.manifest.get("kind")), str(place.manifest.get("apiVersion"))
    if kind in _NEW_KINDS and version.startswith("karpenter."):
        yield LintFinding(
            code="karpenter-old-kind",
            path="kind",
            problem=f"{kind} is not supported by Karpenter v1",
            remedy=f"write a {_NEW_KINDS[kind]}",
        )
    if kind != "NodePool":
        return
    disruption = mapping(place.spec.get("disruption"))
    if disruption.get("consolidationPolicy") == "WhenUnderutilized":
        yield LintFinding(
            code="karpenter-old-field",
            path="spec.disruption.consolidationPolicy",
            problem="WhenUnderutilized is v1beta1's",
            remedy="use WhenEmptyOrUnderutilized, or WhenEmpty for GPUs",
        )
    if "expireAfter" in disruption:
        yield LintFinding(
            code="karpenter-old-field",
            path="spec.disruption.expireAfter",
            problem="this field was moved in v1 and is ignored here",
            remedy="move it to spec.template.spec.expireAfter",
        )
    if "resources" in mapping(place.spec.get("limits")):
        yield LintFinding(
            code="karpenter-old-field",
            path="spec.limits.resources",
            problem="limits are not nested in v1",
            remedy="move its entries to spec.limits",
        )


def forced_end(place: ObjectPlace) -> Iterator[LintFinding]:
    """A NodePool's patience is longer than the grace of the pods on it."""
    template = mapping(mapping(place.spec.get("template")).get("spec"))
    patience = template.get("terminationGracePeriod")
    if place.manifest.get("kind") != "NodePool" or patience is None:
        return
    patience_s, grace_s = _seconds(patience), place.policy.termination_grace_s
    if patience_s is not None and patience_s <= grace_s:
        yield LintFinding(
            code="karpenter-forced-end",
            path="spec.template.spec.terminationGracePeriod",
            problem=f"pods with a grace period of {grace_s} seconds are forcibly deleted "
            "without the condition that indicates an eviction",
            remedy="must be longer than `kubernetes.termination_grace` in the policy",
            severity=Severity.WARNING,
        )


def requirements(place: ObjectPlace) -> Iterator[LintFinding]:
    """A NodePool requires no label that only exists on nodes."""
    if place.manifest.get("kind") != "NodePool":
        return
    template = mapping(mapping(place.spec.get("template")).get("spec"))
    for index, item in objects(template.get("requirements")):
        key = str(item.get("key"))
        if key in ("kubernetes.io/hostname", "karpenter.sh/nodepool"):
            yield LintFinding(
                code="karpenter-requirement",
                path=f"spec.template.spec.requirements[{index}]",
                problem=f"{key} is rejected as a requirement",
                remedy="leave it out",
            )
        if key.endswith("instance-gpu-count") and item.get("operator") in ("Gte", "Lte"):
            yield LintFinding(
                code="karpenter-new-operator",
                path=f"spec.template.spec.requirements[{index}].operator",
                problem=f"{item['operator']} requires Karpenter 1.13 or newer",
                remedy="use Gt or Lt with an adjusted value",
                severity=Severity.WARNING,
            )


def disruption_budget(place: ObjectPlace) -> Iterator[LintFinding]:
    """No disruption budget keeps runs from getting notice of their node's end."""
    if place.manifest.get("kind") != "PodDisruptionBudget":
        return
    allows_none = str(place.spec.get("maxUnavailable")) in ("0", "0%")
    needs_all = str(place.spec.get("minAvailable")) == "100%"
    is_about_runs = PREFIX in json.dumps(place.spec.get("selector"), default=str)
    if is_about_runs and (allows_none or needs_all):
        yield LintFinding(
            code="spot-disruption-budget",
            path="spec",
            problem=(
                "this blocks the drain of a node before its termination, so runs do not "
                "receive SIGTERM"
            ),
            remedy="delete it, because disruptions are managed by the worker",
        )


def missing_metrics(place: ObjectPlace) -> Iterator[LintFinding]:
    """No alert waits for a metric that is not exported."""
    if place.manifest.get("kind") != "PrometheusRule":
        return
    for number, group in objects(place.spec.get("groups")):
        for index, rule in objects(group.get("rules")):
            for name in sorted(set(_MISSING_METRICS.findall(str(rule.get("expr"))))):
                yield LintFinding(
                    code="metric-not-exported",
                    path=f"spec.groups[{number}].rules[{index}].expr",
                    problem=(
                        f"{name} is not one of DCGM exporter's default counters, so the "
                        "alert never fires"
                    ),
                    remedy="add the counter to the exporter or use FB_USED, FB_FREE, XID_ERRORS",
                    severity=Severity.WARNING,
                )


def _seconds(duration: Any) -> int | None:
    try:
        return parse_duration_s(duration, "duration")
    except InvalidInput:
        return None


OBJECT_RULES = (
    old_karpenter,
    forced_end,
    requirements,
    disruption_budget,
    missing_metrics,
)
