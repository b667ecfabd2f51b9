"""The resources that a pod takes of its node, counted as the kube-scheduler does."""

from collections import defaultdict
from collections.abc import Iterable, Mapping
from fractions import Fraction
from typing import Any

from gpu_core.decisions.kubernetes.variables.quantities import parse_quantity

Requests = Mapping[str, Fraction]
"""By resource name, in base units: cores, bytes, pieces."""

_OVER = frozenset({"Succeeded", "Failed"})


def pod_requests(pod: Mapping[str, Any]) -> Requests:
    """The requests of this pod; none once it has ended.

    The larger of what its containers need together and of what each init container needs with
    the sidecars that have started before it (init containers with `restartPolicy: Always`), plus
    the runtime's overhead. Requests of the pod as a whole come before its containers' sum.

    Source: `k8s.io/component-helpers/resource` (Kubernetes 1.34).

    Raises:
        InvalidInput: A quantity cannot be read.
    """
    if pod.get("status", {}).get("phase") in _OVER:
        return {}
    spec = pod.get("spec", {})
    sidecars: Requests = {}
    peak: Requests = {}
    for container in spec.get("initContainers") or ():
        needs = _of(container)
        if container.get("restartPolicy") == "Always":
            sidecars = _sum((sidecars, needs))
            peak = _most(peak, sidecars)
        else:
            peak = _most(peak, _sum((sidecars, needs)))
    running = _sum((sidecars, *(_of(container) for container in spec.get("containers") or ())))
    total = {**_most(peak, running), **_of(spec)}
    return _sum((total, _quantities(spec.get("overhead"))))


def _of(owner: Mapping[str, Any]) -> Requests:
    """The requests of a container or pod; a limit without a request is its own request."""
    resources = owner.get("resources") or {}
    return {**_quantities(resources.get("limits")), **_quantities(resources.get("requests"))}


def _quantities(amounts: Mapping[str, Any] | None) -> dict[str, Fraction]:
    return {name: parse_quantity(value, name) for name, value in (amounts or {}).items()}


def _sum(parts: Iterable[Requests]) -> Requests:
    total: defaultdict[str, Fraction] = defaultdict(Fraction)
    for part in parts:
        for name, amount in part.items():
            total[name] += amount
    return dict(total)


def _most(one: Requests, other: Requests) -> Requests:
    names = one.keys() | other.keys()
    return {name: max(one.get(name, Fraction()), other.get(name, Fraction())) for name in names}
