"""The meaning of the API server's refusals, and the person who can lift them."""

import re
from fractions import Fraction

from gpu_core.decisions.kubernetes.variables.quantities import parse_quantity
from gpu_core.decisions.model.errors import InvalidInput

# The words of RBAC (Kubernetes 1.20 to 1.34, `pkg/registry/authorization`); admission has others.
_RIGHT = re.compile(
    r'cannot (?P<verb>\w+) resource "(?P<resource>[^"]+)"'
    r'(?: in API group "(?P<group>[^"]*)")?'
    r'(?: in the namespace "(?P<namespace>[^"]+)"| at the cluster scope)?'
)
_WEBHOOK = re.compile(
    r'admission webhook "(?P<name>[^"]+)" denied the request:?\s*(?P<why>.*)', re.DOTALL
)
_NAMESPACE_ENDS = re.compile(
    r"unable to create new content in namespace (?P<name>\S+) because it is being terminated"
)
_NO_NAMESPACE = re.compile(r'namespaces "(?P<name>[^"]+)" not found')

GRANTED_BY = "the permission is granted by the Helm chart infra/helm/prefect-gpu"
"""The place of all rights of the worker, as a clause."""

# A webhook may quote the whole object.
_LONGEST_REASON = 600


def is_of_quota(message: str) -> bool:
    """Has a ResourceQuota no room for it just now? That passes when other objects go.

    A quota that asks for what the object does not say ("failed quota") refuses it whenever it is
    tried, and so does one that is smaller than what it wants.
    """
    is_new = "status unknown for quota" in message or "insufficient quota" in message
    return is_new or ("exceeded quota" in message and not is_over_quota(message))


# The words of its admission (Kubernetes 1.20 to 1.34, `plugin/pkg/admission/resourcequota`).
_EXCEEDED = re.compile(
    r"exceeded quota: [^,]+, requested: (?P<wanted>\S+), used: \S+, limited: (?P<limits>\S+)"
)


def is_over_quota(message: str) -> bool:
    """Does it want more than a ResourceQuota of its namespace allows in all?"""
    found = _EXCEEDED.search(message)
    if found is None:
        return False
    wanted, limits = _amounts(found["wanted"]), _amounts(found["limits"])
    return any(amount > limits.get(name, amount) for name, amount in wanted.items())


def _amounts(text: str) -> dict[str, Fraction]:
    """`a=1,b=2Gi` as numbers; empty: it is something else."""
    try:
        pairs = [item.partition("=") for item in text.rstrip(".").split(",")]
        return {name: parse_quantity(value, name) for name, _, value in pairs}
    except InvalidInput:
        return {}


def missing_right(message: str) -> str | None:
    """The right that the worker lacks; None: this is not a message of RBAC.

    Args:
        message: What the API server answered with 403.

    Returns:
        A clause, such as "create jobs.batch in namespace 'ml'".
    """
    found = _RIGHT.search(message)
    if found is None:
        return None
    group, namespace = found["group"], found["namespace"]
    resource = f"{found['resource']}.{group}" if group else found["resource"]
    place = "in all namespaces" if namespace is None else f"in namespace {namespace!r}"
    return f"{found['verb']} {resource} {place}"


# The words of the kubelet, of ServiceAccount and Priority admission and of the kube-scheduler
# (Kubernetes 1.20 to 1.34).
_MISSING = re.compile(
    r'\b(?P<kind>secret|configmap|serviceaccount|persistentvolumeclaim) "(?P<name>[^"]+)" not found'
)
_NO_KEY = re.compile(r"couldn't find key (?P<key>\S+) in (?P<kind>Secret|ConfigMap) (?P<name>\S+)")
_NO_PRIORITY_CLASS = re.compile(r"no PriorityClass with name (?P<name>\S+) was found")
_KINDS = {
    "secret": "Secret",
    "configmap": "ConfigMap",
    "serviceaccount": "ServiceAccount",
    "persistentvolumeclaim": "PersistentVolumeClaim",
}


def how_to_supply(message: str) -> str | None:
    """The remedy where a pod names an object that does not exist.

    None: the message says no such thing.

    Args:
        message: Of a pod that waits, or of the refusal of one.
    """
    where = "its name in the run's job variables, the pool's template or the policy"
    key = _NO_KEY.search(message)
    if key is not None:
        return f"Add the key {key['key']!r} to {key['kind']} {key['name']}, or correct {where}."
    priority = _NO_PRIORITY_CLASS.search(message)
    if priority is not None:
        return (
            f"Create PriorityClass {priority['name']!r} (the Helm chart has those of the policy's "
            f"queues), correct it in the pool's template, or set the policy's "
            f"kubernetes.priority_classes to false."
        )
    found = _MISSING.search(message)
    if found is None:
        return None
    kind = _KINDS[found["kind"]]
    return f"Create {kind} {found['name']!r} in the namespace of the run, or correct {where}."


def why_refused(message: str) -> str:
    """The reason why an object can never be made as it is, with the remedy.

    Returns:
        Sentences for the run's page.
    """
    right = missing_right(message)
    if right is not None:
        return (
            f"The worker is not permitted to {right}. Add the namespace to "
            "`runs.namespaces` in the Helm chart or correct the `namespace` variable of the "
            "pool or run."
        )
    namespace = _NAMESPACE_ENDS.search(message)
    if namespace is not None:
        return (
            f"The namespace {namespace['name']!r} is being deleted. Recreate it after its "
            "deletion or correct the `namespace` variable of the pool or run, then submit "
            "the run again."
        )
    namespace = _NO_NAMESPACE.search(message)
    if namespace is not None:
        return (
            f"Namespace {namespace['name']!r} was not found in the cluster. Create it or "
            "correct the `namespace` variable of the pool or run."
        )
    if is_over_quota(message):
        return (
            "The request exceeds the total of a ResourceQuota in its namespace: "
            f"{_clause(message)}. You can increase the quota or reduce the request."
        )
    webhook = _WEBHOOK.search(message)
    if webhook is not None:
        return (
            f"Admission webhook {webhook['name']!r} denied the request: "
            f"{_clause(webhook['why'])}. Please change the base job template, the run's job "
            "variables or the webhook's rule."
        )
    return (
        f"The cluster rejected the request: {_clause(message)}. Please correct the pool's "
        "base job template or the run's job variables."
    )


def _clause(text: str) -> str:
    return " ".join(text.split())[:_LONGEST_REASON].rstrip(".") or "no reason was provided"
