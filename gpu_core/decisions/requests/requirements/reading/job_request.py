"""A job from a text and from stated fields; a stated field takes precedence."""

from dataclasses import dataclass, fields, replace
from typing import Any

from gpu_core.decisions.catalog.gpu_types import Precision
from gpu_core.decisions.model.errors import InvalidInput, listed, nearest_name
from gpu_core.decisions.requests.requirements.jobs.job import (
    Job,
    Method,
    Optimizer,
    Recompute,
    check_job,
    usual_precision,
)
from gpu_core.decisions.requests.requirements.jobs.models import KNOWN_MODELS, Model, transformer_of
from gpu_core.decisions.requests.requirements.reading.text import Reading, read_text


@dataclass(frozen=True, slots=True, kw_only=True)
class JobRequest:
    """The stated properties of a job, under the names of `Job`. None: not stated."""

    model_name: str | None = None
    parameters: int | None = None
    method: Method | None = None
    precision: Precision | None = None
    optimizer: Optimizer | None = None
    zero_stage: int | None = None
    recompute: Recompute | None = None
    lora_rank: int | None = None
    batch_per_gpu: int | None = None
    accumulation: int | None = None
    sequence_length: int | None = None
    output_tokens: int | None = None
    amount: float | None = None


def job_of(text: str | None, stated: JobRequest) -> Reading:
    """The job that a text and stated values describe.

    Args:
        text: A line such as `fine-tune a 7B model with LoRA`; None: everything is stated.
        stated: Comes before what the text says.

    Raises:
        InvalidInput: Something is missing, unknown or makes no sense.
        InvalidInputs: Several things make no sense.
    """
    model = _model(stated)
    reading = (
        _without_text(model, stated)
        if text is None
        else read_text(text, model, is_amount_known=stated.amount is not None)
    )
    if reading.job is None:
        return reading
    given: dict[str, Any] = {
        field.name: value
        for field in fields(stated)
        if field.name not in ("model_name", "parameters")
        and (value := getattr(stated, field.name)) is not None
    }
    notes = tuple(f"{name.replace('_', ' ')} {value}" for name, value in given.items())
    return replace(
        reading,
        job=check_job(replace(reading.job, **given)),
        understood=(*reading.understood, *notes),
    )


def _model(stated: JobRequest) -> Model | None:
    name = stated.model_name
    if name is not None and stated.parameters is not None:
        raise InvalidInput("parameters", "contradicts model", remedy="state one of the two")
    if name is not None and name not in KNOWN_MODELS:
        raise InvalidInput(
            "model",
            "is not known",
            got=name,
            allowed=listed(KNOWN_MODELS, limit=40),
            nearest=nearest_name(name, KNOWN_MODELS),
            remedy="state parameters instead",
        )
    if name is not None:
        return KNOWN_MODELS[name]
    return None if stated.parameters is None else transformer_of(stated.parameters)


def _without_text(model: Model | None, stated: JobRequest) -> Reading:
    if model is None or stated.method is None:
        missing = "model" if model is None else "method"
        raise InvalidInput(
            missing,
            "is missing",
            allowed="a model such as llama-3-8b, or parameters such as 7B"
            if model is None
            else listed(Method),
            remedy="describe the job in words, or state model or parameters, and method",
        )
    if stated.amount is None:
        raise InvalidInput(
            "amount", "is missing", allowed="tokens, prompts or images, such as 100M"
        )
    precision = stated.precision or usual_precision(stated.method)
    return Reading(
        job=Job(model=model, method=stated.method, precision=precision, amount=stated.amount),
        understood=(f"the model {model.name}",),
        assumed=() if stated.precision else (f"{precision} precision",),
    )
