"""Samples of GPUs from metrics of any exporter that we know: ours, DCGM's, nvidia-smi's.

What a metric's name says decides how it is read: exporters of several generations may be mixed.
Unknown metrics are ignored, and what can be no measurement is unknown.
"""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from gpu_core.decisions.telemetry.metric_names import READINGS, Exporter, MetricReading
from gpu_core.decisions.telemetry.samples import (
    GpuSample,
    RemappedRows,
    count_of,
    known,
    scaled,
    temperature_c,
    watts_of_milliwatts,
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Series:
    """One value of one metric."""

    name: str
    labels: Mapping[str, str]
    value: float
    at: datetime


@dataclass(frozen=True, slots=True, kw_only=True)
class DeviceReading:
    """A sample, and what else the labels say. None: they do not say it."""

    sample: GpuSample
    exporters: frozenset[Exporter] = frozenset()
    """The exporters that export something of it."""
    node: str | None = None
    namespace: str | None = None
    pod: str | None = None
    container: str | None = None


# In the order in which they count. Prometheus renames a label that it sets itself, and with it the
# exporter's own pod takes the place of the one on the GPU.
_PLACES = {
    "node": ("hostname", "Hostname", "node"),
    "namespace": ("exported_namespace", "namespace"),
    "pod": ("exported_pod", "pod"),
    "container": ("exported_container", "container"),
}


@dataclass(slots=True)
class _Device:
    """The metrics of one device at one moment."""

    gpu_id: str
    parent_gpu_id: str | None
    at: datetime
    places: dict[str, str] = field(default_factory=dict)
    values: dict[str, tuple[int, Any]] = field(default_factory=dict)
    memory_rest: dict[str, float] = field(default_factory=dict)
    exporters: set[Exporter] = field(default_factory=set)

    def take(self, reading: MetricReading, name: str, value: float) -> None:
        self.exporters.add(reading.exporter)
        if reading.quantity is None:
            rest = scaled(value, reading.factor)
            if rest is not None:
                # The byte-exact value and that in MiB are one quantity.
                self.memory_rest[name.removesuffix("_BYTES")] = rest
            return
        known_value = _CHECKS.get(reading.quantity.field, known)(_in_base_units(value, reading))
        before = self.values.get(reading.quantity.field)
        if known_value is not None and (before is None or reading.rank < before[0]):
            self.values[reading.quantity.field] = (reading.rank, known_value)

    def reading(self) -> DeviceReading:
        values = {name: value for name, (_rank, value) in self.values.items()}
        used, total = values.get("memory_used_bytes"), values.get("memory_total_bytes")
        free = self.memory_rest.get("DCGM_FI_DEV_FB_FREE")
        if total is None and used is not None and free is not None:
            reserved = self.memory_rest.get("DCGM_FI_DEV_FB_RESERVED", 0.0)
            values["memory_total_bytes"] = int(used + free + reserved)
        pending, failed = values.pop("rows_pending", None), values.pop("rows_failed", None)
        if pending is not None or failed is not None:
            values["remapped_rows"] = RemappedRows(is_pending=pending, has_failed=failed)
        sample = GpuSample(
            gpu_id=self.gpu_id, at=self.at, parent_gpu_id=self.parent_gpu_id, **values
        )
        return DeviceReading(sample=sample, exporters=frozenset(self.exporters), **self.places)


def readings_of(series: Iterable[Series]) -> tuple[DeviceReading, ...]:
    """The readings of GPUs in these metrics, one for each device and moment, in their order.

    A quantity that several exporters have of a device at one moment is ours, else that of DCGM in
    base units, else of DCGM in its older units, else of nvidia-smi.

    Args:
        series: Values of metrics; those that are not known, or name no GPU, are ignored.
    """
    devices: dict[tuple[str, datetime], _Device] = {}
    for each in series:
        # prometheus_client adds the suffix to counters that lack it.
        name = each.name if each.name in READINGS else each.name.removesuffix("_total")
        reading = READINGS.get(name)
        ids = None if reading is None else _device_ids(reading, each.labels)
        if reading is None or ids is None:
            continue
        key = (ids[0], each.at)
        device = devices.setdefault(key, _Device(*ids, each.at))
        device.take(reading, name, each.value)
        is_of_instance = bool(each.labels.get("GPU_I_ID")) and ids[1] is None
        device.places |= _places(each.labels, of_node_only=is_of_instance)
    found = [devices[key].reading() for key in sorted(devices, key=lambda key: (key[1], key[0]))]
    return tuple(found)


def _device_ids(reading: MetricReading, labels: Mapping[str, str]) -> tuple[str, str | None] | None:
    """The device's id and, of a MIG instance, that of its GPU; None: the labels name no GPU."""
    if reading.exporter is Exporter.OURS:
        gpu_id = labels.get("gpu")
        return (gpu_id, labels.get("parent_gpu") or None) if gpu_id else None
    if reading.exporter is Exporter.NVIDIA_SMI:
        uuid = labels.get("uuid")
        return (f"GPU-{uuid.removeprefix('GPU-')}", None) if uuid else None
    gpu_id, instance = labels.get("UUID"), labels.get("GPU_I_ID")
    if not gpu_id:
        return None
    if not instance or (reading.quantity is not None and reading.quantity.is_of_whole_gpu):
        return gpu_id, None
    # DCGM does not export the instance's own UUID.
    return f"{gpu_id}/{instance}", gpu_id


def _places(labels: Mapping[str, str], *, of_node_only: bool) -> dict[str, str]:
    found = {}
    for place, names in _PLACES.items():
        if of_node_only and place != "node":
            continue  # the pod on one instance is not on the whole GPU
        value = next((labels[name] for name in names if labels.get(name)), None)
        if value is not None:
            found[place] = value
    return found


def _in_base_units(value: float, reading: MetricReading) -> float | None:
    """In base units; unknown where the exporter says that it is.

    A temperature may be negative.
    """
    if reading.quantity is not None and reading.quantity.field.endswith("temperature_c"):
        return value * reading.factor
    return scaled(value, reading.factor)


def _ratio(value: float | None) -> float | None:
    return None if value is None or value > 1 else value


def _flag(value: float | None) -> bool | None:
    """0 or 1; a count of rows is no flag, and 1 or more of them is one."""
    return None if value is None else value >= 1


def _watts(value: float | None) -> float | None:
    return None if value is None else watts_of_milliwatts(1e3 * value)


_CHECKS: Mapping[str, Callable[[float | None], float | None]] = {
    "utilization_ratio": _ratio,
    "sm_active_ratio": _ratio,
    "memory_busy_ratio": _ratio,
    "memory_used_bytes": count_of,
    "memory_total_bytes": count_of,
    "temperature_c": temperature_c,
    "slowdown_temperature_c": temperature_c,
    "shutdown_temperature_c": temperature_c,
    "rows_pending": _flag,
    "rows_failed": _flag,
    "is_lost": _flag,
    "power_w": _watts,
    "power_limit_w": _watts,
    "ecc_corrected": count_of,
    "ecc_uncorrected": count_of,
}
