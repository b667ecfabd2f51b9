"""How an attempt ended, by the last known statuses of its objects and pods."""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from gpu_core.adapters.kubernetes.api import Json
from gpu_core.decisions.kubernetes.status.pod_termination import first_start_at, last_end_at
from gpu_core.decisions.model.attempt_exit import Exit
from gpu_core.decisions.model.attempts import Attempt
from gpu_core.worker.attempts.state import AttemptState, StartFailureKind
from gpu_core.worker.kubernetes.cluster.cluster_cache import ClusterCache
from gpu_core.worker.kubernetes.jobs.attempt_request import is_container_job
from gpu_core.worker.kubernetes.jobs.creations import may_be_partial
from gpu_core.worker.kubernetes.jobs.end_causes import EndCauses
from gpu_core.worker.kubernetes.jobs.job_status import exit_of, silent_partner_of
from gpu_core.worker.kubernetes.jobs.operator_job_status import custom_exit_of, is_custom_pending
from gpu_core.worker.kubernetes.jobs.operator_jobs import is_run_by_operator

_UNCONFIRMED = (
    "The worker or the API server stopped while the pods of its gang were created, so those that "
    "existed were deleted"
)


def observed_exit(
    running: AttemptState, view: ClusterCache, causes: EndCauses, lines: tuple[str, ...]
) -> Exit | None:
    """How did this attempt end? None: nothing that saw it survived.

    Args:
        running: The attempt.
        view: What the watches have seen.
        causes: The pods that ended before the worker ended the others.
        lines: The end of what it wrote, as far as that was followed.
    """
    attempt_id = running.attempt.attempt_id
    is_postponed = running.failure(StartFailureKind.POSTPONED) is not None
    if is_postponed and is_incomplete(running, view):
        return None  # what its pods did was to wait for the others
    pods = view.last_pods_of(attempt_id)
    if is_run_by_operator(running, view.custom_jobs):
        found = custom_exit_of(view.custom_jobs.last_of(attempt_id), pods, lines)
        return found and replace(found, **_times(pods, running.attempt))
    ended = causes.pods_of(attempt_id)
    found = exit_of(
        view.jobs_of(attempt_id),
        ended,
        lines,
        is_flow=not is_container_job(running),
        nodes=running.workload.shape.nodes,
    )
    if found is None:
        return None
    found = replace(found, **_times(pods, running.attempt))
    has_succeeded = found.message is None
    if may_be_partial(running.attempt) and not has_succeeded:
        if is_incomplete(running, view):
            return None  # the worker took it back, and no node had worked without the others
        if not causes.has(attempt_id):
            # It was the worker that deleted the pods, whatever exit code that gave them.
            return replace(found, message=_UNCONFIRMED, exit_code=None, is_interruption=True)
    node = silent_partner_of(ended, pods, view.nodes)
    if node is None:
        return found
    why = (f"the gang was terminated because node {node} was lost.", found.message)
    return replace(found, is_gang_lost=True, message=" ".join(filter(None, why)))


def is_incomplete(running: AttemptState, view: ClusterCache) -> bool:
    """Was it never there as a whole, so that nothing of it can have worked?"""
    attempt_id = running.attempt.attempt_id
    if is_run_by_operator(running, view.custom_jobs):
        item = view.custom_jobs.last_of(attempt_id)
        return item is None or is_custom_pending(item)
    return len(view.last_pods_of(attempt_id)) < running.workload.shape.nodes


def has_never_worked(running: AttemptState, view: ClusterCache) -> bool:
    """Is it a gang that was taken back before all its nodes were there?"""
    is_taken_back = running.failure(StartFailureKind.POSTPONED) is not None
    is_taken_back = is_taken_back or may_be_partial(running.attempt)
    return is_taken_back and is_incomplete(running, view)


def _times(pods: Sequence[Json], attempt: Attempt) -> dict[str, Any]:
    """When did an attempt begin and stop to hold its GPUs, by the statuses of its pods?

    Kubernetes cuts moments off to the second, so that a start may seem to be before its admission.
    """
    began_at = first_start_at(pods)
    return {
        "started_at": began_at and max(began_at, attempt.admitted_at),
        "held_until": last_end_at(pods),
    }
