"""GPUs of a cluster that are not well are held, noted on their node, and left by their runs."""

import logging
from datetime import UTC, datetime, timedelta
from types import SimpleNamespace

import pytest

from gpu_core.adapters.kubernetes import KubernetesError
from gpu_core.adapters.prometheus.queries import PrometheusError
from gpu_core.decisions.kubernetes.nodes.held_gpus import HELD_ANNOTATION, held_on
from gpu_core.decisions.model.attempts import EndReason
from gpu_core.decisions.model.cluster import Machine, Node, NodeShare
from gpu_core.decisions.model.gpu_health import HealthVerdict
from gpu_core.decisions.policy.policy import Policy
from gpu_core.decisions.policy.telemetry import TelemetryPolicy
from gpu_core.decisions.telemetry.series import Series
from gpu_core.worker.kubernetes.cluster import gpu_health
from gpu_core.worker.kubernetes.cluster.gpu_health import GpuHealthWatch
from gpu_core.worker.kubernetes.cluster.rbac_warnings import MissingRights
from tests.gpu_core.worker.kubernetes.objects import make_pod

pytestmark = pytest.mark.anyio

START = datetime(2026, 11, 26, tzinfo=UTC)
TEMPERATURE = "prefect_gpu_device_temperature_celsius"
URL = "http://prometheus:9090"
POLICY = Policy.model_validate({"version": 1, "prices": {"l4": {"on-demand": 0.7}}})


@pytest.fixture
def anyio_backend():
    return "asyncio"


class World:
    """A cluster of two nodes with two GPUs each, and a Prometheus that knows them."""

    def __init__(self, monkeypatch):
        self.clock_s, self.withdrawn = 0.0, 0
        self.nodes = {
            name: {"metadata": {"name": name, "uid": name, "annotations": {}}}
            for name in ("n1", "n2")
        }
        self.now, self.woken, self.refusal, self.failure, self.acts = START, 0, None, None, True
        self.rows, self.patches, self.pods = {}, 0, {"GPU-a": "train-0"}
        monkeypatch.setattr(gpu_health, "query_samples", self.query)
        self.restart()

    def restart(self):
        self.watch = GpuHealthWatch(
            self, lambda: self.nodes, lambda: dict.fromkeys(self.nodes, 2),
            lambda: self.acts, MissingRights(), self.wake, clock_s=lambda: self.clock_s,
        )  # fmt: skip
        self.watch.set_policy(TelemetryPolicy(prometheus_url=URL))

    def wake(self):
        self.woken += 1

    async def patch(self, path, body):
        if self.refusal:
            raise self.refusal
        self.patches += 1
        node = self.nodes[path.rsplit("/", 1)[1]]
        node["metadata"]["annotations"] |= body["metadata"]["annotations"]

    async def query(self, url, query, now, timeout_s):
        assert url == URL
        if self.failure:
            raise self.failure
        return self.series if ",node=~" in query else ()

    async def look(self, times=1, **temperatures):
        for _ in range(times):
            self.now += timedelta(seconds=15)
            self.series = tuple(
                Series(
                    name=TEMPERATURE,
                    labels={
                        "gpu": gpu_id, "node": node, "namespace": "ml",
                        "pod": self.pods.get(gpu_id, ""),
                    },
                    value=temperatures.get(gpu_id.replace("-", "_"), 60.0),
                    at=self.now,
                )
                for gpu_id, node in (("GPU-a", "n1"), ("GPU-b", "n1"), ("GPU-c", "n2"))
            )  # fmt: skip
            await self.watch.ask(self.now)
        return {n: sorted(held_on(node)) for n, node in self.nodes.items() if held_on(node)}

    def usable(self):
        machine = Machine(gpus=2, faulty_gpus=self.withdrawn)
        nodes = [
            Node(name=name, gpu_type="l4", gpu_ids=("0", "1"), machine=machine)
            for name in self.nodes
        ]
        return {
            node.name: len(node.gpu_ids) - len(node.unhealthy_gpu_ids)
            for node in self.watch.without_held(nodes, POLICY)
        }

    def trouble(self, pod, node="n1", gpus=1):
        share = NodeShare(node=node, gpu_ids=tuple(map(str, range(gpus))))
        attempt = SimpleNamespace(held=(share,), bound_at=START)
        pods = [make_pod(node=node, uid=pod)]
        return self.watch.trouble(SimpleNamespace(attempt=attempt), pods, self.now)


@pytest.fixture
def world(monkeypatch):
    return World(monkeypatch)


async def test_a_hot_gpu_is_held_and_its_run_alone_moves(world, caplog):
    assert await world.look(3) == {}
    assert world.usable() == {"n1": 2, "n2": 2}
    assert await world.look(2, GPU_a=90.0) == {}
    assert world.trouble("train-0") is None
    assert await world.look(1, GPU_a=90.0) == {"n1": ["GPU-a"]}
    assert world.woken == 1
    assert world.usable() == {"n1": 0, "n2": 2}, "the device plugin may give it to any pod there"
    assert world.watch.verdicts == {"GPU-a": HealthVerdict.DRAIN}
    moved = world.trouble("train-0")
    assert moved.reason is EndReason.INTERRUPTED
    assert moved.message == ("GPU-a has failed: 90 °C, from 85 °C on it is too hot (node n1).")
    assert world.trouble("train-1") is None, "it has another GPU of the node"
    assert world.trouble("train-2", node="n2") is None
    (line,) = [r.getMessage() for r in caplog.records if r.levelno == logging.ERROR]
    assert line == (
        "GPU-a on node n1 is held (drain): 90 °C, from 85 °C on it is too hot. Check its "
        f"cooling, then free it with `kubectl annotate node n1 {HELD_ANNOTATION}-`."
    )


