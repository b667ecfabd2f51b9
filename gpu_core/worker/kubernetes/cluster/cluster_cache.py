"""A cache of the watched objects of a cluster: nodes, pods and our objects, indexed by attempt."""

from collections import defaultdict
from collections.abc import Callable, Container, Iterable, Mapping

import anyio
from anyio.abc import TaskGroup

from gpu_core.adapters.kubernetes import KubernetesApi, Reflector
from gpu_core.adapters.kubernetes.api import Json
from gpu_core.decisions.kubernetes.manifests.names import ATTEMPT_ID_LABEL, POOL_LABEL
from gpu_core.worker.kubernetes.jobs.operator_jobs import OperatorJobs

_ENDED = ("Succeeded", "Failed")

# Pods and nodes are watched apart: that a pod was bound may be seen long after its node is gone.
_GONE_NODES_KEPT = 1_000


class ClusterCache:
    """A copy of what the scheduler needs of a cluster.

    Objects are kept without what changes all the time and decides nothing (heartbeats, images), so
    that a change of the copy means something.

    Args:
        api: The cluster.
        on_change: Called when something changed that the next cycle should see.
    """

    def __init__(self, api: KubernetesApi, on_change: Callable[[], None]) -> None:
        self._on_change = on_change
        self._pods_by_attempt: dict[str, dict[str, Json]] = defaultdict(dict)
        self._jobs_by_attempt: dict[str, dict[str, Json]] = defaultdict(dict)
        self._pods_by_node: dict[str, dict[str, Json]] = defaultdict(dict)
        self._nodes_by_name: dict[str, Json] = {}
        self._gone_nodes: dict[str, Json] = {}
        self._last_pods: dict[str, dict[str, Json]] = {}
        self._dirty_nodes: set[str] = set()
        self._changed = anyio.Event()
        self._nodes = Reflector(api, "/api/v1/nodes", kept_node, self._node_changed)
        self._pods = Reflector(api, "/api/v1/pods", kept_pod, self._pod_changed)
        self._jobs = Reflector(
            api,
            "/apis/batch/v1/jobs",
            kept_job,
            self._job_changed,
            {"labelSelector": ATTEMPT_ID_LABEL},
        )
        self.custom_jobs = OperatorJobs(api, self._custom_job_changed)
        """The objects of attempts that an operator runs."""

    async def start(self, tasks: TaskGroup) -> None:
        """Watch, and return when everything was seen once."""
        reflectors = (self._nodes, self._pods, self._jobs)
        for reflector in reflectors:
            tasks.start_soon(reflector.run)
        for reflector in reflectors:
            await reflector.wait_until_synced()
        await self.custom_jobs.start(tasks)

    @property
    def failure(self) -> str | None:
        """The reason why this cache may be stale; None: it is up to date."""
        failures = (self._nodes.failure, self._pods.failure, self._jobs.failure)
        return next((failure for failure in failures if failure is not None), None) or (
            self.custom_jobs.failure
        )

    @property
    def nodes(self) -> Mapping[str, Json]:
        """The nodes, by name."""
        return self._nodes_by_name

    @property
    def gone_nodes(self) -> Mapping[str, Json]:
        """The nodes that were there, as they were seen last, by name; all with pods, and the last
        thousand. One that is in neither may not have been seen yet."""
        return self._gone_nodes

    @property
    def is_behind_on_nodes(self) -> bool:
        """May nodes be otherwise by now than this copy has them?"""
        return self._nodes.failure is not None

    def pods_on(self, node: str) -> Iterable[Json]:
        """The pods that a node has and that have not ended."""
        return self._pods_by_node.get(node, {}).values()

    def pods_of(self, attempt_id: str) -> list[Json]:
        """The pods of an attempt that are there, ended ones included."""
        return list(self._pods_by_attempt.get(attempt_id, {}).values())

    def last_pods_of(self, attempt_id: str) -> list[Json]:
        """The pods of an attempt as they were seen last, those that are gone included."""
        return list(self._last_pods.get(attempt_id, {}).values())

    def jobs_of(self, attempt_id: str) -> list[Json]:
        """The Jobs of an attempt that are there."""
        return list(self._jobs_by_attempt.get(attempt_id, {}).values())

    @property
    def namespaces(self) -> set[str]:
        """Those of all pods of attempts."""
        of_attempts = (pods.values() for pods in self._pods_by_attempt.values())
        return {pod["metadata"]["namespace"] for pods in of_attempts for pod in pods}

    @property
    def attempt_ids(self) -> set[str]:
        """The attempts of which something is there."""
        return {*self._jobs_by_attempt, *self._pods_by_attempt}

    def take_dirty_nodes(self) -> set[str]:
        """The nodes that changed, or whose pods did, since the last time this was asked."""
        dirty, self._dirty_nodes = self._dirty_nodes, set()
        return dirty

    def keep(self, attempt_ids: Container[str]) -> None:
        """Forget how the pods of all other attempts ended, and nodes, once they are gone.

        Pods stay for a while after their attempt is settled, and the watch has them until
        then: what is forgotten before is remembered anew.
        """
        self._last_pods = {
            attempt_id: pods
            for attempt_id, pods in self._last_pods.items()
            if attempt_id in attempt_ids or attempt_id in self._pods_by_attempt
        }
        self._forget_gone_nodes()

    def _forget_gone_nodes(self) -> None:
        spare = len(self._gone_nodes) - _GONE_NODES_KEPT
        if spare <= 0:
            return
        last_pods = (pod for pods in self._last_pods.values() for pod in pods.values())
        with_pods = {pod["spec"].get("nodeName") for pod in last_pods}
        needed = with_pods | self._pods_by_node.keys()
        for name in [name for name in self._gone_nodes if name not in needed][:spare]:
            del self._gone_nodes[name]

    async def next_change(self, longest_s: float) -> None:
        """Wait for a change, at most this long."""
        changed = self._changed
        with anyio.move_on_after(longest_s):
            await changed.wait()

    def _wake(self) -> None:
        self._changed.set()
        self._changed = anyio.Event()

    def _node_changed(self, before: Json | None, after: Json | None) -> None:
        node = after or before or {}
        name = node["metadata"]["name"]
        if after is None:
            self._nodes_by_name.pop(name, None)
            self._gone_nodes[name] = node
        else:
            self._nodes_by_name[name] = after
            self._gone_nodes.pop(name, None)
        self._dirty_nodes.add(name)
        self._wake()
        self._on_change()

    def _pod_changed(self, before: Json | None, after: Json | None) -> None:
        pod = after or before or {}
        uid = pod["metadata"]["uid"]
        for side in (before, after):
            node = None if side is None else side["spec"].get("nodeName")
            if node is not None:
                self._dirty_nodes.add(node)
                self._index(self._pods_by_node, node, uid, None)
        node = None if after is None else after["spec"].get("nodeName")
        if after is not None and node is not None and not has_pod_ended(after):
            self._pods_by_node[node][uid] = after
        attempt_id = labeled_attempt(pod)
        if attempt_id is not None:
            self._index(self._pods_by_attempt, attempt_id, uid, after)
            self._last_pods.setdefault(attempt_id, {})[uid] = pod
            self._wake()
            if before is not None or not _is_pending(pod):
                self._on_change()
        elif wants_gpus(pod):
            self._on_change()

    def _job_changed(self, before: Json | None, after: Json | None) -> None:
        job = after or before or {}
        attempt_id = labeled_attempt(job)
        if attempt_id is None:
            return
        self._index(self._jobs_by_attempt, attempt_id, job["metadata"]["uid"], after)
        self._wake()
        if after is None or _end_of(after) != (before and _end_of(before)):
            self._on_change()

    def _custom_job_changed(self) -> None:
        self._wake()
        self._on_change()

    @staticmethod
    def _index(index: dict[str, dict[str, Json]], key: str, uid: str, item: Json | None) -> None:
        if item is not None:
            index[key][uid] = item
            return
        index[key].pop(uid, None)
        if not index[key]:
            del index[key]


