"""A job: what is to be done with which model, and how."""

from dataclasses import dataclass
from enum import StrEnum

from gpu_core.decisions.catalog.gpu_types import Precision
from gpu_core.decisions.model.errors import InvalidInput
from gpu_core.decisions.model.pydantic_errors import refuse
from gpu_core.decisions.requests.requirements.jobs.models import Model


class Method(StrEnum):
    """The method by which the model is trained or used."""

    FULL = "full"
    """All parameters are trained."""
    LORA = "lora"
    """Adapters are trained on frozen weights (Hu et al. 2021)."""
    QLORA = "qlora"
    """The same, with the frozen weights in 4 bits (Dettmers et al. 2023)."""
    INFERENCE = "inference"

    @property
    def is_training(self) -> bool:
        """Does it change parameters?"""
        return self is not Method.INFERENCE


class Optimizer(StrEnum):
    """The optimizer of the trained parameters."""

    ADAMW = "adamw"
    ADAMW_8BIT = "adamw-8bit"
    SGD_MOMENTUM = "sgd-momentum"
    SGD = "sgd"


class Recompute(StrEnum):
    """The activations that are computed a second time instead of kept."""

    NONE = "none"
    SELECTIVE = "selective"
    """Those of the attention only; flash attention does this by itself."""
    FULL = "full"
    """All but the input of each layer."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Job:
    """The work of a job."""

    model: Model
    method: Method
    precision: Precision = Precision.BF16
    optimizer: Optimizer = Optimizer.ADAMW
    zero_stage: int | None = None
    """0 to 3: what is divided between GPUs (Rajbhandari et al. 2020). None: as little as fits."""
    recompute: Recompute | None = None
    """The recomputation. None: selective, and full where it does not fit otherwise."""
    lora_rank: int = 16
    batch_per_gpu: int = 1
    """Sequences or samples that one GPU works on at once."""
    accumulation: int = 8
    """Training: batches between two updates of the weights. Below ZeRO stage 2 gradients are
    exchanged only then."""
    sequence_length: int = 2048
    """Tokens of a sequence. In inference: prompt and answer together."""
    output_tokens: int = 256
    """Tokens that inference writes for each prompt."""
    amount: float
    """Training: tokens or samples, all epochs together. Inference: prompts or samples."""

    @property
    def unit(self) -> str:
        """The unit of `amount`."""
        if not self.model.is_language_model:
            return self.model.sample
        return "tokens" if self.method.is_training else "prompts"


def usual_precision(method: Method) -> Precision:
    """The precision of the work, where none is stated."""
    # Every GPU computes in fp16, and T4 and V100 not in bf16; training is stabler in bf16.
    return Precision.BF16 if method.is_training else Precision.FP16


def check_job(job: Job) -> Job:
    """The same job, if it makes sense.

    Raises:
        InvalidInput: One field does not.
        InvalidInputs: Several do not.
    """
    whole = (
        ("parameters", job.model.parameters),
        ("lora-rank", job.lora_rank),
        ("batch", job.batch_per_gpu),
        ("accumulation", job.accumulation),
        ("sequence-length", job.sequence_length),
        ("amount", job.amount),
    )
    errors = [
        InvalidInput(name, "is too small", got=value, allowed="more than 0")
        for name, value in whole
        if not value > 0
    ]
    if job.zero_stage is not None and not 0 <= job.zero_stage <= 3:
        errors.append(
            InvalidInput("zero-stage", "is not a ZeRO stage", got=job.zero_stage, allowed="0 to 3")
        )
    if job.method.is_training and job.precision in (Precision.INT8, Precision.INT4):
        errors.append(
            InvalidInput(
                "precision",
                "is for inference",
                got=str(job.precision),
                allowed="bf16, fp16 or fp32 in training",
                remedy="for a frozen model in 4 bits choose the method qlora",
            )
        )
    if job.method is Method.INFERENCE and not 0 <= job.output_tokens < job.sequence_length:
        errors.append(
            InvalidInput(
                "output-tokens",
                "leave no room for a prompt",
                got=job.output_tokens,
                allowed=f"0 to {job.sequence_length - 1}, of sequence-length",
            )
        )
    refuse(errors)
    return job
