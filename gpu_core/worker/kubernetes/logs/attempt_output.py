"""What the pods of attempts write: followed into the logs of their runs, or kept at their end."""

from collections.abc import Mapping
from typing import Any

import anyio

from gpu_core.adapters.kubernetes.api import Json
from gpu_core.decisions.kubernetes.manifests.container import main_container
from gpu_core.decisions.kubernetes.manifests.gang import is_first, node_rank
from gpu_core.decisions.kubernetes.status.attempt_status import decisive_pod
from gpu_core.worker.attempts.state import AttemptState
from gpu_core.worker.kubernetes.cluster.cluster_cache import ClusterCache
from gpu_core.worker.kubernetes.jobs.attempt_request import has_head, is_container_job, request_of
from gpu_core.worker.kubernetes.jobs.end_causes import EndCauses
from gpu_core.worker.kubernetes.jobs.job_status import is_done, wants_pods
from gpu_core.worker.kubernetes.jobs.operator_job_status import is_custom_running
from gpu_core.worker.kubernetes.jobs.operator_jobs import is_run_by_operator
from gpu_core.worker.kubernetes.logs.container_runs import ContainerRuns, begun_pods
from gpu_core.worker.kubernetes.logs.final_logs import FinalLogs

# A silent node answers no request for a log, and the rest of its gang holds GPUs meanwhile.
_READ_S = 10.0


class AttemptOutput:
    """The output of the attempts of one pool, and the states of those without Prefect.

    Args:
        view: What the watches have seen.
        causes: Which pods say why an attempt ended.
        final_logs: The ends of the output of pods whose runs have not got it.
    """

    def __init__(self, view: ClusterCache, causes: EndCauses, final_logs: FinalLogs) -> None:
        self._view = view
        self._causes = causes
        self._final_logs = final_logs
        self.containers: ContainerRuns | None = None
        """Follows output and reports states; None: nothing is watched yet."""

    def begin(self, attempt_id: str) -> None:
        """This worker creates the attempt: no other one has followed its output."""
        if self.containers is not None:
            self.containers.begin(attempt_id)

    def reconcile(self, running: AttemptState) -> None:
        """Follow what it writes; report that it runs, where no flow does."""
        self.follow(running)
        if self.containers is None or not is_container_job(running):
            return
        attempt_id = running.attempt.attempt_id
        custom_job = self._view.custom_jobs.of(attempt_id)
        jobs, pods = self._view.jobs_of(attempt_id), self._view.pods_of(attempt_id)
        # A gang of which a pod is missing waits for it.
        has_begun = bool(begun_pods(pods)) and not wants_pods(jobs, pods)
        if has_begun if custom_job is None else is_custom_running(custom_job):
            self.containers.begin_to_report_running(running)

    def follow(self, running: AttemptState) -> None:
        """Let the run have the output of its containers without Prefect."""
        if self.containers is None or not request_of(running).stream_output:
            return
        is_gang = running.workload.shape.nodes > 1
        for pod in self._pods_to_follow(running, self.containers):
            container = pod["spec"]["containers"][main_container(pod["spec"])]["name"]
            rank = node_rank(pod) if is_gang else None
            prefix = "" if rank is None else f"[node {rank}] "
            self.containers.follow(running, pod, container, prefix=prefix)

    def _pods_to_follow(self, running: AttemptState, containers: ContainerRuns) -> list[Json]:
        """All nodes of a gang; of a flow those after the first, which logs through Prefect's API;
        of Ray and Spark the head pod, which prints what the others write."""
        attempt_id = running.attempt.attempt_id
        pods = begun_pods(self._view.pods_of(attempt_id))
        if not is_container_job(running):
            is_gang = running.workload.shape.nodes > 1
            return [pod for pod in pods if not is_first(pod)] if is_gang else []
        if not has_head(request_of(running)):
            return pods
        followed = [pod for pod in pods if containers.follows(attempt_id, pod["metadata"]["uid"])]
        return followed or ([] if containers.follows_any(attempt_id) else pods[:1])

    async def report_start(self, running: AttemptState) -> None:
        """Report that a container has run, in which no flow reports that."""
        has_run = bool(begun_pods(self._view.last_pods_of(running.attempt.attempt_id)))
        if has_run and is_container_job(running) and self.containers is not None:
            await self.containers.report_running(running)

    async def keep_last_lines(self, running: AttemptState) -> None:
        """Of the pod that ended first, unless its run has them: with its Job its output goes."""
        if running.is_stop_requested or is_run_by_operator(running, self._view.custom_jobs):
            return
        attempt_id = running.attempt.attempt_id
        pod = self._pod_that_ended(attempt_id)
        if pod is None:
            return
        if self.containers and self.containers.follows(attempt_id, pod["metadata"]["uid"]):
            return
        await self._final_logs.keep(attempt_id, pod)

    async def finish_reading(self, running: AttemptState) -> None:
        """Read what its pods that have ended wrote, to the end: with its Job the pods go.

        A log that cannot be read in time, such as that of a silent node, is not waited for.
        """
        if self.containers is None:
            return
        attempt_id = running.attempt.attempt_id
        ended = [pod for pod in self._view.pods_of(attempt_id) if is_done(pod)]
        with anyio.move_on_after(_READ_S):
            for pod in ended:
                await self.containers.wait_until_read(attempt_id, str(pod["metadata"]["uid"]))

    async def last_lines(self, running: AttemptState) -> tuple[str, ...]:
        """The end of what the pod wrote that says why it ended; none where its run has it."""
        await self.keep_last_lines(running)
        return self._final_logs.of(running.attempt.attempt_id)

    def followed_lines(self, attempt_id: str) -> tuple[str, ...]:
        """The end of what that pod wrote, as far as it was followed."""
        if self.containers is None:
            return ()
        pod = self._pod_that_ended(attempt_id)
        uid = None if pod is None else pod["metadata"]["uid"]
        return self.containers.last_lines(attempt_id, uid)

    def _pod_that_ended(self, attempt_id: str) -> Mapping[str, Any] | None:
        return decisive_pod([pod for pod in self._causes.pods_of(attempt_id) if is_done(pod)])

    def is_over(self, running: AttemptState, uid: str) -> bool:
        """Has the attempt's pod of this uid ended, so that no more output comes?"""
        pods = self._view.pods_of(running.attempt.attempt_id)
        return all(is_done(pod) for pod in pods if pod["metadata"]["uid"] == uid)

    def forget(self, attempt_id: str) -> None:
        """The attempt is settled."""
        self._final_logs.forget(attempt_id)
        if self.containers is not None:
            self.containers.forget(attempt_id)
