"""What somebody means by a line of text: a job, what was understood, and what was assumed."""

import re
from collections.abc import Container, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TypeVar

from gpu_core.decisions.catalog.gpu_types import Precision
from gpu_core.decisions.errors import InvalidInput, listed
from gpu_core.decisions.requirements.counts import NUMBER, number_of, short_count
from gpu_core.decisions.requirements.job import Job, Method, check_job, usual_precision
from gpu_core.decisions.requirements.models import KNOWN_MODELS, Model, transformer_of
from gpu_core.decisions.units import count

_T = TypeVar("_T")

TOKENS_PER_PARAMETER = 20
"""Of training from nothing, where nobody says (Hoffmann et al. 2022, table 3)."""

_FINE_TUNING_TOKENS = 10e6
_TOKENS_PER_SAMPLE = 512
_ANSWER = 256
_PROMPTS = 10_000
_IMAGES = 100_000

# What is counted, by the words that people use for it.
_NOUNS = (
    ("parameters", r"param\w*"),
    ("images", r"images?|pictures?|photos?|frames?"),
    ("tokens", r"tokens?"),
    ("epochs", r"epochs?"),
    (
        "samples",
        r"samples?|examples?|sentences?|documents?|rows?|records?|prompts?|requests?|questions?"
        r"|reviews?|messages?|articles?",
    ),
)

# Sizes that are written as `batch of 8`, `rank 64`, `context of 4k tokens`.
_SIZES = (
    ("batch_per_gpu", r"batch(?: size)?(?: of)? " + NUMBER),
    ("lora_rank", r"rank(?: of)? " + NUMBER),
    (
        "sequence_length",
        r"(?:context|sequence)s?(?: length| window| size)?(?: of)? " + NUMBER + r"(?: tokens)?",
    ),
)

# The first of these that is found says which model, where none is named by itself.
_TASKS: tuple[tuple[str, str], ...] = (
    (r"detect\w*|yolo\w*|segment\w*", "yolov8m"),
    (r"vision transformer|\bvit\b", "vit-b16"),
    (r"images?|pictures?|photos?|resnet\w*|frames?", "resnet-50"),
    (
        r"sentiment|embed\w*|bert|named entit\w*|classif\w*",
        "bert-base",
    ),
    (
        r"llm|language model|chat\w*|summar\w*|translat\w*|text generat\w*|generate text",
        "llama-3-8b",
    ),
)

_NO_GPU = re.compile(
    r"\b(sql|etl|csv|dbt|pandas|spreadsheet|reports?|download\w*|upload\w*|scrap(?:e|ing)"
    r"|linear regression|logistic regression|random forests?|decision trees?|naive bayes"
    r"|aggregat\w*|clean\w*|backup\w*)\b"
)

# Not `trained` and `fine-tuned`: what has been trained is used.
_TRAINING = re.compile(r"\b(?:(?:pre-?)?train(?:ing)?|fine-?\s?tun(?:e|ing))\b")
_INFERENCE = re.compile(r"\b(?:inference|serv(?:e|ing)|batch job)\b")

_METHODS: tuple[tuple[str, Method], ...] = (
    (r"q-?lora", Method.QLORA),
    (r"lora|adapters?|peft", Method.LORA),
    (r"pre-?train(?:ing)?|full fine-?tun(?:e|ing)|from scratch", Method.FULL),
    (r"fine-?\s?tun(?:e|ing)", Method.LORA),
    (r"train(?:ing)?", Method.FULL),
    (
        r"predict\w*|classif\w*|generat\w*|summari[sz]\w*|embed\w*|scor(?:e|ing)|answer\w*"
        r"|translat\w*|label\w*|detect\w*|segment\w*|chat\w*",
        Method.INFERENCE,
    ),
)

