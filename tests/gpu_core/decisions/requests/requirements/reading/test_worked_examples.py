"""Lines as people write them: each gets the right job, or is refused; none a wrong one."""

import pytest

from gpu_core.decisions.model.errors import InvalidInput
from gpu_core.decisions.requests.requirements.reading.advice import GpuNeed
from gpu_core.decisions.requests.requirements.reading.text import read_text

M = 1e6

# Text; model; method; amount in the unit of the job; unit.
JOBS = (
    ("generate 10000 images with stable diffusion xl", "stable-diffusion-xl", "inference", 10_000,
     "images"),
    ("stable diffusion 1.5, 2000 images", "stable-diffusion-1.5", "inference", 2_000, "images"),
    ("generate 500 pictures of cats", "stable-diffusion-xl", "inference", 500, "images"),
    ("finetune sdxl lora on 200 images for 10 epochs", "stable-diffusion-xl", "lora", 2_000,
     "images"),
    ("full fine-tuning of a 7B model", "transformer with 7B parameters", "full", 10 * M, "tokens"),
    ("full fine-tuning of a 7B model on 50000 samples of 4k tokens",
     "transformer with 7B parameters", "full", 50_000 * 4096, "tokens"),
    ("fine-tune llama 3 8b with lora on 50k samples with 1500 tokens each", "llama-3-8b", "lora",
     75 * M, "tokens"),
    ("fine-tune Qwen2.5-7B on 20k conversations of 500 tokens", "qwen-2.5-7b", "lora", 10 * M,
     "tokens"),
    ("summarise 20k 4k-token documents with llama 3.1 70b", "llama-3-70b", "inference", 20_000,
     "prompts"),
    ("train resnet50 on imagenet", "resnet-50", "full", 1_281_167 * 90, "images"),
    ("train resnet-50 on imagenet for 30 epochs", "resnet-50", "full", 1_281_167 * 30, "images"),
    ("train resnet-101 on 1,281,167 images for 90 epochs", "resnet-101", "full", 1_281_167 * 90,
     "images"),
    ("train a resnet-18 on cifar10", "resnet-18", "full", 50_000 * 200, "images"),
    ("fine-tune a 7B model with LoRA on 4 GPUs", "transformer with 7B parameters", "lora", 10 * M,
     "tokens"),
    ("train ViT-L on 1M images", "vit-l16", "full", 1 * M, "images"),
    ("train ViT-B/16 on imagenet-21k", "vit-b16", "full", 14_197_122 * 30, "images"),
    ("classify 3 million photos with ViT-H", "vit-h14", "inference", 3 * M, "images"),
    ("embed 5 million documents with bge-large", "bge-large", "inference", 5 * M, "prompts"),
    ("embed one million sentences with all-MiniLM-L6-v2", "minilm-l6", "inference", 1 * M,
     "prompts"),
    ("embed half a million articles with e5-large", "e5-large", "inference", 500_000, "prompts"),
    ("fine-tune bert-large on 100k reviews for 3 epochs", "bert-large", "lora",
     100_000 * 512 * 3, "tokens"),
    ("roberta-base inference on 2 million tweets", "roberta-base", "inference", 2 * M, "prompts"),
    ("serve 1 million requests with llama 3 70b in int8", "llama-3-70b", "inference", 1 * M,
     "prompts"),
    ("transcribe 500 hours of audio with whisper large-v3", "whisper-large-v3", "inference",
     500 * 3600, "seconds of audio"),
    ("transcribe 1000 hours of podcasts", "whisper-large-v3", "inference", 1000 * 3600,
     "seconds of audio"),
    ("fine-tune whisper small on 90 minutes of speech", "whisper-small", "lora", 5400,
     "seconds of audio"),
    ("fine-tune mixtral 8x7b with qlora on 20k examples for 3 epochs", "mixtral-8x7b", "qlora",
     20_000 * 512 * 3, "tokens"),
    ("batch inference with deepseek-v3 on 100k prompts", "deepseek-v3", "inference", 100_000,
     "prompts"),
    ("pretrain a 1.3B model on 26B tokens", "transformer with 1.3B parameters", "full", 26e9,
     "tokens"),
    ("pretrain a 1.3 billion parameter model", "transformer with 1.3B parameters", "full", 26e9,
     "tokens"),
    ("pretrain gpt-2 on openwebtext", "gpt-2", "full", 9e9, "tokens"),
    ("continue pretraining llama 3 8b on 5B tokens", "llama-3-8b", "full", 5e9, "tokens"),
    ("train a 350M parameter transformer from scratch on 3 billion words",
     "transformer with 350M parameters", "full", 4e9, "tokens"),
    ("sentiment of 2 million reviews", "bert-base", "inference", 2 * M, "prompts"),
    ("summarize 20,000 documents with llama-2-13b in int8", "llama-2-13b", "inference", 20_000,
     "prompts"),
    ("translate 3 million sentences", "llama-3-8b", "inference", 3 * M, "prompts"),
    ("object detection on 10 million images", "yolov8m", "inference", 10 * M, "images"),
    ("train yolov8x on coco for 50 epochs", "yolov8x", "full", 118_287 * 50, "images"),
    ("segment 50k x-rays", "yolov8m", "inference", 50_000, "images"),
    ("classify 10 million high-resolution images", "resnet-50", "inference", 10 * M, "images"),
    ("train an image classifier on 2 million photos", "resnet-50", "full", 2 * M, "images"),
    ("fine-tune falcon 40b with qlora on 10k instructions", "transformer with 40B parameters",
     "qlora", 10_000 * 512, "tokens"),
    ("fine-tune GPT-J 6B on 1M tokens", "transformer with 6B parameters", "lora", 1 * M, "tokens"),
    ("finetune mistral on 10k examples", "mistral-7b", "lora", 10_000 * 512, "tokens"),
    ("fine-tune llama on 5m samples", "llama-3-8b", "lora", 5e6 * 512, "tokens"),
    ("fine-tune a 70B chat model on documents", "transformer with 70B parameters", "lora", 10 * M,
     "tokens"),
    ("Llama-3.2-3B LoRA 5k examples", "llama-3-3b", "lora", 5_000 * 512, "tokens"),
    ("generate 100k product descriptions with a 13B model", "transformer with 13B parameters",
     "inference", 100_000, "prompts"),
    ("answer 20,000 questions with gemma 2 9b", "gemma-2-9b", "inference", 20_000, "prompts"),
    ("LoRA of a 7B with a context of 4k tokens, batch size 8 and rank 64",
     "transformer with 7B parameters", "lora", 10 * M, "tokens"),
    ("fine-tune a 7B on 50K Q&A pairs", "transformer with 7B parameters", "lora",
     50_000 * 512, "tokens"),
    ("on 2B training tokens fine-tune mistral", "mistral-7b", "lora", 2e9, "tokens"),
    ("flux 5000 images", "flux-1-dev", "inference", 5_000, "images"),
    ("fine-tune a 7B on 20k examples, 800 tokens each", "transformer with 7B parameters", "lora",
     16 * M, "tokens"),
    ("summarize 50k articles into 100 words with llama 3 8b", "llama-3-8b", "inference", 50_000,
     "prompts"),
    ("write 50k summaries of 100 words with a 7B", "transformer with 7B parameters", "inference",
     50_000, "prompts"),
    ("fine-tune a 7B on 1e9 tokens", "transformer with 7B parameters", "lora", 1e9, "tokens"),
    ("fine-tune a 7B on 1_000_000 tokens", "transformer with 7B parameters", "lora", 1 * M,
     "tokens"),
    ("fine-tune a 7B on 3 x 10^9 tokens", "transformer with 7B parameters", "lora", 3e9, "tokens"),
    ("fine tune mistral 7b in 4 bit on a single GPU", "mistral-7b", "qlora", 10 * M, "tokens"),
    ("SFT of Qwen2.5-7B on 100k conversations", "qwen-2.5-7b", "lora", 51.2 * M, "tokens"),
    ("evaluate a 13B model on MMLU", "transformer with 13B parameters", "inference", 14_079,
     "prompts"),
    ("fine-tune bert-base on SQuAD for 2 epochs", "bert-base", "lora", 87_599 * 512 * 2, "tokens"),
    ("LoRA of an 8B for 1000 steps, global batch 128", "transformer with 8B parameters", "lora",
     1000 * 128 * 2048, "tokens"),
    ("pretrain a 7B for 500k steps with a global batch size of 4M tokens",
     "transformer with 7B parameters", "full", 2e12, "tokens"),
    ("pretrain bert-large for 1M steps, batch 256, seq 512", "bert-large", "full", 256e6 * 512,
     "tokens"),
    ("fine-tune a 7B on 50k samples, each with 1k tokens", "transformer with 7B parameters", "lora",
     50_000 * 1024, "tokens"),
    ("fine-tune bge-large on 10k documents of 2k tokens", "bge-large", "lora", 10_000 * 512,
     "tokens"),
    ("classify 50k images every day with resnet-50", "resnet-50", "inference", 50_000, "images"),
    ("full fine-tuning of a 70 b model using zero 3 and adamw 8bit",
     "transformer with 70B parameters", "full", 10 * M, "tokens"),
    ("train resnet-50 on imagenet, save every 500 steps, warmup 2000 steps, lr 1e-4", "resnet-50",
     "full", 1_281_167 * 90, "images"),
    ("ViT-L/16 finetuning on 1.2M images for 30 epochs", "vit-l16", "lora", 36 * M, "images"),
    ("SFT llama-3.1-8b, 52k alpaca examples, 3 epochs, 4096 max len", "llama-3-8b", "lora",
     52_000 * 3 * 512, "tokens"),
    ("300 pdfs with 40 pages each, summaries by llama 3 8b", "llama-3-8b", "inference", 300,
     "prompts"),
    ("evaluate mistral-7b on gsm8k", "mistral-7b", "inference", 1_319, "prompts"),
    ("evaluate mistral-7b on hellaswag", "mistral-7b", "inference", 10_042, "prompts"),
    ("fine-tune the 8B Llama for 2 epochs on my dataset of 9,800 chats (avg 1,500 tokens)",
     "llama-3-8b", "lora", 9_800 * 1_500 * 2, "tokens"),
    ("fine-tune Llama 3 8B on 15 GB of text", "llama-3-8b", "lora", 15e9 / 4, "tokens"),
    ("sentence embeddings for 40GB of wikipedia text", "bert-base", "inference", 40e9 / 4 / 512,
     "prompts"),
    ("extend phi-3-mini to 128k context using 1B tokens", "phi-3-mini", "full", 1e9, "tokens"),
    ("generate 1,000 1024x1024 images with SDXL, 30 steps each", "stable-diffusion-xl",
     "inference", 1_000, "images"),
    ("flux schnell 10000 images 4 steps", "flux-1-schnell", "inference", 10_000, "images"),
    ("extract entities from 2M clinical notes (average 600 words) with llama 3.1 70b",
     "llama-3-70b", "inference", 2 * M, "prompts"),
    ("label 10M product images with CLIP", "clip-vit-l14", "inference", 10 * M, "images"),
    ("transcribe 500 one-hour meetings with whisper medium", "whisper-medium", "inference",
     500 * 3600, "seconds of audio"),
    ("transcribe 20k calls of 6 minutes each", "whisper-large-v3", "inference", 20_000 * 360,
     "seconds of audio"),
    ("64 A100s, 70B model, 1.4T tokens: how many days?", "transformer with 70B parameters",
     "full", 1.4e12, "tokens"),
    ("train a gpt2-medium on wikitext-103 for 10 epochs", "gpt-2-medium", "full",
     1_032_270_210, "tokens"),
    ("adapt llama 3 8b to our style, 2k examples, 3 passes", "llama-3-8b", "lora",
     2_000 * 512 * 3, "tokens"),
    ("pre-training: 7.2B params, 1.1T tokens, bs 4M tokens", "transformer with 7.2B parameters",
     "full", 1.1e12, "tokens"),
    ("lora on mixtral with 10k q/a pairs", "mixtral-8x7b", "lora", 10_000 * 512, "tokens"),
    ("produce 100M tokens with llama-3-70b", "llama-3-70b", "inference", 100e6 / 256, "prompts"),
    ("vit base on 3 million medical images for 10 epochs", "vit-b16", "full", 30 * M, "images"),
    ("mistral 7b, 40k dialogues of 200 tokens, 2 epochs", "mistral-7b", "lora", 16 * M, "tokens"),
    ("whisper v3: 3,500 hours", "whisper-large-v3", "inference", 3_500 * 3600, "seconds of audio"),
    ("transcribe 2 weeks of call center audio", "whisper-large-v3", "inference", 14 * 86_400,
     "seconds of audio"),
    ("asr over 120k voicemails (avg 35 seconds)", "whisper-large-v3", "inference", 120_000 * 35,
     "seconds of audio"),
    ("bert-base MLM pretraining on 3.3B words", "bert-base", "full", 4.4e9, "tokens"),
    ("process 24 hours of video at 10 fps with yolov8n", "yolov8n", "inference", 864_000,
     "images"),
    ("nightly batch: 500k product descriptions rewritten by mistral 7b", "mistral-7b",
     "inference", 500_000, "prompts"),
)  # fmt: skip

