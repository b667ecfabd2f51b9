"""One reading of one GPU, in base units: ratios, bytes, hertz, watts, joules, degrees Celsius."""

from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum


class ThrottleReason(StrEnum):
    """The cause of a GPU's lowered clocks. A stable contract: metrics carry it as a label."""

    POWER_CAP = "power-cap"
    """The power limit, by software."""
    THERMAL = "thermal"
    """The temperature, by software."""
    HARDWARE_THERMAL = "hardware-thermal"
    """The temperature is at or over the device's slowdown threshold."""
    POWER_BRAKE = "power-brake"
    """An outside signal, as of the power supply."""
    HARDWARE = "hardware"
    """The hardware slows down, for one of the reasons above or another one."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RemappedRows:
    """Rows of memory that were replaced by spare ones after errors. None: unknown."""

    corrected: int | None = None
    """After corrected errors."""
    uncorrected: int | None = None
    """After uncorrected errors."""
    is_pending: bool | None = None
    """A row is to be replaced by the next reset of the GPU."""
    has_failed: bool | None = None
    """No spare row was left: the GPU is to be replaced."""


@dataclass(frozen=True, slots=True, kw_only=True)
class GpuSample:
    """The activity of a GPU or a MIG instance at one moment. None: unknown, which is never 0."""

    gpu_id: str
    """The UUID that NVML and CUDA know it by."""
    at: datetime
    parent_gpu_id: str | None = None
    """Of a MIG instance: the GPU that it is a part of. Temperature, power, clocks and errors are
    that GPU's and stand in its sample."""
    is_lost: bool = False
    """The GPU does not answer any more; nothing else is known then."""
    utilization_ratio: float | None = None
    """Part of the time in which a kernel ran, however few of the multiprocessors it used."""
    sm_active_ratio: float | None = None
    """Part of the multiprocessors that worked, since the sample before; GPUs from Hopper on."""
    memory_busy_ratio: float | None = None
    """Part of the time in which the memory was read or written."""
    memory_used_bytes: int | None = None
    memory_total_bytes: int | None = None
    temperature_c: float | None = None
    slowdown_temperature_c: float | None = None
    """From here on the device holds down its clocks, by its own word."""
    shutdown_temperature_c: float | None = None
    power_w: float | None = None
    power_limit_w: float | None = None
    energy_j: float | None = None
    """A counter: since the driver was loaded. It may be some seconds older than the sample."""
    pcie_sent_bytes_per_s: float | None = None
    pcie_received_bytes_per_s: float | None = None
    sm_clock_hz: float | None = None
    memory_clock_hz: float | None = None
    throttle_reasons: frozenset[ThrottleReason] | None = None
    """The reasons why the clocks are held down; empty: they are not."""
    ecc_corrected: int | None = None
    """A counter: since the driver was loaded."""
    ecc_uncorrected: int | None = None
    """A counter: since the driver was loaded."""
    remapped_rows: RemappedRows | None = None
    xids: tuple[int, ...] = ()
    """Codes of the driver's XID errors since the sample before, oldest first."""
    process_ids: tuple[int, ...] | None = None
    """Processes with a compute context, by the numbers that the driver knows."""

    @property
    def rows_pending(self) -> bool | None:
        """Does a row of memory wait for a reset to be replaced? None: unknown."""
        return None if self.remapped_rows is None else self.remapped_rows.is_pending

    @property
    def rows_failed(self) -> bool | None:
        """Was no spare row of memory left? None: unknown."""
        return None if self.remapped_rows is None else self.remapped_rows.has_failed


# Sentinels. NVML's "not available" is all bits set, in 32 or 64 of them. DCGM (dcgm_structs.h) has
# blanks for unknown, not found, not supported and not permitted: of 32-bit integers the last 16
# (DCGM_INT32_BLANK), of floating-point numbers those from 2^47 on (DCGM_FP64_BLANK), of 64-bit
# integers from 0x7ffffffffffffff0 on. No measurement in base or in vendors' units is over 2^47; a
# counter of energy passes the 16 in microseconds.
_NVML_BLANK = 2**32 - 1
_FIRST_BLANK_32, _LAST_BLANK_32 = 0x7FFFFFF0, 0x7FFFFFFF
_FIRST_BLANK = 2.0**47

# Outside of these a reading is a mistake: no GPU works under -40 C (its storage temperature) or
# over 150 C (above every shutdown threshold, at most 105 C), or draws 10 kW.
_LOWEST_C, _HIGHEST_C = -40.0, 150.0
HIGHEST_W = 10_000.0


def known(value: float | None) -> float | None:
    """The value, or None where it stands for "not available" or can be no measurement.

    Negative numbers, NaN, infinity and the sentinels of NVML and DCGM are none.
    """
    if value is None or not 0 <= value < _FIRST_BLANK:
        return None
    is_blank = value == _NVML_BLANK or _FIRST_BLANK_32 <= value <= _LAST_BLANK_32
    return None if is_blank else value


def ratio_of_percent(percent: float | None) -> float | None:
    """0 to 1 for 0 to 100%; None for what is outside.

    >>> ratio_of_percent(37), ratio_of_percent(101)
    (0.37, None)
    """
    value = known(percent)
    return None if value is None or value > 100 else value / 100


def temperature_c(celsius: float | None) -> float | None:
    """The temperature, or None where no GPU can have it."""
    if celsius is None or not _LOWEST_C <= celsius <= _HIGHEST_C:
        return None
    return float(celsius)


def watts_of_milliwatts(milliwatts: float | None) -> float | None:
    """Watts, or None where no GPU can draw them."""
    watts = scaled(milliwatts, 1e-3)
    return None if watts is None or watts > HIGHEST_W else watts


def scaled(value: float | None, factor: float) -> float | None:
    """The value in a base unit; None stays None.

    Args:
        factor: How many base units one unit of the value is: 1e6 for MHz.
    """
    value = known(value)
    return None if value is None else value * factor


def count_of(value: float | None) -> int | None:
    """A counter's whole number, or None."""
    value = known(value)
    return None if value is None else int(value)