_PRECISIONS: tuple[tuple[str, Precision], ...] = (
    (r"int4|4-?\s?bit", Precision.INT4),
    (r"int8|8-?\s?bit", Precision.INT8),
    (r"bf16|bfloat16", Precision.BF16),
    (r"fp16|half precision|float16", Precision.FP16),
    (r"fp32|float32|single precision", Precision.FP32),
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Reading:
    """What was made of a text."""

    job: Job | None
    """None: the work needs no GPU."""
    understood: tuple[str, ...]
    assumed: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class _Found:
    """One thing, and whether the text says it or it was assumed."""

    note: str
    is_assumed: bool = False


def read_text(text: str, known_model: Model | None = None) -> Reading:
    """What does this line ask for?

    Args:
        text: Such as `fine-tune a 7B model with LoRA` or `object detection on 10 million images`.
        known_model: The model, where it is known from elsewhere; the text need not name one then.

    Raises:
        InvalidInput: No model, size or task was found in it, or what it says cannot be.
        InvalidInputs: Several things that it says cannot be.
    """
    line = " ".join(text.lower().split())
    stated, rest = _take_sizes(line)
    counts = _counts(rest)
    model, of_model = _model(rest, counts, known_model)
    if model is None:
        return _without_model(text, line)
    method, of_method = _method(line)
    precision, of_precision = _precision(line, method)
    sizes = _usual_sizes(model, method) | {name: size for name, (size, _) in stated.items()}
    job = Job(
        model=model,
        method=method,
        precision=precision,
        batch_per_gpu=sizes["batch_per_gpu"],
        lora_rank=sizes["lora_rank"],
        sequence_length=sizes["sequence_length"],
        output_tokens=0 if model.is_encoder else min(_ANSWER, sizes["sequence_length"] - 1),
        amount=1,
    )
    amount, of_amount = _amount(job, counts)
    of_sizes = [note for _, note in stated.values()] + _assumed_sizes(job, stated)
    notes = [of_model, of_method, of_precision, *of_sizes, *of_amount]
    return Reading(
        job=check_job(replace(job, amount=amount)),
        understood=tuple(found.note for found in notes if not found.is_assumed),
        assumed=tuple(found.note for found in notes if found.is_assumed),
    )


def _take_sizes(line: str) -> tuple[dict[str, tuple[int, _Found]], str]:
    """The sizes in the line, and the line without them, so that no number counts twice."""
    sizes: dict[str, tuple[int, _Found]] = {}
    for name, pattern in _SIZES:
        match = re.search(rf"\b{pattern}", line)
        if match is None:
            continue
        # A context of 4k is 4,096 tokens.
        size = round(number_of(match) * (1.024 if match[2] == "k" else 1))
        sizes[name] = (size, _Found(note=f"{name.replace('_', ' ')} {size}"))
        line = line.replace(match[0], " ")
    return sizes, line


def _usual_sizes(model: Model, method: Method) -> dict[str, int]:
    if not model.is_language_model:
        return {"batch_per_gpu": 32, "lora_rank": 16, "sequence_length": 1}
    if method.is_training:
        return {"batch_per_gpu": 1, "lora_rank": 16, "sequence_length": 2048}
    length = _TOKENS_PER_SAMPLE + (0 if model.is_encoder else _ANSWER)
    return {"batch_per_gpu": 8, "lora_rank": 16, "sequence_length": length}


def _assumed_sizes(job: Job, stated: Container[str]) -> list[_Found]:
    """What was assumed of the sizes that matter for such a job."""
    noun = "sequence" if job.model.is_language_model else "image"
    notes = {"batch_per_gpu": f"{count(job.batch_per_gpu, noun)} at once on each GPU"}
    if job.method is Method.FULL:
        notes["accumulation"] = f"an update of the weights every {job.accumulation} batches"
    if job.model.is_language_model:
        answer = f", {job.output_tokens} of them written" if job.method is Method.INFERENCE else ""
        notes["sequence_length"] = f"sequences of {job.sequence_length} tokens{answer}"
    if job.method in (Method.LORA, Method.QLORA):
        notes["lora_rank"] = f"adapters of rank {job.lora_rank}"
    return [_Found(note=note, is_assumed=True) for n, note in notes.items() if n not in stated]


def _counts(line: str) -> dict[str, float]:
    """How many of what: `{"images": 1e7}`."""
    counts: dict[str, float] = {}
    for match in re.finditer(rf"(?<![\w.-]){NUMBER}", line):
        noun = _noun_after(line[match.end() :], is_attached=match[0][-1:] == "b")
        number = number_of(match)
        if noun is None and match[2] in ("b", "bn", "billion", "m", "million", "t"):
            noun = "parameters"
        if noun is not None:
            counts.setdefault(noun, number)
    return counts


def _noun_after(rest: str, *, is_attached: bool) -> str | None:
    # `7B chat model on documents`: after an attached B only a noun that follows at once counts.
    between = "" if is_attached else r"(?:[a-z-]+ ){0,2}?"
    for name, nouns in _NOUNS:
        if re.match(rf"[\s-]*{between}(?:{nouns})\b", rest):
            return name
    return None


def _model(
    line: str, counts: Mapping[str, float], known: Model | None
) -> tuple[Model | None, _Found]:
    if known is not None:
        return known, _Found(note=f"the model {known.name}")
    squeezed = re.sub(r"[\s_-]", "", line)
    named = [name for name in KNOWN_MODELS if re.sub(r"[\s_-]", "", name) in squeezed]
    if named:
        name = max(named, key=len)
        return KNOWN_MODELS[name], _Found(note=f"the model {name}")
    if "parameters" in counts:
        parameters = round(counts["parameters"])
        if parameters < 1:
            raise InvalidInput("text", "has a model without parameters", allowed="more than 0")
        return transformer_of(parameters), _Found(
            note=f"a model with {short_count(parameters)} parameters"
        )
    task = _first(_TASKS, line)
    if task is None:
        return None, _Found(note="")
    return KNOWN_MODELS[task], _Found(
        note=f"the model {task}, for want of a name or size", is_assumed=True
    )


def _without_model(text: str, line: str) -> Reading:
    found = _NO_GPU.search(line)
    if found is None:
        raise InvalidInput(
            "text",
            "names no model, size or task",
            got=text,
            allowed="such as 'fine-tune a 7B model with LoRA', or one of the models "
            + listed(KNOWN_MODELS, limit=20),
        )
    return Reading(
        job=None, understood=(f"{found[0]!r}: work for a CPU, without a network",), assumed=()
    )


def _method(line: str) -> tuple[Method, _Found]:
    if _INFERENCE.search(line) and not _TRAINING.search(line):
        return Method.INFERENCE, _Found(note="the method inference")
    method = _first(_METHODS, line)
    if method is None:
        return Method.INFERENCE, _Found(note="inference, not training", is_assumed=True)
    is_bare = method is Method.LORA and re.search(r"lora|adapter|peft", line) is None
    if is_bare:
        return method, _Found(note="fine-tuning with adapters (LoRA)", is_assumed=True)
    return method, _Found(note=f"the method {method}")


def _precision(line: str, method: Method) -> tuple[Precision, _Found]:
    precision = _first(_PRECISIONS, line)
    is_of_weights = precision in (Precision.INT8, Precision.INT4) and method.is_training
    if precision is None or (is_of_weights and method is Method.QLORA):
        usual = usual_precision(method)
        return usual, _Found(note=f"arithmetic in {usual}", is_assumed=True)
    if is_of_weights:
        raise InvalidInput(
            "text",
            f"trains in {precision}",
            allowed="bf16, fp16 or fp32 in training",
            remedy="say QLoRA for adapters beside a frozen model in 4 bits",
        )
    return precision, _Found(note=f"precision {precision}")


def _amount(job: Job, counts: Mapping[str, float]) -> tuple[float, list[_Found]]:
    """How much work is it, in the job's own unit?"""
    epochs = counts.get("epochs", 1) if job.method.is_training else 1
    notes = [_Found(note=f"{epochs:g} epochs")] if epochs != 1 else []
    for name in ("images", "tokens", "samples"):
        if name not in counts or (name == "tokens" and job.unit != "tokens"):
            continue
        number = counts[name]
        notes.append(_Found(note=f"{number:,.0f} {name}"))
        if name == "samples" and job.unit == "tokens":
            number *= _TOKENS_PER_SAMPLE
            notes.append(
                _Found(note=f"{_TOKENS_PER_SAMPLE} tokens in each of them", is_assumed=True)
            )
        return number * epochs, notes
    number = _usual_amount(job)
    return number * epochs, [
        *notes,
        _Found(note=f"{number:,.0f} {job.unit}, as nothing is said", is_assumed=True),
    ]


def _usual_amount(job: Job) -> float:
    if job.unit == "images":
        return _IMAGES
    if job.unit == "prompts":
        return _PROMPTS
    if job.method is Method.FULL:
        return TOKENS_PER_PARAMETER * job.model.parameters
    return _FINE_TUNING_TOKENS


def _first(table: Sequence[tuple[str, _T]], line: str) -> _T | None:
    """The value of the first pattern that is found as a whole word."""
    return next((value for pattern, value in table if re.search(rf"\b(?:{pattern})\b", line)), None)