# Text; whether a GPU is needed.
ADVICE = (
    ("RLHF with PPO on a 7B model", GpuNeed.LIKELY),
    ("resize 1 million images", GpuNeed.NONE),
    ("monthly SQL report as csv", GpuNeed.NONE),
    ("train xgboost on 10M rows", GpuNeed.OPTIONAL),
    ("train a recommender on 1B clicks", GpuNeed.LIKELY),
    ("train a 100M parameter speech model", GpuNeed.LIKELY),
    ("caption 200k images", GpuNeed.LIKELY),
    ("hyperparameter search with 20 trials of resnet-50", GpuNeed.LIKELY),
    ("run 20 independent fine-tunings of mistral 7b with 5k samples each", GpuNeed.LIKELY),
    ("deep learning", GpuNeed.LIKELY),
    ("pytorch", GpuNeed.LIKELY),
    ("computer vision", GpuNeed.LIKELY),
    ("model training", GpuNeed.LIKELY),
    ("large model", GpuNeed.LIKELY),
    ("nightly ETL of 3 TB parquet with pandas", GpuNeed.NONE),
    ("do not use a GPU: train a logistic regression", GpuNeed.NONE),
    ("train a 7B without GPUs", GpuNeed.NONE),
    ("k-means on 10 million rows", GpuNeed.NONE),
    ("t-SNE on 1 million points with cuML", GpuNeed.OPTIONAL),
    ("video transcoding of 300 clips with ffmpeg", GpuNeed.OPTIONAL),
    ("quantize a 70B model to int4", GpuNeed.OPTIONAL),
    ("convert 10k pdfs to text", GpuNeed.NONE),
    ("super resolve 10k images", GpuNeed.LIKELY),
    ("train an LSTM on 5 years of hourly data", GpuNeed.LIKELY),
    ("I need 4 A100 for 6 hours", GpuNeed.LIKELY),
)

