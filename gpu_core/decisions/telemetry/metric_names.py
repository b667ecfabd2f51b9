"""Names and units of GPU metrics: ours, and those of DCGM and other exporters.

Sources: `etc/default-counters.csv` and `docs/metrics.md` of NVIDIA/dcgm-exporter, releases
4.4.0-4.5.0 to 4.5.3-4.8.2 and of May 2026; the field identifiers of DCGM 4.7.0, which have names in
base units next to the older ones; `METRICS.md` of utkuozdemir/nvidia_gpu_exporter; OpenTelemetry's
semantic conventions for hardware, in development. All read in November 2026.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Literal, NamedTuple

_PERCENT, _MIB, _MHZ, _MILLI = 0.01, 2.0**20, 1e6, 1e-3


class Exporter(StrEnum):
    """The exporter of a metric. Its labels name the GPU, each exporter in its own way."""

    OURS = "prefect-gpu"
    """`gpu` is the UUID."""
    DCGM = "dcgm-exporter"
    """`UUID` is the UUID and `gpu` the index. MIG instances have the UUID of their GPU."""
    NVIDIA_SMI = "nvidia_gpu_exporter"
    """`uuid` is the UUID, without its prefix `GPU-`."""


class ExporterMetric(NamedTuple):
    """A metric of another exporter."""

    name: str
    factor: float = 1.0
    """How many base units one unit of it is."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Quantity:
    """One thing that is measured of a GPU."""

    field: str
    """Of a `GpuSample`, or a property of one."""
    metric: str
    """Our name for it; a counter without the suffix `_total`."""
    help: str
    kind: Literal["gauge", "counter"] = "gauge"
    dcgm: tuple[ExporterMetric, ...] = ()
    """The names of dcgm-exporter with DCGM before 4.7, the preferred one first."""
    dcgm_base: tuple[ExporterMetric, ...] = ()
    """The names in base units, from DCGM 4.7 on, the preferred one first."""
    nvidia_smi: tuple[ExporterMetric, ...] = ()
    opentelemetry: str | None = None
    is_of_whole_gpu: bool = True
    """A MIG instance has none of its own."""

    @property
    def exported_name(self) -> str:
        """The name of its samples in a scrape."""
        return f"{self.metric}_total" if self.kind == "counter" else self.metric


