"""Nodes without kubelets: they stay ready, and the pods on them go through their phases.

For scale, not for behavior: no container runs. What it would print comes from `fake_kubelet.py`.
A node with the annotation `simulated.prefect-gpu/silent` does nothing, as if its machine had lost
its network.
"""

import itertools
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from datetime import UTC, datetime
from functools import partial

import gpu_node
from agenda import Agenda
from fake_kubelet import HOST, FakeKubelet
from gpu_node import NodeShape
from kube_api import MERGE_PATCH, Api, ApiError, Json
from simulated_logs import SimulatedLog, log_of
from simulated_pods import PREFIX, Step, next_step, time_text

SILENT = PREFIX + "silent"
LABEL = PREFIX + "set"
_LEASES = "/apis/coordination.k8s.io/v1/namespaces/kube-node-lease/leases"
# Half for the nodes, half for the pods: however many pods change, no node falls silent for it.
_WRITERS = 6
_RENEWERS = 6
_AGAIN_S = 0.5
_TRY_AGAIN = (0, 429, 500, 503, 504)


class SimulatedNodes:
    """A set of nodes that one process keeps alive.

    Args:
        api: The cluster.
        names: The nodes' names.
        set_name: The value of the label that all of them have.
        renew_s: How often each says that it lives; a quarter of the cluster's grace is usual.
    """

    def __init__(self, api: Api, names: list[str], set_name: str, renew_s: float) -> None:
        self._api = api
        self._names = names
        self._set_name = set_name
        self._renew_s = renew_s
        self._mine = frozenset(names)
        self._silent: frozenset[str] = frozenset()
        self._usable: frozenset[str] = frozenset()
        self._planned: dict[str, set[str]] = {}
        self._logs: dict[tuple[str, str], SimulatedLog] = {}
        self._kubelet = FakeKubelet(
            lambda namespace, pod: self._logs.get((namespace, pod)),
            lambda node: node in self._silent,
        )
        self._agenda = Agenda()
        self._writers = ThreadPoolExecutor(_WRITERS)
        self._ended = threading.Event()

    def create(self, shape: NodeShape) -> None:
        """Create the nodes with their leases."""
        self._kubelet.start()
        now = datetime.now(UTC)
        list(self._writers.map(lambda name: self._create(name, shape, now), self._names))

    def all_are_ready(self) -> bool:
        """Could the scheduler use all of them now, as far as is known?"""
        return len(self._usable) == len(self._names)

    def start(self) -> None:
        """Begin to live; returns at once."""
        for part in range(_RENEWERS):
            self._run_beside(partial(self._renew, self._names[part::_RENEWERS]))
        for run in (self._follow_nodes, self._follow_pods, self._act):
            self._run_beside(run)

    def delete(self) -> None:
        """Stop living and remove the nodes; their pods go as those of lost nodes do."""
        self._ended.set()
        self._writers.shutdown(cancel_futures=True)
        with ThreadPoolExecutor(_WRITERS) as deleters:
            deleters.map(self._delete, self._names)
        self._kubelet.stop()

    def _run_beside(self, run: Callable[[], None]) -> None:
        threading.Thread(target=run, daemon=True).start()

    def _create(self, name: str, shape: NodeShape, now: datetime) -> None:
        node = self._api.create(
            "/api/v1/nodes", _node(name, self._set_name, shape, self._kubelet.port, now)
        )
        self._api.create(_LEASES, _lease(name, node["metadata"]["uid"], now))

    def _delete(self, name: str) -> None:
        with suppress(ApiError):  # a test deleted it, or the cluster is down
            self._api.delete(f"/api/v1/nodes/{name}")

    def _renew(self, names: list[str]) -> None:
        """Renew these nodes' leases in turn, evenly over the time that one round has."""
        due = time.monotonic()
        for name in itertools.cycle(names):
            due = max(due + self._renew_s / len(names), time.monotonic())
            if self._ended.wait(due - time.monotonic()):
                return
            if name not in self._silent:
                self._try(partial(self._renew_one, name))

    def _renew_one(self, name: str) -> None:
        spec = {"renewTime": _micro_time(datetime.now(UTC))}
        self._api.patch(f"{_LEASES}/{name}", {"spec": spec}, MERGE_PATCH)

    def _follow_nodes(self) -> None:
        path = f"/api/v1/nodes?labelSelector={LABEL}={self._set_name}"
        for event, node in self._follow(path):
            if event == "DELETED":
                continue
            name = node["metadata"]["name"]
            is_usable = _is_ready(node) and not node["spec"].get("taints")
            self._usable = self._usable | {name} if is_usable else self._usable - {name}
            if SILENT in node["metadata"].get("annotations", {}):
                self._silent |= {name}
                continue
            self._silent -= {name}
            if not _is_ready(node):  # as a kubelet does when its machine is back
                status = {"conditions": [_ready_condition(datetime.now(UTC))]}
                self._write(partial(self._patch_node, name, status))

    def _patch_node(self, name: str, status: Json) -> None:
        self._api.patch(f"/api/v1/nodes/{name}/status", {"status": status})

    def _follow_pods(self) -> None:
        for event, pod in self._follow("/api/v1/pods"):
            if pod["spec"].get("nodeName") not in self._mine:
                continue
            metadata = pod["metadata"]
            key = metadata["namespace"], metadata["name"]
            if event == "DELETED":
                self._logs.pop(key, None)
                self._planned.pop(metadata["uid"], None)
                continue
            if log := log_of(pod):
                self._logs[key] = log
            planned = self._planned.setdefault(metadata["uid"], set())
            step = next_step(pod, datetime.now(UTC))
            if step and step.name not in planned:
                planned.add(step.name)
                self._agenda.add(step.due.timestamp(), partial(self._do, pod, step))

    def _follow(self, path: str) -> Iterator[tuple[str, Json]]:
        """Each object there is, then each that is added, changed or deleted; and which it was."""
        while not self._ended.is_set():
            try:
                listed = self._api.get(path)
            except ApiError:
                self._ended.wait(_AGAIN_S)
                continue
            yield from (("ADDED", found) for found in listed["items"])
            for event in self._api.watch(path, listed["metadata"]["resourceVersion"]):
                if event["type"] in ("ADDED", "MODIFIED", "DELETED"):
                    yield event["type"], event["object"]

    def _act(self) -> None:
        while not self._ended.is_set():
            self._write(self._agenda.next())

    def _do(self, pod: Json, step: Step) -> None:
        if pod["spec"]["nodeName"] in self._silent:
            self._agenda.add(time.time() + _AGAIN_S, partial(self._do, pod, step))
            return
        metadata = pod["metadata"]
        path = f"/api/v1/namespaces/{metadata['namespace']}/pods/{metadata['name']}"
        same = {"uid": metadata["uid"]}
        if step.status is None:
            self._api.delete(path, {"gracePeriodSeconds": 0, "preconditions": same})
        else:
            self._api.patch(f"{path}/status", {"metadata": same, "status": step.status})

    def _write(self, action: Callable[[], None]) -> None:
        if not self._ended.is_set():
            self._writers.submit(self._try, action)

    def _try(self, action: Callable[[], None]) -> None:
        """Do it; again, later, where the API server could not be reached or had too much to do."""
        try:
            action()
        except ApiError as error:
            # Otherwise the object is gone, or another one by now, which is as good.
            if error.status in _TRY_AGAIN and not self._ended.is_set():
                self._agenda.add(time.time() + _AGAIN_S, action)


