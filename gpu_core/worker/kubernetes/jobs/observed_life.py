"""Whether an attempt lives, and where, by what the watches have seen."""

from collections.abc import Collection, Iterable

from gpu_core.adapters.kubernetes.api import Json
from gpu_core.decisions.kubernetes.manifests.gang import node_rank
from gpu_core.worker.attempts.state import AttemptState
from gpu_core.worker.kubernetes.cluster.cluster_cache import ClusterCache
from gpu_core.worker.kubernetes.jobs.attempt_request import is_container_job
from gpu_core.worker.kubernetes.jobs.creations import Creations, may_be_partial
from gpu_core.worker.kubernetes.jobs.job_status import is_alive
from gpu_core.worker.kubernetes.jobs.operator_job_status import is_custom_alive
from gpu_core.worker.kubernetes.jobs.operator_jobs import is_run_by_operator


def is_observed_alive(
    running: AttemptState, view: ClusterCache, creations: Creations, fenced: Collection[str]
) -> bool:
    """Is there an object of it, or pods, that have not come to their end, or may they still show?

    Args:
        running: The attempt.
        view: What the watches have seen.
        creations: What was asked for just now; notes what is seen.
        fenced: The nodes whose pods count as gone.
    """
    attempt_id = running.attempt.attempt_id
    jobs, pods = view.jobs_of(attempt_id), view.pods_of(attempt_id)
    custom_job = view.custom_jobs.of(attempt_id)
    if is_run_by_operator(running, view.custom_jobs) and (custom_job or pods):
        creations.note_seen(attempt_id)
        return is_custom_alive(custom_job, pods, fenced)
    if may_be_partial(running.attempt):
        return creations.is_just_asked_for(attempt_id)
    if jobs or pods:
        creations.note_seen(attempt_id)
        return is_alive(jobs, pods, fenced, is_flow=not is_container_job(running))
    return creations.is_just_asked_for(attempt_id)


def nodes_by_rank(pods: Iterable[Json]) -> dict[int, str]:
    """The nodes of a gang's pods that are on one, by the number of the pod in it, from 0."""
    nodes = {node_rank(pod): pod["spec"].get("nodeName") for pod in pods}
    return {int(rank): node for rank, node in nodes.items() if node and rank and rank.isdecimal()}
