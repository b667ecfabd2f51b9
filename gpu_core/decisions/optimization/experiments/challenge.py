"""The optimization challenge: batch 1 in fp32, batch 8, fewer bits, another GPU type."""

from dataclasses import replace

from gpu_core.decisions.catalog.gpu_types import GPU_TYPES
from gpu_core.decisions.catalog.offerings import Catalog
from gpu_core.decisions.catalog.product_names import nearest_gpu_types
from gpu_core.decisions.model.errors import InvalidInput, listed
from gpu_core.decisions.optimization.experiments.ladder import Rung
from gpu_core.decisions.optimization.experiments.plans import challenge_settings
from gpu_core.decisions.optimization.experiments.projection import NoProjection, Projection, project
from gpu_core.decisions.optimization.experiments.trial import Measured, Setting
from gpu_core.decisions.requests.requirements.jobs.job import Job

NamedRung = tuple[str, Rung]


def measured_rungs(found: Measured) -> tuple[NamedRung, ...]:
    """The steps that a device has itself: batch 1, batch 8, and fewer bits.

    Args:
        found: What was measured with `challenge_settings`.
    """
    trials = {trial.setting: trial for trial in found.trials}
    refused = dict(found.not_run)
    single, batched, fewer_bits = challenge_settings(found.device)
    names = ("Batch 1, fp32", "Batch 8", f"In {fewer_bits.precision}")
    return tuple(
        (name, trials.get(setting) or NoProjection(setting=setting, why=refused[setting]))
        for name, setting in zip(names, (single, batched, fewer_bits), strict=True)
    )


def projected_rungs(
    job: Job, first_gpu_type: str, other_gpu_type: str | None, catalog: Catalog
) -> tuple[NamedRung, ...]:
    """The steps of a job on one GPU type, and then on another one.

    Args:
        job: What is projected.
        first_gpu_type: On which it begins.
        other_gpu_type: To which it moves; None: the one with the lowest projected cost.

    Raises:
        InvalidInput: A GPU type is not known.
    """
    for field, name in (("first_gpu_type", first_gpu_type), ("other_gpu_type", other_gpu_type)):
        if name is not None and name not in GPU_TYPES:
            raise InvalidInput(
                field,
                "is not a known GPU type",
                got=name,
                allowed=listed(GPU_TYPES, limit=20),
                nearest=nearest_gpu_types(name, GPU_TYPES),
            )
    single, batched, halved = challenge_settings(first_gpu_type)
    moved = _moved(job, halved, other_gpu_type, catalog)
    return (
        (f"Batch 1, fp32, {first_gpu_type}", project(job, single, catalog)),
        ("Batch 8", project(job, batched, catalog)),
        ("In fp16", project(job, halved, catalog)),
        (f"On {moved.setting.device}", moved),
    )


def _moved(
    job: Job, before: Setting, gpu_type: str | None, catalog: Catalog
) -> Projection | NoProjection:
    if gpu_type is not None:
        return project(job, replace(before, device=gpu_type), catalog)
    found = [
        project(job, replace(before, device=name), catalog)
        for name in GPU_TYPES
        if name != before.device
    ]
    known = [each for each in found if isinstance(each, Projection)]
    return min(known, key=lambda each: each.usd_per_1k.likely) if known else found[0]
