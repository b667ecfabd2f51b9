"""Faults at random moments: what is done to a cluster, its worker and Prefect while runs run."""

import random
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from enum import StrEnum
from pathlib import Path

from tests.support.cluster import GPU, Json, KubectlFailed, Namespace
from tests.support.prefect_stack import Pool, PrefectServer

# What the node termination handler of AWS sets when a spot instance is about to be taken back.
_SPOT_TAINT = "aws-node-termination-handler/spot-itn"
_LOOK_S = 1.0


class Kind(StrEnum):
    """What can be done to the system."""

    WORKER_KILLED = "worker killed"
    POD_EVICTED = "pod evicted"
    POD_DELETED = "pod deleted"
    JOB_DELETED = "Job deleted"
    KUBELET_STOPPED = "kubelet stopped"
    API_SERVER_RESTARTED = "API server restarted"
    PREFECT_RESTARTED = "Prefect restarted"
    SPOT_TAKEN_BACK = "spot interruption"


# How long each lasts, at least and at most. The tests' clusters take a node for lost after 20 s
# (NODE_GRACE_S), and the tests' policy gives up what is on it 15 s later: an outage of the kubelet
# may be shorter than that or longer.
_LASTS_S: Mapping[Kind, tuple[float, float]] = {
    Kind.WORKER_KILLED: (0, 4),
    Kind.KUBELET_STOPPED: (3, 60),
    Kind.SPOT_TAKEN_BACK: (2, 10),
}


@dataclass(frozen=True, slots=True)
class Fault:
    """One thing that is done.

    Attributes:
        wait_s: How long after the fault before it has ended.
        lasts_s: How long until what was stopped is started again.
        draw: From 0 to 1: which of the pods or Jobs that there are then is hit.
    """

    kind: Kind
    wait_s: float
    lasts_s: float
    draw: float


def agenda(seed: int, count: int, kinds: Sequence[Kind] = tuple(Kind)) -> tuple[Fault, ...]:
    """Which faults happen, and when? Every kind as often as the others, or once less.

    Args:
        seed: The same gives the same.
        count: How many faults.
        kinds: Those that may happen.
    """
    draws = random.Random(seed)
    order: list[Kind] = []
    while len(order) < count:
        order += draws.sample(kinds, len(kinds))
    return tuple(
        Fault(
            kind=kind,
            wait_s=draws.uniform(0.5, 4),
            lasts_s=draws.uniform(*_LASTS_S.get(kind, (0, 0))),
            draw=draws.random(),
        )
        for kind in order[:count]
    )


