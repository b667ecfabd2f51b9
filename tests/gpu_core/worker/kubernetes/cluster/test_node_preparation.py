"""Nodes are made ready by pods, and what came of them is noted on the nodes."""

import json
from dataclasses import replace
from datetime import UTC, datetime, timedelta

import pytest

from gpu_core.adapters.kubernetes import KubernetesError
from gpu_core.decisions.kubernetes.manifests.node_preparation import (
    PREFLIGHT_ANNOTATION,
    PREPULL_ANNOTATION,
)
from gpu_core.decisions.model.cluster import Node
from gpu_core.decisions.policy.kubernetes import KubernetesPolicy
from gpu_core.worker.kubernetes.cluster import node_preparation as node_tasks
from gpu_core.worker.kubernetes.cluster.node_preparation import NodePreparation

pytestmark = pytest.mark.anyio

TESTED = KubernetesPolicy.model_validate({"preflight": {"image": "cuda:12"}})
PULLED = KubernetesPolicy.model_validate({"prepull": ["train:1"]})
NODE = Node(name="n1", gpu_type="l4", gpu_ids=("0", "1"), gpu_memory_gib=24)


@pytest.fixture
def anyio_backend():
    """The client of the cluster is built on asyncio."""
    return "asyncio"


@pytest.fixture(autouse=True)
def _looks_at_once(monkeypatch):
    monkeypatch.setattr(node_tasks, "_POLL_S", 0.0)


class FakeCluster:
    """One node and the pods that were made, with nothing behind them."""

    def __init__(self):
        self.node = {"metadata": {"name": "n1", "uid": "machine-1", "annotations": {}}}
        self.pods = {}
        self.refuses = None

    async def get(self, path, query):
        if self.refuses:
            raise KubernetesError(403, "Forbidden", self.refuses)
        return {"items": list(self.pods.values())}

    async def create(self, path, body):
        name = body["metadata"]["name"]
        assert name not in self.pods
        created = {"creationTimestamp": f"{datetime.now(UTC):%FT%TZ}", **body["metadata"]}
        self.pods[name] = {**body, "metadata": created, "status": {"phase": "Pending"}}
        return self.pods[name]

    async def delete(self, path, grace_s=None):
        self.pods.pop(path.rsplit("/", 1)[1])

    async def patch(self, path, body):
        assert path == "/api/v1/nodes/n1"
        self.node["metadata"]["annotations"].update(body["metadata"]["annotations"])

    def end(self, phase, exit_code=0):
        """The one pod ends."""
        (pod,) = self.pods.values()
        terminated = {"exitCode": exit_code, "message": "Unable to determine the device handle"}
        status = [{"name": "preflight", "state": {"terminated": terminated}}]
        pod["status"] = {"phase": phase, "containerStatuses": status}

    @property
    def note(self):
        return json.loads(self.node["metadata"]["annotations"][PREFLIGHT_ANNOTATION])


@pytest.fixture
def cluster():
    return FakeCluster()


@pytest.fixture
def tasks(cluster):
    return NodePreparation(cluster, lambda: {"n1": cluster.node}, "gpu", "ml", lambda: True)


def usable(tasks, policy=TESTED):
    """How many GPUs the scheduler may plan with."""
    (node,) = tasks.without_untested([NODE], policy, datetime.now(UTC))
    return len(node.gpu_ids) - len(node.unhealthy_gpu_ids)


async def test_a_node_that_passes_gets_work(cluster, tasks):
    assert usable(tasks) == 0
    await tasks.reconcile([NODE], frozenset(), TESTED)
    await tasks.reconcile([NODE], frozenset(), TESTED)
    assert len(cluster.pods) == 1
    assert usable(tasks) == 0
    cluster.end("Succeeded")
    await tasks.reconcile([NODE], frozenset(), TESTED)
    assert cluster.note["passed"] is True
    assert usable(tasks) == 2
    await tasks.reconcile([NODE], frozenset(), TESTED)
    assert cluster.pods == {}


async def test_a_node_that_fails_is_left_out_with_the_reason(cluster, tasks, caplog):
    await tasks.reconcile([NODE], frozenset(), TESTED)
    cluster.end("Failed", exit_code=9)
    await tasks.reconcile([NODE], frozenset(), TESTED)
    assert cluster.note["passed"] is False
    assert "exit code 9, Unable to determine the device handle" in cluster.note["detail"]
    assert "exit code 9" in caplog.text
    assert usable(tasks) == 0
    assert cluster.pods == {}


async def test_a_test_that_never_starts_counts_as_failed(cluster, tasks):
    await tasks.reconcile([NODE], frozenset(), TESTED)
    (pod,) = cluster.pods.values()
    late = datetime.now(UTC) - timedelta(seconds=TESTED.pending_timeout_s)
    pod["metadata"]["creationTimestamp"] = f"{late:%FT%TZ}"
    await tasks.reconcile([NODE], frozenset(), TESTED)
    assert cluster.note["passed"] is False


@pytest.mark.parametrize(
    ("node", "busy"),
    [
        pytest.param(NODE, frozenset({"n1"}), id="a run of ours is there"),
        pytest.param(replace(NODE, gpu_ids=()), frozenset(), id="others have all its GPUs"),
        pytest.param(
            replace(NODE, unhealthy_gpu_ids=frozenset({"0", "1"})), frozenset(), id="cordoned"
        ),
        pytest.param(replace(NODE, is_mig=True), frozenset(), id="its GPUs are divided"),
    ],
)
async def test_a_node_that_is_not_idle_is_not_tested(cluster, tasks, node, busy):
    await tasks.reconcile([node], busy, TESTED)
    assert cluster.pods == {}


async def test_images_are_pulled_beside_the_work_also_when_a_container_of_them_fails(
    cluster, tasks
):
    assert usable(tasks, PULLED) == 2
    await tasks.reconcile([NODE], frozenset({"n1"}), PULLED)
    assert len(cluster.pods) == 1
    cluster.end("Failed", exit_code=127)
    await tasks.reconcile([NODE], frozenset(), PULLED)
    assert cluster.node["metadata"]["annotations"][PREPULL_ANNOTATION]
    assert cluster.pods == {}


async def test_by_default_nothing_is_done_and_nothing_asked(cluster, tasks):
    cluster.refuses = "no"
    await tasks.reconcile([NODE], frozenset(), KubernetesPolicy())
    assert usable(tasks, KubernetesPolicy()) == 2


async def test_a_right_that_is_missing_is_said_once(cluster, tasks, caplog):
    cluster.refuses = "pods is forbidden"
    await tasks.reconcile([NODE], frozenset(), TESTED)
    await tasks.reconcile([NODE], frozenset(), TESTED)
    assert caplog.text.count("pods is forbidden") == 1


async def test_a_worker_that_does_not_act_makes_nothing(cluster):
    tasks = NodePreparation(cluster, lambda: {"n1": cluster.node}, "gpu", "ml", lambda: False)
    await tasks.reconcile([NODE], frozenset(), TESTED)
    assert cluster.pods == {}