def _end_of(job: Json) -> object:
    """The part of a Job that says it is over, or about to be; None while it is as created.

    That it is there, and has pods, is no news: the cycle that created it counts with it.
    """
    conditions = (job.get("status") or {}).get("conditions")
    deleted_at = job["metadata"].get("deletionTimestamp")
    return (conditions, deleted_at) if conditions or deleted_at else None


def labeled_attempt(item: Json) -> str | None:
    """Which attempt does this object belong to? None: to none of ours."""
    attempt_id: str | None = (item["metadata"].get("labels") or {}).get(ATTEMPT_ID_LABEL)
    return attempt_id


def has_pod_ended(pod: Json) -> bool:
    """Did all its containers end, without a restart to come?"""
    return (pod.get("status") or {}).get("phase") in _ENDED


def _is_pending(pod: Json) -> bool:
    return (pod.get("status") or {}).get("phase") == "Pending"


def wants_gpus(pod: Json) -> bool:
    """Does it ask for any device of NVIDIA's?"""
    return any(
        resource.startswith("nvidia.com/")
        for container in pod["spec"].get("containers") or ()
        for resource in (container.get("resources") or {}).get("limits") or ()
    )


def kept_node(node: Json) -> Json:
    """A node without its heartbeats and images."""
    status = node.get("status") or {}
    return {
        "metadata": _some(
            node["metadata"],
            *("name", "uid", "labels", "annotations"),
            *("creationTimestamp", "deletionTimestamp"),
        ),
        "spec": _some(node.get("spec") or {}, "taints", "unschedulable", "providerID"),
        "status": {
            **_some(status, "allocatable", "capacity"),
            "conditions": [
                _some(condition, "type", "status", "reason", "message", "lastTransitionTime")
                for condition in status.get("conditions") or ()
            ],
        },
    }


