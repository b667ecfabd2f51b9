"""Models: how large they are, how they are built, and how much one sample of work is."""

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType

from gpu_core.decisions.requests.requirements.jobs.number_words import short_count

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


IMAGES = "images"
AUDIO = "seconds of audio"


@dataclass(frozen=True, slots=True, kw_only=True)
class Model:
    """A network. It is a language model if it has a shape; else `sample` names what it works on."""

    name: str
    parameters: int
    """All of them; they decide the memory."""
    active_parameters: int | None = None
    """Those that one token uses, in a mixture of experts. None: all."""
    shape: TransformerShape | None = None
    sample: str = IMAGES
    """The unit of the work, where the model is not a language model."""
    forward_flop_per_sample: float | None = None
    """Floating-point operations of one sample, forward; a multiply-add counts as two."""
    denoising_steps: int = 1
    """Of a diffusion model: the steps that one image usually takes in inference."""
    passes_per_step: int = 1
    """Forward passes of a step: 2 with classifier-free guidance."""
    is_encoder: bool = False
    """Does a language model only read, as BERT does, and write no tokens?"""
    usual_tokens: int | None = None
    """The longest input that an encoder was trained for. None: not an encoder."""
    activation_bytes_per_sample: int | None = None
    """The bytes that training keeps of one sample in 16 bits, without recomputing."""
    source: str

    @property
    def passes_per_sample(self) -> int:
        """How many forward passes does one sample take in inference?"""
        return self.denoising_steps * self.passes_per_step

    @property
    def computed_parameters(self) -> int:
        """How many parameters does one token use?"""
        return self.parameters if self.active_parameters is None else self.active_parameters

    @property
    def is_language_model(self) -> bool:
        """Is its work counted in tokens?"""
        return self.shape is not None


