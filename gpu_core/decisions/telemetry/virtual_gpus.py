"""Made-up activity of virtual GPUs, so that pages of measurements have something to show."""

from collections.abc import Sequence
from datetime import datetime

from gpu_core.decisions.telemetry.samples import GpuSample

VIRTUAL_PREFIX = "virtual-"
"""The prefix of the ids of virtual GPUs."""

# An A100 SXM: its limit (NVIDIA A100 datasheet, June 2021), and about what it draws without work.
_IDLE_W, _LIMIT_W = 60.0, 400.0


def virtual_samples(
    gpu_ids: Sequence[str], cores: float | None, now: datetime
) -> tuple[GpuSample, ...]:
    """The samples of virtual GPUs: as busy as their run keeps processor cores, up to one each.

    Args:
        gpu_ids: Of the virtual GPUs of one run, one or more.
        cores: How many processor cores the run uses; None: unknown.
        now: The moment of the samples.
    """
    ratio = None if cores is None else min(1.0, cores / len(gpu_ids))
    return tuple(
        GpuSample(
            gpu_id=gpu_id,
            at=now,
            utilization_ratio=ratio,
            power_w=None if ratio is None else _IDLE_W + ratio * (_LIMIT_W - _IDLE_W),
            power_limit_w=_LIMIT_W,
        )
        for gpu_id in gpu_ids
    )
