"""How much work is a job, in its own unit, by what a text counts?"""

from gpu_core.decisions.requests.requirements.jobs.job import Job, Method
from gpu_core.decisions.requests.requirements.jobs.models import AUDIO
from gpu_core.decisions.requests.requirements.jobs.number_words import short_count
from gpu_core.decisions.requests.requirements.reading.amounts import StatedAmounts
from gpu_core.decisions.requests.requirements.reading.prompt_lengths import TOKENS_PER_WORD
from gpu_core.decisions.requests.requirements.reading.text_line import NoEstimate, TextLine
from gpu_core.decisions.requests.requirements.reading.training_settings import (
    TrainingSettings,
    samples_per_step,
)

TOKENS_PER_PARAMETER = 20
"""Of pre-training, where the text says nothing (Hoffmann et al. 2022, table 3)."""

ANSWER_TOKENS = 256
"""That inference writes for each prompt, where the text says nothing."""

_FINE_TUNING_TOKENS = 10e6
_TOKENS_PER_SAMPLE = 512

_PROMPTS = 10_000
_IMAGES = 100_000
_GENERATED_IMAGES = 1_000
_AUDIO_S = 100 * 3600.0


def work_amount(
    job: Job,
    amounts: StatedAmounts,
    settings: TrainingSettings,
    line: TextLine,
    *,
    is_amount_known: bool,
    is_from_scratch: bool,
    is_evaluation: bool,
) -> float:
    """How much work is it, in the unit of the job? What it rests on goes to the notes.

    Args:
        is_amount_known: The amount comes from elsewhere; 1 is returned.
        is_from_scratch: A training starts without trained weights.
        is_evaluation: A data set that is named is the one by which models are compared.

    Raises:
        NoEstimate: The text counts only what such a job has no use for.
    """
    if is_amount_known:
        return 1.0
    number = _counted(job, amounts, settings, line)
    if number is None and amounts.data_set is not None:
        number = _of_data_set(job, amounts, settings, line, is_evaluation=is_evaluation)
    if number is None:
        _refuse_unread(job, amounts)
        return _assumed(job, line, is_from_scratch=is_from_scratch) * _epochs(job, amounts, line)
    return number * _epochs(job, amounts, line)


def _counted(
    job: Job, amounts: StatedAmounts, settings: TrainingSettings, line: TextLine
) -> float | None:
    counts = amounts.counts
    order = ("images", "seconds", "tokens", "words", "samples", "steps")
    if job.method.is_training and "epochs" not in counts:
        # `20 images, 1,500 steps`: the steps are the work, and repeat the images.
        order = ("tokens", "words", "steps", "images", "seconds", "samples")
    for noun in order:
        if noun not in counts:
            continue
        number = _converted(job, noun, counts[noun], amounts, settings, line)
        if number is not None:
            return number
    return None


def _converted(
    job: Job,
    noun: str,
    number: float,
    amounts: StatedAmounts,
    settings: TrainingSettings,
    line: TextLine,
) -> float | None:
    """This many of a noun in the unit of the job; None: such a job has no use for it."""
    if noun == "steps":
        is_batch_said = "batch_per_gpu" in amounts.sizes
        samples = samples_per_step(job, settings, is_batch_said=is_batch_said)
        return _of_steps(job, number, samples, line)
    if noun == "seconds":
        return _noted(line, number, f"{number / 3600:,.4g} hours of audio", job.unit == AUDIO)
    if noun == "images" or (noun == "samples" and job.unit == "images"):
        return _noted(line, number, f"{number:,.0f} {noun}", job.unit == "images")
    if noun in ("tokens", "words"):
        tokens = number * (TOKENS_PER_WORD if noun == "words" else 1)
        return _of_tokens(job, tokens, line, are_written=amounts.are_tokens_written)
    if job.unit == "tokens":
        line.understand(f"{number:,.0f} samples")
        each = amounts.tokens_per_sample or amounts.lengths.sample
        if each is None:
            each = min(_TOKENS_PER_SAMPLE, job.sequence_length)
            line.assume(f"{each:g} tokens per sample")
        return number * (min(each, job.sequence_length) if job.model.is_encoder else each)
    return _noted(line, number, f"{number:,.0f} samples", job.unit == "prompts")


