"""GPUs of a real node that are not well: their runs move, resumed, and nothing else moves."""

import json
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from functools import partial
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest

from gpu_core.decisions.kubernetes.nodes.held_gpus import HELD_ANNOTATION, held_on
from gpu_core.decisions.model.attempts import EndReason
from gpu_core.decisions.telemetry.health import HOT_FOR
from tests.cluster.pools import FLOWS, POLICY
from tests.support.cluster import GPU, KUBECONFIG_VARIABLE
from tests.support.prefect_stack import ENGINE
from tests.support.prometheus import run_prometheus
from tests.support.tools import do_without
from tests.support.waiting import wait_for

REASONS = {
    "off-the-bus": "XID 79 (the GPU has fallen off the bus)",
    "hot": "90 °C, from 85 °C on it is too hot",
}


class NodeExporter:
    """Exports one GPU for each pod: the local cluster counts its GPUs, and has none."""

    def __init__(self, labels: dict[str, str]) -> None:
        self._labels = labels
        self.pods: dict[str, str] = {}
        """By GPU."""
        self.are_ill = False

    def metrics(self) -> str:
        """The answer to a scrape."""
        lines = []
        for gpu, pod in self.pods.items():
            named = {"gpu": f"GPU-{gpu}", "pod": pod, **self._labels}
            labels = ",".join(f'{name}="{value}"' for name, value in named.items())
            celsius = 90 if self.are_ill and gpu == "hot" else 60
            errors = int(self.are_ill and gpu == "off-the-bus")
            lines += [
                f"prefect_gpu_device_temperature_celsius{{{labels}}} {celsius}",
                f'prefect_gpu_device_xid_errors_total{{{labels},xid="79"}} {errors}',
            ]
        return "".join(f"{line}\n" for line in lines)


@contextmanager
def scraped(exporter: NodeExporter) -> Iterator[str]:
    """The address at which it answers scrapes."""

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            body = exporter.metrics().encode()
            self.send_response(200)
            self.send_header("Content-Type", "text/plain; version=0.0.4")
            self.send_header("Content-Length", str(len(body)))
            with suppress(ConnectionError):  # a scrape of a busy machine may have timed out
                self.end_headers()
                self.wfile.write(body)

        def log_message(self, *_: object) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    try:
        yield f"127.0.0.1:{server.server_port}"
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


def test_xid_79_and_90_degrees_each_move_a_training_to_another_gpu(
    cluster, namespace, new_pool, tmp_path
):
    if cluster.state is None:
        do_without(
            "a device plugin that withdraws GPUs is played on a cluster of the tests' own",
            f"run without {KUBECONFIG_VARIABLE}",
        )
    (node,) = cluster.nodes()
    exporter = NodeExporter({"node": node, "namespace": namespace.name})
    with scraped(exporter) as address:
        every = {"scrape_interval": "5s", "scrape_timeout": "5s"}  # as docs/monitoring.md has it
        targets = {"honor_labels": True, "static_configs": [{"targets": [address]}], **every}
        folder = tmp_path / "prometheus"
        folder.mkdir()
        with run_prometheus(folder, [{"job_name": "nodes", **targets}]) as prometheus:
            pool = new_pool(f"{POLICY}telemetry: {{prometheus_url: '{prometheus.url}'}}\n")
            try:
                trainings_move(cluster, namespace, node, exporter, prometheus, pool)
            finally:
                pool.close()  # it would hold them again
                cluster.kubectl("annotate", "node", node, f"{HELD_ANNOTATION}-")