@dataclass
class Chaos:
    """Does the faults, and keeps what was seen meanwhile.

    Attributes:
        done: What was done and to whom, for the report.
        outages_s: Begin and end of the times in which the node did not obey, by its uptime.
    """

    pool: Pool
    server: PrefectServer
    namespace: Namespace
    done: list[str] = field(default_factory=list)
    outages_s: list[tuple[float, float]] = field(default_factory=list)

    def do(self, fault: Fault) -> None:
        """Wait for the moment, and do it; returns when what was stopped works again."""
        time.sleep(fault.wait_s)
        began_s = uptime_s()
        try:
            what = self._actions[fault.kind](fault)
        except KubectlFailed as error:  # gone between the look and the deed
            what = f"nothing: {error}"
        self.done.append(f"{fault.kind} ({uptime_s() - began_s:.0f} s): {what}")

    @property
    def _actions(self) -> Mapping[Kind, Callable[[Fault], str]]:
        return {
            Kind.WORKER_KILLED: self._kill_worker,
            Kind.POD_EVICTED: self._evict,
            Kind.POD_DELETED: self._delete_pod,
            Kind.JOB_DELETED: self._delete_job,
            Kind.KUBELET_STOPPED: self._stop_kubelet,
            Kind.API_SERVER_RESTARTED: self._restart_api_server,
            Kind.PREFECT_RESTARTED: self._restart_prefect,
            Kind.SPOT_TAKEN_BACK: self._take_spot_back,
        }

    def _kill_worker(self, fault: Fault) -> str:
        self.pool.kill_worker()
        time.sleep(fault.lasts_s)
        self.pool.start_worker()
        return f"back after {fault.lasts_s:.1f} s"

    def _evict(self, fault: Fault) -> str:
        return self._with_pod(fault, self.namespace.evict)

    def _delete_pod(self, fault: Fault) -> str:
        return self._with_pod(
            fault, lambda pod: self.namespace.kubectl("delete", "pod", pod, "--wait=false")
        )

    def _delete_job(self, fault: Fault) -> str:
        def delete(pod: str) -> None:
            job = self.namespace.get("pod", pod)["metadata"]["labels"]["job-name"]
            self.namespace.kubectl("delete", "job", job, "--wait=false")

        return self._with_pod(fault, delete)

    def _with_pod(self, fault: Fault, action: Callable[[str], object]) -> str:
        pods = self.namespace.get("pods", "--field-selector=status.phase=Running")["items"]
        if not pods:
            return "no pod runs"
        pod = pods[int(fault.draw * len(pods))]["metadata"]["name"]
        action(pod)
        return pod

    def _stop_kubelet(self, fault: Fault) -> str:
        began_s = uptime_s()
        self.namespace.cluster.stop("kubelet")
        time.sleep(fault.lasts_s)
        self.namespace.cluster.start("kubelet")
        # Ready, it still has to end what was deleted meanwhile.
        self.outages_s.append((began_s, uptime_s() + _LOOK_S))
        return f"back after {fault.lasts_s:.0f} s"

    def _restart_api_server(self, _: Fault) -> str:
        self.namespace.cluster.restart("kube-apiserver")
        return "answers again"

    def _restart_prefect(self, _: Fault) -> str:
        self.server.restart()
        return "answers again"

    def _take_spot_back(self, fault: Fault) -> str:
        (node, *_) = self.namespace.cluster.nodes()
        self.namespace.cluster.taint(node, f"{_SPOT_TAINT}=true:NoSchedule")
        time.sleep(fault.lasts_s)
        self.namespace.cluster.taint(node, f"{_SPOT_TAINT}-")
        return node


@dataclass
class Sight:
    """What was seen of a namespace's pods, look by look, as the API server has them.

    Attributes:
        looks: How often it could be looked.
        most_gpus: The most GPUs that pods held at a time, from their creation to their end.
        twice: Runs of which two pods had neither ended nor been told to, at a time. (Before 1.26
            Kubernetes puts another pod in the place of one that is deleted while that one ends.)
    """

    looks: int = 0
    most_gpus: int = 0
    twice: set[str] = field(default_factory=set)

    def see(self, pods: Sequence[Json]) -> None:
        """Take one look."""
        self.looks += 1
        unended = [pod for pod in pods if pod["status"]["phase"] in ("Pending", "Running")]
        self.most_gpus = max(self.most_gpus, sum(map(gpus_of, unended)))
        runs = [
            pod["metadata"]["labels"].get("prefect-gpu.dev/flow-run-id")
            for pod in unended
            if "deletionTimestamp" not in pod["metadata"]
        ]
        self.twice |= {run for run in runs if run is not None and runs.count(run) > 1}


@contextmanager
def watched(namespace: Namespace) -> Iterator[Sight]:
    """Look at the pods again and again until the block ends."""
    sight, ended = Sight(), threading.Event()

    def look() -> None:
        while not ended.wait(_LOOK_S):
            with suppress(KubectlFailed):  # the API server may be what was stopped
                sight.see(namespace.get("pods")["items"])

    watcher = threading.Thread(target=look)
    watcher.start()
    try:
        yield sight
    finally:
        ended.set()
        watcher.join()


def gpus_of(pod: Json) -> int:
    """How many GPUs does this pod ask for?"""
    containers = pod["spec"]["containers"]
    return sum(int(c["resources"].get("limits", {}).get(GPU, 0)) for c in containers)


def uptime_s() -> float:
    """The clock that the runs' journal is written by."""
    return float(Path("/proc/uptime").read_text().split()[0])