def _noted(line: TextLine, number: float, note: str, is_unit: bool) -> float | None:
    if not is_unit:
        return None
    line.understand(note)
    return number


def _of_tokens(job: Job, number: float, line: TextLine, *, are_written: bool) -> float | None:
    if job.unit not in ("tokens", "prompts"):
        return None
    line.understand(f"{short_count(number)} tokens")
    if job.unit == "tokens":
        return number
    if are_written and job.output_tokens:
        return max(1.0, number / job.output_tokens)
    line.assume(f"{job.sequence_length} tokens per prompt, including the answer")
    return max(1.0, number / job.sequence_length)


def _of_steps(job: Job, number: float, samples: float, line: TextLine) -> float | None:
    if not job.method.is_training:
        return None
    line.understand(f"{number:,.0f} steps")
    line.assume(f"{samples:,g} samples per step")
    return number * samples * (job.sequence_length if job.unit == "tokens" else 1)


def _of_data_set(
    job: Job,
    amounts: StatedAmounts,
    settings: TrainingSettings,
    line: TextLine,
    *,
    is_evaluation: bool,
) -> float | None:
    data = amounts.data_set
    if data is None:
        return None
    of_evaluation = data.evaluation_number if is_evaluation else None
    size = data.number if of_evaluation is None else of_evaluation
    number = _converted(job, data.noun, size, amounts, settings, line)
    if number is not None:
        name = data.name if of_evaluation is None else f"the {data.name} evaluation set"
        line.understand(f"the size of {name} ({data.source})")
    return number


def _epochs(job: Job, amounts: StatedAmounts, line: TextLine) -> float:
    if not job.method.is_training:
        return 1.0
    if "epochs" in amounts.counts:
        epochs = amounts.counts["epochs"]
        line.understand(f"{epochs:g} epoch{'' if epochs == 1 else 's'}")
        return epochs
    data = amounts.data_set
    if data is None or job.method is not Method.FULL or data.usual_epochs == 1:
        return 1.0
    line.assume(f"{data.usual_epochs} epochs (typical for {data.name})")
    return float(data.usual_epochs)


def _refuse_unread(job: Job, amounts: StatedAmounts) -> None:
    """An amount that is stated and not understood is never replaced by an assumed one."""
    is_denoising = job.model.denoising_steps > 1 and not job.method.is_training
    without = {"parameters", "epochs"} | ({"steps"} if is_denoising else set())
    other = sorted(amounts.counts.keys() - without)
    data = () if amounts.data_set is None else (amounts.data_set.name,)
    got = (*amounts.unread, *(f"{amounts.counts[n]:,.0f} {n}" for n in other), *data)
    if got:
        raise NoEstimate(
            "text",
            f"gives an amount that is not one of {job.unit}",
            got=got[0],
            allowed=f"a number of {_countable(job)}",
            remedy="count the work in one of these, or give --amount",
        )


def _countable(job: Job) -> str:
    return {
        "tokens": "tokens, samples or steps, such as '50k samples of 400 tokens'",
        "prompts": "prompts, documents, requests or tokens",
        "images": "images, or steps of training",
    }.get(job.unit, "hours of audio")


def _assumed(job: Job, line: TextLine, *, is_from_scratch: bool) -> float:
    number, source = _usual(job, is_from_scratch=is_from_scratch)
    shown = (
        f"{number / 3600:,.0f} hours of audio"
        if job.unit == AUDIO
        else (f"{number:,.0f} {job.unit}")
    )
    line.assume(f"{shown} ({source})")
    return number


def _usual(job: Job, *, is_from_scratch: bool) -> tuple[float, str]:
    nothing = "no amount was specified"
    if job.unit == AUDIO:
        return _AUDIO_S, nothing
    if job.unit == "images":
        generates = job.model.denoising_steps > 1 and not job.method.is_training
        return (_GENERATED_IMAGES if generates else _IMAGES), nothing
    if job.unit == "prompts":
        return _PROMPTS, nothing
    if job.method is Method.FULL and is_from_scratch:
        return (
            float(TOKENS_PER_PARAMETER * job.model.parameters),
            f"{TOKENS_PER_PARAMETER} per parameter, Hoffmann et al. 2022",
        )
    return _FINE_TUNING_TOKENS, nothing
