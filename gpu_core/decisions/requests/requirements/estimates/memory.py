"""The memory that a job takes on each GPU: named terms with their arithmetic.

Sources: mixed precision and ZeRO: Rajbhandari et al. 2020, sections 3.1 and 5. Activations:
Korthikanti et al. 2022, section 4. LoRA: Hu et al. 2021; QLoRA: Dettmers et al. 2023, table 6.
Inference: EleutherAI, "Transformer Math 101", 2023.
"""

from dataclasses import dataclass

from gpu_core.decisions.catalog.gpu_types import Precision
from gpu_core.decisions.requests.requirements.jobs.job import Job, Method, Optimizer, Recompute
from gpu_core.decisions.requests.requirements.jobs.models import TransformerShape
from gpu_core.decisions.requests.requirements.jobs.number_words import short_count

USABLE_FRACTION = 0.90
"""Of a GPU's reported memory: the CUDA context takes 0.5 to 2 GB, fragmentation some more."""

_BYTES_PER_WEIGHT = {
    Precision.FP32: 4.0,
    Precision.BF16: 2.0,
    Precision.FP16: 2.0,
    Precision.INT8: 1.0,
    # 4 bits and a scale for each block of 64 weights.
    Precision.INT4: 0.55,
}

_OPTIMIZER_STATE_BYTES = {
    Optimizer.ADAMW: 8,
    Optimizer.ADAMW_8BIT: 2,
    Optimizer.SGD_MOMENTUM: 4,
    Optimizer.SGD: 0,
}

# Over the weights, for the buffers of inference ("Transformer Math 101": up to 20%).
_INFERENCE_OVERHEAD = 0.2

# Of one logit in training: 2 bytes as computed, 4 as the loss takes it.
_LOGIT_BYTES = 6


@dataclass(frozen=True, slots=True, kw_only=True)
class Division:
    """The parts that are divided between GPUs instead of held by each of them."""

    gpus: int = 1
    """How many GPUs share one copy of the model."""
    zero_stage: int = 0
    """Training: 1 optimizer, 2 gradients too, 3 weights too."""


WHOLE = Division()
"""Each GPU holds all of it."""


@dataclass(frozen=True, slots=True)
class Term:
    """A part of the memory, and how it comes about."""

    name: str
    bytes: int
    arithmetic: str


@dataclass(frozen=True, slots=True)
class Memory:
    """The memory that a job takes on each GPU."""

    terms: tuple[Term, ...]

    @property
    def bytes(self) -> int:
        """All terms together."""
        return sum(term.bytes for term in self.terms)


def memory_per_gpu(job: Job, division: Division = WHOLE) -> Memory:
    """How much memory does the job take on each GPU?

    Args:
        division: What is divided between how many GPUs. Inference divides the weights and the
            KV cache (tensor parallelism).
    """
    if job.method is Method.INFERENCE:
        return Memory(_without_nothing(_inference_terms(job, division.gpus)))
    return Memory(_without_nothing((*_state_terms(job, division), *_activations(job))))


def trained_parameters(job: Job) -> int:
    """How many parameters does the job train?

    Adapters on all linear layers of a layer: 4 of attention and 3 of a feed-forward network that
    is 8/3 as wide (Llama): rank x 19 x hidden. Checked: Llama-2-7B at rank 16 has 39,976,960.
    """
    shape = job.model.shape
    match job.method:
        case Method.FULL:
            return job.model.parameters
        case Method.INFERENCE:
            return 0
        case _ if shape is None:
            # A vision model has no such layers; adapters are about 1% of it (Hu et al. 2021).
            return job.model.parameters // 100
        case _:
            return job.lora_rank * 19 * shape.hidden * shape.layers


def weight_bytes(job: Job) -> float:
    """How many bytes does one weight of the model take?"""
    precision = Precision.INT4 if job.method is Method.QLORA else job.precision
    return _BYTES_PER_WEIGHT[precision]


def kv_bytes_per_token(shape: TransformerShape, precision: Precision) -> int:
    """How much does the KV cache grow for each token of a sequence? Quantized weights keep it."""
    each = 4 if precision is Precision.FP32 else 2
    return 2 * shape.layers * shape.kv_heads * shape.head_dim * each


def checkpoint_bytes(job: Job) -> int:
    """The size of a checkpoint: the trained parameters, their master copy and the optimizer."""
    trained = trained_parameters(job)
    each = _BYTES_PER_WEIGHT[job.precision] + _master_bytes(job)
    return round(trained * (each + _OPTIMIZER_STATE_BYTES[job.optimizer]))


