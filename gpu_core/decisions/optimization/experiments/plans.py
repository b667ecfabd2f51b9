"""The configurations that an experiment measures."""

from collections.abc import Sequence
from dataclasses import replace
from enum import StrEnum

from gpu_core.decisions.catalog.gpu_types import GPU_TYPES, Precision
from gpu_core.decisions.optimization.experiments.trial import Setting

BATCH_SIZES = (1, 4, 8, 16, 32)
USUAL_BATCH = 8
MOST_PROCESSES = 2
CPU = "cpu"
"""The device of a run without a GPU: one core."""
_PRECISIONS = (Precision.FP32, Precision.FP16, Precision.BF16, Precision.INT8)


class Experiment(StrEnum):
    """The setting that an experiment varies."""

    BATCH_SIZE = "batch-size"
    PRECISION = "precision"
    SHARING = "sharing"
    GPU_TYPE = "gpu-type"


def measured_settings(experiment: Experiment, device: str) -> tuple[Setting, ...]:
    """The configurations that are measured on this device.

    Args:
        device: The GPU type of the run, or `cpu`.
    """
    usual = Setting(device=device, batch_size=USUAL_BATCH, precision=Precision.FP32)
    match experiment:
        case Experiment.BATCH_SIZE:
            return tuple(replace(usual, batch_size=size) for size in BATCH_SIZES)
        case Experiment.PRECISION:
            return tuple(replace(usual, precision=precision) for precision in _PRECISIONS)
        case Experiment.SHARING:
            return tuple(replace(usual, processes=n + 1) for n in range(MOST_PROCESSES))
        case Experiment.GPU_TYPE:
            return (usual,)


def one_by_one(device: str) -> tuple[Setting, ...]:
    """The one configuration in which a device answers each request alone."""
    return (Setting(device=device, batch_size=1, precision=Precision.FP32),)


def challenge_settings(device: str) -> tuple[Setting, ...]:
    """The configurations that the ladder of changes measures on this device.

    Batch 1 in fp32, batch 8, and fewer bits: fp16 on a GPU, int8 on a CPU. The precision is fixed
    before anything is measured: the best of several would look better than it is.
    """
    single = Setting(device=device, batch_size=1, precision=Precision.FP32)
    batched = replace(single, batch_size=USUAL_BATCH)
    fewer_bits = Precision.INT8 if device == CPU else Precision.FP16
    return single, batched, replace(batched, precision=fewer_bits)


def projected_settings(experiment: Experiment, device: str) -> tuple[Setting, ...]:
    """The configurations that are projected: GPU types other than the one that the run has."""
    if experiment is not Experiment.GPU_TYPE:
        return ()
    return tuple(
        Setting(device=name, batch_size=USUAL_BATCH, precision=Precision.FP16)
        for name in GPU_TYPES
        if name != device
    )


def turns(settings: Sequence[Setting], repeats: int) -> tuple[tuple[int, Setting], ...]:
    """The order of the measurements: every configuration once, then every one again, and so on.

    A slow minute of the machine then meets all configurations. Each turn begins with another one.
    """
    return tuple(
        (turn, settings[(turn + offset) % len(settings)])
        for turn in range(repeats)
        for offset in range(len(settings))
    )
