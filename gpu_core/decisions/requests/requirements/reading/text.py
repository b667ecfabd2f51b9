"""The job that a line of text asks for."""

from dataclasses import dataclass, replace

from gpu_core.decisions.catalog.gpu_types import Precision
from gpu_core.decisions.model.errors import InvalidInput, listed
from gpu_core.decisions.model.units import count
from gpu_core.decisions.requests.requirements.jobs.job import (
    Job,
    Method,
    check_job,
    usual_precision,
)
from gpu_core.decisions.requests.requirements.jobs.models import (
    AUDIO,
    KNOWN_MODELS,
    Model,
    transformer_of,
)
from gpu_core.decisions.requests.requirements.jobs.number_words import short_count
from gpu_core.decisions.requests.requirements.reading.advice import (
    ON_CPUS_ONLY,
    Advice,
    GpuNeed,
    advice_before_model,
    advice_on_cpu,
    advice_on_size,
    advice_without_model,
    is_for_cpus_only,
)
from gpu_core.decisions.requests.requirements.reading.amounts import (
    StatedAmounts,
    refuse_unread_forms,
    take_amounts,
)
from gpu_core.decisions.requests.requirements.reading.names import take_model, unknown_model
from gpu_core.decisions.requests.requirements.reading.stated_limits import StatedLimits, take_limits
from gpu_core.decisions.requests.requirements.reading.tasks import (
    ENCODERS,
    EVALUATION,
    FROM_SCRATCH,
    INFERENCE,
    METHODS,
    PRECISIONS,
    SERVING,
    SPEECH,
    TASKS,
    TRAINING,
    UNKNOWN_PRECISION,
)
from gpu_core.decisions.requests.requirements.reading.text_line import (
    Found,
    NoEstimate,
    TextLine,
    first,
    moments_left,
    normalized_line,
    numbers_left,
)
from gpu_core.decisions.requests.requirements.reading.training_settings import (
    TrainingSettings,
    take_optimizer,
    take_training_settings,
)
from gpu_core.decisions.requests.requirements.reading.work import ANSWER_TOKENS, work_amount

NO_LIMITS = StatedLimits()

ENCODER_TOKENS = 512
"""That an encoder of a stated size reads at most, as BERT does (Devlin et al. 2018)."""

LONGEST_SEQUENCE = 32_768
"""Tokens of a training's sequence, where the text says only how long its samples are."""

MOST_DENOISING_STEPS = 1_000
"""Of one image; diffusion models are trained with 1,000 (Ho et al. 2020)."""

