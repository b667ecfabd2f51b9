"""Kueue, played on a cluster that is too old for it.

Jobs with the label of a queue wait until they are admitted, to nodes that the queue chooses. A Job
cannot be suspended before 1.22; one that may have no pod (`parallelism: 0`) waits all the same.
Kueue writes the node selector of a flavor into a suspended Job; here its pods get one when they are
created. The kube-scheduler binds them.
"""

import json
import random
import threading
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from gpu_core.decisions.kubernetes.manifests.names import FLOW_RUN_LABEL, KUEUE_QUEUE_LABEL
from tests.support.admission_webhook import changing
from tests.support.cluster import GPU, Json, KubectlFailed, Namespace, job_manifest
from tests.support.sight import gpus_of, labels_of
from tests.support.waiting import wait_for

_LOOK_S = 1.0
_HOST = "kubernetes.io/hostname"


@dataclass
class JobQueue:
    """Which Job has been admitted to which node?

    Attributes:
        planned: The node that the worker has placed a flow run on; it is avoided.
        draws: One of several nodes.
        nodes: Of admitted Jobs, by the Job's name.
        elsewhere: How many of them are not where the worker had placed them.
    """

    namespace: Namespace
    planned: Callable[[str], str]
    draws: random.Random
    nodes: dict[str, str] = field(default_factory=dict)
    elsewhere: int = 0

    def patch(self, item: Json) -> list[Json]:
        """What is changed of a Job or a pod that is about to be created."""
        if item["kind"] == "Job":
            waits = {"op": "add", "path": "/spec/parallelism", "value": 0}
            return [waits] if KUEUE_QUEUE_LABEL in labels_of(item) else []
        node = self.nodes.get(labels_of(item).get("job-name", ""))
        if node is None:
            return []
        selector = {**item["spec"].get("nodeSelector", {}), _HOST: node}
        return [{"op": "add", "path": "/spec/nodeSelector", "value": selector}]

    def admit(self) -> None:
        """Admit the Jobs that wait and for which a node has room."""
        jobs = self.namespace.get("jobs", f"--selector={KUEUE_QUEUE_LABEL}")["items"]
        for job in jobs:
            if job["spec"]["parallelism"] or "deletionTimestamp" in job["metadata"]:
                continue
            selector = job["spec"]["template"]["spec"].get("nodeSelector", {})
            self._admit(job, self._free(selector))

    def _admit(self, job: Json, free: Mapping[str, int]) -> None:
        name = job["metadata"]["name"]
        wanted = gpus_of(job["spec"]["template"])
        fitting = sorted(node for node, gpus in free.items() if gpus >= wanted)
        if not fitting:
            return
        planned = self.planned(labels_of(job)[FLOW_RUN_LABEL])
        node = self.draws.choice([node for node in fitting if node != planned] or fitting)
        self.nodes[name] = node  # before its pod is created
        self.namespace.kubectl(
            "patch", "job", name, "--patch", json.dumps({"spec": {"parallelism": 1}})
        )
        self.elsewhere += node != planned

    def _free(self, selector: Mapping[str, str]) -> dict[str, int]:
        """The GPUs that no pod has, of nodes that take pods and have the labels of the selector."""
        pods = self.namespace.get("pods")["items"]
        unended = [pod for pod in pods if pod["status"]["phase"] in ("Pending", "Running")]
        there = {labels_of(pod).get("job-name") for pod in pods}
        taken: Counter[str | None] = Counter()
        for pod in unended:
            taken[pod["spec"].get("nodeName") or self._of(pod)] += gpus_of(pod)
        jobs = self.namespace.get("jobs", f"--selector={KUEUE_QUEUE_LABEL}")["items"]
        for job in jobs:
            name = job["metadata"]["name"]
            is_new = name not in there and not job["status"].get("conditions")
            if job["spec"]["parallelism"] and is_new:
                taken[self.nodes[name]] += gpus_of(job["spec"]["template"])
        nodes = self.namespace.cluster.get("nodes")["items"]
        return {
            node["metadata"]["name"]: int(node["status"]["allocatable"].get(GPU, 0))
            - taken[node["metadata"]["name"]]
            for node in nodes
            if takes_pods(node) and selector.items() <= labels_of(node).items()
        }

    def _of(self, pod: Json) -> str | None:
        return self.nodes.get(labels_of(pod).get("job-name", ""))


def takes_pods(node: Json) -> bool:
    """Is this node ready and free of taints?"""
    conditions = {c["type"]: c["status"] for c in node["status"]["conditions"]}
    return conditions.get("Ready") == "True" and not node["spec"].get("taints")


@contextmanager
def job_queue(
    namespace: Namespace, planned: Callable[[str], str], draws: random.Random, folder: Path
) -> Iterator[JobQueue]:
    """Jobs with the label of a queue wait and are admitted, until the block ends.

    Args:
        namespace: Of the Jobs.
        planned: The node that the worker has placed a flow run on.
        draws: For the choice of nodes.
        folder: For the webhook's key and certificate.
    """
    queue, ended = JobQueue(namespace, planned, draws), threading.Event()

    def admit() -> None:
        while not ended.wait(_LOOK_S):
            with suppress(KubectlFailed):  # the API server may be what was stopped
                queue.admit()

    with changing(namespace, ["jobs.batch", "pods"], queue.patch, folder):
        wait_for(lambda: _keeps_waiting(namespace), "the webhook is asked")
        controller = threading.Thread(target=admit)
        controller.start()
        try:
            yield queue
        finally:
            ended.set()
            controller.join()


def _keeps_waiting(namespace: Namespace) -> bool:
    probe: dict[str, Any] = job_manifest("probe", ["true"], gpus=0)
    probe["metadata"]["labels"] = {KUEUE_QUEUE_LABEL: "probe"}
    created = namespace.kubectl(
        *("create", "--dry-run=server", "-o", "json", "-f", "-"), stdin=json.dumps(probe)
    )
    return json.loads(created)["spec"]["parallelism"] == 0
