"""Creates and deletes the objects of attempts in the cluster."""

from collections.abc import Callable, Collection

from gpu_core.adapters.kubernetes import KubernetesApi, KubernetesError
from gpu_core.adapters.kubernetes.api import Json
from gpu_core.decisions.kubernetes.manifests.commands import is_operated
from gpu_core.decisions.kubernetes.manifests.job import build_job, owned_by
from gpu_core.decisions.kubernetes.manifests.launch import Launch
from gpu_core.decisions.kubernetes.manifests.names import ATTEMPT_ID_LABEL, label_value
from gpu_core.decisions.kubernetes.operators import build_custom_job
from gpu_core.decisions.kubernetes.variables.frameworks import FRAMEWORKS
from gpu_core.decisions.policy.kubernetes import KubernetesPolicy
from gpu_core.worker.infrastructure import NotStarted
from gpu_core.worker.kubernetes.cluster.cluster_cache import ClusterCache, has_pod_ended
from gpu_core.worker.kubernetes.jobs.job_status import (
    is_alive,
    is_being_deleted,
    is_losing_pods,
    runs,
    wants_pods,
)
from gpu_core.worker.kubernetes.jobs.operator_job_status import may_make_pods
from gpu_core.worker.kubernetes.jobs.operator_jobs import path_of

_JOBS = "/apis/batch/v1/namespaces/{namespace}/jobs"

KILL_GRACE_S = 1
"""SIGKILL follows SIGTERM at once when an attempt is killed; 0 would only forget the pod."""


