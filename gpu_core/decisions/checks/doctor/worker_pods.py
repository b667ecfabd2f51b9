"""Do the pods of the pool's workers run, and if not, why?"""

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from gpu_core.decisions.checks.doctor.finding import Finding, failed, ok
from gpu_core.decisions.model.units import count

_CHECK = "worker.pods"
# The kubelet's words for a container that is about to start.
_STARTING = frozenset({"ContainerCreating", "PodInitializing"})


def worker_pod_findings(
    pool: str, worker_type: str, pods: Iterable[Mapping[str, Any]]
) -> Iterator[Finding]:
    """The worker pods of this pool that do not run, with what Kubernetes says of them.

    Args:
        pods: As the API server has them; those that start no worker of the pool are left out.
    """
    ours = [pod for pod in pods if starts_worker(pod, pool, worker_type)]
    troubles = [trouble for pod in ours if (trouble := _trouble(pod)) is not None]
    yield from troubles
    if ours and not troubles:
        yield ok(
            _CHECK, f"{count(len(ours), 'worker pod')}running without issues", map(_name, ours)
        )


def _trouble(pod: Mapping[str, Any]) -> Finding | None:
    found = _why_not(pod)
    if found is None:
        return None
    why, command = found
    remedy = f"kubectl -n {pod['metadata']['namespace']} {command} {pod['metadata']['name']}"
    return failed(_CHECK, f"{_name(pod)} is not running: {why}", remedy)


def _name(pod: Mapping[str, Any]) -> str:
    return f"{pod['metadata']['namespace']}/{pod['metadata']['name']}"


def starts_worker(pod: Mapping[str, Any], pool: str, worker_type: str) -> bool:
    """Is it, or will it be, a worker of this pool?"""
    if "deletionTimestamp" in pod["metadata"]:
        return False
    return any(
        {"worker", "start", pool, worker_type} <= set(_words(container))
        for container in pod["spec"].get("containers") or ()
    )


def _words(container: Mapping[str, Any]) -> list[str]:
    return [*(container.get("command") or ()), *(container.get("args") or ())]


def _why_not(pod: Mapping[str, Any]) -> tuple[str, str] | None:
    """The reason why it does not run, and the kubectl command that has more; None: it runs or
    will."""
    status = pod.get("status") or {}
    for condition in status.get("conditions") or ():
        if condition["type"] == "PodScheduled" and condition["status"] == "False":
            return condition.get("message") or "no suitable node found", "describe pod"
    for container in status.get("containerStatuses") or ():
        ended = _ended(container)
        if ended is not None:
            return f"the last container exited with code {ended}", "logs"
        waiting = (container.get("state") or {}).get("waiting")
        if waiting and waiting.get("reason") not in _STARTING:
            reason, text = waiting.get("reason", "it waits"), waiting.get("message")
            return f"{reason}: {text}" if text else reason, "describe pod"
    return None


def _ended(container: Mapping[str, Any]) -> int | None:
    """The exit code with which it ended; None: it runs now, or never ended."""
    state = container.get("state") or {}
    if "running" in state:
        return None
    ended = state.get("terminated") or (container.get("lastState") or {}).get("terminated")
    return None if ended is None else int(ended["exitCode"])