QUANTITIES = (
    Quantity(
        field="utilization_ratio",
        metric="prefect_gpu_device_utilization_ratio",
        help="Fraction of time in which a kernel was running, from 0 to 1.",
        # DCGM has no GPU_UTIL of MIG instances; the activity of their graphics engine takes its
        # place, which is the time with a kernel, too.
        dcgm=(
            ExporterMetric("DCGM_FI_DEV_GPU_UTIL", _PERCENT),
            ExporterMetric("DCGM_FI_PROF_GR_ENGINE_ACTIVE"),
        ),
        dcgm_base=(
            ExporterMetric("DCGM_FI_DEV_GPU_UTIL_RATIO"),
            ExporterMetric("DCGM_FI_PROF_GR_ENGINE_UTIL_RATIO"),
        ),
        nvidia_smi=(ExporterMetric("nvidia_smi_utilization_gpu_ratio"),),
        opentelemetry="hw.gpu.utilization",
        is_of_whole_gpu=False,
    ),
    Quantity(
        field="sm_active_ratio",
        metric="prefect_gpu_device_sm_active_ratio",
        help="Fraction of active multiprocessors, from 0 to 1 (Hopper or newer).",
        dcgm=(ExporterMetric("DCGM_FI_PROF_SM_ACTIVE"),),
        dcgm_base=(ExporterMetric("DCGM_FI_PROF_SM_UTIL_RATIO"),),
        is_of_whole_gpu=False,
    ),
    Quantity(
        field="memory_busy_ratio",
        metric="prefect_gpu_device_memory_busy_ratio",
        help="Fraction of time in which memory was read or written, from 0 to 1.",
        dcgm=(ExporterMetric("DCGM_FI_DEV_MEM_COPY_UTIL", _PERCENT),),
        dcgm_base=(ExporterMetric("DCGM_FI_DEV_MEMORY_UTIL_RATIO"),),
        nvidia_smi=(ExporterMetric("nvidia_smi_utilization_memory_ratio"),),
    ),
    Quantity(
        field="memory_used_bytes",
        metric="prefect_gpu_device_memory_used_bytes",
        help="Memory in use.",
        dcgm=(ExporterMetric("DCGM_FI_DEV_FB_USED", _MIB),),
        dcgm_base=(ExporterMetric("DCGM_FI_DEV_FB_USED_BYTES"),),
        nvidia_smi=(ExporterMetric("nvidia_smi_memory_used_bytes"),),
        opentelemetry="hw.gpu.memory.usage",
        is_of_whole_gpu=False,
    ),
    Quantity(
        field="memory_total_bytes",
        metric="prefect_gpu_device_memory_total_bytes",
        help="Memory of the device.",
        dcgm=(ExporterMetric("DCGM_FI_DEV_FB_TOTAL", _MIB),),
        dcgm_base=(ExporterMetric("DCGM_FI_DEV_FB_CAPACITY_BYTES"),),
        nvidia_smi=(ExporterMetric("nvidia_smi_memory_total_bytes"),),
        opentelemetry="hw.gpu.memory.limit",
        is_of_whole_gpu=False,
    ),
    Quantity(
        field="temperature_c",
        metric="prefect_gpu_device_temperature_celsius",
        help="Temperature of the GPU.",
        dcgm=(ExporterMetric("DCGM_FI_DEV_GPU_TEMP"),),
        dcgm_base=(ExporterMetric("DCGM_FI_DEV_GPU_TEMP_CELSIUS"),),
        nvidia_smi=(ExporterMetric("nvidia_smi_temperature_gpu"),),
        opentelemetry="hw.temperature",
    ),
    Quantity(
        field="slowdown_temperature_c",
        metric="prefect_gpu_device_slowdown_temperature_celsius",
        help="Temperature at which the device throttles its clocks.",
        dcgm=(ExporterMetric("DCGM_FI_DEV_SLOWDOWN_TEMP"),),
    ),
    Quantity(
        field="shutdown_temperature_c",
        metric="prefect_gpu_device_shutdown_temperature_celsius",
        help="Temperature at which the device shuts down.",
        dcgm=(ExporterMetric("DCGM_FI_DEV_SHUTDOWN_TEMP"),),
    ),
    Quantity(
        field="power_w",
        metric="prefect_gpu_device_power_watts",
        help="Power draw.",
        dcgm=(ExporterMetric("DCGM_FI_DEV_POWER_USAGE"),),
        dcgm_base=(ExporterMetric("DCGM_FI_DEV_BOARD_POWER_WATTS"),),
        nvidia_smi=(ExporterMetric("nvidia_smi_power_draw_watts"),),
        opentelemetry="hw.power",
    ),
    Quantity(
        field="power_limit_w",
        metric="prefect_gpu_device_power_limit_watts",
        help="Currently enforced power limit.",
        dcgm=(ExporterMetric("DCGM_FI_DEV_ENFORCED_POWER_LIMIT"),),
        nvidia_smi=(ExporterMetric("nvidia_smi_enforced_power_limit_watts"),),
    ),
    Quantity(
        field="energy_j",
        metric="prefect_gpu_device_energy_joules",
        help="Energy since the driver was loaded.",
        kind="counter",
        dcgm=(ExporterMetric("DCGM_FI_DEV_TOTAL_ENERGY_CONSUMPTION", _MILLI),),
        dcgm_base=(ExporterMetric("DCGM_FI_DEV_GPU_ENERGY_JOULES_TOTAL"),),
        opentelemetry="hw.energy",
    ),
    Quantity(
        field="pcie_sent_bytes_per_s",
        metric="prefect_gpu_device_pcie_sent_bytes_per_second",
        help="PCIe transmit throughput.",
        dcgm=(ExporterMetric("DCGM_FI_PROF_PCIE_TX_BYTES"),),
        opentelemetry="hw.gpu.io",
    ),
    Quantity(
        field="pcie_received_bytes_per_s",
        metric="prefect_gpu_device_pcie_received_bytes_per_second",
        help="PCIe receive throughput.",
        dcgm=(ExporterMetric("DCGM_FI_PROF_PCIE_RX_BYTES"),),
        opentelemetry="hw.gpu.io",
    ),
    Quantity(
        field="sm_clock_hz",
        metric="prefect_gpu_device_sm_clock_hertz",
        help="Multiprocessor clock frequency.",
        dcgm=(ExporterMetric("DCGM_FI_DEV_SM_CLOCK", _MHZ),),
        dcgm_base=(ExporterMetric("DCGM_FI_DEV_SM_CLOCK_HERTZ"),),
        nvidia_smi=(ExporterMetric("nvidia_smi_clocks_current_sm_clock_hz"),),
    ),
    Quantity(
        field="memory_clock_hz",
        metric="prefect_gpu_device_memory_clock_hertz",
        help="Memory clock frequency.",
        dcgm=(ExporterMetric("DCGM_FI_DEV_MEM_CLOCK", _MHZ),),
        dcgm_base=(ExporterMetric("DCGM_FI_DEV_MEMORY_CLOCK_HERTZ"),),
        nvidia_smi=(ExporterMetric("nvidia_smi_clocks_current_memory_clock_hz"),),
    ),
    Quantity(
        field="ecc_corrected",
        metric="prefect_gpu_device_ecc_corrected",
        help="Corrected memory errors since the driver was loaded.",
        kind="counter",
        dcgm=(ExporterMetric("DCGM_FI_DEV_ECC_SBE_VOL_TOTAL"),),
        nvidia_smi=(ExporterMetric("nvidia_smi_ecc_errors_corrected_volatile_total"),),
        opentelemetry="hw.errors",
    ),
    Quantity(
        field="ecc_uncorrected",
        metric="prefect_gpu_device_ecc_uncorrected",
        help="Uncorrected memory errors since the driver was loaded.",
        kind="counter",
        dcgm=(ExporterMetric("DCGM_FI_DEV_ECC_DBE_VOL_TOTAL"),),
        nvidia_smi=(ExporterMetric("nvidia_smi_ecc_errors_uncorrected_volatile_total"),),
        opentelemetry="hw.errors",
    ),
    Quantity(
        field="rows_pending",
        metric="prefect_gpu_device_remapped_rows_pending",
        help="Set to 1 if the remapping of a memory row is pending a reset.",
        dcgm=(ExporterMetric("DCGM_FI_DEV_ROW_REMAP_PENDING"),),
    ),
    Quantity(
        field="rows_failed",
        metric="prefect_gpu_device_remapped_rows_failed",
        help="Set to 1 if no spare memory rows were left.",
        dcgm=(ExporterMetric("DCGM_FI_DEV_ROW_REMAP_FAILURE"),),
    ),
)

