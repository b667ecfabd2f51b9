"""Why an attempt cannot work where it is, by what the watches have seen of its pods and nodes."""

from datetime import datetime

from gpu_core.decisions.model.attempts import EndReason
from gpu_core.decisions.policy.policy import Policy
from gpu_core.worker.attempts.state import AttemptState
from gpu_core.worker.infrastructure import TerminationRequest
from gpu_core.worker.kubernetes.cluster.cluster_cache import ClusterCache
from gpu_core.worker.kubernetes.cluster.events import PodEvents
from gpu_core.worker.kubernetes.cluster.gpu_health import GpuHealthWatch
from gpu_core.worker.kubernetes.jobs.job_status import trouble_of
from gpu_core.worker.kubernetes.jobs.operator_job_status import custom_trouble_of
from gpu_core.worker.kubernetes.jobs.operator_jobs import is_run_by_operator


def observed_trouble(
    running: AttemptState,
    view: ClusterCache,
    events: PodEvents,
    gpu_health: GpuHealthWatch,
    policy: Policy,
    now: datetime,
) -> TerminationRequest | None:
    """Does a pod of it wait for what will not come, or is its node about to go? None: no.

    Args:
        running: The attempt.
        view: What the watches have seen.
        events: The Events of pods that do not run yet.
        gpu_health: Which GPUs are held.
        policy: Of the pool.
        now: Aware.
    """
    attempt_id = running.attempt.attempt_id
    if lost := _lost_before_it_was_bound(running, view):
        why = f"Node {lost} was removed before its pod was bound."
        return TerminationRequest(reason=EndReason.INTERRUPTED, message=why)
    if ill := gpu_health.trouble(running, view.pods_of(attempt_id), now):
        return ill
    if is_run_by_operator(running, view.custom_jobs):
        return custom_trouble_of(
            view.custom_jobs.of(attempt_id),
            view.pods_of(attempt_id),
            view.nodes,
            policy.kubernetes,
            now,
            view.gone_nodes,
            events=events.of(attempt_id),
            is_first=running.attempt.number == 1,
        )
    return trouble_of(
        view.jobs_of(attempt_id),
        view.pods_of(attempt_id),
        events.of(attempt_id),
        view.nodes,
        policy.kubernetes,
        now,
        gone_nodes=view.gone_nodes,
        is_for_new_node=bool(running.awaited_kinds),
        is_first=running.attempt.number == 1,
        is_starting=running.began_at is None,
    )


def _lost_before_it_was_bound(running: AttemptState, view: ClusterCache) -> str | None:
    """Which node is gone that a pinned pod of it waits for? None: none is."""
    if running.attempt.bound_at is None:
        return None
    pods = view.pods_of(running.attempt.attempt_id)
    if not any("nodeName" not in pod["spec"] for pod in pods):
        return None
    bound = {pod["spec"].get("nodeName") for pod in pods}
    gone = view.gone_nodes
    return next((s.node for s in running.attempt.held if s.node in gone.keys() - bound), None)
