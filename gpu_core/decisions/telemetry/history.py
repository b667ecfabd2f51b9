"""The activity of GPUs by minute: a few numbers for each, in few bytes.

A window of a minute is what the minute's samples add up to. An hour of a GPU is kept as one row of
16 bytes a minute, so that a month of 64 GPUs has 45 MB.
"""

import struct
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta

from gpu_core.decisions.model.gpu_summary import GpuSummary
from gpu_core.decisions.telemetry.samples import GpuSample
from gpu_core.decisions.telemetry.summary import GpuTotals

MINUTE = timedelta(minutes=1)

# Minute of the hour; samples; in hundredths: utilization (mean, 95%), busy part, SM activity;
# temperature + 41 in degrees Celsius; memory in MiB; energy in joules. 255, and all bits set,
# stand for "unknown".
_WINDOW = struct.Struct("<BBBBBBBxII")
_UNKNOWN, _UNKNOWN_32 = 255, 2**32 - 1
_MIB = 2**20

# Below the coldest that counts as a measurement, so that 0 stands for no temperature.
_COLDEST_C = -41


@dataclass(frozen=True, slots=True, kw_only=True)
class GpuWindow:
    """One minute of one GPU."""

    minute: datetime
    """The beginning of the window."""
    summary: GpuSummary
    """The sums over its samples; the energy also bridges the gap to the minute before."""


@dataclass(frozen=True, slots=True, kw_only=True)
class MinuteHistory:
    """The minutes that have not ended yet, by GPU. Begin with `MinuteHistory()`."""

    totals: Mapping[str, GpuTotals] = field(default_factory=dict)

    def with_samples(
        self, samples: Iterable[GpuSample]
    ) -> tuple["MinuteHistory", tuple[GpuWindow, ...]]:
        """The state after these samples, and the windows that they end."""
        totals, ended = dict(self.totals), []
        for sample in samples:
            before = totals.get(sample.gpu_id, GpuTotals(gpu_id=sample.gpu_id))
            at = before.at
            if at is not None and _minute_of(sample.at) > _minute_of(at):
                summary = before.summary()
                if summary is not None:
                    ended.append(GpuWindow(minute=_minute_of(at), summary=summary))
                before = GpuTotals(
                    gpu_id=sample.gpu_id,
                    counter_j=before.counter_j,
                    counter_at=before.counter_at,
                    estimated_j=before.estimated_j,
                    power_w=before.power_w,
                    at=at,
                )
            totals[sample.gpu_id] = before.with_sample(sample)
        return MinuteHistory(totals=totals), tuple(ended)


@dataclass(frozen=True, slots=True, kw_only=True)
class GpuHour:
    """The windows of one GPU in one hour, as they are kept."""

    gpu_id: str
    hour: datetime
    windows: bytes


def hours_of(windows: Iterable[GpuWindow]) -> tuple[GpuHour, ...]:
    """These windows, as they are kept: an hour of a GPU together, in the order of their minutes."""
    by_hour: dict[tuple[str, datetime], list[GpuWindow]] = {}
    for window in windows:
        hour = window.minute.replace(minute=0)
        by_hour.setdefault((window.summary.gpu_id, hour), []).append(window)
    return tuple(
        GpuHour(gpu_id=gpu_id, hour=hour, windows=_joined(map(_packed, found)))
        for (gpu_id, hour), found in sorted(by_hour.items())
    )


def merged(before: bytes, after: bytes) -> bytes:
    """The windows of both; of a minute that both have the first counts."""
    parts = [whole[n : n + _WINDOW.size] for whole in (before, after) for n in _places(whole)]
    by_minute: dict[int, bytes] = {}
    for part in parts:
        by_minute.setdefault(part[0], part)
    return _joined(by_minute.values())


def windows_of(hour: GpuHour) -> tuple[GpuWindow, ...]:
    """The windows of an hour that is kept; what cannot be understood is left out."""
    found = (
        _unpacked(hour, _WINDOW.unpack_from(hour.windows, place)) for place in _places(hour.windows)
    )
    return tuple(window for window in found if window is not None)


def _places(windows: bytes) -> Iterator[int]:
    yield from range(0, len(windows) - _WINDOW.size + 1, _WINDOW.size)


def _joined(parts: Iterable[bytes]) -> bytes:
    # The minute of the hour is the first byte, and of each minute there is one part.
    return b"".join(sorted([*parts]))


def _minute_of(moment: datetime) -> datetime:
    return moment.replace(second=0, microsecond=0)


def _packed(window: GpuWindow) -> bytes:
    of = window.summary
    temperature = of.temperature_max_c
    return _WINDOW.pack(
        window.minute.minute,
        min(of.samples, _UNKNOWN - 1),
        _hundredths(of.utilization_mean_ratio),
        _hundredths(of.utilization_p95_ratio),
        _hundredths(of.busy_ratio),
        _hundredths(of.sm_active_mean_ratio),
        0 if temperature is None else round(temperature) - _COLDEST_C,
        _whole(of.memory_used_max_bytes, _MIB),
        _whole(of.energy_j, 1),
    )


def _unpacked(hour: GpuHour, values: Sequence[int]) -> GpuWindow | None:
    minute, samples, mean, p95, busy, sm_active, temperature, memory, energy = values
    if minute > 59 or not samples:
        return None
    return GpuWindow(
        minute=hour.hour + minute * MINUTE,
        summary=GpuSummary(
            gpu_id=hour.gpu_id,
            samples=samples,
            utilization_mean_ratio=_ratio(mean),
            utilization_p95_ratio=_ratio(p95),
            busy_ratio=_ratio(busy),
            sm_active_mean_ratio=_ratio(sm_active),
            memory_used_max_bytes=None if memory == _UNKNOWN_32 else memory * _MIB,
            temperature_max_c=float(temperature + _COLDEST_C) if temperature else None,
            energy_j=None if energy == _UNKNOWN_32 else float(energy),
        ),
    )


def _hundredths(ratio: float | None) -> int:
    return _UNKNOWN if ratio is None else round(100 * ratio)


def _ratio(hundredths: int) -> float | None:
    return None if hundredths > 100 else hundredths / 100


def _whole(value: float | None, unit: int) -> int:
    return _UNKNOWN_32 if value is None else min(round(value / unit), _UNKNOWN_32 - 1)