LOST = Quantity(
    field="is_lost",
    metric="prefect_gpu_device_lost",
    help="Set to 1 if the GPU is not responding.",
)
"""No other exporter has it: dcgm-exporter ends the series of such a GPU."""

XIDS = "prefect_gpu_device_xid_errors_total"
"""Our counter of XID errors, by the label `xid`."""
SAMPLED = "prefect_gpu_device_sampled_timestamp_seconds"
"""The moment of the samples that our node exporter shows, by the label `node`."""
LAST_XID = "DCGM_FI_DEV_XID_ERRORS"
"""The code of the last XID error that DCGM has seen; 0: it has seen none."""

MEMORY_REST = (
    ExporterMetric("DCGM_FI_DEV_FB_FREE", _MIB),
    ExporterMetric("DCGM_FI_DEV_FB_FREE_BYTES"),
    ExporterMetric("DCGM_FI_DEV_FB_RESERVED", _MIB),
    ExporterMetric("DCGM_FI_DEV_FB_RESERVED_BYTES"),
)
"""With the used memory these add up to that of the device, which DCGM seldom exports."""


class MetricReading(NamedTuple):
    """The way to read a metric of a name."""

    exporter: Exporter
    quantity: Quantity | None
    """None: a part of the memory that is not in use."""
    factor: float
    rank: int
    """Of several readings of a quantity the lowest counts."""


def _readings() -> dict[str, MetricReading]:
    found: dict[str, MetricReading] = {}
    for quantity in (*QUANTITIES, LOST):
        found[quantity.exported_name] = MetricReading(Exporter.OURS, quantity, 1.0, 0)
        dcgm = [*quantity.dcgm_base, *quantity.dcgm]
        # The names in base units have more digits. What replaces a missing one comes last.
        preferred = {*quantity.dcgm_base[:1], *quantity.dcgm[:1]}
        dcgm.sort(key=lambda source: source not in preferred)
        for rank, source in enumerate(dcgm, 1):
            found[source.name] = MetricReading(Exporter.DCGM, quantity, source.factor, rank)
        for source in quantity.nvidia_smi:
            found[source.name] = MetricReading(Exporter.NVIDIA_SMI, quantity, source.factor, 9)
    for source in MEMORY_REST:
        found[source.name] = MetricReading(Exporter.DCGM, None, source.factor, 1)
    return found


READINGS: Mapping[str, MetricReading] = _readings()
"""By the name of a metric in a scrape, or in Prometheus."""