# Text; what the refusal names.
REFUSED = (
    ("serve a llama 3 70b", "asks for a service"),
    ("train a ConvNeXt-L on imagenet", "'convnext-l'"),
    ("fine-tune deberta-v3 on 100k samples", "'deberta-v3'"),
    ("train a U-Net on 20k scans", "'u-net'"),
    ("train resnet-50 on 500 widgets", "'500 widgets'"),
    ("fine-tune a 7B model for 24 hours", "'24 hours'"),
    ("fine-tune llama 3 8b on imagenet", "'ImageNet-1k'"),
    ("train resnet-50 on 2 RTX 4090", "'rtx 4090'"),
    ("fine-tune an 8B model in fp8", "'fp8'"),
    ("segment 40k drone images with SAM vit-h", "'sam'"),
    ("segment 40k drone images with SAM", "'sam'"),
    ("evaluate mistral-7b on hellaswag and gsm8k", "2 data sets"),
    ("pretrain bert-large on bookcorpus and wikipedia", "'wikipedia'"),
    ("fine-tune whisper-small on common voice", "'common voice'"),
    ("generate 100 images with sdxl in 5000 steps", "'5,000 steps'"),
    ("make coffee", "names no model"),
    ("fine-tune a 7B on 1,5 million tokens", "'1,5'"),
    ("fine-tune a 7B on 10-20k samples", "not a range"),
    ("fine-tune a 7B on 1M+ tokens", "'1m+'"),
    ("fine-tune a 7B on twenty million tokens", "'twenty'"),
    ("fine-tune a 7B on 100 GB of data", "'100 gb of'"),
    ("pretrain gpt-2 on 10% of openwebtext", "'10%'"),
    ("10 requests per second with a 7B", "not a rate"),
    ("serve llama 3 8b at 20 requests a second", "not a rate"),
    ("llama 3 8b, 50 req/s", "not a rate"),
    ("500 images/day with resnet-50", "not a rate"),
    ("run a 7B at 10 qps", "not a rate"),
    ("entraîner un modèle de 7B sur 1 milliard de tokens", "'1 milliard'"),
    ("full fine-tuning of a 7B in 4 bit", "trains in int4"),
    ("fine-tune a 7B with ZeRO 5", "ZeRO stage"),
    ("fine-tune a 7B without lora", "not to be done"),
    ("don't train, just run a 7B", "not to be done"),
)


def test_there_are_enough_examples() -> None:
    assert len(JOBS) >= 50
    assert len({text for text, *_ in (*JOBS, *ADVICE, *REFUSED)}) >= 60


@pytest.mark.parametrize(
    ("text", "want_model", "want_method", "want_amount", "want_unit"),
    [pytest.param(*row, id=row[0]) for row in JOBS],
)
def test_jobs(text, want_model, want_method, want_amount, want_unit):
    reading = read_text(text)
    job = reading.job
    assert job is not None
    assert reading.not_read == ()
    assert (job.model.name, str(job.method)) == (want_model, want_method)
    assert (job.amount, job.unit) == (pytest.approx(want_amount), want_unit)


@pytest.mark.parametrize(("text", "want"), [pytest.param(*row, id=row[0]) for row in ADVICE])
def test_advice(text, want):
    reading = read_text(text)
    assert reading.job is None
    assert reading.advice is not None
    assert reading.advice.need is want


@pytest.mark.parametrize(("text", "want"), [pytest.param(*row, id=row[0]) for row in REFUSED])
def test_refusals(text, want):
    with pytest.raises(InvalidInput) as caught:
        read_text(text)
    assert want in str(caught.value)
