"""The projection of a configuration to a GPU that was not measured, by the estimates for jobs."""

from dataclasses import dataclass, replace

from gpu_core.decisions.catalog.gpu_types import Precision
from gpu_core.decisions.catalog.offerings import Catalog
from gpu_core.decisions.model.errors import InvalidInput, listed, nearest_name
from gpu_core.decisions.offerings.constraints import Constraints
from gpu_core.decisions.offerings.estimates import NoRun, runs_on
from gpu_core.decisions.optimization.experiments.price import cheapest_gpu
from gpu_core.decisions.optimization.experiments.trial import Setting, usd_per_1k
from gpu_core.decisions.requests.requirements.jobs.job import Job, Method, check_job
from gpu_core.decisions.requests.requirements.jobs.models import KNOWN_MODELS


@dataclass(frozen=True, slots=True, kw_only=True)
class Bounds:
    """An estimate with the bounds of `requirements.duration`."""

    low: float
    likely: float
    high: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Projection:
    """A configuration that did not run."""

    setting: Setting
    micro_usd_per_hour: int
    """Of one GPU of the cheapest offering, with its part of the machine."""
    offering: str
    latency_s: Bounds
    """Of a batch: no percentile."""
    usd_per_1k: Bounds
    limit: str
    """Its bottleneck, such as `memory bandwidth`."""


@dataclass(frozen=True, slots=True, kw_only=True)
class NoProjection:
    """The reason why nothing is projected."""

    setting: Setting
    why: str


def inference_job(model: str, sequence_length: int, output_tokens: int) -> Job:
    """The job that is projected: prompts of this length to a model that is known.

    Raises:
        InvalidInput: The model is not known, or a length makes no sense.
        InvalidInputs: Several lengths make no sense.
    """
    known = KNOWN_MODELS.get(model)
    if known is None:
        raise InvalidInput(
            "model",
            "is not known",
            got=model,
            allowed=listed(KNOWN_MODELS, limit=40),
            nearest=nearest_name(model, KNOWN_MODELS),
        )
    return check_job(
        Job(
            model=known,
            method=Method.INFERENCE,
            precision=Precision.FP32,
            sequence_length=sequence_length,
            output_tokens=output_tokens,
            amount=1,
        )
    )


def project(job: Job, setting: Setting, catalog: Catalog) -> Projection | NoProjection:
    """The time and cost of a batch of this job on one GPU of this type.

    Args:
        job: Its batch, precision and amount are those of the setting.
        setting: On a GPU type, with one process.
        catalog: Where its price is read: the cheapest on-demand offering, for one GPU.
    """
    if setting.processes != 1:
        return NoProjection(setting=setting, why="estimates are not available for shared GPUs")
    offering = cheapest_gpu(catalog, setting.device)
    if offering is None:
        return NoProjection(
            setting=setting, why=f"no on-demand price found in the catalog for {setting.device}"
        )
    kind = replace(catalog.instance_type(offering), gpu_count=1)
    batch = setting.batch_size
    one_batch = replace(job, batch_per_gpu=batch, precision=setting.precision, amount=batch)
    found = runs_on(one_batch, kind, Constraints(), observed=None)
    if isinstance(found, NoRun):
        return NoProjection(setting=setting, why=found.summary)
    work, price = found[0].work, catalog.micro_usd_per_gpu_hour(offering)
    latency = Bounds(low=work.low_s, likely=work.likely_s, high=work.high_s)
    return Projection(
        setting=setting,
        micro_usd_per_hour=price,
        offering=str(offering.key),
        latency_s=latency,
        usd_per_1k=Bounds(
            low=usd_per_1k(price, batch / latency.low),
            likely=usd_per_1k(price, batch / latency.likely),
            high=usd_per_1k(price, batch / latency.high),
        ),
        limit=work.limit,
    )
