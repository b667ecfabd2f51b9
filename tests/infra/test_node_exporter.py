"""A node exporter over the mock driver, scraped by a real Prometheus with our rules."""

import signal
import subprocess
import sys
from datetime import UTC, datetime

import anyio
import httpx
import pytest

from gpu_core.decisions.kubernetes.nodes.held_gpus import held_on
from gpu_core.decisions.policy.telemetry import TelemetryPolicy
from gpu_core.worker.kubernetes.cluster.gpu_health import GpuHealthWatch
from gpu_core.worker.kubernetes.cluster.rbac_warnings import MissingRights
from tests.support.nvml_driver import build_driver, driver_environment, gpu_lines
from tests.support.prometheus import run_prometheus
from tests.support.waiting import wait_for

MIB = 2**20
BUSY = {
    "utilization": 93,
    "memory_used": 40960 * MIB,
    "temperature": 66,
    "power": 512_500,
    "energy": 123_456_789,
    "sm_clock": 1980,
}


@pytest.fixture
def node(tmp_path):
    """Starts `prefect-gpu gpus export` on a machine of these lines; its address."""
    driver = build_driver(tmp_path)
    machine = tmp_path / "machine"
    log = (tmp_path / "exporter.log").open("w")
    started = []

    def start(lines):
        machine.write_text("\n".join(lines) + "\n")
        process = subprocess.Popen(
            [
                sys.executable,
                "-m",
                "gpu_core.cli",
                "gpus",
                "export",
                "--port=0",
                "--interval=0.1",
                "--node=n1",
            ],
            env=driver_environment(driver, machine),
            stdout=subprocess.PIPE,
            stderr=log,
            text=True,
        )
        started.append(process)
        return process.stdout.readline().strip()

    start.machine, start.log = machine, tmp_path / "exporter.log"
    yield start
    for process in started:
        process.send_signal(signal.SIGTERM)
        assert process.wait() == 0
        process.stdout.close()
    log.close()


def test_a_real_prometheus_has_the_gpus_of_a_node_under_the_recorded_names(node, tmp_path):
    url = node([*gpu_lines("GPU-a", **BUSY), *gpu_lines("GPU-b")])
    wait_for(lambda: "GPU-b" in httpx.get(url).text, "the exporter has sampled")
    text = httpx.get(url).text
    labels = (
        'container="",gpu="GPU-a",gpu_type="h100-80gb",index="0",namespace="",node="n1",'
        'parent_gpu="",pod=""'
    )
    assert f"prefect_gpu_device_utilization_ratio{{{labels}}} 0.93" in text
    assert f"prefect_gpu_device_power_watts{{{labels}}} 512.5" in text
    assert "prefect_gpu_device_held{" not in text, "which pods there are is unknown"
    job = {"job_name": "node", "static_configs": [{"targets": [url.split("/")[2]]}]}
    with run_prometheus(tmp_path, [job]) as prometheus:
        for query, want in (
            ('gpu:utilization:ratio{gpu="GPU-a"}', "0.93"),
            ('gpu:memory_used:ratio{gpu="GPU-a"}', "0.5"),
            ('gpu:temperature:celsius{gpu="GPU-a"}', "66"),
            ('gpu:power:watts{gpu="GPU-a"}', "512.5"),
            ('gpu:lost:bool{gpu="GPU-b"}', "0"),
        ):
            wait_for(lambda query=query: prometheus.result(query), f"{query} has a value")
            found = prometheus.result(query)
            assert [each["value"][1] for each in found] == [want], query


def test_errors_and_a_lost_gpu_are_exported(node):
    url = node(gpu_lines("GPU-a"))
    wait_for(lambda: "GPU-a" in httpx.get(url).text, "the exporter has sampled")
    errors = 'prefect_gpu_device_xid_errors_total{gpu="GPU-a",node="n1",xid="79"} 1.0'
    lines = [*gpu_lines("GPU-a"), "xid GPU-a 79"]
    node.machine.write_text("\n".join(lines) + "\n")
    wait_for(lambda: errors in httpx.get(url).text, "the error is counted")
    lines = [*gpu_lines("GPU-a"), "lost GPU-a 15"]  # NVML_ERROR_GPU_IS_LOST
    node.machine.write_text("\n".join(lines) + "\n")
    wait_for(lambda: lost(httpx.get(url).text), "the GPU is lost")
    assert errors in httpx.get(url).text


def lost(text):
    lines = [line for line in text.splitlines() if line.startswith("prefect_gpu_device_lost{")]
    return any(line.endswith(" 1.0") for line in lines)


def test_without_a_driver_it_answers_and_says_so_once(node, tmp_path):
    (tmp_path / "libnvidia-ml.so.1").unlink()
    url = node([])
    wait_for(lambda: "are unknown" in node.log.read_text(), "it says so")
    assert "prefect_gpu_device_utilization_ratio{" not in httpx.get(url).text
    assert node.log.read_text().count("\n") == 1
    assert "the NVIDIA driver is not loaded" in node.log.read_text()


class Cluster:
    """A node with two GPUs."""

    def __init__(self, name="n1"):
        self.nodes = {name: {"metadata": {"name": name, "uid": "u1", "annotations": {}}}}

    async def patch(self, path, body):
        node = self.nodes[path.rsplit("/", 1)[1]]
        node["metadata"]["annotations"] |= body["metadata"]["annotations"]

    def watch(self, url):
        found = GpuHealthWatch(
            self,
            lambda: self.nodes,
            lambda: dict.fromkeys(self.nodes, 2),
            lambda: True,
            MissingRights(),
            lambda: None,
            answer_s=60.0,
        )
        found.set_policy(TelemetryPolicy(prometheus_url=url))
        return found

    @property
    def held(self):
        return {
            gpu: each.reason for node in self.nodes.values() for gpu, each in held_on(node).items()
        }


def test_what_a_real_prometheus_knows_holds_the_gpus_of_our_nodes_that_are_not_well(node, tmp_path):
    """Another cluster's worker asks the same Prometheus, and its nodes have other names."""
    well = gpu_lines("GPU-a", temperature=60)
    url = node([*well, *gpu_lines("GPU-b", temperature=60)])
    wait_for(lambda: "GPU-b" in httpx.get(url).text, "the exporter has sampled")
    job = {
        "job_name": "node",
        "honor_labels": True,
        "static_configs": [{"targets": [url.split("/")[2]]}],
    }
    with run_prometheus(tmp_path, [job]) as prometheus:
        seen = 'count_over_time(prefect_gpu_device_lost{gpu="GPU-b"}[1m]) > 3'
        wait_for(lambda: prometheus.result(seen), "there are scrapes")
        ours, other = Cluster(), Cluster("n2")
        watches = [ours.watch(prometheus.url), other.watch(prometheus.url)]

        def held():
            for watch in watches:
                anyio.run(watch.ask, datetime.now(UTC))
            return ours.held

        assert held() == {}
        hot = gpu_lines("GPU-b", temperature=90)
        node.machine.write_text("\n".join([*well, "xid GPU-a 79", *hot]) + "\n")
        wait_for(lambda: len(held()) == 2, "both are held")
        assert ours.held == {
            "GPU-a": "XID 79 (the GPU has fallen off the bus) (node n1)",
            "GPU-b": "90 °C, from 85 °C on it is too hot (node n1)",
        }
        assert other.held == {}
