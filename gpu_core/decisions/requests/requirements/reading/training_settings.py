"""Settings of a training that a text names; their numbers are no amount of work."""

import re
from dataclasses import dataclass, replace

from gpu_core.decisions.model.errors import InvalidInput
from gpu_core.decisions.requests.requirements.jobs.job import Job, Optimizer, Recompute
from gpu_core.decisions.requests.requirements.jobs.number_words import NUMBER, number_of
from gpu_core.decisions.requests.requirements.reading.text_line import TextLine, first

_IS = r"(?: of| for| over| ?[=:])? ?"

_EIGHT_BITS = r"8[- ]?bits?"
_OPTIMIZERS = (
    (rf"(?:paged[ _-])?adamw?[ _-]?(?:in )?{_EIGHT_BITS}|{_EIGHT_BITS}[ _-](?:paged )?"
     r"(?:adamw?|optimi[sz]ers?)", Optimizer.ADAMW_8BIT),
    (r"adamw?", Optimizer.ADAMW),
    (r"sgd (?:with|and) momentum|sgd[ -]momentum|momentum sgd", Optimizer.SGD_MOMENTUM),
    (r"sgd", Optimizer.SGD),
)  # fmt: skip
_RECOMPUTES = (
    (r"selective (?:activation )?(?:recomput\w*|checkpointing)", Recompute.SELECTIVE),
    (
        r"(?:gradient|activation)[ _-]?checkpointing|(?:full )?(?:activation )?recomput\w*",
        Recompute.FULL,
    ),
)
_ZERO = r"(?:deepspeed )?zero(?:[ -]?stage)?[ -]?(?P<stage>\d+)"
_SHARDED = r"(?:fsdp2?|fully sharded(?: data parallel)?)"
"""Parameters, gradients and optimizer states are divided, as in ZeRO stage 3."""
_ACCUMULATION = (
    rf"(?:grad(?:ient)?s?[ _-])?accum\w*(?:[ _-]steps?)?{_IS}{NUMBER}(?: steps| batches)?"
)
_ACCUMULATION_BEFORE = rf"{NUMBER} (?:grad(?:ient)?s?[ _-])?accum\w*[ _-]steps?"
_GLOBAL_BATCH = (
    rf"(?:a )?(?:global|effective|total)[ _-]?batch(?:[ _-]?size)?{_IS}{NUMBER}"
    r"(?P<tokens>[ -]tokens)?"
)
_BATCH_OF_TOKENS = (
    rf"(?:a )?(?:batch(?:[ _-]?size)?|bs){_IS}{NUMBER}(?P<tokens>[ -]tokens)"
    r"(?: per (?:step|update))?"
)

# Numbers that change neither memory nor time.
_WITHOUT_EFFECT = (
    rf"warm-?up(?:[ _-]steps?)?{_IS}{NUMBER} ?%?(?: steps?| iterations?| epochs?)?",
    rf"{NUMBER} (?:(?:steps?|iterations?|epochs?) (?:of )?warm-?up|warm-?up (?:steps?|epochs?))",
    rf"every {NUMBER}[ -]?(?:steps?|iterations?|epochs?|batches|minutes?|mins?|hours?|h)",
    r"(?:lr|learning[ _-]rate|weight[ _-]decay|dropout|(?:lora[ _-])?alpha|temperature|seed"
    r"|top[ _-]?[pk]|patience|beta[ _-]?\d?|warm-?up[ _-]ratio)"
    r"(?: of| ?[=:])? ?\d[\d.]*(?:e-?\d+)?",
)


@dataclass(frozen=True, slots=True, kw_only=True)
class TrainingSettings:
    """The training settings in a text. None: not stated."""

    optimizer: Optimizer | None = None
    zero_stage: int | None = None
    recompute: Recompute | None = None
    accumulation: int | None = None
    batch_over_all: float | None = None
    """Samples between two updates, over all GPUs; tokens where `is_batch_in_tokens`."""
    is_batch_in_tokens: bool = False

    def applied_to(self, job: Job) -> Job:
        """The job with what is said; the rest stays as it is."""
        return replace(
            job,
            optimizer=self.optimizer or job.optimizer,
            zero_stage=job.zero_stage if self.zero_stage is None else self.zero_stage,
            recompute=self.recompute or job.recompute,
            accumulation=self.accumulation or job.accumulation,
        )


def take_training_settings(line: TextLine) -> TrainingSettings:
    """The settings that the line names. What is read is taken from the line.

    Raises:
        InvalidInput: One of them cannot be.
    """
    for pattern in _WITHOUT_EFFECT:
        while line.take(pattern) is not None:
            pass
    zero_stage = _take_zero_stage(line)
    optimizer = take_optimizer(line)
    recompute = first(_RECOMPUTES, line)
    if recompute is not None:
        line.understand(f"{recompute} activation recomputation")
    batch = line.take(_GLOBAL_BATCH) or line.take(_BATCH_OF_TOKENS)
    over_all = None if batch is None else number_of(batch)
    in_tokens = batch is not None and batch["tokens"] is not None
    if over_all is not None:
        line.understand(f"a global batch size of {over_all:,.0f}{' tokens' if in_tokens else ''}")
    accumulated = line.take(_ACCUMULATION_BEFORE) or line.take(_ACCUMULATION)
    accumulation = None if accumulated is None else _whole(accumulated, most=100_000)
    if accumulation is not None:
        line.understand(f"gradient accumulation over {accumulation} batches")
    return TrainingSettings(
        optimizer=optimizer,
        zero_stage=zero_stage,
        recompute=recompute,
        accumulation=accumulation,
        batch_over_all=over_all,
        is_batch_in_tokens=in_tokens,
    )


def take_optimizer(line: TextLine) -> Optimizer | None:
    """The optimizer that the line names.

    It is taken from the line, as `8-bit Adam` is no precision.
    """
    for pattern, optimizer in _OPTIMIZERS:
        if line.take(f"(?:{pattern})") is not None:
            line.understand(f"the {optimizer} optimizer")
            return optimizer
    return None


def samples_per_step(job: Job, settings: TrainingSettings, *, is_batch_said: bool) -> float:
    """How many samples lie between two updates of the weights?

    Args:
        is_batch_said: `1M steps, batch 256` are 256 samples in each step, where nothing is said of
            accumulation.
    """
    if settings.batch_over_all is None:
        is_one = is_batch_said and settings.accumulation is None
        return job.batch_per_gpu * (1 if is_one else job.accumulation)
    if settings.is_batch_in_tokens:
        return settings.batch_over_all / job.sequence_length
    return settings.batch_over_all


def _take_zero_stage(line: TextLine) -> int | None:
    match = line.take(_ZERO)
    if match is None:
        if line.take(_SHARDED) is None:
            return None
        line.understand("ZeRO stage 3 (fully sharded)")
        return 3
    stage = int(match["stage"])
    if stage > 3:
        raise InvalidInput("text", "names a ZeRO stage that does not exist", got=match[0].strip(),
                           allowed="0 to 3")  # fmt: skip
    line.understand(f"ZeRO stage {stage}")
    return stage


def _whole(match: re.Match[str], *, most: int) -> int:
    number = number_of(match)
    if not 1 <= number <= most or number != int(number):
        raise InvalidInput(
            "text", "has a size that cannot be", got=match[0], allowed=f"1 to {most:,}"
        )
    return int(number)