def kept_pod(pod: Json) -> Json | None:
    """A pod of ours with its lifecycle; of others only what they use of a node."""
    spec = pod["spec"]
    is_ours = labeled_attempt(pod) is not None
    if not is_ours and (has_pod_ended(pod) or "nodeName" not in spec):
        return None
    resources = {
        key: [_some(container, "name", "resources", "restartPolicy") for container in spec[key]]
        for key in ("containers", "initContainers")
        if spec.get(key)
    }
    kept = {
        "metadata": _some(pod["metadata"], "name", "namespace", "uid", "labels"),
        "spec": {**_some(spec, "nodeName", "overhead", "resources"), **resources},
        "status": _some(pod.get("status") or {}, "phase"),
    }
    if not is_ours:
        # Whose it is: what our pools use of nodes is not counted as used by others.
        kept["metadata"]["labels"] = _some(pod["metadata"].get("labels") or {}, POOL_LABEL)
        return kept
    kept["metadata"].update(
        _some(
            pod["metadata"],
            *("annotations", "creationTimestamp"),
            *("deletionTimestamp", "deletionGracePeriodSeconds"),
        )
    )
    kept["spec"].update(_some(spec, "terminationGracePeriodSeconds"))
    kept["status"] = _some(
        pod.get("status") or {},
        "phase",
        "reason",
        "message",
        "startTime",
        "podIP",
        "conditions",
        "containerStatuses",
        "initContainerStatuses",
    )
    return kept


def kept_job(job: Json) -> Json:
    """A Job without its template."""
    return {
        "metadata": _some(
            job["metadata"],
            "name",
            "namespace",
            "uid",
            "labels",
            "creationTimestamp",
            "deletionTimestamp",
        ),
        "spec": _some(job.get("spec") or {}, "parallelism", "completions", "suspend"),
        "status": _some(
            job.get("status") or {}, "conditions", "active", "failed", "succeeded", "completionTime"
        ),
    }


def _some(values: Json, *names: str) -> Json:
    return {name: values[name] for name in names if name in values}
