"""Samples the activity of every GPU of this machine."""

import ctypes
import logging
from collections.abc import Callable, Collection, Iterator
from contextlib import ExitStack, suppress
from datetime import datetime, timedelta
from typing import Any, TypeVar

import pynvml

from gpu_core.adapters.nvml.activity import Activity
from gpu_core.adapters.nvml.discovery import is_mig_enabled
from gpu_core.adapters.nvml.driver import LOST, GpuDiscoveryError, nvml, text_of
from gpu_core.adapters.nvml.users import computing
from gpu_core.decisions.telemetry.samples import (
    GpuSample,
    RemappedRows,
    ThrottleReason,
    count_of,
    ratio_of_percent,
    scaled,
    temperature_c,
    watts_of_milliwatts,
)

_log = logging.getLogger("prefect.gpu.sampler")

Answer = TypeVar("Answer")

# A device or driver that answers so will not answer otherwise while NVML stays initialized.
_NEVER = frozenset(
    {
        pynvml.NVML_ERROR_NOT_SUPPORTED,
        pynvml.NVML_ERROR_FUNCTION_NOT_FOUND,
        pynvml.NVML_ERROR_NO_PERMISSION,
        pynvml.NVML_ERROR_ARGUMENT_VERSION_MISMATCH,
    }
)

# Not one GPU fails but the driver: it was unloaded or updated. NVML has to be initialized anew.
_DRIVER = frozenset(
    {
        pynvml.NVML_ERROR_UNINITIALIZED,
        pynvml.NVML_ERROR_DRIVER_NOT_LOADED,
        pynvml.NVML_ERROR_LIB_RM_VERSION_MISMATCH,
    }
)

# nvml.h, "NvmlClocksEventReasons". Idle and chosen clocks hold nothing down.
_THROTTLING = {
    pynvml.nvmlClocksThrottleReasonSwPowerCap: ThrottleReason.POWER_CAP,
    pynvml.nvmlClocksThrottleReasonHwSlowdown: ThrottleReason.HARDWARE,
    pynvml.nvmlClocksThrottleReasonSwThermalSlowdown: ThrottleReason.THERMAL,
    pynvml.nvmlClocksThrottleReasonHwThermalSlowdown: ThrottleReason.HARDWARE_THERMAL,
    pynvml.nvmlClocksThrottleReasonHwPowerBrakeSlowdown: ThrottleReason.POWER_BRAKE,
}

_SHUTDOWN, _SLOWDOWN = (
    pynvml.NVML_TEMPERATURE_THRESHOLD_SHUTDOWN,
    pynvml.NVML_TEMPERATURE_THRESHOLD_SLOWDOWN,
)

# On an H200 (driver 580) the energy counter takes 4.1 ms of processor time, all else 0.3 ms.
_ENERGY_EVERY = timedelta(seconds=20)

# A burst of errors is cut off here: the rest comes with the next sample.
_MOST_XIDS = 100


