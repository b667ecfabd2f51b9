"""GPUs of a real node that are not well: their runs move, resumed, and nothing else moves."""

import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from functools import partial
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

from gpu_core.decisions.kubernetes.nodes.held_gpus import HELD_ANNOTATION, held_on
from gpu_core.decisions.model.attempts import EndReason
from tests.cluster.pools import FLOWS, POLICY
from tests.support.cluster import GPU, KUBECONFIG_VARIABLE
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
        targets = {"honor_labels": True, "static_configs": [{"targets": [address]}]}
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
    deployment = pool.deploy(f"{FLOWS}:count_until_released", gpu_count=1)
    folder = pool.folder / "shared"
    folders, runs = {name: folder / name for name in REASONS}, {}
    for name, each in folders.items():
        each.mkdir(parents=True)
        runs[name] = pool.submit(deployment, name, {"folder": str(each)})
    release = folder / "release"
    neighbour = pool.submit(
        *(deployment, "neighbour"),
        container_command=f"/bin/sh -c 'until [ -e {release} ]; do sleep 0.5; done'",
    )
    pool.start_worker()
    for name, run in runs.items():
        wait_for(lambda run=run: any(a.checkpoint for a in pool.attempts(run)), f"{name} has saved")
    pool.wait_until(neighbour, "Running", timeout_s=600)
    for name, run in (*runs.items(), ("neighbour", neighbour)):
        of_run = f"--selector=prefect-gpu.dev/flow-run-id={run}"
        (pod,) = namespace.get("pods", of_run)["items"]
        exporter.pods[name] = pod["metadata"]["name"]
    seen = "min(count_over_time(prefect_gpu_device_xid_errors_total[1m])) > 2"
    wait_for(lambda: prometheus.result(seen), "all were scraped while they were well")

    exporter.are_ill = True
    wait_for(lambda: len(held_on(cluster.get("node", node))) == 2, "both are held")

    def resumed():
        """The device plugin withdraws both; a kubelet without one takes that back."""
        fewer = json.dumps({"status": {"allocatable": {GPU: "6"}}})
        cluster.kubectl("patch", "node", node, "--subresource=status", f"--patch={fewer}")
        return all((folders[name] / "began-2").exists() for name in REASONS)

    wait_for(resumed, "both have begun again")
    for each in (release, *(each / "release" for each in folders.values())):
        each.touch()
    for run in (*runs.values(), neighbour):
        pool.wait_until(run, "Completed", timeout_s=600)
        wait_for(partial(is_settled, pool, run), "its last attempt is settled")

    for name, reason in REASONS.items():
        first, second = pool.attempts(runs[name])
        resumed_s = (second.started_at - first.drain_requested_at).total_seconds()
        print(f"{name}: another attempt {resumed_s:.1f} s after the first was asked to save")
        assert first.end_reason is EndReason.INTERRUPTED
        assert not first.is_charged_failure
        why = f"Interrupted: GPU-{name} has failed: {reason} (node {node}); trying again"
        assert why in first.end_message
        assert any(why in line for line in pool.logs(runs[name]))
        assert second.restored_from == first.checkpoint is not None
        assert int((folders[name] / "began-2").read_text()) > 0
    assert len(pool.attempts(neighbour)) == 1


def is_settled(pool, run):
    """Prefect may know the end of a run before the ledger."""
    return all(attempt.released_at for attempt in pool.attempts(run))
