"""What the API server shows of a namespace's pods while a story runs."""

import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from datetime import datetime
from itertools import combinations

from gpu_core.decisions.kubernetes.manifests.names import (
    ATTEMPT_ID_LABEL,
    FLOW_RUN_LABEL,
    POOL_LABEL,
)
from tests.support.cluster import GPU, Json, KubectlFailed, Namespace

_LOOK_S = 1.0
_NEVER = "1970-01-01T00:00:00Z"


@dataclass
class Sight:
    """What was seen of a namespace's pods, look by look, as the API server has them.

    Attributes:
        looks: How often it could be looked.
        most_gpus: The most GPUs that pods of one pool held at a time, from their creation to their
            end. Of two pools one may wait where the other one was faster.
        fullest: The pods that held so many, each in one line.
        most_running: The most pods that ran at a time.
        ran: Flow run and attempt id of every pod that was seen to run, or to have run.
        twice: Runs of which two pods had neither ended nor been stopped, at a time, and were not
            nodes of one gang. (Before 1.26 Kubernetes puts another pod in the place of one that is
            deleted while that one ends.)
        placed: By attempt, the node and the GPUs of each of its Jobs' pods.
        started: By attempt, when its first container started.
        ended: By attempt, when its last container ended, as far as was seen.
    """

    looks: int = 0
    most_gpus: int = 0
    fullest: tuple[str, ...] = ()
    most_running: int = 0
    ran: set[tuple[str, str]] = field(default_factory=set)
    twice: set[str] = field(default_factory=set)
    placed: dict[str, dict[str, tuple[str, int]]] = field(default_factory=dict)
    began: dict[str, datetime] = field(default_factory=dict)
    ended: dict[str, datetime] = field(default_factory=dict)

    def see(self, pods: Sequence[Json]) -> None:
        """Take one look."""
        self.looks += 1
        running = sum(pod["status"]["phase"] == "Running" for pod in pods)
        self.most_running = max(self.most_running, running)
        unended = [pod for pod in pods if pod["status"]["phase"] in ("Pending", "Running")]
        holding = [pod for pod in unended if not waits_for_its_forerunner(pod, unended)]
        for pool in {labels_of(pod).get(POOL_LABEL) for pod in holding}:
            of_pool = [pod for pod in holding if labels_of(pod).get(POOL_LABEL) == pool]
            gpus = sum(map(gpus_of, of_pool))
            if gpus > self.most_gpus:
                self.most_gpus, self.fullest = gpus, tuple(map(line_of, of_pool))
        self.ran |= {
            (labels[FLOW_RUN_LABEL], labels[ATTEMPT_ID_LABEL])
            for pod in pods
            if pod["status"]["phase"] != "Pending"
            and FLOW_RUN_LABEL in (labels := pod["metadata"].get("labels", {}))
        }
        staying = [pod for pod in unended if "deletionTimestamp" not in pod["metadata"]]
        self.twice |= {
            labels_of(one)[FLOW_RUN_LABEL]
            for one, other in combinations(staying, 2)
            if are_the_same_work(one, other)
        }
        for pod in pods:
            if ATTEMPT_ID_LABEL in labels_of(pod):
                self._note(pod)

    def _note(self, pod: Json) -> None:
        labels = labels_of(pod)
        attempt = labels[ATTEMPT_ID_LABEL]
        if node := pod["spec"].get("nodeName"):
            self.placed.setdefault(attempt, {})[labels.get("job-name", "")] = node, gpus_of(pod)
        for status in pod["status"].get("containerStatuses", ()):
            state = status["state"]
            ended = state.get("terminated", {})
            began_at = ended.get("startedAt") or state.get("running", {}).get("startedAt")
            # The kubelet has no other start for what it created and never started.
            if began_at and began_at != _NEVER:
                began = datetime.fromisoformat(began_at)
                self.began[attempt] = min(began, self.began.get(attempt, began))
            if ended_at := ended.get("finishedAt"):
                last = datetime.fromisoformat(ended_at)
                self.ended[attempt] = max(last, self.ended.get(attempt, last))


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


def labels_of(pod: Json) -> dict[str, str]:
    """The labels of a pod."""
    return pod["metadata"].get("labels", {})


def are_the_same_work(one: Json, other: Json) -> bool:
    """Are both of one run, and not two nodes of one attempt? Each of these has a Job of its own."""
    first, second = labels_of(one), labels_of(other)
    if FLOW_RUN_LABEL not in first or first[FLOW_RUN_LABEL] != second.get(FLOW_RUN_LABEL):
        return False
    is_gang = first.get(ATTEMPT_ID_LABEL) == second.get(ATTEMPT_ID_LABEL)
    return not is_gang or first.get("job-name") == second.get("job-name")


def gpus_of(pod: Json) -> int:
    """How many GPUs does this pod ask for?"""
    containers = pod["spec"]["containers"]
    return sum(int(c["resources"].get("limits", {}).get(GPU, 0)) for c in containers)


def waits_for_its_forerunner(pod: Json, unended: Sequence[Json]) -> bool:
    """Is it on no node yet, and takes the place of a pod of its Job that is asked to end?

    It holds nothing, and only Kubernetes before 1.26 asks for it.
    """
    job = pod["metadata"].get("labels", {}).get("job-name")
    return "nodeName" not in pod["spec"] and any(
        other["metadata"].get("labels", {}).get("job-name") == job
        and "deletionTimestamp" in other["metadata"]
        for other in unended
        if other is not pod
    )


def line_of(pod: Json) -> str:
    """The pod in one line, to find what went wrong."""
    metadata = pod["metadata"]
    run = metadata.get("labels", {}).get(FLOW_RUN_LABEL)
    ending = ", told to end" if "deletionTimestamp" in metadata else ""
    return (
        f"{metadata['name']} of run {run}: {gpus_of(pod)} GPUs, {pod['status']['phase']} on "
        f"{pod['spec'].get('nodeName')}{ending}"
    )