async def test_what_the_other_gpus_of_its_node_cost_is_said_once(world, caplog):
    await world.look(3)
    await world.look(3, GPU_a=90.0)
    world.usable()
    world.usable()
    lines = [
        r.getMessage() for r in caplog.records if "No new runs are scheduled" in r.getMessage()
    ]
    assert lines == [
        "No new runs are scheduled on node n1 until its device plugin withdraws the held "
        "GPUs. Its other 1 GPU may be idle, costing $0.7000 per hour"
    ]


async def test_a_device_plugin_that_changes_its_mind_is_logged_once_an_hour(world, caplog):
    await world.look(3)
    await world.look(3, GPU_a=90.0)
    for at_s in (0, 60, 3500, 3700, 3760):
        world.clock_s = at_s
        for world.withdrawn in (0, 1):
            world.usable()
    lines = [r for r in caplog.records if "No new runs are scheduled" in r.getMessage()]
    assert len(lines) == 2


async def test_where_no_pod_is_known_only_a_run_with_all_gpus_of_the_node_moves(world):
    world.pods = {}
    await world.look(3)
    await world.look(3, GPU_a=90.0)
    assert world.usable()["n1"] == 0
    assert world.trouble("train-0") is None
    assert world.trouble("train-0", gpus=2).reason is EndReason.INTERRUPTED


async def test_a_held_gpu_stays_held_over_a_restart_and_until_a_person_frees_it(world):
    await world.look(3)
    await world.look(3, GPU_a=90.0)
    world.restart()
    await world.look(9)
    assert world.usable() == {"n1": 0, "n2": 2}
    assert world.trouble("train-0") is not None
    del world.nodes["n1"]["metadata"]["annotations"][HELD_ANNOTATION]
    await world.look()
    assert world.usable() == {"n1": 2, "n2": 2}
    assert world.trouble("train-0") is None


async def test_what_a_person_frees_is_judged_anew(world, caplog):
    await world.look(3)
    await world.look(4, GPU_a=90.0)
    del world.nodes["n1"]["metadata"]["annotations"][HELD_ANNOTATION]
    assert await world.look() == {}
    assert world.usable() == {"n1": 2, "n2": 2}
    assert "GPU-a on node n1 is available again" in caplog.text
    assert world.watch.verdicts == {}
    assert await world.look(2, GPU_a=90.0) == {}
    assert await world.look(1, GPU_a=90.0) == {"n1": ["GPU-a"]}


async def test_without_the_right_to_patch_nodes_it_is_held_until_a_restart(world, caplog):
    message = 'nodes "n1" is forbidden: User "u" cannot patch resource "nodes" in API group ""'
    world.refusal = KubernetesError(403, "Forbidden", message)
    await world.look(3)
    assert await world.look(9, GPU_a=90.0) == {}
    assert world.usable() == {"n1": 0, "n2": 2}
    assert world.trouble("train-0") is not None
    assert caplog.text.count("held GPUs are released when the worker restarts") == 1
    world.restart()
    await world.look(9)
    assert world.usable() == {"n1": 2, "n2": 2}


async def test_a_worker_on_standby_changes_no_node(world):
    world.acts = False
    await world.look(3)
    assert await world.look(9, GPU_a=90.0) == {}
    world.acts = True
    assert await world.look() == {"n1": ["GPU-a"]}


@pytest.mark.parametrize(
    "failure",
    [
        pytest.param(PrometheusError("http://prometheus:9090 refuses: no"), id="it refuses"),
        pytest.param(TimeoutError(), id="it does not answer"),
        pytest.param(ZeroDivisionError(), id="it answers anything"),
    ],
)
async def test_a_prometheus_that_is_away_holds_nothing_and_is_said_once(world, caplog, failure):
    await world.look(3)
    world.failure = failure
    await world.look(9, GPU_a=90.0)
    assert world.usable() == {"n1": 2, "n2": 2}
    assert caplog.text.count("GPU health metrics are unavailable: ") == 1
    world.failure = None
    assert await world.look() == {}
    assert caplog.text.count("GPU health metrics are available again") == 1


async def test_what_is_held_stays_held_while_prometheus_is_away(world):
    await world.look(3)
    await world.look(3, GPU_a=90.0)
    world.failure = TimeoutError()
    await world.look(20)
    assert world.usable() == {"n1": 0, "n2": 2}
    assert world.trouble("train-0") is None, "which pod is on it is not known any more"


async def test_without_an_address_nothing_is_asked(world):
    world.failure = ZeroDivisionError()
    world.watch.set_policy(TelemetryPolicy())
    assert await world.look(9, GPU_a=90.0) == {}
    assert world.usable() == {"n1": 2, "n2": 2}


async def test_a_node_that_is_gone_takes_its_held_gpus_with_it(world):
    world.refusal = KubernetesError(503, "Unavailable", "later")
    await world.look(3)
    await world.look(3, GPU_a=90.0)
    del world.nodes["n1"]
    world.refusal = None
    await world.look(3)
    assert (world.usable(), world.patches) == ({"n2": 2}, 0)


async def test_what_cannot_be_understood_is_not_overwritten_by_the_next_finding(world):
    world.nodes["n1"]["metadata"]["annotations"][HELD_ANNOTATION] = "{damaged"
    await world.look(3, GPU_a=90.0)
    assert world.nodes["n1"]["metadata"]["annotations"][HELD_ANNOTATION] == "{damaged"
    assert world.usable() == {"n1": 0, "n2": 2}
    assert world.trouble("train-0") is not None, "its run moves all the same"
