"""What running pods do, asked of an HTTP server that answers as a Prometheus does."""

import json
import logging
import threading
from datetime import timedelta
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from types import SimpleNamespace
from urllib.parse import parse_qs

import anyio
import pytest

from gpu_core.decisions.model.measurements import Measurements, NodeLoad
from gpu_core.testing.builders.workloads import (
    NOW,
    ago,
    make_allocation,
    make_node,
    make_policy,
    make_workload,
)
from gpu_core.worker.kubernetes.jobs.pod_use import PodUse

POD = {"metadata": {"name": "train-0", "namespace": "vision"}}
OF_POD = {"namespace": "vision", "pod": "train-0"}
GPU = {"UUID": "GPU-a", "gpu": "0", "Hostname": "n1", **OF_POD}
QUIET = [("DCGM_FI_DEV_GPU_UTIL", 0), ("DCGM_FI_DEV_FB_USED", 400), ("DCGM_FI_DEV_FB_FREE", 600)]


class Answering(BaseHTTPRequestHandler):
    def do_POST(self):
        form = parse_qs(self.rfile.read(int(self.headers["Content-Length"])).decode())
        (query,), (end,) = form["query"], form["end"]
        self.server.asked += 1
        assert 'n1"' in query or 'vision"' in query, "other clusters may be in this Prometheus"
        if "container_cpu_usage_seconds_total" in query:
            rows = [{"metric": OF_POD, "values": [[float(end), "0.01"]]}]
        else:
            rows = [
                {"metric": {"__name__": name, **GPU}, "values": [[float(end), str(value)]]}
                for name, value in self.server.values
            ]
        body = json.dumps({"status": "success", "data": {"result": rows}}).encode()
        self.send_response(self.server.status)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_arguments):
        pass


@pytest.fixture
def server():
    found = ThreadingHTTPServer(("127.0.0.1", 0), Answering)
    found.asked, found.values, found.status = 0, QUIET, 200
    thread = threading.Thread(target=found.serve_forever, args=(0.01,))
    thread.start()
    yield found
    found.shutdown()
    thread.join()
    found.server_close()


def running(gpus=1, **shape):
    attempt = SimpleNamespace(
        attempt_id="a1", gpu_count=gpus, started_at=ago(3600), admitted_at=ago(3700)
    )
    return SimpleNamespace(attempt=attempt, workload=make_workload("w", gpus, **shape))


def use_of(server, **sections):
    telemetry = {"prometheus_url": f"http://127.0.0.1:{server.server_port}"}
    telemetry |= sections.pop("telemetry", {})
    found = PodUse(
        lambda attempt_id: [POD] if attempt_id == "a1" else [],
        lambda: ["n1"],
        lambda: ["vision"],
        answer_s=60.0,
    )
    found.set_policy(make_policy(telemetry=telemetry, **sections))
    return found


def ask(use, *seconds):
    for second in seconds:
        anyio.run(use.ask, NOW + timedelta(seconds=second))


def test_the_activity_of_a_run_in_pods_is_folded_from_answer_to_answer(server):
    use = use_of(server)
    ask(use, 0)
    first = use.activity(running())
    ask(use, 30)
    second = use.activity(running())
    assert (first.at, second.at) == (NOW, NOW + timedelta(seconds=30))
    assert second.gpus[0].quiet_since == NOW
    assert second.gpus[0].memory_used_bytes == 400 * 2**20
    assert second.cores.value == 0.01
    assert use.activity(running(gpus=2)) == second, "it keeps the GPUs that it began with"
    assert use.activity(running(gpu_share_milli=500)) is None, "others may be on this GPU"

    use.forget("a1")
    assert use.activity(running(gpus=2)) is None


def test_plans_read_the_last_minutes_where_the_policy_says_so(server):
    allocation = make_allocation(make_workload("w"), {"n1": "0"})
    asked = ([running()], [make_node()], [allocation], NOW)
    use = use_of(server, telemetry={"planning_window": "5m"})
    assert use.measurements(*asked) == Measurements(), "nothing was asked yet"
    ask(use, 0)
    assert use.measurements(*asked) == Measurements(
        loads={"n1": NodeLoad(load_ratio=0.4, held_milli=1000)}, utilization={"w": 0.0}
    )
    late = (*asked[:3], NOW + timedelta(seconds=121))
    assert use.measurements(*late) == Measurements()

    silent = use_of(server)
    ask(silent, 0)
    assert silent.measurements(*asked) == Measurements(), "the policy names no window"


def test_a_prometheus_that_fails_is_said_once_and_leaves_what_was_known(server, caplog):
    use = use_of(server)
    ask(use, 0)
    before = use.activity(running())
    server.status = 500
    with caplog.at_level(logging.WARNING, "prefect.gpu.telemetry"):
        ask(use, 30, 60)
        assert use.activity(running()) == before
        server.status = 200
        ask(use, 90)
    assert [record.getMessage()[:56] for record in caplog.records] == [
        "GPU usage metrics for running pods are unavailable: http",
        "GPU usage metrics for running pods are available again",
    ]
    assert use.activity(running()).at == NOW + timedelta(seconds=90)


def test_an_answer_that_cannot_be_used_ends_no_worker(server, caplog, monkeypatch):
    """The questions share a task group with all that the worker does."""

    async def garbage(*_arguments):
        return [None]

    monkeypatch.setattr("gpu_core.worker.kubernetes.jobs.pod_use.query_range", garbage)
    caplog.set_level(logging.WARNING)
    use = use_of(server)
    ask(use, 0, 30)
    assert use.activity(running()) is None
    assert [r.message for r in caplog.records if "unexpected response" in r.message] == [
        r.message for r in caplog.records
    ]
    assert len(caplog.records) == 1


def test_nothing_is_asked_that_the_policy_has_no_use_for(server):
    ask(use_of(server, idle={"action": "off"}, hangs={"action": "off"}), 0)
    ask(use_of(server, telemetry={"prometheus_url": None}), 0)
    assert server.asked == 0
