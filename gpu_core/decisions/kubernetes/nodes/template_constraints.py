"""The node constraints of the platform team's template, in addition to those of a run.

What the kube-scheduler asks of a node is asked before a run is placed on it: its pod would wait
there in vain. What a run's variables fill in is not known then, and is taken to hold.
"""

import re
from collections.abc import Mapping
from typing import Any

PodSpec = Mapping[str, Any]


def pod_spec_of(base_job_template: Mapping[str, Any]) -> PodSpec:
    """The pod's spec of a pool's base job template; empty: it has none."""
    found: Any = base_job_template
    for name in ("job_configuration", "job_manifest", "spec", "template", "spec"):
        found = found.get(name) if isinstance(found, Mapping) else None
    return found if isinstance(found, Mapping) else {}


def admits(pod_spec: PodSpec, node: Mapping[str, Any]) -> bool:
    """Do the template's node selector and its required node affinity let pods on this node?"""
    labels: Mapping[str, str] = node["metadata"].get("labels") or {}
    selector = pod_spec.get("nodeSelector")
    if isinstance(selector, Mapping):
        for name, value in selector.items():
            if not _is_open(name, value) and labels.get(name) != value:
                return False
    terms = _required_terms(pod_spec)
    return terms is None or any(_matches(term, node["metadata"]["name"], labels) for term in terms)


def untolerated(taints: frozenset[str], pod_spec: PodSpec) -> frozenset[str]:
    """The taints among these that the template does not tolerate.

    Args:
        taints: In the words of `node_health.taint_text`: `key=value:effect`.
    """
    found = pod_spec.get("tolerations")
    listed = found if isinstance(found, list) else []
    tolerations = [item for item in listed if isinstance(item, Mapping)]
    return frozenset(
        taint for taint in taints if not any(_tolerates(item, taint) for item in tolerations)
    )


def _tolerates(toleration: Mapping[str, Any], taint: str) -> bool:
    """As Kubernetes has it: without an effect all, `Exists` any value, without a key any taint."""
    # What the policy says of nodes to come may leave out the effect.
    rest, _, effect = taint.rpartition(":") if ":" in taint else (taint, "", "")
    key, _, value = rest.partition("=")
    if effect and toleration.get("effect") not in (None, "", effect):
        return False
    if toleration.get("operator", "Equal") == "Exists":
        return toleration.get("key") in (None, "", key)
    return toleration.get("key") == key and (toleration.get("value") or "") == value


def _required_terms(pod_spec: PodSpec) -> list[Any] | None:
    """The alternatives of the required node affinity; None: there is none that is known."""
    found: Any = pod_spec.get("affinity")
    for name in (
        "nodeAffinity",
        "requiredDuringSchedulingIgnoredDuringExecution",
        "nodeSelectorTerms",
    ):
        found = found.get(name) if isinstance(found, Mapping) else None
    return found if isinstance(found, list) else None


def _matches(term: object, name: str, labels: Mapping[str, str]) -> bool:
    if not isinstance(term, Mapping):
        return True
    of_fields = _all(term.get("matchFields"), {"metadata.name": name})
    return of_fields and _all(term.get("matchExpressions"), labels)


def _all(expressions: object, values: Mapping[str, str]) -> bool:
    if not isinstance(expressions, list):
        return True
    return all(_holds(e, values) for e in expressions if isinstance(e, Mapping))


def _holds(expression: Mapping[str, Any], values: Mapping[str, str]) -> bool:
    value, wanted = values.get(str(expression.get("key"))), expression.get("values") or ()
    if _is_open(expression.get("key"), wanted, *(wanted if isinstance(wanted, list) else ())):
        return True
    match expression.get("operator"):
        case "In":
            return value in wanted
        case "NotIn":
            return value not in wanted
        case "Exists":
            return value is not None
        case "DoesNotExist":
            return value is None
        case "Gt" | "Lt" as operator:
            return _compares(operator, value, wanted)
        case _:
            return True


def _compares(operator: str, value: str | None, wanted: Any) -> bool:
    """Whole numbers, as Kubernetes demands here; what is none fits nothing."""
    try:
        one, other = int(value or ""), int(wanted[0])
    except (ValueError, IndexError, TypeError):
        return False
    return one > other if operator == "Gt" else one < other


def _is_open(*texts: object) -> bool:
    """Does a variable of the run say it?"""
    return any(isinstance(text, str) and re.search(r"\{\{.*\}\}", text) for text in texts)