def _node(name: str, set_name: str, shape: NodeShape, port: int, now: datetime) -> Json:
    resources = {
        "cpu": str(shape.cpus),
        "memory": f"{shape.memory_gib}Gi",
        "ephemeral-storage": "100Gi",
        "pods": "110",
        gpu_node.GPU: str(shape.gpus),
    }
    labels = {"kubernetes.io/hostname": name, "kubernetes.io/os": "linux", LABEL: set_name}
    return {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {"name": name, "labels": gpu_node.labels(shape) | labels},
        "status": {
            "capacity": resources,
            "allocatable": resources,
            "conditions": [_ready_condition(now)],
            "addresses": [{"type": "InternalIP", "address": HOST}],
            "daemonEndpoints": {"kubeletEndpoint": {"Port": port}},
        },
    }


def _lease(name: str, uid: str, now: datetime) -> Json:
    owner = {"apiVersion": "v1", "kind": "Node", "name": name, "uid": uid}
    return {
        "apiVersion": "coordination.k8s.io/v1",
        "kind": "Lease",
        "metadata": {"name": name, "ownerReferences": [owner]},
        "spec": {"holderIdentity": name, "renewTime": _micro_time(now)},
    }


def _ready_condition(now: datetime) -> Json:
    return {
        "type": "Ready",
        "status": "True",
        "reason": "Simulated",
        "lastHeartbeatTime": time_text(now),
        "lastTransitionTime": time_text(now),
    }


def _is_ready(node: Json) -> bool:
    conditions = node["status"].get("conditions", [])
    return any(c["type"] == "Ready" and c["status"] == "True" for c in conditions)


def _micro_time(moment: datetime) -> str:
    return moment.strftime("%Y-%m-%dT%H:%M:%S.%fZ")
