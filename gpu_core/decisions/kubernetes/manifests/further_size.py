"""CPU and memory that a pod needs beyond the container of the run.

Kubernetes schedules a pod by the larger of two amounts, for each resource: what its containers and
restartable init containers need together, and what each init container needs. The overhead of the
runtime is added to it.

Source: kubernetes.io, "Init Containers", resource sharing within containers (1.34).
"""

from collections.abc import Mapping
from dataclasses import dataclass
from math import ceil
from typing import Any

from gpu_core.decisions.kubernetes.nodes.pod_requests import pod_requests
from gpu_core.decisions.kubernetes.variables.quantities import parse_quantity
from gpu_core.decisions.model.errors import InvalidInput

_BYTES_PER_MIB = 1024**2
_COUNTED = ("cpu", "memory")

_Spec = Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class FurtherSize:
    """The resources that a pod needs in addition to the container of its run. Made by
    `further_size`."""

    _spec: _Spec
    """The amounts of all containers; those of the run's are left open."""
    _main: int

    def pod_total(self, cpu_milli: int, memory_mib: int) -> tuple[int, int]:
        """The CPU and memory that the pod needs in all, in milli-CPU and MiB, rounded up."""
        own = {"requests": {"cpu": f"{cpu_milli}m", "memory": f"{memory_mib}Mi"}}
        containers = list(self._spec["containers"])
        containers[self._main] = {"resources": own}
        total = pod_requests({"spec": {**self._spec, "containers": containers}})
        return ceil(total["cpu"] * 1000), ceil(total["memory"] / _BYTES_PER_MIB)

    def left_for_run(self, cpu_milli: int, memory_mib: int) -> tuple[int, int]:
        """How much may the run's container request in a pod that was planned with this total?"""
        # With a container as large as the pod, no init container counts.
        cpu, memory = self.pod_total(cpu_milli, memory_mib)
        return 2 * cpu_milli - cpu, 2 * memory_mib - memory


def further_size(pod_spec: _Spec, main: int) -> FurtherSize | None:
    """The size of this pod beyond the container of its run; None: there is nothing else.

    Args:
        pod_spec: Rendered. An amount that cannot be read, as it is not resolved yet, is left out.
    """
    containers = [_counted(each) for each in pod_spec.get("containers") or ()]
    containers[main : main + 1] = [{}]
    before = [_counted(each) for each in pod_spec.get("initContainers") or ()]
    of_pod = {
        "resources": {"requests": _readable((pod_spec.get("resources") or {}).get("requests"))},
        "overhead": _readable(pod_spec.get("overhead")),
    }
    spec = {"containers": containers, "initContainers": before, **of_pod}
    if not any(pod_requests({"spec": spec}).values()):
        return None
    return FurtherSize(spec, main)


def _counted(container: object) -> dict[str, Any]:
    if not isinstance(container, Mapping):
        return {}
    resources = container.get("resources")
    amounts = resources if isinstance(resources, Mapping) else {}
    return {
        "restartPolicy": container.get("restartPolicy"),
        "resources": {kind: _readable(amounts.get(kind)) for kind in ("requests", "limits")},
    }


def _readable(amounts: object) -> dict[str, Any]:
    values = amounts if isinstance(amounts, Mapping) else {}
    return {name: values[name] for name in _COUNTED if name in values and _is_amount(values[name])}


def _is_amount(value: object) -> bool:
    try:
        parse_quantity(value, "amount")
    except InvalidInput:
        return False
    return True
