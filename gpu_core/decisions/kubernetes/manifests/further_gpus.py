"""GPUs that other containers of a pod ask for, next to the container of the run.

The scheduler places a pod with the GPUs of the run's container, so nothing else in the pod may add
to them. Kubernetes counts a pod as the larger of two numbers, for each resource by itself: what its
containers and restartable init containers need together, and what each init container needs. So
another container or a restartable init container may ask for none, and an init container for no
more than the run's container.

Source: kubernetes.io, "Init Containers", resource sharing within containers (1.34).
"""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

from gpu_core.decisions.kubernetes.variables.quantities import parse_quantity
from gpu_core.decisions.model.errors import InvalidInput
from gpu_core.decisions.policy.kubernetes import KubernetesPolicy
from gpu_core.decisions.policy.sharing import MIG_PREFIX

_POD = "job_manifest.spec.template.spec"


@dataclass(frozen=True, slots=True, kw_only=True)
class FurtherRequest:
    """An extended resource that a container asks for, and that is not the run's container."""

    field: str
    resource: str
    amount: Fraction
    is_before_run: bool
    """An init container that ends before the run's container starts."""


def is_gpu_resource(name: str, policy: KubernetesPolicy) -> bool:
    """Is this extended resource one of GPUs?

    Those are the policy's own names, MIG instances, and all with `gpu` in their name, as in
    `amd.com/gpu`, `nvidia.com/gpu.shared` or `gpu.intel.com/i915`.
    """
    if name in policy.all_gpu_resources or name in policy.all_shared_gpu_resources:
        return True
    return "/" in name and (name.startswith(MIG_PREFIX) or "gpu" in name.lower())


def plannable(gpus: Mapping[str, int], policy: KubernetesPolicy) -> dict[str, int]:
    """The GPUs that a run may get before its node is known, by each name that they may have.

    Args:
        gpus: As the policy names them where no node is known.
    """
    most = max(gpus.values(), default=0)
    names = policy.all_gpu_resources | policy.all_shared_gpu_resources
    return {**dict.fromkeys(names if most else (), most), **gpus}


def further_requests(pod_spec: Mapping[str, Any], main: int) -> tuple[FurtherRequest, ...]:
    """The extended resources that containers other than the run's ask for.

    Args:
        pod_spec: Rendered. What cannot be read in it, as it is not resolved yet, is left out.
    """
    return tuple(_requests(pod_spec, main))


def unplanned(
    requests: Iterable[FurtherRequest], planned: Mapping[str, int], policy: KubernetesPolicy
) -> Iterator[InvalidInput]:
    """The errors for requests that take GPUs beyond the plan.

    Args:
        requests: Of the containers that are not the run's.
        planned: The GPUs of the run's container, by resource name.
    """
    for each in requests:
        most = planned.get(each.resource, 0) if each.is_before_run else 0
        if is_gpu_resource(each.resource, policy) and each.amount > most:
            yield InvalidInput(
                each.field,
                "requests GPUs that were not planned by the scheduler",
                got=f"{each.resource}: {float(each.amount):g}",
                allowed=(
                    f"at most {most}, as many as the run's own container"
                    if each.is_before_run
                    else "none: the GPUs of a run are those of its own container"
                ),
                remedy="remove the resource from this container",
            )


def _requests(pod_spec: Mapping[str, Any], main: int) -> Iterator[FurtherRequest]:
    for kind in ("initContainers", "containers"):
        found = pod_spec.get(kind)
        for index, container in enumerate(found if isinstance(found, list) else ()):
            if not isinstance(container, Mapping) or (kind == "containers" and index == main):
                continue
            is_before = kind == "initContainers" and container.get("restartPolicy") != "Always"
            for resource, amount in _amounts(container.get("resources")).items():
                yield FurtherRequest(
                    field=f"{_POD}.{kind}[{index}].resources",
                    resource=resource,
                    amount=amount,
                    is_before_run=is_before,
                )


def _amounts(resources: object) -> dict[str, Fraction]:
    """The larger of limit and request, which the API server wants to be equal."""
    found: dict[str, Fraction] = {}
    for kind in ("limits", "requests"):
        amounts = resources.get(kind) if isinstance(resources, Mapping) else None
        for name, value in (amounts if isinstance(amounts, Mapping) else {}).items():
            if "/" not in str(name):
                continue
            try:
                amount = parse_quantity(value, str(name))
            except InvalidInput:  # a placeholder; the start looks again
                continue
            found[str(name)] = max(amount, found.get(str(name), Fraction()))
    return found
