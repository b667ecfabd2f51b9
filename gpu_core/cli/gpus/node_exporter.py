"""`prefect-gpu gpus export`: what the GPUs of this node do, for Prometheus."""

import logging
import signal
import sys
import threading
from collections import Counter
from collections.abc import Callable
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path

from gpu_core.adapters.host.pod_resources import PodResourcesError, read_gpu_pods
from gpu_core.adapters.nvml import DiscoveredGpu, GpuDiscoveryError, GpuSampler, discover_gpus
from gpu_core.adapters.nvml.driver import DriverReplacedError
from gpu_core.adapters.nvml.sample_source import SampleSource
from gpu_core.adapters.prometheus.server import MetricsServer
from gpu_core.decisions.catalog.product_names import gpu_type_from_product_name
from gpu_core.decisions.telemetry.metrics import MetricFamily
from gpu_core.decisions.telemetry.node_metrics import ExporterFacts, GpuFacts, GpuPod, node_metrics

_log = logging.getLogger("prefect.gpu.exporter")

# NVML that failed is initialized anew: that takes seconds, and other programs wait for it.
_FIRST_PAUSE_S, _LONGEST_PAUSE_S = 5.0, 300.0

# Pods come and go within seconds, and a scrape is every 15 to 60 seconds.
_PODS_EVERY_S = 10.0


class NodeExporter:
    """Samples the GPUs of this node again and again.

    Args:
        interval_s: Between two samples.
        node: The node's name in its cluster; empty: unknown.
        pods: The containers on GPUs; None: they cannot be known here.
        sampler: Asks NVML.
        discover: The GPUs of this machine.
    """

    def __init__(
        self,
        interval_s: float,
        pods: Callable[[], tuple[GpuPod, ...]] | None = None,
        sampler: SampleSource | None = None,
        node: str = "",
        discover: Callable[[], tuple[DiscoveredGpu, ...]] = lambda: discover_gpus({}),
    ) -> None:
        self._interval_s = interval_s
        self._pods = pods
        self._sampler = sampler or GpuSampler()
        self._discover = discover
        self._facts = ExporterFacts(node=node)
        self._xids: Counter[tuple[str, int]] = Counter()
        self._complaints: dict[str, str] = {}
        self._pause_s = _FIRST_PAUSE_S
        self._pods_at: datetime | None = None
        self.is_outdated = False
        """The driver was replaced and only a new process loads its library."""

    def families(self) -> list[MetricFamily]:
        """The newest samples. Safe to call from any thread."""
        return node_metrics(self._facts, datetime.now(UTC))

    def look(self, now: datetime) -> float:
        """Take one sample of each GPU. Seconds until the next one."""
        try:
            if not self._facts.gpus:
                self._facts = replace(self._facts, gpus=_facts_of(self._discover()))
            samples = self._sampler.sample(now)
        except GpuDiscoveryError as error:
            self._say("GPUs", str(error))
            self._facts = replace(self._facts, samples=(), sampled_at=None, gpus={})
            pause_s, self._pause_s = self._pause_s, min(2 * self._pause_s, _LONGEST_PAUSE_S)
            is_replaced = isinstance(error, DriverReplacedError)
            self.is_outdated = is_replaced and pause_s == _LONGEST_PAUSE_S
            return pause_s
        self._say("GPUs", None)
        self._pause_s = _FIRST_PAUSE_S
        self._xids.update((s.gpu_id, code) for s in samples for code in s.xids)
        self._facts = replace(self._facts, samples=samples, sampled_at=now, xids=dict(self._xids))
        self._look_at_pods(now)
        return self._interval_s

    def close(self) -> None:
        """Release the driver."""
        self._sampler.close()

    def _look_at_pods(self, now: datetime) -> None:
        before = self._pods_at
        is_due = before is None or (now - before).total_seconds() >= _PODS_EVERY_S
        if self._pods is None or not is_due:
            return
        self._pods_at = now
        try:
            self._facts = replace(self._facts, pods=self._pods())
            self._say("pods", None)
        except PodResourcesError as error:
            self._facts = replace(self._facts, pods=None)
            self._say("pods", str(error))

    def _say(self, what: str, failure: str | None) -> None:
        """Say each failure once, and its end."""
        if failure is None:
            if self._complaints.pop(what, None) is not None:
                _log.warning("The %s of this node are known again", what)
        elif self._complaints.get(what) != failure:
            self._complaints[what] = failure
            _log.warning("The %s of this node are unknown: %s", what, failure)


def _facts_of(gpus: tuple[DiscoveredGpu, ...]) -> dict[str, GpuFacts]:
    return {
        gpu.uuid: GpuFacts(
            gpu.index, gpu_type_from_product_name(gpu.product_name, gpu.memory_total_bytes)
        )
        for gpu in gpus
    }


def export(
    address: str, port: int, interval_s: float, pod_resources: Path | None, node: str = ""
) -> int:
    """Sample and answer scrapes until SIGTERM or SIGINT; 1: until a new process has to do it.

    Raises:
        OSError: The address cannot be used.
    """
    logging.basicConfig(stream=sys.stderr, format="%(asctime)s %(levelname)s %(message)s")
    pods = None if pod_resources is None else lambda: read_gpu_pods(pod_resources)
    exporter, stop = NodeExporter(interval_s, pods, node=node), threading.Event()
    server = MetricsServer(exporter.families, address, port)
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda _number, _frame: stop.set())
    # A thread of its own, because a driver may hang.
    threading.Thread(target=_sample, args=(exporter, stop), name="gpus", daemon=True).start()
    print(f"http://{address}:{server.port}/metrics", flush=True)
    stop.wait()
    server.close()
    return int(exporter.is_outdated)


def _sample(exporter: NodeExporter, stop: threading.Event) -> None:
    pause_s = 0.0
    while not stop.wait(pause_s):
        try:
            pause_s = exporter.look(datetime.now(UTC))
        except Exception:
            _log.exception("Failed to collect GPU metrics on this node. Retrying in 5 minutes.")
            pause_s = _LONGEST_PAUSE_S
        if exporter.is_outdated:
            _log.error(
                "The GPU driver was replaced. Exiting so that the new driver library can "
                "be loaded by a restarted exporter."
            )
            stop.set()
    exporter.close()
