"""The meaning of `command` and `container_command` for a run: its flow's engine, or a container."""

from dataclasses import replace

from gpu_core.decisions.kubernetes.manifests.engine_commands import is_bundle, starts_engine
from gpu_core.decisions.kubernetes.variables.frameworks import FRAMEWORKS
from gpu_core.decisions.kubernetes.variables.variables import PodRequest
from gpu_core.decisions.model.errors import InvalidInput
from gpu_core.decisions.model.reasons import Reason
from gpu_core.decisions.model.workload import Hold, Workload

CONTAINER_FLOW = "run-container"
"""The flow that stands for a container (`flows/run_container.py`). Its runs start no engine."""

_LONGEST_SHOWN = 50


def with_container_command(
    request: PodRequest, flow_name: str, *, has_deployment: bool, has_begun: bool = False
) -> PodRequest:
    """The request with `container_command` where an older one says the same with `command`.

    Version 0.1 used `command` for containers. It keeps that meaning where no flow can be meant:
    in a run of the flow `run-container`, with a framework, and in a started attempt, since no
    attempt starts while its command fits both meanings (`ambiguity`).
    """
    command = request.command
    if command is None or request.container_command is not None:
        return request
    if starts_engine(command, has_deployment=has_deployment):
        return request
    if has_begun or flow_name == CONTAINER_FLOW or request.framework != "none":
        return request.model_copy(update={"command": None, "container_command": command})
    return request


def is_operated(request: PodRequest) -> bool:
    """Does the operator of a framework make the pods of the run?"""
    return request.framework in FRAMEWORKS


def is_container_job(request: PodRequest, flow_name: str, nodes: int) -> bool:
    """Does the run consist of containers without Prefect?

    Args:
        request: As `with_container_command` returns it.
        nodes: How many nodes the run has, 1 or more.
    """
    if is_operated(request):
        return True
    if request.container_command is None:
        return False
    return nodes == 1 or request.framework == "torchrun" or flow_name == CONTAINER_FLOW


def require_a_use(request: PodRequest, flow_name: str, nodes: int, *, has_deployment: bool) -> None:
    """Refuse a bundle of a flow that would not run, because the run is a container job.

    Args:
        request: As `with_container_command` returns it.
        nodes: How many nodes the run has, 1 or more.

    Raises:
        InvalidInput: It is both.
    """
    if request.command is None:
        return
    if not is_bundle(request.command, has_deployment=has_deployment):
        return
    if is_container_job(request, flow_name, nodes):
        raise InvalidInput(
            "framework" if request.framework != "none" else "container_command",
            "leaves no node for the flow that was submitted",
            got=request.framework if request.framework != "none" else _shown(request),
            remedy="leave it out, or set nodes to 2 or more and framework to none. Then the first "
            "node runs the flow and the others run container_command",
        )


def held_if_ambiguous(workload: Workload, request: PodRequest, *, has_deployment: bool) -> Workload:
    """The workload, held if its `command` may start a flow or may be meant for a container."""
    command = request.command
    if command is None or request.container_command is not None:
        return workload
    if starts_engine(command, has_deployment=has_deployment):
        return workload
    return replace(workload, hold=_hold(request))


def _hold(request: PodRequest) -> Hold:
    return Hold(
        reason=Reason.AMBIGUOUS_COMMAND,
        summary=f"Held: command {_shown(request)} is ambiguous, because it could start the flow "
        "or run in a container.",
        resolution="For a container, use container_command. A flow needs a command such as 'uv "
        "run prefect flow-run execute'.",
    )


def _shown(request: PodRequest) -> str:
    text = " ".join(request.container_command or request.command or ())
    return repr(text if len(text) <= _LONGEST_SHOWN else f"{text[:_LONGEST_SHOWN]}...")
