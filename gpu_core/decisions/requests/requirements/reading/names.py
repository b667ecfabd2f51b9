"""The model that a text names, by any of its spellings."""

import re
from collections.abc import Iterable, Mapping
from types import MappingProxyType

from gpu_core.decisions.model.errors import listed, nearest_name
from gpu_core.decisions.requests.requirements.jobs.models import KNOWN_MODELS, Model, transformer_of
from gpu_core.decisions.requests.requirements.jobs.number_words import (
    NUMBER,
    number_of,
    short_count,
)
from gpu_core.decisions.requests.requirements.reading.text_line import NoEstimate, TextLine

# Other spellings of the names in KNOWN_MODELS. Blanks, hyphens and underscores never count.
_SPELLINGS: Mapping[str, tuple[str, ...]] = MappingProxyType(
    {
        "gpt-2-medium": ("gpt-2-355m", "gpt-2-345m"),
        "gpt-2-large": ("gpt-2-774m", "gpt-2-762m"),
        "flux-1-schnell": ("flux-schnell", "flux.1-schnell"),
        "llama-3-1b": ("llama-3.2-1b",),
        "llama-3-3b": ("llama-3.2-3b",),
        "llama-3-8b": ("llama-3.1-8b", "llama-8b"),
        "llama-3-70b": ("llama-3.1-70b", "llama-3.3-70b", "llama-70b"),
        "llama-3-405b": ("llama-3.1-405b", "llama-405b"),
        "llama-2-13b": ("llama-13b",),
        "mixtral-8x7b": ("mixtral-8-7b",),
        "qwen-2.5-7b": ("qwen2.5-7b", "qwen-7b"),
        "qwen-2.5-14b": ("qwen-14b",),
        "qwen-2.5-32b": ("qwen-32b",),
        "qwen-2.5-72b": ("qwen-72b",),
        "gemma-2-9b": ("gemma-9b",),
        "gemma-2-27b": ("gemma-27b",),
        "phi-3-mini": ("phi-3",),
        "gpt-2": ("gpt-2-small", "gpt-2-124m"),
        "bert-base": ("bert-base-uncased", "bert-base-cased"),
        "bert-large": ("bert-large-uncased", "bert-large-cased"),
        "distilbert": ("distilbert-base", "distilbert-base-uncased"),
        "bge-small": ("bge-small-en", "bge-small-en-v1.5"),
        "bge-base": ("bge-base-en", "bge-base-en-v1.5"),
        "bge-large": ("bge-large-en", "bge-large-en-v1.5"),
        "minilm-l6": ("all-minilm-l6-v2", "minilm", "all-minilm"),
        "vit-b16": ("vit-b", "vit-base", "vit-b/16"),
        "vit-l16": ("vit-l", "vit-large", "vit-l/16"),
        "vit-h14": ("vit-h", "vit-huge", "vit-h/14"),
        "clip-vit-l14": ("clip-vit-l/14", "clip-vit-large", "clip-l14"),
        "yolov8n": ("yolo-v8-nano",),
        "stable-diffusion-xl": ("sdxl", "sdxl-1.0", "stable-diffusion-xl-1.0"),
        "stable-diffusion-1.5": ("sd-1.5", "stable-diffusion-v1.5"),
        "stable-diffusion-2.1": ("sd-2.1", "stable-diffusion-v2.1"),
        "flux-1-dev": ("flux", "flux-1", "flux.1", "flux.1-dev", "flux-dev"),
        "whisper-large-v3": ("whisper-large", "whisper-v3"),
        "deepseek-v3": ("deepseek-r1",),
    }
)