def _state_terms(job: Job, division: Division) -> tuple[Term, ...]:
    trained, weights = trained_parameters(job), job.model.parameters
    shards = {s: division.gpus if division.zero_stage >= s else 1 for s in (1, 2, 3)}
    frozen = job.method is not Method.FULL
    return (
        _of_parameters("weights", weights, weight_bytes(job), shards[3]),
        _of_parameters("adapters", trained if frozen else 0, 2, shards[3]),
        _of_parameters("gradients", trained, _BYTES_PER_WEIGHT[job.precision], shards[2]),
        _of_parameters("master weights", trained, _master_bytes(job), shards[1]),
        _of_parameters(
            f"{job.optimizer} states", trained, _OPTIMIZER_STATE_BYTES[job.optimizer], shards[1]
        ),
        _gathered(job) if shards[3] > 1 else Term("gathered layer", 0, ""),
    )


def _master_bytes(job: Job) -> int:
    # fp32 weights are their own master copy; plain SGD in 16 bits is still kept in 32.
    return 0 if job.precision is Precision.FP32 else 4


def _gathered(job: Job) -> Term:
    layers = job.model.shape.layers if job.model.shape else 1
    size = job.model.parameters * weight_bytes(job) / layers
    return Term("gathered layer", round(size), f"weights / {layers} layers, whole on each GPU")


def _activations(job: Job) -> tuple[Term, ...]:
    shape = job.model.shape
    if shape is None:
        return (_kept_of_images(job),)
    b, s, h = job.batch_per_gpu, job.sequence_length, shape.hidden
    wide = 2 if job.precision is Precision.FP32 else 1
    per_token = _activation_bytes_per_hidden(job, shape)
    return (
        Term(
            "activations",
            round(wide * s * b * h * per_token * shape.layers),
            f"{s} tokens x {b} x hidden {h} x {per_token:g} B x {shape.layers} layers"
            f"{' x 2 in fp32' if wide == 2 else ''}",
        ),
        Term(
            "logits",
            b * s * shape.vocabulary * _LOGIT_BYTES,
            f"{b} x {s} tokens x vocabulary {shape.vocabulary} x {_LOGIT_BYTES} B",
        ),
    )


def _activation_bytes_per_hidden(job: Job, shape: TransformerShape) -> float:
    match job.recompute:
        case Recompute.FULL:
            return 2
        case Recompute.NONE:
            return 34 + 5 * shape.heads * job.sequence_length / shape.hidden
        case _:
            return 34


def _kept_of_images(job: Job) -> Term:
    each = job.model.activation_bytes_per_sample or 0
    wide = 2 if job.precision is Precision.FP32 else 1
    return Term(
        "activations",
        each * job.batch_per_gpu * wide,
        f"{job.batch_per_gpu} {job.unit} x {each * wide / 1e6:g} MB",
    )


def _inference_terms(job: Job, gpus: int) -> tuple[Term, ...]:
    weights = _of_parameters("weights", job.model.parameters, weight_bytes(job), gpus)
    overhead = Term(
        "buffers", round(weights.bytes * _INFERENCE_OVERHEAD), f"{_INFERENCE_OVERHEAD:.0%} of them"
    )
    shape = job.model.shape
    if shape is None:
        return (weights, overhead, _outputs_of_images(job))
    each = kv_bytes_per_token(shape, job.precision)
    cache = Term(
        "KV cache",
        round(each * job.sequence_length * job.batch_per_gpu / gpus),
        f"{each} B x {job.sequence_length} tokens x {job.batch_per_gpu} sequences{_over(gpus)}",
    )
    return (weights, overhead, cache)


def _outputs_of_images(job: Job) -> Term:
    # Forward keeps the outputs of a few layers at a time, about a tenth of what training keeps.
    each = (job.model.activation_bytes_per_sample or 0) // 10
    return Term(
        "activations",
        each * job.batch_per_gpu,
        f"{job.batch_per_gpu} {job.unit} x {each / 1e6:g} MB",
    )


def _of_parameters(name: str, parameters: int, each: float, shards: int) -> Term:
    return Term(
        name,
        round(parameters * each / shards),
        f"{each:g} B x {short_count(parameters)} parameters{_over(shards)}",
    )


def _over(gpus: int) -> str:
    return f" / {gpus} GPUs" if gpus > 1 else ""


def _without_nothing(terms: tuple[Term, ...]) -> tuple[Term, ...]:
    return tuple(term for term in terms if term.bytes)
