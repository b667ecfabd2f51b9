"""The answer without an estimate: whether a GPU is likely needed, and what helps to say more."""

from dataclasses import dataclass
from enum import StrEnum

from gpu_core.decisions.requests.requirements.reading.tasks import INFERENCE, SERVING, TRAINING
from gpu_core.decisions.requests.requirements.reading.text_line import TextLine

_VERBS = (
    r"predict\w*|classif\w*|detect\w*|segment\w*|embed\w*|summar\w*|translat\w*|transcri\w*"
    r"|caption\w*|chat\w*"
)


class GpuNeed(StrEnum):
    """Does such work need a GPU?"""

    NONE = "none is needed"
    OPTIONAL = "one is optional"
    LIKELY = "one is likely needed"


@dataclass(frozen=True, slots=True, kw_only=True)
class Advice:
    """An answer without time and cost."""

    need: GpuNeed
    why: str
    ask: str | None
    """The words that allow an estimate. None: nothing more is needed."""


_MODEL_AND_AMOUNT = (
    "name a model or its size, what is done with it, and how much: "
    "'fine-tune a 7B model with LoRA on 10M tokens'"
)
_IMAGES = "name the model and the images: 'train resnet-50 on 1.2M images for 90 epochs'"

# Work that is done without a network; checked only where no model is named and nothing is trained.
_ON_CPU = (
    r"sql|etl|csv|parquet|dbt|pandas|spreadsheets?|reports?|download\w*|upload\w*|scrap(?:e|ing)"
    r"|backups?|(?:unit |integration )tests|aggregat\w*|clean(?:ing|up)?"
    r"|resiz(?:e|ing)|crop(?:ping)?|rotat(?:e|ing)|thumbnails?|compress\w*|unzip\w*|convert\w*"
    r"|deduplicat\w*|sort(?:ing)?|pars(?:e|ing)|merg(?:e|ing)|copy(?:ing)?|web server|api gateway"
)
_TREES = (
    r"xgboost|lightgbm|catboost|gradient[- ]boost\w*|boost(?:ed|ing)(?: trees?)?|random forests?"
    r"|decision trees?"
)
_WITHOUT_NETWORK = (
    r"(?:linear|logistic) regressions?|naive bayes|k-?means|pca|svms?|support vector machines?"
    r"|k-?nn|nearest neighbou?rs?|scikit-learn|sklearn|arima|tf-?idf|linear models?"
)
_GPU_LIBRARIES = (
    r"cuml|cudf|cugraph|cupy|rapids|t-?sne|umap|h?dbscan|spark|dask|polars|faiss|vector index"
)
_TRANSCODING = r"transcod\w*|ffmpeg|video (?:encod|conver|compress)\w*"
_MODEL_FILES = r"quanti[sz](?:e|ing)|prun(?:e|ing)|(?:convert|export|merg|download|upload|copy)\w*"
_OF_MODELS = r"\d[\d.]*b|models?|llms?|lora|adapters?|weights|onnx|gguf|tensorrt|gptq|awq"
_CPU_ONLY = (
    r"(?:no|without|not use|don't use|do not use|never use)(?: an?| any| the)? gpus?"
    r"(?! (?:is |are )?(?:needed|required))"
    r"|cpus?[- ]only|only (?:(?:on|with|using) )?(?:the |a |\d+ )?cpus?"
)
_RECOMMENDER = r"recommend\w*|dlrm|two[- ]tower|collaborative filtering|click[- ]through|ctr"
_PREFERENCES = r"rlhf|ppo|dpo|grpo|reinforcement learning|reward models?|rl"
_SEVERAL = (
    r"distil(?:l|ling|lation|led)|hyper-?parameter\w*|sweeps?|trials?|ablations?|ensembles?"
    r"|(?<!/)\d+ (?:fine-?tun\w+|trainings?|experiments?)"
    r"|(?<!/)\d+ [a-z]+ (?:fine-?\s?tunings|trainings|experiments)"
)
_OTHER_TASKS = (
    r"caption\w*|ocr|depth estimation|pose estimation|super-? ?resol\w*|upscal\w*|inpaint\w*"
    r"|(?:text|image)[- ]to[- ]video|video generation|generat\w+ (?:[a-z0-9,-]+ ){0,3}?videos?"
    r"|text[- ]to[- ]speech|tts|voice cloning|music|nerf|gaussian splat\w*|protein\w*|molecul\w*"
    r"|docking|dqn|deep q[- ]\w+|q-learning|atari|mujoco|policy gradients?|actor[- ]critic"
    r"|weather|forecast\w*|time series|render\w*|simulat\w*|graph neural|gnns?"
)
_OTHER_MODELS = r"images?|vision|multi-?modal|vlms?|speech|audio|diffusion|video|cnns?"
_VAGUE = (
    (r"computer vision|object recognition|image recognition|cnns?|vision models?", _IMAGES),
    (
        r"deep learning|machine learning|ml|ai|neural networks?|pytorch|torch|tensorflow|jax|keras"
        r"|cuda|hugging ?face|transformers?|nlp|natural language processing|generative ai|gen ?ai"
        r"|large (?:language )?models?|big models?|foundation models?|model training"
        r"|train(?:ing)?(?: a| my| our| the)?(?: [a-z-]+)? models?|fine-?tun\w+|train(?:ing)?"
        r"|hyperparameter\w*|inference|gpus?",
        _MODEL_AND_AMOUNT,
    ),
)


