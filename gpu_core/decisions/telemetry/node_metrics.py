"""The metrics of a node exporter: the GPUs of its node, with the pod that is on each."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import NamedTuple

from gpu_core.decisions.telemetry.metric_names import SAMPLED
from gpu_core.decisions.telemetry.metrics import Labels, MetricFamily, device_metrics
from gpu_core.decisions.telemetry.samples import GpuSample

LABELS: Labels = (
    *("gpu", "parent_gpu", "index", "gpu_type"),
    *("namespace", "pod", "container", "node"),
)
"""Of every metric of a GPU. An empty value is that of a label that is not there."""

# A driver that hangs leaves its last samples: after a minute they say nothing about now.
_STALE_S = 60.0


@dataclass(frozen=True, slots=True)
class GpuFacts:
    """The facts about a GPU."""

    index: int
    gpu_type: str


class GpuPod(NamedTuple):
    """A container that the kubelet has given a device."""

    namespace: str
    pod: str
    container: str
    device_id: str
    """As the device plugin names it: a UUID or an index, for shared GPUs with `::` and a number."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ExporterFacts:
    """The facts that a node exporter exports when it is scraped."""

    node: str = ""
    """The node's name in its cluster; empty: it is in none, or its name is unknown."""
    samples: tuple[GpuSample, ...] = ()
    """The last of each GPU and MIG instance."""
    sampled_at: datetime | None = None
    """None: the driver has not answered yet, or does not answer any more."""
    gpus: Mapping[str, GpuFacts] = field(default_factory=dict)
    """By UUID."""
    pods: tuple[GpuPod, ...] | None = None
    """None: which pods hold GPUs is unknown."""
    xids: Mapping[tuple[str, int], int] = field(default_factory=dict)
    """How many XID errors of a code a GPU had since the exporter started."""


def node_metrics(facts: ExporterFacts, now: datetime) -> list[MetricFamily]:
    """The metrics of one node's GPUs; what is unknown, or over a minute old, has no sample."""
    at = facts.sampled_at
    is_fresh = at is not None and (now - at).total_seconds() <= _STALE_S
    samples = facts.samples if is_fresh else ()
    holders = _holders(facts)

    def labels(sample: GpuSample) -> Labels:
        gpu = facts.gpus.get(sample.parent_gpu_id or sample.gpu_id)
        found = {*holders.get(sample.gpu_id, ())}
        # A GPU that several pods share has none of its own.
        place = found.pop() if len(found) == 1 else ("", "", "")
        return (
            *(sample.gpu_id, sample.parent_gpu_id or ""),
            *(("", "") if gpu is None else (str(gpu.index), gpu.gpu_type)),
            *place,
            facts.node,
        )

    held: dict[Labels, float] = {}
    if facts.pods is not None:
        parents = {sample.parent_gpu_id for sample in samples if sample.gpu_id in holders}
        held = {labels(s): float(s.gpu_id in holders or s.gpu_id in parents) for s in samples}
    return [
        *device_metrics(samples, LABELS, labels),
        MetricFamily(
            name="prefect_gpu_device_held",
            kind="gauge",
            help="Set to 1 if a pod is using the GPU or a part of it.",
            labels=LABELS,
            samples=held,
        ),
        MetricFamily(
            name="prefect_gpu_device_xid_errors",
            kind="counter",
            help="Number of driver XID errors since the exporter started.",
            labels=("gpu", "xid", "node"),
            samples={
                (gpu, str(code), facts.node): float(count)
                for (gpu, code), count in facts.xids.items()
            },
        ),
        MetricFamily(
            name=SAMPLED,
            kind="gauge",
            help="Unix timestamp of the last response from the driver.",
            labels=("node",),
            samples={} if at is None else {(facts.node,): at.timestamp()},
        ),
    ]


def _holders(facts: ExporterFacts) -> dict[str, list[Labels]]:
    """The containers on each device, by the device's UUID."""
    by_index = {str(gpu.index): gpu_id for gpu_id, gpu in facts.gpus.items()}
    found: dict[str, list[Labels]] = {}
    for each in _pods(facts.pods):
        device_id = each.device_id.split("::")[0]
        gpu_id = by_index.get(device_id, device_id)
        found.setdefault(gpu_id, []).append((each.namespace, each.pod, each.container))
    return found


def _pods(pods: Iterable[GpuPod] | None) -> Iterable[GpuPod]:
    return () if pods is None else pods