def trainings_move(cluster, namespace, node, exporter, prometheus, pool):
    """The story itself."""
    deployment = pool.deploy(f"{FLOWS}:count_until_released", gpu_count=1, **ENGINE)
    folder = pool.folder / "shared"
    folders, runs = {name: folder / name for name in REASONS}, {}
    for name, each in folders.items():
        each.mkdir(parents=True)
        runs[name] = pool.submit(deployment, name, {"folder": str(each)})
    release = folder / "release"
    neighbor = pool.submit(
        *(pool.deploy(f"{FLOWS}:do_nothing"), "neighbor"),
        container_command=f"/bin/sh -c 'until [ -e {release} ]; do sleep 0.5; done'",
    )
    pool.start_worker()
    for name, run in runs.items():
        wait_for(lambda run=run: any(a.checkpoint for a in pool.attempts(run)), f"{name} has saved")
    pool.wait_until(neighbor, "Running", timeout_s=600)
    for name, run in (*runs.items(), ("neighbor", neighbor)):
        of_run = f"--selector=prefect-gpu.dev/flow-run-id={run}"
        (pod,) = namespace.get("pods", of_run)["items"]
        exporter.pods[name] = pod["metadata"]["name"]
    seen = "count(count_over_time(prefect_gpu_device_xid_errors_total[1m]) > 2) == 3"
    wait_for(lambda: prometheus.result(seen), "all were scraped while they were well")

    ill_s, exporter.are_ill = time.time(), True
    wait_for(lambda: len(held_on(cluster.get("node", node))) == 2, "both are held")
    held_s, held = time.time(), held_on(cluster.get("node", node))
    counted_when_sure(prometheus, {name: held[f"GPU-{name}"].found_at for name in REASONS})

    def resumed():
        """The device plugin withdraws both; a kubelet without one takes that back."""
        fewer = json.dumps({"status": {"allocatable": {GPU: "6"}}})
        cluster.kubectl("patch", "node", node, "--subresource=status", f"--patch={fewer}")
        return all((folders[name] / "began-2").exists() for name in REASONS)

    wait_for(resumed, "both have begun again")
    for each in (release, *(each / "release" for each in folders.values())):
        each.touch()
    for run in (*runs.values(), neighbor):
        pool.wait_until(run, "Completed", timeout_s=600)
        wait_for(partial(is_settled, pool, run), "its last attempt is settled")

    for name, reason in REASONS.items():
        first, second = pool.attempts(runs[name])
        began_s = (folders[name] / "began-2").stat().st_mtime
        # How long this machine takes to start a flow, which is no part of what is decided.
        start_s = (folders[name] / "began-1").stat().st_mtime - first.started_at.timestamp()
        print(
            f"{name}: at work on another GPU {began_s - ill_s:.1f} s after it became ill: "
            f"found after {held[f'GPU-{name}'].found_at.timestamp() - ill_s:.1f} s, "
            f"both held within {held_s - ill_s:.1f} s, "
            f"asked to save after {first.drain_requested_at.timestamp() - ill_s:.1f} s, "
            f"released after {first.released_at.timestamp() - ill_s:.1f} s, "
            f"admitted again after {second.admitted_at.timestamp() - ill_s:.1f} s, "
            f"started after {second.started_at.timestamp() - ill_s:.1f} s; "
            f"its first attempt had started within {start_s:.1f} s"
        )
        assert first.end_reason is EndReason.INTERRUPTED
        assert not first.is_charged_failure
        why = f"Interrupted: GPU-{name} has failed: {reason} (node {node}). Retrying the run"
        assert why in first.end_message
        assert any(why in line for line in pool.logs(runs[name]))
        assert second.restored_from == first.checkpoint is not None
        assert int((folders[name] / "began-2").read_text()) > 0
    assert len(pool.attempts(neighbor)) == 1


def counted_when_sure(prometheus, found_at):
    """Each was found by the first scrape that makes it sure, however slow this machine is."""
    for name, metric, ill in (
        ("off-the-bus", "prefect_gpu_device_xid_errors_total", 1),
        ("hot", "prefect_gpu_device_temperature_celsius", 90),
    ):
        (row,) = prometheus.result(f'{metric}{{gpu="GPU-{name}"}}[10m]')
        moments_s = [at_s for at_s, value in row["values"] if float(value) == ill]
        sure_s = next(
            at_s
            for number, at_s in enumerate(moments_s, 1)
            if number >= 2
            and (name != "hot" or (number >= 3 and at_s - moments_s[0] >= HOT_FOR.total_seconds()))
        )
        assert found_at[name].timestamp() == pytest.approx(sure_s, abs=0.001), name


def is_settled(pool, run):
    """Prefect may know the end of a run before the ledger."""
    return all(attempt.released_at for attempt in pool.attempts(run))
