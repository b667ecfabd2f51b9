"""The GPUs of a cluster that are not well, by the metrics of exporters, scrape by scrape.

What is missing, late, malformed or of a node that we do not have says nothing. The finding itself
is that of `GpuHealth`, as on a machine whose driver is asked.
"""

from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta

from gpu_core.decisions.telemetry.health import GpuHealth, HealthFinding
from gpu_core.decisions.telemetry.metric_names import (
    LAST_XID,
    READINGS,
    SAMPLED,
    XIDS,
    Exporter,
)
from gpu_core.decisions.telemetry.samples import count_of
from gpu_core.decisions.telemetry.series import DeviceReading, Series, readings_of
from gpu_core.decisions.telemetry.series_selectors import NODE_LABELS, selectors
from gpu_core.decisions.telemetry.xid_readings import XidReadings

WINDOW_S = 120
"""The time that each query reaches back: two scrapes of a minute."""

# A clock that is off by more, or a sample that is older, says nothing of now.
_LATE = timedelta(seconds=WINDOW_S)

# dcgm-exporter asks the driver every 30 s by default (its README), however often it is scraped:
# a false answer must not count as several.
_COLLECTED_EVERY = timedelta(seconds=30)

_OUR_PREFIX = "prefect_gpu_device_"

_FIELDS = frozenset(
    {
        *("temperature_c", "slowdown_temperature_c", "shutdown_temperature_c"),
        *("ecc_uncorrected", "rows_pending", "rows_failed", "is_lost"),
        "memory_used_bytes",  # every exporter has it of MIG instances, with the pod on each
    }
)

_NAMES = (
    *(
        name
        for name, reading in READINGS.items()
        if reading.quantity is not None and reading.quantity.field in _FIELDS
    ),
    *(XIDS, LAST_XID, SAMPLED),
)

Pod = tuple[str, str]
"""A namespace, and the name of a pod in it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class WatchedGpu:
    """The state of one GPU of a cluster, as far as it is known."""

    node: str
    health: GpuHealth
    xids: XidReadings = field(default_factory=XidReadings)
    pods: frozenset[Pod] = frozenset()
    """Those on it, or on an instance of it, in its last sample."""
    judged_at: datetime
    """Its last sample that counted."""
    seen_at: datetime
    """Its last sample."""
    sampled_s: float | None = None
    """The moment of the sample, as our exporter states it; None: unknown, or another exporter's."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ClusterHealth:
    """The GPUs of a cluster, by UUID. Begin with `ClusterHealth()`."""

    gpus: Mapping[str, WatchedGpu] = field(default_factory=dict)

    @property
    def findings(self) -> dict[tuple[str, str], HealthFinding]:
        """The findings, by node and UUID."""
        found = ((gpu_id, gpu) for gpu_id, gpu in self.gpus.items())
        return {
            (gpu.node, gpu_id): gpu.health.finding
            for gpu_id, gpu in found
            if gpu.health.finding is not None
        }

    def pods_on(self, gpu_ids: Iterable[str], now: datetime) -> frozenset[Pod]:
        """The pods on these GPUs now. Those of late samples are unknown."""
        known = (self.gpus[gpu_id] for gpu_id in gpu_ids if gpu_id in self.gpus)
        fresh = (gpu.pods for gpu in known if abs(now - gpu.seen_at) <= _LATE)
        return frozenset(pod for pods in fresh for pod in pods)

    def without(self, gpu_id: str) -> "ClusterHealth":
        """As if nothing had been found of this GPU: a person has freed it."""
        known = self.gpus.get(gpu_id)
        if known is None:
            return self
        anew = replace(known, health=GpuHealth(gpu_id=gpu_id))
        return ClusterHealth(gpus={**self.gpus, gpu_id: anew})

    def with_series(
        self, series: Sequence[Series], gpu_counts: Mapping[str, int], now: datetime
    ) -> "ClusterHealth":
        """The state after one more answer; what was in an earlier answer counts once.

        Args:
            series: The samples of each metric, with the moments of their scrapes.
            gpu_counts: How many GPUs each of our nodes has. A node of which more are named shares
                its name with one of another cluster, and says nothing.
            now: Aware.
        """
        recent = [each for each in series if abs(now - each.at) <= _LATE]
        # The points of a row share their labels, and most of them were in the answer before.
        rows = {id(each.labels): each for each in recent}.values()
        places = _places(readings_of(rows), gpu_counts)
        recent = self._unread(recent, now)
        readings = readings_of(recent)
        pods = _pods(readings)
        counts, codes, sampled = _counts(recent), _codes(recent), _sampled(recent)
        found = {
            gpu_id: gpu
            for gpu_id, gpu in self.gpus.items()
            if gpu.node in gpu_counts and places.get(gpu_id, gpu.node) == gpu.node
        }
        for reading in readings:
            gpu_id, at = reading.sample.gpu_id, reading.sample.at
            node = places.get(gpu_id)
            known = found.get(gpu_id)
            if node is None or (known is not None and at <= known.seen_at):
                continue
            key = (gpu_id, at)
            found[gpu_id] = _judged(
                known,
                node,
                reading,
                pods.get(key, frozenset()),
                counts.get(key, {}),
                codes.get(key),
                sampled.get((node, at)),
            )
        return ClusterHealth(gpus=found)

    def _unread(self, recent: Sequence[Series], now: datetime) -> list[Series]:
        """Without what is certainly older than the last sample of each GPU."""
        read = [gpu.seen_at for gpu in self.gpus.values() if abs(now - gpu.seen_at) <= _LATE]
        until = min(read, default=None)
        return [each for each in recent if until is None or each.at > until]