class GpuSampler:
    """Samples of the GPUs of this machine, and of their MIG instances.

    What a device or a driver does not know is None, and is not asked for again. NVML stays
    initialized in between. Not safe to use from several threads at once.

    Args:
        gpu_ids: The GPUs to read, by UUID; one that is not there counts as lost. None: all that
            the driver finds.
    """

    def __init__(self, gpu_ids: Collection[str] | None = None) -> None:
        self._wanted = None if gpu_ids is None else frozenset(gpu_ids)
        self._stack = ExitStack()
        self._is_open = False
        self._devices: dict[str, _Device] = {}
        self._seen = dict.fromkeys(sorted(gpu_ids or ()))
        self._events: Any = None

    def sample(self, now: datetime) -> tuple[GpuSample, ...]:
        """A sample of each GPU. One that was there and does not answer any more is lost.

        Args:
            now: The moment of the samples.

        Raises:
            GpuDiscoveryError: The driver fails, or is gone. The next call initializes it anew.
        """
        try:
            if not self._is_open:
                self._open()
            if not self._devices or self._seen.keys() - self._devices.keys():
                self._find_devices()
            xids = self._new_xids()
            return tuple(self._samples(now, xids))
        except (pynvml.NVMLError, GpuDiscoveryError) as error:
            self.close()
            if isinstance(error, GpuDiscoveryError):
                raise
            raise GpuDiscoveryError(f"the NVIDIA driver is not responding: {error}") from error

    def close(self) -> None:
        """Release the driver; the next sample initializes it anew."""
        self._is_open, self._devices, self._events = False, {}, None
        self._stack.close()

    def _open(self) -> None:
        if not self._stack.enter_context(nvml()):
            raise GpuDiscoveryError("the NVIDIA driver is not loaded")
        with suppress(pynvml.NVMLError):
            self._events = pynvml.nvmlEventSetCreate()
            self._stack.callback(_quietly, pynvml.nvmlEventSetFree, self._events)
        self._is_open = True

    def _find_devices(self) -> None:
        """Open the GPUs that are not open yet: one that gave a false answer gives another one."""
        known = {device.index for device in self._devices.values()}
        for index in range(pynvml.nvmlDeviceGetCount()):
            if index in known:
                continue
            try:
                device = _Device(pynvml.nvmlDeviceGetHandleByIndex(index), index)
            except pynvml.NVMLError as error:
                if error.value in _DRIVER:
                    raise
                _log.debug("Unable to sample GPU %d: NVML returned %s", index, error)
                continue
            is_wanted = self._wanted is None or device.gpu_id in self._wanted
            if not is_wanted or device.gpu_id in self._devices:
                device.close()
                continue
            self._devices[device.gpu_id] = device
            self._seen[device.gpu_id] = None
            self._stack.callback(device.close)
            if self._events is not None:
                with suppress(pynvml.NVMLError):
                    device.register(self._events)
        if self._wanted is None and not self._seen:
            raise GpuDiscoveryError("the NVIDIA driver did not find any responding GPUs")

    def _samples(self, now: datetime, xids: dict[str, list[int]]) -> Iterator[GpuSample]:
        for gpu_id in self._seen:
            of_gpu = tuple(xids.get(gpu_id, ()))
            device = self._devices.get(gpu_id)
            try:
                found = () if device is None else device.samples(now, of_gpu)
            except pynvml.NVMLError as error:
                if error.value not in LOST:
                    raise
                found = ()
            yield from found or (GpuSample(gpu_id=gpu_id, at=now, is_lost=True, xids=of_gpu),)

    def _new_xids(self) -> dict[str, list[int]]:
        found: dict[str, list[int]] = {}
        by_handle = {_address(device.handle): device for device in self._devices.values()}
        for _ in range(_MOST_XIDS if self._events is not None else 0):
            try:
                event = pynvml.nvmlEventSetWait_v2(self._events, 0)
            except pynvml.NVMLError:
                break  # NVML_ERROR_TIMEOUT: there are no more; a lost GPU is seen by its sample
            device = by_handle.get(_address(event.device))
            if device is not None and event.eventType == pynvml.nvmlEventTypeXidCriticalError:
                found.setdefault(device.gpu_id, []).append(int(event.eventData))
        return found


