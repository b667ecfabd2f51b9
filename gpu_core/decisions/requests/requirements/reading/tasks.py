"""The work that a text asks for, where it names no model: tasks, methods, and work without a
network."""

from gpu_core.decisions.catalog.gpu_types import Precision
from gpu_core.decisions.requests.requirements.jobs.job import Method

SPEECH = r"transcri\w*|speech|asr|audio"

# The first of these that is found says which model, where none is named by itself.
TASKS: tuple[tuple[str, str], ...] = (
    (r"detect\w*|segment\w*", "yolov8m"),
    (
        r"text[- ]to[- ]image|image generation|diffusion|dreambooth"
        r"|generat\w+ (?:[a-z0-9,.-]+ ){0,3}?(?:images?|pictures?|photos?|art)",
        "stable-diffusion-xl",
    ),
    (SPEECH, "whisper-large-v3"),
    (r"images?|pictures?|photos?|frames?|x-rays?|scans?", "resnet-50"),
    (r"sentiment|embed\w*|named entit\w*|ner|classif\w*|rerank\w*|semantic search", "bert-base"),
    (
        r"chat\w*|summar\w*|translat\w*|text generat\w*|generate text|rag|question answering"
        r"|answer\w* (?:[a-z-]+ )?questions?",
        "llama-3-8b",
    ),
)

# Not `trained` and `fine-tuned`: what has been trained is used.
TUNING = r"fine-?\s?tun(?:e|ing)|sft|instruct(?:ion)?[- ]tun(?:e|ing)|tuning|tune|adapt(?:ing)?"
TRAINING = rf"(?:pre-?)?train(?:ing)?|{TUNING}"
EVALUATION = r"evaluat(?:e|ion|ing)|benchmark(?:ing)?"
INFERENCE = rf"inference|batch job|predictions?|{EVALUATION}"
ENCODERS = r"(?:cross-|bi-)?encoders?(?!-decoder)|embedding models?|re-?rank\w*"
SERVING = r"serv(?:e|ing)|deploy(?:ing)?|endpoints?|host(?:ing)?|real-?time api|chatbots?"
FROM_SCRATCH = r"pre-?train(?:ing)?|from scratch"

CONTEXT_EXTENSION = r"(?:extend\w*|lengthen\w*) (?:[\w.-]+ ){1,5}?context|context extension"

METHODS: tuple[tuple[str, Method], ...] = (
    (r"q-?lora", Method.QLORA),
    (r"lora|adapters?|peft|dreambooth", Method.LORA),
    (CONTEXT_EXTENSION, Method.FULL),
    (
        rf"{FROM_SCRATCH}|full(?:[- ]parameters?)? fine-?\s?tun(?:e|ing)|fully fine-?\s?tune"
        r"|full[- ](?:parameters?|weights?|ft|sft|tuning)|full(?= ?(?:[,;.]|$))"
        r"|all (?:of )?(?:the |its )?(?:parameters|weights)",
        Method.FULL,
    ),
    (TUNING, Method.LORA),
    (r"train(?:ing)?", Method.FULL),
    (
        r"predict\w*|classif\w*|generat\w*|summari[sz]\w*|embed\w*|scor(?:e|ing)|answer\w*|run"
        r"|translat\w*|label\w*|detect\w*|segment\w*|chat\w*|transcri\w*|caption\w*|extract\w*",
        Method.INFERENCE,
    ),
)

PRECISIONS: tuple[tuple[str, Precision], ...] = (
    (r"int4|4-?\s?bit", Precision.INT4),
    (r"int8|8-?\s?bit", Precision.INT8),
    (r"bf16|bfloat16", Precision.BF16),
    (r"fp16|half[- ]precision|float16", Precision.FP16),
    (r"fp32|float32|single[- ]precision", Precision.FP32),
)
UNKNOWN_PRECISION = (
    r"fp8|fp4|nvfp4|mxfp4|int2|2-?\s?bit|3-?\s?bit|float64|fp64|double[- ]precision|tf32"
)
