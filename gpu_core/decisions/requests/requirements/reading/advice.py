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

    NONE = "not required"
    OPTIONAL = "optional"
    LIKELY = "probably required"


@dataclass(frozen=True, slots=True, kw_only=True)
class Advice:
    """An answer without time and cost."""

    need: GpuNeed
    why: str
    ask: str | None
    """The words that allow an estimate. None: nothing more is needed."""


_MODEL_AND_AMOUNT = (
    "Specify a model or its size, the task, and the amount of work, for example "
    "'fine-tune a 7B model with LoRA on 10M tokens'."
)
_IMAGES = (
    "Specify the model and the number of images, for example "
    "'train resnet-50 on 1.2M images for 90 epochs'."
)

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
    why="The description excludes GPUs.",
    ask="Remove this restriction. The plan also shows the time that the work takes on 8 CPUs.",
)


def is_for_cpus_only(line: TextLine) -> bool:
    """Does the text exclude GPUs?"""
    return line.has(_CPU_ONLY)


def advice_before_model(line: TextLine) -> Advice | None:
    """Is this work that no estimate is made of, for any model?"""
    if line.has(_PREFERENCES):
        return Advice(
            need=GpuNeed.LIKELY,
            why="Training on preferences or rewards uses several models and generates text, which"
            " cannot be estimated.",
            ask="Plan only the fine-tuning, for example 'fine-tune a 7B model with LoRA'. You can"
            " also measure one run and specify --observed.",
        )
    if line.has(_TREES):
        return Advice(
            need=GpuNeed.OPTIONAL,
            why="Training trees on several million rows takes a CPU only minutes. For larger data,"
            " a GPU with enough memory is faster, but the time cannot be estimated.",
            ask="Measure one run on a CPU and one run on a GPU.",
        )
    if line.has(_TRANSCODING):
        return Advice(
            need=GpuNeed.OPTIONAL,
            why="Transcoding also works on CPUs. The video encoders of a GPU are faster, but the"
            " time cannot be estimated.",
            ask="Measure one run on a CPU and one run on a GPU.",
        )
    if (
        line.has(_MODEL_FILES)
        and line.has(_OF_MODELS)
        and not line.has(rf"{TRAINING}|{INFERENCE}|{SERVING}|run(?:ning)?")
    ):
        return Advice(
            need=GpuNeed.OPTIONAL,
            why="This work only changes or moves the files of a model. If a quantization also runs"
            " the model on samples, the time cannot be estimated.",
            ask="Specify what the model is used for, for example 'inference on 10,000 prompts'.",
        )
    if line.has(_SEVERAL):
        return Advice(
            need=GpuNeed.LIKELY,
            why="The description includes several trainings or models, which cannot be estimated"
            " together.",
            ask="Plan one of them, and multiply its time and cost.",
        )
    if line.has(_OTHER_TASKS):
        return Advice(
            need=GpuNeed.LIKELY,
            why="This kind of work usually runs on a GPU, but the task cannot be estimated.",
            ask="Measure one run on GPUs with enough memory for the model.",
        )
    if line.has(_RECOMMENDER):
        return Advice(
            need=GpuNeed.LIKELY,
            why="The memory depends on the size of the embedding tables, which cannot be estimated"
            " from a description.",
            ask="Measure one run and specify --observed, or choose GPUs with enough memory for the"
            " tables.",
        )
    return None


def advice_without_model(line: TextLine) -> Advice | None:
    """The advice for a text that names neither a model nor a task with a usual one."""
    for pattern, ask in _VAGUE:
        if line.has(pattern):
            return Advice(
                need=GpuNeed.LIKELY,
                why="This kind of work usually runs on a GPU, but the description does not contain"
                " enough information for an estimate.",
                ask=ask,
            )
    return None


def advice_on_size(line: TextLine) -> Advice | None:
    """Does a number of parameters stand for a network that is not a language model?"""
    if not line.has(_OTHER_MODELS):
        return None
    return Advice(
        need=GpuNeed.LIKELY,
        why="The size is only sufficient to estimate language models.",
        ask="Specify the name of the model, for example resnet-50, vit-l16, stable-diffusion-xl or"
        " whisper-large-v3.",
    )


def advice_on_cpu(line: TextLine) -> Advice | None:
    """Is this work that is done without a network?"""
    if line.has(_GPU_LIBRARIES):
        return Advice(
            need=GpuNeed.OPTIONAL,
            why="CPUs are sufficient for several million rows. For larger data, GPU libraries such"
            " as RAPIDS are faster, but the time cannot be estimated.",
            ask="Measure one run on a CPU and one run on a GPU.",
        )
    if line.has(_WITHOUT_NETWORK):
        return Advice(need=GpuNeed.NONE, why="Models of this kind are trained on CPUs.", ask=None)
    is_run = line.has(rf"{TRAINING}|{INFERENCE}|{_VERBS}")
    if is_run or not line.has(_ON_CPU):
        return None
    return Advice(need=GpuNeed.NONE, why="This kind of work runs on CPUs.", ask=None)
