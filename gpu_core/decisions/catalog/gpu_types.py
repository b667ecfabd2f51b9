"""The capabilities of each GPU type: one dated, sourced row for each; the only such table."""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import date
from enum import StrEnum
from types import MappingProxyType

from gpu_core.decisions.catalog.mig import MIG_PROFILES


class Precision(StrEnum):
    """The number format that the arithmetic is done in."""

    FP32 = "fp32"
    BF16 = "bf16"
    FP16 = "fp16"
    INT8 = "int8"
    INT4 = "int4"
    """Weights only: the arithmetic is done in 16 bits."""


@dataclass(frozen=True, slots=True, kw_only=True)
class GpuType:
    """One GPU type. Speeds are peaks without sparsity, which data sheets often count double."""

    name: str
    memory_gib: int
    """Nominal, as the maker names the product."""
    reported_memory_mib: int | None
    """The memory for use, as AWS or the driver reports it."""
    dense_tflops: Mapping[Precision, float]
    """10^12 operations per second. The chip has no fast units for a precision that is left out."""
    bandwidth_gb_per_s: float
    """Of its own memory, in 10^9 bytes per second."""
    power_w: int
    nvlink_gb_per_s: float | None
    """To its neighbors, in one direction. None: it has no NVLink."""
    source: str
    read_on: date

    @property
    def mig_profiles(self) -> tuple[str, ...]:
        """The parts that it can be divided into; none: it cannot."""
        return tuple(MIG_PROFILES.get(self.name, ()))

    def tflops(self, precision: Precision) -> float | None:
        """Its peak with dense matrices, in TFLOPS; None: it has no fast units for this."""
        arithmetic = Precision.FP16 if precision is Precision.INT4 else precision
        return self.dense_tflops.get(arithmetic)


_READ_ON = date(2026, 11, 21)


def _row(
    name: str,
    memory_gib: int,
    reported_memory_mib: int | None,
    speeds: tuple[float, float | None, float | None, float | None],
    bandwidth_gb_per_s: float,
    power_w: int,
    nvlink_gb_per_s: float | None,
    source: str,
) -> GpuType:
    fp32, bf16, fp16, int8 = speeds
    given = {Precision.FP32: fp32, Precision.BF16: bf16, Precision.FP16: fp16, Precision.INT8: int8}
    return GpuType(
        name=name,
        memory_gib=memory_gib,
        reported_memory_mib=reported_memory_mib,
        dense_tflops=MappingProxyType({p: v for p, v in given.items() if v is not None}),
        bandwidth_gb_per_s=bandwidth_gb_per_s,
        power_w=power_w,
        nvlink_gb_per_s=nvlink_gb_per_s,
        source=source,
        read_on=_READ_ON,
    )


# Columns: memory GiB, MiB that AWS reports (describe_instance_types), TFLOPS in fp32 (without
# tensor cores), bf16, fp16 and int8, memory GB/s, W, NVLink GB/s in one direction. None among the
# speeds: the chip has no tensor cores for it. An A10G is slower than the A10 it is mistaken for.
_ROWS = (
    _row("t4", 16, 16384, (8.1, None, 65, 130), 320, 70, None, "NVIDIA T4 data sheet, 2019"),
    _row(
        "v100-16gb",
        16,
        16384,
        (15.7, None, 125, None),
        900,
        300,
        150,
        "NVIDIA V100 data sheet (SXM2), 2020",
    ),
    _row(
        "v100-32gb",
        32,
        32768,
        (15.7, None, 125, None),
        900,
        300,
        150,
        "NVIDIA V100 data sheet (SXM2), 2020",
    ),
    _row("a10g", 24, 22888, (35, 70, 70, 140), 600, 300, None, "NVIDIA A10G data sheet, 2021"),
    _row("l4", 24, 22888, (30.3, 121, 121, 242), 300, 72, None, "NVIDIA L4 data sheet, 2023"),
    _row("l40s", 48, 45776, (91.6, 362, 362, 733), 864, 350, None, "NVIDIA L40S data sheet, 2023"),
    _row(
        "a100-40gb",
        40,
        40960,
        (19.5, 312, 312, 624),
        1555,
        400,
        300,
        "NVIDIA A100 data sheet (SXM4), 2021",
    ),
    _row(
        "a100-80gb",
        80,
        81920,
        (19.5, 312, 312, 624),
        2039,
        400,
        300,
        "NVIDIA A100 data sheet (SXM4), 2021",
    ),
    _row(
        "h100-80gb",
        80,
        81920,
        (67, 989, 989, 1979),
        3350,
        700,
        450,
        "NVIDIA H100 data sheet (SXM5), 2023",
    ),
    _row("h200", 141, 144384, (67, 989, 989, 1979), 4800, 700, 450, "NVIDIA H200 data sheet, 2024"),
    _row(
        "b200",
        180,
        183359,
        (75, 2250, 2250, 4500),
        7700,
        1000,
        900,
        "NVIDIA DGX B200 data sheet, 2024, over its 8 GPUs",
    ),
)

GPU_TYPES: Mapping[str, GpuType] = MappingProxyType({row.name: row for row in _ROWS})
"""The GPU types by name. What is not here works, but nothing is known about its speed."""