def transformer_of(parameters: int) -> Model:
    """The transformer that a number of parameters alone means.

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
    active_billions: float | None = None,
    encoder_tokens: int | None = None,
) -> Model:
    layers, hidden, heads, kv_heads, vocabulary = shape
    return Model(
        name=name,
        parameters=round(billions * 1e9),
        active_parameters=None if active_billions is None else round(active_billions * 1e9),
        shape=TransformerShape(
            layers=layers, hidden=hidden, heads=heads, kv_heads=kv_heads, vocabulary=vocabulary
        ),
        is_encoder=encoder_tokens is not None,
        usual_tokens=encoder_tokens,
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


def _diffusion(
    name: str,
    billions: float,
    tflop: float,
    steps: tuple[int, int],
    kept_mb: int,
    source: str,
) -> Model:
    return Model(
        name=name,
        parameters=round(billions * 1e9),
        forward_flop_per_sample=tflop * 1e12,
        denoising_steps=steps[0],
        passes_per_step=steps[1],
        activation_bytes_per_sample=kept_mb * 10**6,
        source=source,
    )


def _speech(name: str, millions: float, gflop_per_s: float, source: str) -> Model:
    return Model(
        name=name,
        parameters=round(millions * 1e6),
        sample=AUDIO,
        forward_flop_per_sample=gflop_per_s * 1e9,
        # 50 frames of a second, 34 bytes of each hidden value and layer (Korthikanti et al. 2022):
        # 1.3 MB for the largest, with 1280 hidden values and 32 layers in each half.
        activation_bytes_per_sample=round(millions / 1550 * 140e6),
        source=source,
    )


_LLAMA_2 = "Touvron et al. 2023, Llama 2, and the published configurations"
_LLAMA_3 = "Grattafiori et al. 2024, The Llama 3 Herd of Models, table 3"
_LLAMA_32 = "Meta 2024, Llama 3.2 model card and configurations"
_QWEN = "Qwen Team 2024, Qwen2.5 Technical Report, table 1"
_GEMMA = "Gemma Team 2024, Gemma 2, table 1"
_BERT = "Devlin et al. 2019, BERT, section 3"
_BGE = "Xiao et al. 2023, C-Pack: the shape of BERT"
_RESNET = "He et al. 2016, table 1, multiply-adds at 224 px"
_VIT = "Dosovitskiy et al. 2021, table 1, multiply-adds at 224 px"
_YOLO = "Ultralytics YOLOv8, at 640 px"
_GPT2 = "Radford et al. 2019, table 2, as released"
_TGATE = "Podell et al. 2023, table 1; multiply-adds of a step: Zhang et al. 2024 (T-GATE), table 1"
_WHISPER = "Radford et al. 2022, Whisper, table 1; 2 operations per parameter, 1500 frames in 30 s"

# Language models: billion parameters; layers, hidden, heads, KV heads, vocabulary. Vision models:
# million parameters, GFLOP for one image forward (twice the multiply-adds that papers count), MB
# kept in training, estimated from the sizes of the outputs of the layers. Diffusion: billion
# parameters with text encoders, TFLOP of one denoising step, passes for an image (30 steps, twice
# with guidance). Speech: million parameters, GFLOP for a second of audio.
_MODELS = (
    _llm("llama-2-7b", 6.74, (32, 4096, 32, 32, 32_000), _LLAMA_2),
    _llm("llama-2-13b", 13.0, (40, 5120, 40, 40, 32_000), _LLAMA_2),
    _llm("llama-2-70b", 69.0, (80, 8192, 64, 8, 32_000), _LLAMA_2),
    _llm("llama-3-1b", 1.24, (16, 2048, 32, 8, 128_256), _LLAMA_32),
    _llm("llama-3-3b", 3.21, (28, 3072, 24, 8, 128_256), _LLAMA_32),
    _llm("llama-3-8b", 8.03, (32, 4096, 32, 8, 128_256), _LLAMA_3),
    _llm("llama-3-70b", 70.6, (80, 8192, 64, 8, 128_256), _LLAMA_3),
    _llm("llama-3-405b", 405.9, (126, 16384, 128, 8, 128_256), _LLAMA_3),
    _llm("mistral-7b", 7.24, (32, 4096, 32, 8, 32_000), "Jiang et al. 2023, table 1"),
    _llm(
        "mixtral-8x7b",
        46.7,
        (32, 4096, 32, 8, 32_000),
        "Jiang et al. 2024, Mixtral of Experts, table 1",
        active_billions=12.9,
    ),
    _llm(
        "mixtral-8x22b",
        141,
        (56, 6144, 48, 8, 32_768),
        "Mistral AI 2024, Mixtral 8x22B model card",
        active_billions=39,
    ),
    _llm(
        "deepseek-v3",
        671,
        (61, 7168, 128, 128, 129_280),
        "DeepSeek-AI 2024, DeepSeek-V3, section 4.2; its compressed cache counts as a whole one",
        active_billions=37,
    ),
    _llm("qwen-2.5-7b", 7.62, (28, 3584, 28, 4, 152_064), _QWEN),
    _llm("qwen-2.5-14b", 14.8, (48, 5120, 40, 8, 152_064), _QWEN),
    _llm("qwen-2.5-32b", 32.8, (64, 5120, 40, 8, 152_064), _QWEN),
    _llm("qwen-2.5-72b", 72.7, (80, 8192, 64, 8, 152_064), _QWEN),
    _llm("gemma-2-9b", 9.24, (42, 3584, 16, 8, 256_128), _GEMMA),
    _llm("gemma-2-27b", 27.2, (46, 4608, 32, 16, 256_128), _GEMMA),
    _llm("phi-3-mini", 3.8, (32, 3072, 32, 32, 32_064), "Abdin et al. 2024, Phi-3, section 2"),
    _llm("gpt-2", 0.124, (12, 768, 12, 12, 50_257), _GPT2),
    _llm("gpt-2-medium", 0.355, (24, 1024, 16, 16, 50_257), _GPT2),
    _llm("gpt-2-large", 0.774, (36, 1280, 20, 20, 50_257), _GPT2),
    _llm("gpt-2-xl", 1.54, (48, 1600, 25, 25, 50_257), "Radford et al. 2019, table 2"),
    _llm("bert-base", 0.11, (12, 768, 12, 12, 30_522), _BERT, encoder_tokens=512),
    _llm("bert-large", 0.34, (24, 1024, 16, 16, 30_522), _BERT, encoder_tokens=512),
    _llm("distilbert", 0.066, (6, 768, 12, 12, 30_522), "Sanh et al. 2019", encoder_tokens=512),
    _llm("roberta-base", 0.125, (12, 768, 12, 12, 50_265), "Liu et al. 2019", encoder_tokens=512),
    _llm("roberta-large", 0.355, (24, 1024, 16, 16, 50_265), "Liu et al. 2019", encoder_tokens=512),
    _llm("bge-small", 0.033, (12, 384, 12, 12, 30_522), _BGE, encoder_tokens=512),
    _llm("bge-base", 0.109, (12, 768, 12, 12, 30_522), _BGE, encoder_tokens=512),
    _llm("bge-large", 0.335, (24, 1024, 16, 16, 30_522), _BGE, encoder_tokens=512),
    _llm("e5-base", 0.109, (12, 768, 12, 12, 30_522), "Wang et al. 2022", encoder_tokens=512),
    _llm("e5-large", 0.335, (24, 1024, 16, 16, 30_522), "Wang et al. 2022", encoder_tokens=512),
    _llm(
        "minilm-l6",
        0.0227,
        (6, 384, 12, 12, 30_522),
        "Wang et al. 2020; all-MiniLM-L6-v2 model card",
        encoder_tokens=256,
    ),
    _vision("resnet-18", 11.7, 3.6, 20, _RESNET),
    _vision("resnet-34", 21.8, 7.3, 30, _RESNET),
    _vision("resnet-50", 25.6, 8.2, 50, _RESNET),
    _vision("resnet-101", 44.5, 15.7, 75, _RESNET),
    _vision("resnet-152", 60.2, 23.1, 105, _RESNET),
    _vision("efficientnet-b0", 5.3, 0.78, 50, "Tan and Le 2019, table 2"),
    _vision("vit-b16", 86.6, 35.1, 62, _VIT),
    _vision("vit-l16", 304.3, 123.1, 165, _VIT),
    _vision("vit-h14", 632, 334.7, 290, _VIT),
    _vision(
        "clip-vit-l14", 427.6, 175, 210, "Radford et al. 2021, CLIP; the image tower at 224 px"
    ),
    _vision("yolov8n", 3.2, 8.7, 150, _YOLO),
    _vision("yolov8s", 11.2, 28.6, 280, _YOLO),
    _vision("yolov8m", 25.9, 78.9, 550, _YOLO),
    _vision("yolov8l", 43.7, 165.2, 850, _YOLO),
    _vision("yolov8x", 68.2, 257.8, 1100, _YOLO),
    _diffusion("stable-diffusion-1.5", 1.07, 0.678, (30, 2), 3_500, _TGATE),
    _diffusion("stable-diffusion-2.1", 1.29, 1.522, (30, 2), 6_000, _TGATE),
    _diffusion("stable-diffusion-xl", 3.5, 5.98, (30, 2), 14_000, _TGATE),
    _diffusion(
        "flux-1-dev",
        16.9,
        110,
        (28, 1),
        20_000,
        "Black Forest Labs 2024: 12B and T5-XXL; 2 operations per parameter, 4608 tokens, 28 steps",
    ),
    _diffusion(
        "flux-1-schnell",
        16.9,
        110,
        (4, 1),
        20_000,
        "Black Forest Labs 2024: as FLUX.1-dev, in 1 to 4 steps",
    ),
    _speech("whisper-tiny", 39, 2.6, _WHISPER),
    _speech("whisper-base", 74, 4.9, _WHISPER),
    _speech("whisper-small", 244, 16, _WHISPER),
    _speech("whisper-medium", 769, 51, _WHISPER),
    _speech("whisper-large-v3", 1550, 77, _WHISPER),
)

KNOWN_MODELS: Mapping[str, Model] = MappingProxyType({model.name: model for model in _MODELS})
"""Models by name."""