def health_queries(nodes: Iterable[str]) -> tuple[str, ...]:
    """The questions about the GPUs of these nodes, each for the samples of the last minutes."""
    return tuple(f"{each}[{WINDOW_S}s]" for each in selectors(_NAMES, NODE_LABELS, {*nodes}))


def _judged(
    known: WatchedGpu | None,
    node: str,
    reading: DeviceReading,
    pods: frozenset[Pod],
    counts: Mapping[str, Mapping[int, float]],
    code: int | None,
    sampled_s: float | None,
) -> WatchedGpu:
    """With one more sample.

    Those between two collections of another exporter do not count. Nor does a sample that ours
    shows again, as its driver hangs: but the errors that it has counted since do.
    """
    sample = reading.sample
    if known is None:
        health = GpuHealth(gpu_id=sample.gpu_id)
        known = WatchedGpu(
            node=node,
            health=health,
            judged_at=sample.at - _COLLECTED_EVERY,
            seen_at=sample.at,
        )
    is_ours = Exporter.OURS in reading.exporters
    if not is_ours and sample.at - known.judged_at < _COLLECTED_EVERY:
        return replace(known, pods=pods, seen_at=sample.at)
    xids, new = known.xids, list[int]()
    for source, of_source in counts.items():
        xids, of_it = xids.with_counts(source, of_source)
        new += of_it
    xids, last = xids.with_code(code)
    is_shown_again = is_ours and sampled_s is not None and sampled_s == known.sampled_s
    if is_shown_again and not new:
        return replace(known, xids=xids, pods=pods, seen_at=sample.at)
    health = known.health.with_sample(replace(sample, xids=(*new, *last)))
    return replace(
        known,
        health=health,
        xids=xids,
        pods=pods,
        judged_at=sample.at,
        seen_at=sample.at,
        sampled_s=sampled_s,
    )


def _places(readings: Iterable[DeviceReading], gpu_counts: Mapping[str, int]) -> dict[str, str]:
    """The node of each GPU that is certainly on one of ours. MIG instances are no GPUs here."""
    nodes: dict[str, set[str | None]] = defaultdict(set)
    for each in readings:
        if each.sample.parent_gpu_id is None:
            nodes[each.sample.gpu_id].add(each.node)
    known = {
        gpu_id: node
        for gpu_id, names in nodes.items()
        if len(names) == 1 and (node := next(iter(names))) is not None and node in gpu_counts
    }
    named = Counter(known.values())
    return {gpu_id: node for gpu_id, node in known.items() if named[node] <= gpu_counts[node]}


def _pods(readings: Iterable[DeviceReading]) -> dict[tuple[str, datetime], frozenset[Pod]]:
    """The pods on each GPU and on its instances, at each moment."""
    found: dict[tuple[str, datetime], set[Pod]] = defaultdict(set)
    for each in readings:
        if each.namespace is not None and each.pod is not None:
            gpu_id = each.sample.parent_gpu_id or each.sample.gpu_id
            found[gpu_id, each.sample.at].add((each.namespace, each.pod))
    return {key: frozenset(pods) for key, pods in found.items()}


def _counts(
    series: Iterable[Series],
) -> dict[tuple[str, datetime], dict[str, dict[int, float]]]:
    """Our counters of XID errors, by GPU and moment, then by exporter: empty where there is none.

    A GPU without an error has no counter.
    """
    found: dict[tuple[str, datetime], dict[str, dict[int, float]]] = defaultdict(dict)
    for each in series:
        gpu_id = each.labels.get("gpu")
        if not gpu_id or not each.name.startswith(_OUR_PREFIX):
            continue
        counts = found[gpu_id, each.at].setdefault(each.labels.get("instance", ""), {})
        code = _code_of(each.labels.get("xid", ""))
        if each.name == XIDS and code is not None and each.value >= 0:
            counts[code] = each.value
    return dict(found)


def _sampled(series: Iterable[Series]) -> dict[tuple[str, datetime], float]:
    """The moment of our exporter's samples, by node and moment of the scrape."""
    return {
        (each.labels.get("node", ""), each.at): each.value
        for each in series
        if each.name == SAMPLED
    }


def _codes(series: Iterable[Series]) -> dict[tuple[str, datetime], int]:
    """DCGM's last XID error, by GPU and moment."""
    return dict(_last_codes(series))


def _last_codes(series: Iterable[Series]) -> Iterator[tuple[tuple[str, datetime], int]]:
    for each in series:
        code, gpu_id = count_of(each.value), each.labels.get("UUID")
        if each.name == LAST_XID and gpu_id and code is not None:
            yield (gpu_id, each.at), code


def _code_of(text: str) -> int | None:
    return int(text) if text.isascii() and text.isdigit() and len(text) < 6 else None
