"""Reads NVML's GPM metrics between two samples: which share of a GPU is active."""

from contextlib import suppress
from dataclasses import dataclass
from typing import Any

import pynvml

from gpu_core.adapters.nvml.driver import LOST
from gpu_core.decisions.telemetry.samples import ratio_of_percent, scaled

_BYTES_PER_MIB = 2.0**20


@dataclass(frozen=True, slots=True, kw_only=True)
class ActivityReading:
    """Since the reading before; None: unknown, such as at the first reading."""

    sm_active_ratio: float | None = None
    pcie_sent_bytes_per_s: float | None = None
    pcie_received_bytes_per_s: float | None = None


_UNKNOWN = ActivityReading()


class Activity:
    """Activity of one GPU or MIG instance; unknown on GPUs before Hopper.

    Args:
        device: NVML's handle of the GPU.
        instance: The GPU instance id of a MIG instance; None: the whole GPU.
    """

    def __init__(self, device: Any, instance: int | None = None) -> None:
        self._device = device
        self._instance = instance
        self._samples: list[Any] = []
        self._has_previous = False
        with suppress(pynvml.NVMLError):
            if pynvml.nvmlGpmQueryDeviceSupport(device).isSupportedDevice:
                self._samples = [pynvml.nvmlGpmSampleAlloc(), pynvml.nvmlGpmSampleAlloc()]
        self._asked = pynvml.c_nvmlGpmMetricsGet_t() if self._samples else None

    def read(self) -> ActivityReading:
        """The activity since the last call.

        Raises:
            NVMLError: The device is lost.
        """
        if self._asked is None:
            return _UNKNOWN
        try:
            return self._read(self._asked)
        except pynvml.NVMLError as error:
            self._has_previous = False
            if error.value in LOST:
                raise
            return _UNKNOWN

    def close(self) -> None:
        """Free the samples."""
        for sample in self._samples:
            with suppress(pynvml.NVMLError):
                pynvml.nvmlGpmSampleFree(sample)
        self._samples, self._asked = [], None

    def _read(self, asked: Any) -> ActivityReading:
        previous, current = self._samples
        if self._instance is None:
            pynvml.nvmlGpmSampleGet(self._device, current)
        else:
            pynvml.nvmlGpmMigSampleGet(self._device, self._instance, current)
        self._samples = [current, previous]
        if not self._has_previous:
            self._has_previous = True
            return _UNKNOWN
        metrics = (
            pynvml.NVML_GPM_METRIC_SM_UTIL,
            pynvml.NVML_GPM_METRIC_PCIE_TX_PER_SEC,
            pynvml.NVML_GPM_METRIC_PCIE_RX_PER_SEC,
        )
        asked.version = pynvml.NVML_GPM_METRICS_GET_VERSION
        asked.numMetrics = len(metrics)
        asked.sample1, asked.sample2 = previous, current
        for place, metric in enumerate(metrics):
            asked.metrics[place].metricId = metric
        pynvml.nvmlGpmMetricsGet(asked)
        sm_percent, sent_mib, received_mib = (
            asked.metrics[place].value if asked.metrics[place].nvmlReturn == 0 else None
            for place in range(len(metrics))
        )
        return ActivityReading(
            sm_active_ratio=ratio_of_percent(sm_percent),
            pcie_sent_bytes_per_s=scaled(sent_mib, _BYTES_PER_MIB),
            pcie_received_bytes_per_s=scaled(received_mib, _BYTES_PER_MIB),
        )