ON_CPUS_ONLY = Advice(
    need=GpuNeed.NONE,
    why="the text asks for CPUs only",
    ask="leave that out; the answer says how long 8 CPUs take, too",
)


def is_for_cpus_only(line: TextLine) -> bool:
    """Does the text exclude GPUs?"""
    return line.has(_CPU_ONLY)


def advice_before_model(line: TextLine) -> Advice | None:
    """Is this work that no estimate is made of, for any model?"""
    if line.has(_PREFERENCES):
        return Advice(
            need=GpuNeed.LIKELY,
            why="training on preferences or rewards keeps several models and generates text;"
            " there is no estimate of it",
            ask="plan the fine-tuning alone, such as 'fine-tune a 7B model with LoRA', or measure"
            " one run and give --observed",
        )
    if line.has(_TREES):
        return Advice(
            need=GpuNeed.OPTIONAL,
            why="CPUs train trees on some million rows in minutes; a GPU with memory for the data"
            " is faster on more, without an estimate",
            ask="measure one run on both",
        )
    if line.has(_TRANSCODING):
        return Advice(
            need=GpuNeed.OPTIONAL,
            why="CPUs transcode; the video encoders of a GPU are faster, and there is no estimate"
            " of them",
            ask="measure one run on both",
        )
    if (
        line.has(_MODEL_FILES)
        and line.has(_OF_MODELS)
        and not line.has(rf"{TRAINING}|{INFERENCE}|{SERVING}|run(?:ning)?")
    ):
        return Advice(
            need=GpuNeed.OPTIONAL,
            why="such work changes or moves the files of a model without running it; quantization"
            " that runs it on samples has no estimate",
            ask="say what is done with the model, such as 'inference on 10,000 prompts'",
        )
    if line.has(_SEVERAL):
        return Advice(
            need=GpuNeed.LIKELY,
            why="this is several trainings or several models; there is no estimate of all of them",
            ask="plan one of them, and multiply",
        )
    if line.has(_OTHER_TASKS):
        return Advice(
            need=GpuNeed.LIKELY,
            why="such work usually runs on a GPU; there is no estimate of this task",
            ask="measure one run, and name GPUs that hold the model",
        )
    if line.has(_RECOMMENDER):
        return Advice(
            need=GpuNeed.LIKELY,
            why="the memory of a recommender is that of its embedding tables, which a text does not"
            " say; there is no estimate of it",
            ask="measure one run and give --observed, or name GPUs that hold the tables",
        )
    return None


def advice_without_model(line: TextLine) -> Advice | None:
    """The advice for a text that names neither a model nor a task with a usual one."""
    for pattern, ask in _VAGUE:
        if line.has(pattern):
            return Advice(
                need=GpuNeed.LIKELY,
                why="such work usually runs on a GPU; the text says too little for an estimate",
                ask=ask,
            )
    return None


def advice_on_size(line: TextLine) -> Advice | None:
    """Does a number of parameters stand for a network that is not a language model?"""
    if not line.has(_OTHER_MODELS):
        return None
    return Advice(
        need=GpuNeed.LIKELY,
        why="a size alone says the work of a language model only",
        ask="name the model, such as resnet-50, vit-l16, stable-diffusion-xl or whisper-large-v3",
    )


def advice_on_cpu(line: TextLine) -> Advice | None:
    """Is this work that is done without a network?"""
    if line.has(_GPU_LIBRARIES):
        return Advice(
            need=GpuNeed.OPTIONAL,
            why="CPUs do such work on some million rows; GPU libraries such as RAPIDS are faster on"
            " more, without an estimate",
            ask="measure one run on both",
        )
    if line.has(_WITHOUT_NETWORK):
        return Advice(need=GpuNeed.NONE, why="CPUs fit such models, without a network", ask=None)
    is_run = line.has(rf"{TRAINING}|{INFERENCE}|{_VERBS}")
    if is_run or not line.has(_ON_CPU):
        return None
    return Advice(need=GpuNeed.NONE, why="such work runs on CPUs, without a network", ask=None)
