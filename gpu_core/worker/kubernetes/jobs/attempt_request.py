"""The pod requests of an open attempt, which determine its kind."""

from gpu_core.decisions.kubernetes.manifests import commands
from gpu_core.decisions.kubernetes.variables.frameworks import FRAMEWORKS
from gpu_core.decisions.kubernetes.variables.variables import (
    PodRequest,
    parse_pod_request,
    parse_running_request,
)
from gpu_core.worker.attempts.state import AttemptState


def request_at_start(running: AttemptState) -> PodRequest:
    """All that the attempt asks of its pods, for their creation.

    Raises:
        InvalidInput: Its variables cannot be used.
    """
    return _with_command(parse_pod_request(running.variables), running)


def request_of(running: AttemptState) -> PodRequest:
    """The values that determine the kind of an attempt that any version may have started."""
    return _with_command(parse_running_request(running.variables), running)


def is_container_job(running: AttemptState) -> bool:
    """Is it an image and a command without Prefect inside?"""
    return commands.is_container_job(
        request_of(running), running.record.flow_name, running.workload.shape.nodes
    )


def is_gang_of_flow(running: AttemptState) -> bool:
    """Is it a flow on several nodes?"""
    return running.workload.shape.nodes > 1 and not is_container_job(running)


def has_head(request: PodRequest) -> bool:
    """Has its framework a head or driver pod without GPUs?"""
    framework = FRAMEWORKS.get(request.framework)
    return framework is not None and framework.has_head


def _with_command(request: PodRequest, running: AttemptState) -> PodRequest:
    record = running.record
    return commands.with_container_command(
        request, record.flow_name, has_deployment=record.deployment is not None, has_begun=True
    )