# A family named alone stands for this member, which is shown as an assumption.
_USUAL: Mapping[str, str] = MappingProxyType(
    {
        "llama-2": "llama-2-7b",
        "llama-3": "llama-3-8b",
        "llama": "llama-3-8b",
        "mistral": "mistral-7b",
        "mixtral": "mixtral-8x7b",
        "bert": "bert-base",
        "roberta": "roberta-base",
        "bge": "bge-base",
        "resnet": "resnet-50",
        "vision-transformer": "vit-b16",
        "vit": "vit-b16",
        "clip": "clip-vit-l14",
        "yolo": "yolov8m",
        "yolov8": "yolov8m",
        "whisper": "whisper-large-v3",
        "stable-diffusion": "stable-diffusion-xl",
    }
)

# Families whose other members are named but not known: no member stands for another.
_FAMILIES = (
    r"gpt-j|gpt-neox|gpt-neo|llama|mistral|mixtral|ministral|qwen|gemma|gemini|phi|falcon|gpt|bert|roberta|deberta|albert"
    r"|opus-mt|marian\w*|modernbert|electra|distil\w+|flan|t5|mt5|bart|bge-reranker|bge-m3|bge|e5"
    r"|gte|gtr|mpnet|vit|deit|dino|swin|resnet"
    r"|resnext|convnext|efficientnet|mobilenet|densenet|inception|vgg|unet|u-net|yolo|detr|sam|clip"
    r"|blip|llava|whisper|wav2vec|hubert|conformer|stable diffusion|stable-diffusion|sdxl|sd|flux"
    r"|pixart|imagen|dit|controlnet|deepseek|bloom|opt|pythia|olmo|yi|command|dbrx|grok|mamba|rwkv"
    r"|seamless|nllb|m2m100|trocr|layoutlm|segformer|mask2former|timesfm|chronos|cogvideo|kandinsky"
    r"|starcoder|codellama|alphafold|esmfold|esm|dlrm|tacotron|bark|musicgen"
)
# Of these words a plain English one counts as a model only with a version or size after it.
_PLAIN_WORDS = frozenset(
    [
        "opt",
        "command",
        "yi",
        "sam",
        "sd",
        "clip",
        "bart",
        "flan",
        "grok",
        "bloom",
        "dino",
        "bark",
        "falcon",
        "flux",
        "imagen",
    ]
)
# `SAM` is a first name, too; its encoder is a ViT, which alone is another model.
_NEVER_ALONE = frozenset(["command", "opt", "yi"])
_UNKNOWN = r"(?:segment[- ]anything(?: model)?|sam[ -]?2(?:\.1)?|sam(?=[ -]vit)|(?<=with )sam)"
_VARIANT = (
    r"(?:[ -]?(?:\d[\w./]*|v\d[\w.]*|x+l|xl|tiny|mini|nano|small|base|medium|large|huge|giant|turbo"
    r"|(?<![a-z])[bslmh]\d{0,2}(?![a-z])(?:/\d+)?|pro|flash|coder|next|schnell|dev|uncased|cased|en))*"
)
_COUNTED = r"[ -](?:epochs?|eps|passes|steps?|iterations?|gpus?|hours?|days?)(?!\w)"
_SIZE = r"\d+(?:\.\d+)?(?:x\d+(?:\.\d+)?)?[bm]"


def take_model(line: TextLine) -> tuple[Model | None, str | None]:
    """The model that the line names.

    Returns:
        The model and None; or None and the name of a model that is not known; or None twice: no
        model is named. A name with a size but without figures, such as `falcon 40b`, is a
        transformer of that size.
    """
    unknown = line.take(_UNKNOWN)
    if unknown is not None:
        return None, unknown[0]
    match = re.search(rf"(?<![\w.])(?:{_MODELS}|{_FAMILIES}){_VARIANT}(?!\w)", line.text)
    while match is not None and _is_plain_word(match, line.text):
        match = re.compile(rf"(?<![\w.])(?:{_FAMILIES}){_VARIANT}(?!\w)").search(
            line.text, match.end()
        )
    if match is None:
        return None, None
    named = match[0]
    if re.match(_COUNTED, line.text[match.end() :]) is not None:
        # `llama 2 epochs` is no Llama 2, and `bert 3 epochs` no third BERT.
        named = re.sub(r"(?<=\w) \d+$", "", named)
    if _plain(named) not in _SPELLED:
        # `flux 5000 images` names flux, and `qwen-32b 20b tokens` no model of 20B.
        named = re.sub(rf"({_SIZE}) \d.*$", r"\1", named)
        named = re.sub(r" (?:\d[\d,]{2,}|\d+[km])$", "", named)
    end = match.start() + len(named)
    line.text = f"{line.text[: match.start()]} ; {line.text[end:]}"
    return _known(named.strip(" -"), line)


