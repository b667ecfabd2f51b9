"""The activity of the GPUs of a whole cluster now, with the run and node of each.

A Prometheus is asked again and again for the last points; what they add up to is folded, so that no
answer grows with the length of a run.
"""

from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from statistics import fmean

from gpu_core.decisions.telemetry.activity import RunActivity
from gpu_core.decisions.telemetry.metric_names import READINGS
from gpu_core.decisions.telemetry.pod_summaries import RangeQuery
from gpu_core.decisions.telemetry.samples import GpuSample
from gpu_core.decisions.telemetry.series import DeviceReading, Series, readings_of
from gpu_core.decisions.telemetry.series_selectors import (
    NAMESPACE_LABELS,
    NODE_LABELS,
    selectors,
)

STEP_S = 30
"""From point to point. Scrapes are every 15 to 60 seconds, as a rule."""

_FIELDS = frozenset(
    {
        *("utilization_ratio", "sm_active_ratio", "power_w", "power_limit_w"),
        *("memory_used_bytes", "memory_total_bytes"),
    }
)

# DCGM has no total, and its memory in use and free add up to it.
_NAMES = tuple(
    name
    for name, reading in READINGS.items()
    if reading.quantity is None or reading.quantity.field in _FIELDS
)

# The name of the kubelet's cAdvisor.
_CORES = "container_cpu_usage_seconds_total"

Pod = tuple[str, str]
"""A namespace, and the name of a pod in it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ClusterUse:
    """The last points of all GPUs, and the processor cores of pods. Begin with `ClusterUse()`."""

    devices: tuple[DeviceReading, ...] = ()
    """In the order of their moments."""
    cores: Mapping[tuple[Pod, datetime], float] | None = None
    """Of pods, by the moment; None: nothing was asked yet."""

    def since(self, moment: datetime) -> "ClusterUse":
        """Without the points before this moment."""
        return ClusterUse(
            devices=tuple(each for each in self.devices if each.sample.at >= moment),
            cores={key: value for key, value in (self.cores or {}).items() if key[1] >= moment},
        )

    def with_points(self, points: Iterable[Series]) -> "ClusterUse":
        """With the points of an answer; of a moment that is known before nothing changes.

        Points without a metric's name are processor cores.
        """
        gpus, cores = _split(points)
        last = self.devices[-1].sample.at if self.devices else None
        found = (each for each in readings_of(gpus) if last is None or each.sample.at > last)
        known = {
            ((each.labels.get("namespace", ""), each.labels.get("pod", "")), each.at): each.value
            for each in cores
        }
        return ClusterUse(devices=(*self.devices, *found), cores=known | dict(self.cores or {}))


def _split(points: Iterable[Series]) -> tuple[list[Series], list[Series]]:
    found: tuple[list[Series], list[Series]] = ([], [])
    for each in points:
        found[not each.name].append(each)
    return found


def cluster_queries(
    now: datetime, nodes: Collection[str], namespaces: Collection[str]
) -> tuple[RangeQuery, ...]:
    """The questions about GPUs and about processor cores, for the last minute.

    Their moments are multiples of the step, so that two answers have the same ones.

    Args:
        now: Aware.
        nodes: Ours; a Prometheus may know those of other clusters.
        namespaces: Of our pods: an exporter may name the pod on a GPU and not its node. None, and
            no processor cores are asked about.
    """
    end_s = int(now.timestamp()) // STEP_S * STEP_S
    end = datetime.fromtimestamp(end_s, now.tzinfo)
    start = end - timedelta(seconds=2 * STEP_S)
    either = (
        *selectors(_NAMES, NODE_LABELS, nodes),
        *selectors(_NAMES, NAMESPACE_LABELS, namespaces),
    )
    queries = [
        *([" or ".join(either)] if either else ()),
        *map(_cores, selectors([_CORES], ["namespace"], namespaces)),
    ]
    return tuple(RangeQuery(query, start, end, STEP_S) for query in queries)


def _cores(selector: str) -> str:
    # The pod as a whole has an empty container.
    of_containers = f'{selector[:-1]},container!=""}}'
    return f"sum by (namespace, pod) (rate({of_containers}[2m]))"


def folded_activity(
    before: RunActivity | None,
    use: ClusterUse,
    pods: Collection[Pod],
    gpu_count: int,
    began_at: datetime,
) -> RunActivity | None:
    """The activity of the GPUs and processes of these pods until now; None: not all GPUs are known.

    Where the processor of one of the pods is not known, it is not quiet.

    Args:
        before: What was known of the attempt before; None: nothing.
        use: With the points since then.
        pods: All of the attempt.
        gpu_count: How many GPUs the attempt has.
        began_at: When the attempt began.
    """
    moments: dict[datetime, dict[str, GpuSample]] = defaultdict(dict)
    for each in use.devices:
        if (each.namespace, each.pod) in pods:
            moments[each.sample.at][each.sample.gpu_id] = each.sample
    if before is None:
        ids = {gpu_id for samples in moments.values() for gpu_id in samples}
        if len(ids) != gpu_count or not ids:
            return None
        before = RunActivity.of(sorted(ids), began_at, has_host=True)
    cores = use.cores or {}
    for at, samples in sorted(moments.items()):
        of_pods = [cores.get((pod, at)) for pod in pods]
        known = [each for each in of_pods if each is not None]
        total = sum(known) if len(known) == len(of_pods) else None
        before = before.with_samples(samples, at, cores=total)
    return before


def load_by_node(use: ClusterUse) -> dict[str, float]:
    """The load of the GPUs of each node, as `NodeLoad.load_ratio`.

    A node is left out as soon as the utilization or the memory of one of its GPUs is unknown.
    """
    by_gpu: dict[tuple[str, str], list[float | None]] = defaultdict(list)
    for each in use.devices:
        if each.node is not None and each.sample.parent_gpu_id is None:
            by_gpu[each.node, each.sample.gpu_id].append(_load_ratio(each.sample))
    by_node: dict[str, list[float | None]] = defaultdict(list)
    for (node, _gpu_id), loads in by_gpu.items():
        by_node[node].append(_mean(loads))
    means = ((node, _mean(loads)) for node, loads in by_node.items())
    return {node: mean for node, mean in means if mean is not None}


def utilization_of(use: ClusterUse, pods: Collection[Pod], gpu_count: int) -> float | None:
    """The part of the time in which the GPUs of these pods computed; None: not all are known."""
    own = [each.sample for each in use.devices if (each.namespace, each.pod) in pods]
    if not own or len({sample.gpu_id for sample in own}) != gpu_count:
        return None
    return _mean([sample.utilization_ratio for sample in own])


def _load_ratio(sample: GpuSample) -> float | None:
    used, total = sample.memory_used_bytes, sample.memory_total_bytes
    if sample.utilization_ratio is None or used is None or not total:
        return None
    return max(sample.utilization_ratio, min(1.0, used / total))


def _mean(values: Sequence[float | None]) -> float | None:
    known = [value for value in values if value is not None]
    return fmean(known) if known and len(known) == len(values) else None