MOST_CHARACTERS = 2_000
"""Of a text; more is a pasted file, not a sentence."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Reading:
    """The result of reading a text."""

    job: Job | None
    """The job. None: no estimate is made; `advice` says why."""
    understood: tuple[str, ...]
    assumed: tuple[str, ...]
    limits: StatedLimits = NO_LIMITS
    advice: Advice | None = None
    """Only where there is no job."""
    not_read: tuple[str, ...] = ()
    """Text without effect on the job: numbers with the words around them, and when it is due."""


def read_text(
    text: str, known_model: Model | None = None, *, is_amount_known: bool = False
) -> Reading:
    """The reading of a line: the job that it asks for, or advice.

    Args:
        text: Such as `fine-tune a 7B model with LoRA` or `object detection on 10 million images`.
        known_model: The model, where it is known from elsewhere; the text need not name one then.
        is_amount_known: The amount of work is known from elsewhere, too.

    Raises:
        NoEstimate: It names a model, GPU, precision or amount that is not known, or a service.
        InvalidInput: It names no model or task at all, or asks for what cannot be.
        InvalidInputs: Several things that it says cannot be.
    """
    if len(text) > MOST_CHARACTERS:
        raise InvalidInput(
            "text", "is too long", got=f"{len(text):,} characters", allowed=f"{MOST_CHARACTERS:,}"
        )
    whole, line = normalized_line(text), normalized_line(text)
    if is_for_cpus_only(whole):
        return _advised(ON_CPUS_ONLY, line, NO_LIMITS)
    _refuse_negation(whole)
    limits = take_limits(line)
    advice = None if known_model is not None else advice_before_model(whole)
    if advice is not None:
        return _advised(advice, line, limits)
    model, unknown = (known_model, None) if known_model is not None else take_model(line)
    if model is None and unknown is None:
        advice = _advice_without_amount(whole, line)
        if advice is not None:
            return _advised(advice, line, limits)
    settings = take_training_settings(line)
    refuse_unread_forms(line)
    amounts = take_amounts(
        line,
        is_amount_known=is_amount_known,
        is_for_speech=whole.has(SPEECH) if model is None else model.sample == AUDIO,
    )
    if model is None and "parameters" in amounts.counts:
        advice = advice_on_size(whole)
        if advice is not None:
            return _advised(advice, line, limits)
        model = _sized(amounts, line, unknown, is_encoder=whole.has(ENCODERS))
    if model is None and unknown is not None:
        raise unknown_model(unknown)
    if model is None:
        advice = advice_on_cpu(whole)
    if model is None and advice is None:
        model = _of_task(whole, line)
    if model is None:
        advice = advice or advice_without_model(whole) or _advice_on_gpus(limits)
        if advice is None:
            raise _says_nothing(text)
        return _advised(advice, line, limits)
    if known_model is not None:
        line.understand(f"the model {known_model.name}")
    job = _job(model, whole, line, amounts, settings)
    if not is_amount_known:
        _refuse_service(whole, amounts)
    amount = work_amount(
        job,
        amounts,
        settings,
        line,
        is_amount_known=is_amount_known,
        is_evaluation=not job.method.is_training and whole.has(EVALUATION),
        is_from_scratch=whole.has(FROM_SCRATCH) or not whole.has(r"fine-?\s?tun\w+"),
    )
    return Reading(
        job=check_job(replace(job, amount=amount)),
        understood=_notes(line, is_assumed=False),
        assumed=_notes(line, is_assumed=True),
        limits=limits,
        not_read=numbers_left(line) + moments_left(line),
    )


def _advised(advice: Advice, line: TextLine, limits: StatedLimits) -> Reading:
    return Reading(
        job=None,
        understood=_notes(line, is_assumed=False),
        assumed=(),
        limits=limits,
        advice=advice,
    )


def _notes(line: TextLine, *, is_assumed: bool) -> tuple[str, ...]:
    notes: list[Found] = [found for found in line.notes if found.is_assumed is is_assumed]
    return tuple(dict.fromkeys(found.note for found in notes))


def _sized(
    amounts: StatedAmounts, line: TextLine, unknown: str | None, *, is_encoder: bool
) -> Model:
    """A number of parameters stands for a transformer, also of a family that is not known."""
    parameters = round(amounts.counts["parameters"])
    if parameters < 1:
        raise InvalidInput("text", "has a model without parameters", allowed="more than 0")
    of_family = "" if unknown is None else f"{unknown}: "
    line.understand(f"{of_family}a model with {short_count(parameters)} parameters")
    model = transformer_of(parameters)
    return replace(model, is_encoder=True, usual_tokens=ENCODER_TOKENS) if is_encoder else model


def _advice_without_amount(whole: TextLine, line: TextLine) -> Advice | None:
    """The answer to a text that names no model and no size: how much it is does not matter."""
    if line.has(r"\d[\d.,]* ?(?:m|million|bn?|billion|t|trillion|param\w*)"):
        return None
    advice = advice_on_cpu(whole)
    if advice is not None or first(TASKS, whole) is not None:
        return advice
    return advice_without_model(whole)


def _of_task(whole: TextLine, line: TextLine) -> Model | None:
    task = first(TASKS, whole)
    if task is None:
        return None
    line.assume(f"the model {task}, because no model or size was specified")
    return KNOWN_MODELS[task]


def _advice_on_gpus(limits: StatedLimits) -> Advice | None:
    if limits.gpus is None and not limits.gpu_types:
        return None
    types = " ".join(f"--gpu-type {name}" for name in limits.gpu_types)
    return Advice(
        need=GpuNeed.LIKELY,
        why="The description specifies GPUs, but not the work that they should do.",
        ask="Describe the work, for example 'fine-tune a 7B model with LoRA'. To see hourly "
        + f"prices, run `prefect-gpu catalog show {types}".strip()
        + "`.",
    )


def _says_nothing(text: str) -> InvalidInput:
    return InvalidInput(
        "text",
        "names no model, size or task",
        got=text,
        allowed="such as 'fine-tune a 7B model with LoRA', or one of the models "
        + listed(KNOWN_MODELS, limit=20),
    )


def _refuse_negation(whole: TextLine) -> None:
    """Refuse a text that says what is not to be done: it would be read as what is."""
    if whole.has(rf"(?:not|no|without|don't|never) (?:[a-z-]+ ){{0,2}}(?:{TRAINING}|q?lora|peft)"):
        raise NoEstimate(
            "text",
            "says what is not to be done",
            remedy="say what is: full fine-tuning, LoRA, QLoRA or inference",
        )


def _refuse_service(whole: TextLine, amounts: StatedAmounts) -> None:
    """A service has no end, so it has no time and no cost; a number of requests has."""
    is_service = whole.has(SERVING) and not whole.has(TRAINING)
    if is_service and not amounts.counts.keys() - {"parameters"}:
        raise NoEstimate(
            "text",
            "asks for a service, which has no end",
            remedy="say how much it answers, such as '1 million requests'. For the memory alone, "
            "name the method inference and an amount",
        )


def _job(
    model: Model,
    whole: TextLine,
    line: TextLine,
    amounts: StatedAmounts,
    settings: TrainingSettings,
) -> Job:
    # `8-bit Adam` names no precision of the arithmetic.
    take_optimizer(whole)
    method = _method(whole, line, model, amounts)
    precision = _precision(whole, line, method)
    steps = amounts.counts.get("steps")
    if steps is not None and model.denoising_steps > 1 and not method.is_training:
        model = _denoising_in(steps, model, line)
    sizes = _usual_sizes(model, method, amounts) | amounts.sizes
    answer = amounts.lengths.answer or ANSWER_TOKENS
    job = Job(
        model=model,
        method=method,
        precision=precision,
        batch_per_gpu=sizes["batch_per_gpu"],
        lora_rank=sizes["lora_rank"],
        sequence_length=sizes["sequence_length"],
        output_tokens=0 if model.is_encoder else min(answer, sizes["sequence_length"] - 1),
        amount=1,
    )
    if method.is_training:
        job = settings.applied_to(job)
    _assume_sizes(job, line, amounts, settings)
    return job


def _denoising_in(steps: float, model: Model, line: TextLine) -> Model:
    if not 1 <= steps <= MOST_DENOISING_STEPS:
        raise InvalidInput(
            "text",
            "has a number of denoising steps that cannot be",
            got=f"{steps:,g} steps",
            allowed=f"1 to {MOST_DENOISING_STEPS:,} for each image",
        )
    line.understand(f"{steps:g} denoising steps per image")
    return replace(model, denoising_steps=round(steps))


def _usual_sizes(model: Model, method: Method, amounts: StatedAmounts) -> dict[str, int]:
    if not model.is_language_model:
        return {"batch_per_gpu": _usual_batch(model), "lora_rank": 16, "sequence_length": 1}
    each = amounts.tokens_per_sample
    if each is None:
        each = amounts.lengths.sample if method.is_training else amounts.lengths.prompt
    if model.usual_tokens is not None:
        length = model.usual_tokens if each is None else min(model.usual_tokens, int(each))
        batch = 8
    elif method.is_training:
        # Shorter samples are packed into one sequence, and longer ones split.
        length, batch = min(max(2048, int(each or 0)), LONGEST_SEQUENCE), 1
    else:
        length, batch = int(each or 512) + (amounts.lengths.answer or ANSWER_TOKENS), 8
    return {"batch_per_gpu": batch, "lora_rank": 16, "sequence_length": length}


def _usual_batch(model: Model) -> int:
    if model.sample == AUDIO:
        return 30
    return 1 if model.denoising_steps > 1 else 32


def _assume_sizes(
    job: Job, line: TextLine, amounts: StatedAmounts, settings: TrainingSettings
) -> None:
    """Note what is assumed of the sizes that matter for such a job."""
    noun = "sequence" if job.model.is_language_model else job.unit.removesuffix("s")
    at_once = count(job.batch_per_gpu, noun)
    if job.model.sample == AUDIO and not job.model.is_language_model:
        at_once = f"{job.batch_per_gpu} {job.unit}"
    notes = {"batch_per_gpu": f"a batch size of {at_once} per GPU"}
    if job.method is Method.FULL:
        notes["accumulation"] = f"gradient accumulation over {job.accumulation} batches"
    if job.model.denoising_steps > 1 and not job.method.is_training:
        notes["passes"] = f"{job.model.passes_per_sample} denoising passes per image"
    if job.model.is_language_model:
        answer = f" ({job.output_tokens} generated)" if job.output_tokens else ""
        answer = answer if job.method is Method.INFERENCE else ""
        notes["sequence_length"] = f"a sequence length of {job.sequence_length} tokens{answer}"
    if job.method in (Method.LORA, Method.QLORA):
        notes["lora_rank"] = f"a LoRA rank of {job.lora_rank}"
    said = set(amounts.sizes)
    if "steps" in amounts.counts:
        said.add("passes")
    if (settings.accumulation, settings.batch_over_all) != (None, None):
        said.add("accumulation")
    if None not in (amounts.lengths.prompt, amounts.lengths.answer):
        said.add("sequence_length")
    each = amounts.tokens_per_sample or amounts.lengths.prompt or 0
    if job.model.is_encoder and each > job.sequence_length:
        line.assume(f"samples truncated to {job.sequence_length} tokens")
    for name, note in notes.items():
        if name not in said:
            line.assume(note)


_METHOD_NAMES = {
    Method.FULL: "full training",
    Method.LORA: "LoRA fine-tuning",
    Method.QLORA: "QLoRA fine-tuning",
    Method.INFERENCE: "inference",
}


def _method(whole: TextLine, line: TextLine, model: Model, amounts: StatedAmounts) -> Method:
    if whole.has(rf"{INFERENCE}|{SERVING}") and not whole.has(TRAINING):
        line.understand("inference")
        return Method.INFERENCE
    method = first(METHODS, whole)
    if method is Method.LORA and first(PRECISIONS, whole) is Precision.INT4:
        line.assume("QLoRA, because the weights have 4 bits")
        return Method.QLORA
    if method is None and amounts.counts.get("tokens", 0) > model.parameters:
        # Training usually has more tokens than the model has parameters, and inference fewer.
        line.assume("full training, because there are more tokens than parameters")
        return Method.FULL
    if method is None and "epochs" in amounts.counts:
        if model.is_language_model:
            line.assume("LoRA fine-tuning, because a number of epochs was specified")
            return Method.LORA
        line.assume("full training, because a number of epochs was specified")
        return Method.FULL
    if method is None:
        line.assume("inference")
        return Method.INFERENCE
    if method is Method.LORA and not whole.has(r"lora|adapters?|peft"):
        line.assume("LoRA fine-tuning")
        return method
    line.understand(_METHOD_NAMES[method])
    return method


def _precision(whole: TextLine, line: TextLine, method: Method) -> Precision:
    unknown = whole.take(f"(?:{UNKNOWN_PRECISION})")
    if unknown is not None:
        raise NoEstimate(
            "text",
            "names a precision without known figures",
            got=unknown[0],
            allowed=", ".join(Precision),
            remedy="take the next larger one",
        )
    precision = first(PRECISIONS, whole)
    is_of_weights = precision in (Precision.INT8, Precision.INT4) and method.is_training
    if precision is None or (is_of_weights and method is Method.QLORA):
        usual = usual_precision(method)
        line.assume(f"{usual} precision")
        return usual
    if is_of_weights:
        raise InvalidInput(
            "text",
            f"trains in {precision}",
            allowed="bf16, fp16 or fp32 in training",
            remedy="say QLoRA for adapters on a frozen model in 4 bits",
        )
    line.understand(f"{precision} precision")
    return precision