class AttemptObjects:
    """Makes and deletes the Jobs, operators' objects and pods of attempts.

    `fenced` are the nodes that are gone, or silent for so long that their pods count as gone.

    Args:
        api: The cluster.
        view: What the watches have seen of it.
        namespace: The namespace of Jobs whose template names none.
        may_act: Asked before everything that changes the cluster.
    """

    def __init__(
        self,
        api: KubernetesApi,
        view: ClusterCache,
        namespace: str,
        may_act: Callable[[], bool],
    ) -> None:
        self._api = api
        self._view = view
        self._namespace = namespace
        self._may_act = may_act

    async def create(self, template: Json, launch: Launch, policy: KubernetesPolicy) -> Json:
        """Make what runs an attempt, and return the first of it; made again, nothing happens.

        Raises:
            NotStarted: Another worker acts by now, or requests met.
            KubernetesError: The cluster refuses it, or does not answer.
        """
        if is_operated(launch.pod):
            return await self._create_custom_job(template, launch, policy)
        return await self._create_job(template, launch, policy)

    async def delete(
        self, attempt_id: str, fenced: Collection[str], *, grace_s: int | None
    ) -> None:
        """Delete what is seen of an attempt.

        Args:
            attempt_id: Whose objects.
            fenced: The nodes whose pods count as gone.
            grace_s: What its pods may take to end; None: what they have asked for.

        Raises:
            NotStarted: Another worker acts by now.
            KubernetesError: The cluster refuses it, or does not answer.
        """
        self._check_lease()
        # The Jobs first: a Job whose pod goes would make another one.
        for job in self._view.jobs_of(attempt_id):
            await self._api.delete(path_in(job, "/apis/batch/v1", "jobs"))
        custom_job = self._view.custom_jobs.of(attempt_id)
        if custom_job is not None:
            # It stays until all that comes of it is gone: an operator has objects in between that
            # would make pods anew.
            await self._api.delete(path_of(custom_job), propagation="Foreground")
        for pod in self._view.pods_of(attempt_id):
            if not has_pod_ended(pod):
                # A node that is fenced off will never say that the pod is gone.
                is_lost = not runs(pod, fenced)
                await self._api.delete(path_in(pod), grace_s=0 if is_lost else grace_s)

    def live(self, attempt_id: str, fenced: Collection[str]) -> bool:
        """Is a pod of it seen that may run, or what may still make one?"""
        if may_make_pods(self._view.custom_jobs.of(attempt_id)):
            return True
        jobs, pods = self._view.jobs_of(attempt_id), self._view.pods_of(attempt_id)
        may_make_another = wants_pods(jobs, pods) or is_losing_pods(jobs, pods)
        return may_make_another or any(runs(pod, fenced) for pod in pods)

    async def clear(self, attempt_id: str, fenced: Collection[str]) -> None:
        """Take away what could still make pods, and pods on nodes that are fenced off."""
        if any(not has_pod_ended(pod) for pod in self._view.pods_of(attempt_id)):
            await self.delete(attempt_id, fenced, grace_s=0)

    async def end_unseen(self, attempt_id: str, fenced: Collection[str]) -> bool:
        """Does the API have a live object that the watches have not seen? It is deleted.

        A watch may be cut without a word, and a request that got no answer may have been heard: the
        run must not start again while what came of it exists.
        """
        pods = self._view.pods_of(attempt_id)
        is_seen = bool(pods or self._view.jobs_of(attempt_id))
        # In the place of a pod that was deleted its Job may have put another one by then.
        if is_seen and not any(map(is_being_deleted, pods)):
            return False
        query = {"labelSelector": f"{ATTEMPT_ID_LABEL}={label_value(attempt_id)}"}
        jobs = (await self._api.get("/apis/batch/v1/jobs", query)).get("items") or []
        pods = (await self._api.get("/api/v1/pods", query)).get("items") or []
        alive = [pod for pod in pods if runs(pod, fenced)]
        if not alive and not is_alive(jobs, pods, fenced):
            return False
        self._check_lease()
        for job in jobs:
            await self._api.delete(path_in(job, "/apis/batch/v1", "jobs"))
        for pod in alive:
            await self._api.delete(path_in(pod), grace_s=KILL_GRACE_S)
        return True

    async def _create_job(self, template: Json, launch: Launch, policy: KubernetesPolicy) -> Json:
        """The Job, and a Service where its nodes have to find each other."""
        manifests = build_job(template, launch, policy)
        namespace = manifests.jobs[0]["metadata"].get("namespace") or self._namespace
        path = _JOBS.format(namespace=namespace)
        jobs = [await self._create(path, job) for job in manifests.jobs]
        if manifests.service is not None:
            services = f"/api/v1/namespaces/{namespace}/services"
            await self._create(services, owned_by(manifests.service, jobs[0]))
        return jobs[0]

    async def _create_custom_job(
        self, template: Json, launch: Launch, policy: KubernetesPolicy
    ) -> Json:
        manifest = build_custom_job(template, launch, policy).manifest
        namespace = manifest["metadata"].get("namespace") or self._namespace
        return await self._create(FRAMEWORKS[launch.pod.framework].path(namespace), manifest)

    async def _create(self, path: str, body: Json) -> Json:
        self._check_lease()
        try:
            return await self._api.create(path, body)
        except KubernetesError as error:
            if error.reason == "AlreadyExists":
                return await self._made_before(path, body)
            if error.is_conflict:
                # Such as a ResourceQuota that another request changed at the same moment.
                raise NotStarted(str(error)) from error
            raise

    async def _made_before(self, path: str, body: Json) -> Json:
        """The existing object of this name, if it belongs to the same attempt."""
        metadata = body["metadata"]
        found = await self._api.find(f"{path}/{metadata['name']}")
        labels = {} if found is None else found["metadata"].get("labels") or {}
        if found is None or labels.get(ATTEMPT_ID_LABEL) != metadata["labels"][ATTEMPT_ID_LABEL]:
            raise NotStarted("this attempt was abandoned by another worker")
        return found

    def _check_lease(self) -> None:
        if not self._may_act():
            raise NotStarted("another worker is or might be active for this pool")


def path_in(item: Json, group: str = "/api/v1", plural: str = "pods") -> str:
    """The path of this object in the API."""
    metadata = item["metadata"]
    return f"{group}/namespaces/{metadata['namespace']}/{plural}/{metadata['name']}"