class _Device:
    """One GPU, or one MIG instance of it.

    Raises:
        NVMLError: It does not answer.
    """

    def __init__(self, handle: Any, index: int, parent: "_Device | None" = None) -> None:
        self.handle = handle
        self.index = index
        self.gpu_id = text_of(pynvml.nvmlDeviceGetUUID, handle)
        self._parent = parent
        self._never: set[tuple[object, ...]] = set()
        self._limits: tuple[float | None, float | None, float | None] | None = None
        self._are_limits_sure = False
        self._energy_j: float | None = None
        self._energy_at: datetime | None = None
        self._parts: dict[str, _Device] = {}
        instance = None if parent is None else self._ask(pynvml.nvmlDeviceGetGpuInstanceId)
        self._activity = Activity(handle if parent is None else parent.handle, instance)

    def register(self, events: Any) -> None:
        """Hear of this GPU's XID errors."""
        pynvml.nvmlDeviceRegisterEvents(self.handle, pynvml.nvmlEventTypeXidCriticalError, events)

    def close(self) -> None:
        """Release what was allocated for it."""
        for part in self._parts.values():
            part.close()
        self._activity.close()

    def samples(self, now: datetime, xids: tuple[int, ...]) -> tuple[GpuSample, ...]:
        """The activity of the GPU and of each of its MIG instances."""
        return (self._whole(now, xids), *self._of_parts(now))

    def _whole(self, now: datetime, xids: tuple[int, ...]) -> GpuSample:
        # The first question finds out whether the GPU is lost.
        temperature = self._ask(pynvml.nvmlDeviceGetTemperature, pynvml.NVML_TEMPERATURE_GPU)
        slowdown_c, shutdown_c, limit_w = self._limits_of_device()
        rates = self._ask(pynvml.nvmlDeviceGetUtilizationRates)
        used, total = self._memory()
        activity = self._activity.read()
        sent, received = activity.pcie_sent_bytes_per_s, activity.pcie_received_bytes_per_s
        if sent is None and received is None:
            sent = self._pcie_bytes_per_s(pynvml.NVML_PCIE_UTIL_TX_BYTES)
            received = self._pcie_bytes_per_s(pynvml.NVML_PCIE_UTIL_RX_BYTES)
        return GpuSample(
            gpu_id=self.gpu_id,
            at=now,
            utilization_ratio=None if rates is None else ratio_of_percent(rates.gpu),
            memory_busy_ratio=None if rates is None else ratio_of_percent(rates.memory),
            sm_active_ratio=activity.sm_active_ratio,
            memory_used_bytes=used,
            memory_total_bytes=total,
            temperature_c=temperature_c(temperature),
            slowdown_temperature_c=slowdown_c,
            shutdown_temperature_c=shutdown_c,
            power_w=watts_of_milliwatts(self._ask(pynvml.nvmlDeviceGetPowerUsage)),
            power_limit_w=limit_w,
            energy_j=self._counted_j(now),
            pcie_sent_bytes_per_s=sent,
            pcie_received_bytes_per_s=received,
            sm_clock_hz=self._clock_hz(pynvml.NVML_CLOCK_SM),
            memory_clock_hz=self._clock_hz(pynvml.NVML_CLOCK_MEM),
            throttle_reasons=self._throttle_reasons(),
            ecc_corrected=self._ecc(pynvml.NVML_MEMORY_ERROR_TYPE_CORRECTED),
            ecc_uncorrected=self._ecc(pynvml.NVML_MEMORY_ERROR_TYPE_UNCORRECTED),
            remapped_rows=self._remapped_rows(),
            xids=xids,
            process_ids=self._ask(computing),
        )

    def _of_parts(self, now: datetime) -> Iterator[GpuSample]:
        if not self._ask(is_mig_enabled):
            return
        for index in range(self._ask(pynvml.nvmlDeviceGetMaxMigDeviceCount) or 0):
            handle = self._ask_each(pynvml.nvmlDeviceGetMigDeviceHandleByIndex, index)
            part = None if handle is None else self._part(handle)
            if part is not None:
                yield part._as_part(now)

    def _part(self, handle: Any) -> "_Device | None":
        gpu_id = self._ask_each(lambda _: text_of(pynvml.nvmlDeviceGetUUID, handle))
        if gpu_id is None:
            return None
        if gpu_id not in self._parts:
            self._parts[gpu_id] = _Device(handle, self.index, self)
        return self._parts[gpu_id]

    def _as_part(self, now: datetime) -> GpuSample:
        used, total = self._memory()
        return GpuSample(
            gpu_id=self.gpu_id,
            at=now,
            parent_gpu_id=self._parent.gpu_id if self._parent is not None else None,
            sm_active_ratio=self._activity.read().sm_active_ratio,
            memory_used_bytes=used,
            memory_total_bytes=total,
            process_ids=self._ask(computing),
        )

    def _memory(self) -> tuple[int | None, int | None]:
        """Used and total bytes; unknown where they contradict each other."""
        memory = self._ask(pynvml.nvmlDeviceGetMemoryInfo)
        if memory is None:
            return None, None
        used, total = count_of(memory.used), count_of(memory.total)
        return (None, total) if used is None or total is None or used > total else (used, total)

    def _limits_of_device(self) -> tuple[float | None, float | None, float | None]:
        """Temperatures of slowdown and shutdown in degrees Celsius, and the power limit in watts.

        They are kept once two answers in a row agree: one false answer would count for ever.
        """
        before = self._limits
        if before is None or not self._are_limits_sure:
            threshold = pynvml.nvmlDeviceGetTemperatureThreshold
            self._limits = (
                temperature_c(self._ask(threshold, _SLOWDOWN)),
                temperature_c(self._ask(threshold, _SHUTDOWN)),
                watts_of_milliwatts(self._ask(pynvml.nvmlDeviceGetEnforcedPowerLimit)),
            )
            self._are_limits_sure = self._limits == before
            return self._limits
        return before

    def _counted_j(self, now: datetime) -> float | None:
        """The energy counter as it was read last, at most 20 s ago."""
        if self._energy_at is None or not timedelta() <= now - self._energy_at < _ENERGY_EVERY:
            answer = self._ask(pynvml.nvmlDeviceGetTotalEnergyConsumption)
            self._energy_j, self._energy_at = scaled(answer, 1e-3), now
        return self._energy_j

    def _pcie_bytes_per_s(self, direction: int) -> float | None:
        return scaled(self._ask(pynvml.nvmlDeviceGetPcieThroughput, direction), 1e3)

    def _clock_hz(self, clock: int) -> float | None:
        return scaled(self._ask(pynvml.nvmlDeviceGetClockInfo, clock), 1e6)

    def _throttle_reasons(self) -> frozenset[ThrottleReason] | None:
        # Drivers before 535 know the second name only.
        bits = self._ask(pynvml.nvmlDeviceGetCurrentClocksEventReasons)
        if bits is None:
            bits = self._ask(pynvml.nvmlDeviceGetCurrentClocksThrottleReasons)
        bits = count_of(bits)
        if bits is None:
            return None
        return frozenset(reason for bit, reason in _THROTTLING.items() if bits & bit)

    def _ecc(self, kind: int) -> int | None:
        return count_of(
            self._ask(pynvml.nvmlDeviceGetTotalEccErrors, kind, pynvml.NVML_VOLATILE_ECC)
        )

    def _remapped_rows(self) -> RemappedRows | None:
        found = self._ask(pynvml.nvmlDeviceGetRemappedRows)
        if found is None:
            return None
        corrected, uncorrected = count_of(found[0]), count_of(found[1])
        if corrected is None or uncorrected is None:
            return None
        return RemappedRows(
            corrected=corrected,
            uncorrected=uncorrected,
            is_pending=found[2] == 1,
            has_failed=found[3] == 1,
        )

    def _ask(self, question: Callable[..., Answer], *arguments: object) -> Answer | None:
        """The device's answer; None: it has none."""
        key = (question, *arguments)
        if key in self._never:
            return None
        try:
            return question(self.handle, *arguments)
        except pynvml.NVMLError as error:
            if error.value in LOST or error.value in _DRIVER:
                raise
            if error.value in _NEVER:
                self._never.add(key)
            return None

    def _ask_each(self, question: Callable[..., Answer], *arguments: object) -> Answer | None:
        """The same, where one answer says nothing about the next one."""
        try:
            return question(self.handle, *arguments)
        except pynvml.NVMLError as error:
            if error.value in LOST or error.value in _DRIVER:
                raise
            return None


def _address(handle: Any) -> int | None:
    """The driver's address of the device, as each handle is another Python object."""
    return ctypes.cast(handle, ctypes.c_void_p).value


def _quietly(release: Callable[..., object], *arguments: object) -> None:
    with suppress(pynvml.NVMLError):
        release(*arguments)