def _is_plain_word(match: re.Match[str], text: str) -> bool:
    """Is it English here? `clips` is a plural, no small CLIP; `with clip` names a model."""
    named = match[0]
    if _plain(named) in _SPELLED:
        return False
    if named in _PLAIN_WORDS:
        used = r"(?:with|using|via|fine-?\s?tun\w+|(?:pre-?)?train(?:ing)?) $"
        return named in _NEVER_ALONE or re.search(used, text[: match.start()]) is None
    return named.removesuffix("s") in _PLAIN_WORDS


def _known(named: str, line: TextLine) -> tuple[Model | None, str | None]:
    # Releases of one model, such as `mistral 7b v0.3`, have the same size.
    plain = _plain(re.sub(r"[ -]v0\.\d+$", "", named))
    if plain in _SPELLED:
        name = _SPELLED[plain]
        line.understand(f"the model {name}")
        return KNOWN_MODELS[name], None
    if plain in _USUAL_PLAIN:
        return _of_family(named, _USUAL_PLAIN[plain], line)
    sized = re.search(rf"({_SIZE})$", named)
    if sized is not None and "x" not in sized[1]:
        match = re.fullmatch(NUMBER, sized[1])
        parameters = round(number_of(match)) if match else 0
        if parameters > 0:
            line.understand(f"{named}: a model with {short_count(parameters)} parameters")
            return transformer_of(parameters), None
    return None, named


def _of_family(named: str, usual: str, line: TextLine) -> tuple[Model | None, str | None]:
    """A family alone: a size elsewhere in the text says which member, else the usual one."""
    size = re.search(
        r"(?<![\w.-])(\d+(?:\.\d+)?b)(?!\w)"
        r"(?! (?:[a-z-]+ ){0,2}(?:tokens?|words?|sentences?|samples?))",
        line.text,
    )
    if size is not None:
        line.text = f"{line.text[: size.start()]} ; {line.text[size.end() :]}"
        return _known(f"{named} {size[1]}", line)
    line.assume(f"the model {usual}, because no size of {named} was specified")
    return KNOWN_MODELS[usual], None


def unknown_model(named: str) -> NoEstimate:
    """The error for a model that is named and not known."""
    nearest = nearest_name(named.replace(" ", "-"), KNOWN_MODELS)
    return NoEstimate(
        "text",
        "names a model without known figures",
        got=named,
        allowed=f"{listed(KNOWN_MODELS, limit=99)}, or a size such as 7B parameters",
        nearest=nearest,
        remedy="name its size in the text, or give --parameters",
    )


def _plain(name: str) -> str:
    return re.sub(r"[\s_/-]", "", name)


def _pattern(names: Iterable[str]) -> str:
    """A pattern for these names with any blank or hyphen between their parts, longest first."""
    return "|".join(
        r"[ _-]?".join(re.escape(part) for part in re.split(r"[ _-]", name))
        for name in sorted(names, key=lambda name: (-len(name), name))
    )


_MODELS = _pattern({s for n in KNOWN_MODELS for s in (n, *_SPELLINGS.get(n, ()))})
_SPELLED: Mapping[str, str] = MappingProxyType(
    {_plain(s): name for name in KNOWN_MODELS for s in (name, *_SPELLINGS.get(name, ()))}
)
_USUAL_PLAIN: Mapping[str, str] = MappingProxyType({_plain(k): v for k, v in _USUAL.items()})
