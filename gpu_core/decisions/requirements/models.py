"""Models: how large they are, how they are built, and how much one sample of work is."""

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType

from gpu_core.decisions.requirements.counts import short_count

_HEAD_DIM = 128


@dataclass(frozen=True, slots=True, kw_only=True)
class TransformerShape:
    """The numbers that a transformer's activations and KV cache follow from."""

    layers: int
    hidden: int
    heads: int
    kv_heads: int
    """Fewer than `heads` with grouped-query attention."""
    vocabulary: int

    @property
    def head_dim(self) -> int:
        """The width of one attention head."""
        return self.hidden // self.heads


@dataclass(frozen=True, slots=True, kw_only=True)
class Model:
    """A network. It is a language model if it has a shape, else its sample is one image."""

    name: str
    parameters: int
    shape: TransformerShape | None = None
    forward_flop_per_sample: float | None = None
    """Floating-point operations of one image, forward; a multiply-add counts as two."""
    is_encoder: bool = False
    """Does a language model only read, as BERT does, and write no tokens?"""
    activation_bytes_per_sample: int | None = None
    """What training keeps of one image in 16 bits, without recomputing."""
    source: str

    @property
    def is_language_model(self) -> bool:
        """Is its work counted in tokens?"""
        return self.shape is not None


def transformer_of(parameters: int) -> Model:
    """Which transformer is meant by a number of parameters alone?

    The usual shape: layers = hidden / 128 and 12 x hidden^2 parameters in a layer (Kaplan et al.
    2020, section 2.1; 128 as in Llama-2-7B and GPT-3), heads of 128, no grouped queries. The
    hidden size is rounded to a whole number of heads.

    Args:
        parameters: 1 or more.
    """
    hidden = max(1, round((parameters * _HEAD_DIM / 12) ** (1 / 3) / _HEAD_DIM)) * _HEAD_DIM
    heads = hidden // _HEAD_DIM
    return Model(
        name=f"transformer with {short_count(parameters)} parameters",
        parameters=parameters,
        shape=TransformerShape(
            layers=heads, hidden=hidden, heads=heads, kv_heads=heads, vocabulary=32_000
        ),
        source="the usual shape for this number of parameters",
    )


def _llm(
    name: str,
    billions: float,
    shape: tuple[int, int, int, int, int],
    source: str,
    *,
    is_encoder: bool = False,
) -> Model:
    layers, hidden, heads, kv_heads, vocabulary = shape
    return Model(
        name=name,
        parameters=round(billions * 1e9),
        shape=TransformerShape(
            layers=layers, hidden=hidden, heads=heads, kv_heads=kv_heads, vocabulary=vocabulary
        ),
        is_encoder=is_encoder,
        source=source,
    )


def _vision(name: str, millions: float, gflop: float, kept_mb: int, source: str) -> Model:
    return Model(
        name=name,
        parameters=round(millions * 1e6),
        forward_flop_per_sample=gflop * 1e9,
        activation_bytes_per_sample=kept_mb * 10**6,
        source=source,
    )


_LLAMA_2 = "Touvron et al. 2023, Llama 2, and the published configurations"
_BERT = "Devlin et al. 2019, BERT, section 3"
_LLAMA_3 = "Grattafiori et al. 2024, The Llama 3 Herd of Models, table 3"

# Language models: layers, hidden, heads, KV heads, vocabulary. Vision models: million parameters,
# GFLOP for one image forward (twice the multiply-adds that papers count), MB kept in training.
# The last are estimates from the sizes of the outputs of the layers.
_MODELS = (
    _llm("llama-2-7b", 6.74, (32, 4096, 32, 32, 32_000), _LLAMA_2),
    _llm("llama-2-13b", 13.0, (40, 5120, 40, 40, 32_000), _LLAMA_2),
    _llm("llama-2-70b", 69.0, (80, 8192, 64, 8, 32_000), _LLAMA_2),
    _llm("llama-3-8b", 8.03, (32, 4096, 32, 8, 128_256), _LLAMA_3),
    _llm("llama-3-70b", 70.6, (80, 8192, 64, 8, 128_256), _LLAMA_3),
    _llm("llama-3-405b", 405.9, (126, 16384, 128, 8, 128_256), _LLAMA_3),
    _llm(
        "mistral-7b",
        7.24,
        (32, 4096, 32, 8, 32_000),
        "Jiang et al. 2023, Mistral 7B, table 1",
    ),
    _llm("bert-base", 0.11, (12, 768, 12, 12, 30_522), _BERT, is_encoder=True),
    _llm("bert-large", 0.34, (24, 1024, 16, 16, 30_522), _BERT, is_encoder=True),
    _llm("gpt-2", 1.54, (48, 1600, 25, 25, 50_257), "Radford et al. 2019, table 2"),
    _vision("resnet-50", 25.6, 8.2, 50, "He et al. 2016, table 1: 4.1 G multiply-adds at 224 px"),
    _vision("vit-b16", 86.6, 35.1, 62, "Dosovitskiy et al. 2021: 17.6 G multiply-adds at 224 px"),
    _vision("yolov8m", 25.9, 78.9, 550, "Ultralytics YOLOv8: 78.9 GFLOP at 640 px"),
)

KNOWN_MODELS: Mapping[str, Model] = MappingProxyType({model.name: model for model in _MODELS})
"""Models by name."""
