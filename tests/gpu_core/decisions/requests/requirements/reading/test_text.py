"""What a user means by a line of text."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpu_core.decisions.catalog.gpu_types import Precision
from gpu_core.decisions.model.errors import InvalidInput
from gpu_core.decisions.requests.requirements.jobs.job import check_job
from gpu_core.decisions.requests.requirements.reading.text import read_text


@pytest.mark.parametrize(
    ("text", "want_model", "want_method", "want_amount"),
    [
        pytest.param(
            "fine-tune a 7B model with LoRA",
            "transformer with 7B parameters",
            "lora",
            (10e6, "tokens"),
            id="a size and a method",
        ),
        pytest.param(
            "object detection inference on 10 million images",
            "yolov8m",
            "inference",
            (10e6, "images"),
            id="a task and a number of images",
        ),
        pytest.param(
            "QLoRA of Llama 3 70B on 50k examples for 3 epochs, rank 64",
            "llama-3-70b",
            "qlora",
            (50_000 * 512 * 3, "tokens"),
            id="a known model, examples and epochs",
        ),
        pytest.param(
            "pretrain a 1.3B model on 26B tokens",
            "transformer with 1.3B parameters",
            "full",
            (26e9, "tokens"),
            id="two numbers with the same letter",
        ),
        pytest.param(
            "pretrain a 1.3 billion parameter model",
            "transformer with 1.3B parameters",
            "full",
            (26e9, "tokens"),
            id="20 tokens for each parameter where nothing is said",
        ),
        pytest.param(
            "train resnet-50 on 1,281,167 images for 90 epochs",
            "resnet-50",
            "full",
            (1_281_167 * 90, "images"),
            id="a number with commas",
        ),
        pytest.param(
            "summarise 20,000 documents with llama-2-13b in int8",
            "llama-2-13b",
            "inference",
            (20_000, "prompts"),
            id="documents are prompts",
        ),
        pytest.param(
            "sentiment of 2 million reviews",
            "bert-base",
            "inference",
            (2e6, "prompts"),
            id="a task",
        ),
        pytest.param(
            "fine-tune a 70B chat model on documents",
            "transformer with 70B parameters",
            "lora",
            (10e6, "tokens"),
            id="an attached B is a size, whatever follows",
        ),
        pytest.param(
            "fine tune stable diffusion xl with dreambooth, 20 images 1500 steps",
            "stable-diffusion-xl",
            "lora",
            (1500 * 8, "images"),
            id="steps repeat the images",
        ),
        pytest.param(
            "pretrain a 1.3B model on 10B tokens in 20,000 steps",
            "transformer with 1.3B parameters",
            "full",
            (10e9, "tokens"),
            id="tokens are the work, in any number of steps",
        ),
        pytest.param(
            "fine-tune resnet-50 on 50k images for 10 epochs, 2000 steps",
            "resnet-50",
            "lora",
            (500_000, "images"),
            id="epochs are the work, in any number of steps",
        ),
        pytest.param(
            "LoRA of llama 3 8b on 10 000 examples of 512 tokens",
            "llama-3-8b",
            "lora",
            (10_000 * 512, "tokens"),
            id="a number with blanks",
        ),
        pytest.param(
            "LoRA of llama 2 on 512 samples",
            "llama-2-7b",
            "lora",
            (512 * 512, "tokens"),
            id="a version is no part of a number",
        ),
        pytest.param(
            "train GPT-2 124M on OpenWebText (9B tokens)",
            "gpt-2",
            "full",
            (9e9, "tokens"),
            id="the size of a data set in brackets",
        ),
        pytest.param(
            "train stable diffusion from scratch on LAION-5B",
            "stable-diffusion-xl",
            "full",
            (5.85e9, "images"),
            id="the number in the name of a data set",
        ),
        pytest.param(
            "LoRA r=64 of Falcon-40B, 200k examples x 1024 tok",
            "transformer with 40B parameters",
            "lora",
            (200_000 * 1024, "tokens"),
            id="samples times tokens",
        ),
        pytest.param(
            "gemma 2 27b qlora, 25k examples 1k tokens, 2 epochs",
            "gemma-2-27b",
            "qlora",
            (25_000 * 1000 * 2, "tokens"),
            id="fewer tokens than samples are those of each",
        ),
        pytest.param(
            "fine-tune llama 8b on 10k documents, 40M tokens",
            "llama-3-8b",
            "lora",
            (40e6, "tokens"),
            id="more tokens than a sample has are those of all",
        ),
        pytest.param(
            "inference with llama 8b on 10k documents, 40M tokens",
            "llama-3-8b",
            "inference",
            (10_000, "prompts"),
            id="prompts are counted, however many tokens they have",
        ),
        pytest.param(
            "LoRA of meta-llama/Llama-3.1-8B-Instruct on 5M tokens",
            "llama-3-8b",
            "lora",
            (5e6, "tokens"),
            id="a name on a hub",
        ),
        pytest.param(
            "train resnet-50/imagenet1k",
            "resnet-50",
            "full",
            (1_281_167 * 90, "images"),
            id="a model and its data set are no name on a hub",
        ),
        pytest.param(
            "finetune Qwen/Qwen2.5-7B-Instruct full, 100M tokens",
            "qwen-2.5-7b",
            "full",
            (100e6, "tokens"),
            id="an owner named as the model",
        ),
        pytest.param(
            "fine-tune clip vit-l/14 on 400k image-text pairs",
            "clip-vit-l14",
            "lora",
            (400_000, "images"),
            id="a name of several words",
        ),
        pytest.param(
            "full fine tune of mistral 7b v0.3 on 1M tokens",
            "mistral-7b",
            "full",
            (1e6, "tokens"),
            id="a release of a model",
        ),
        pytest.param(
            "evaluate llama-3-8b on gsm8k",
            "llama-3-8b",
            "inference",
            (1_319, "prompts"),
            id="an evaluation reads the test set",
        ),
        pytest.param(
            "fine-tune llama-3-8b on gsm8k",
            "llama-3-8b",
            "lora",
            (7_473 * 512, "tokens"),
            id="a training reads the training set",
        ),
        pytest.param(
            "classify 10 million high-resolution images",
            "resnet-50",
            "inference",
            (10e6, "images"),
            id="words between the number and its noun",
        ),
    ],
)
def test_jobs(text, want_model, want_method, want_amount):
    job = read_text(text).job
    assert (job.model.name, job.method) == (want_model, want_method)
    assert (job.amount, job.unit) == want_amount


@pytest.mark.parametrize(
    ("text", "want_method"),
    [
        pytest.param("train a 1B model to classify documents", "full", id="training comes first"),
        pytest.param("inference with a fine-tuned 7B", "inference", id="fine-tuned is done"),
        pytest.param(
            "serve 9k prompts with a 7B and LoRA adapters", "inference", id="adapters in use"
        ),
        pytest.param("fine-tune a 7B for inference", "lora", id="what it is for comes after"),
        pytest.param("full fine-tuning of a 7B", "full", id="all parameters"),
        pytest.param("finetune llama 405B full parameter", "full", id="full parameter"),
        pytest.param("finetune a 7B on the full alpaca set", "lora", id="a full data set"),
        pytest.param("classify 1 million e-mails", "inference", id="a task"),
        pytest.param("pretrained resnet-50 on 1M images", "inference", id="pretrained is done"),
    ],
)
def test_methods(text, want_method):
    assert read_text(text).job.method == want_method


@pytest.mark.parametrize(
    ("text", "want"),
    [
        pytest.param("inference with a 7b model in int8", Precision.INT8, id="int8"),
        pytest.param("chat with a 4-bit 70b", Precision.INT4, id="4-bit"),
        pytest.param("train a 350M-parameter model in fp32", Precision.FP32, id="fp32"),
        pytest.param("4-bit QLoRA of a 7b", Precision.BF16, id="QLoRA computes in bf16"),
        pytest.param("train a 7b model", Precision.BF16, id="nothing said in training"),
        pytest.param("inference with a 7b", Precision.FP16, id="nothing said in inference"),
    ],
)
def test_precision(text, want):
    assert read_text(text).job.precision is want


def test_sizes_in_the_text_are_not_counted_as_work():
    job = read_text("LoRA of a 7B with a context of 4k tokens, batch size 8 and rank 64").job
    assert (job.sequence_length, job.batch_per_gpu, job.lora_rank) == (4096, 8, 64)
    assert job.amount == 10e6


# Text; prompt and answer together, the answer.
LENGTHS = (
    ("inference with a 7B on 10k prompts, 512 tokens in, 128 out", 640, 128),
    ("inference with a 7B on 10k prompts, 4096 in / 512 out for all", 4608, 512),
    ("a 7B with 1k input 1k output for 10k requests", 1024 + 1024, 1024),
    ("inference with a 7B on 10k prompts of 2,000 tokens, answers of 300 tokens", 2300, 300),
    ("translate 1M sentences of 40 input tokens and 60 output tokens each with a 7B", 100, 60),
    ("llama-3-8b inference, 1M prompts, input 1000 tokens output 500 tokens", 1500, 500),
    ("inference with a 7B for 2M rows, max 64 output tokens", 576, 64),
    ("generate 200 tokens per prompt for 5k prompts with a 7B", 712, 200),
    ("1000 prompts, 1024-token prompts, 128-token answers, with a 7B", 1152, 128),
    ("summaries of 90 words for 50k articles with a 7B", 512 + 120, 120),
    ("inference with a 7B, max_new_tokens=32", 544, 32),
    ("inference with a 7B, 5k context, 100 output tokens", 5120, 100),
    ("inference with a 7B on 10k prompts", 768, 256),
    ("inference with a 7B, 1M prompts, 512/128 tokens", 640, 128),
    ("inference with a 7B on 1M prompts, generate 500 tokens", 512 + 500, 500),
    ("inference with a 7B on 1M prompts of 300 tokens, generating up to 500 tokens", 800, 500),
    ("inference with a 7B on 1M prompts, 300 tokens", 300 + 256, 256),
    ("inference with a 7B on 10k documents, 40M tokens", 4000 + 256, 256),
    ("generate 2M tokens on 1k prompts with a 7B", 512 + 2000, 2000),
    ("inference with a 7B on 10k prompts of ~600 tokens each", 856, 256),
    ("summarise 80k threads with a 7B; input 1.5k tokens, output 120", 1536 + 120, 120),
    ("generate 10k stories of 2,100 words with a 7B", 512 + 2800, 2800),
    ("inference with a 7B, 10k questions, 4k tokens of reasoning each", 512 + 4096, 4096),
    ("score 90M rows with a 110M-parameter encoder", 512, 0),
    ("run gemma 2 27b to label 80k tweets with a 20 token answer", 532, 20),
    ("llama 70b inference 20k prompts 2000 in 500 out one 48gb gpu", 2500, 500),
    ("mistral 7b for 2M requests, 300 tokens prompt 100 tokens completion", 400, 100),
    ("summarize 5,000 articles of 900 words each with a 7B", 1200 + 256, 256),
    ("summarize 300 pdfs with 3 pages each with a 7B", 2000 + 256, 256),
)


@pytest.mark.parametrize(
    ("text", "want_length", "want_answer"), [pytest.param(*row, id=row[0]) for row in LENGTHS]
)
def test_lengths_of_prompts_and_answers(text, want_length, want_answer):
    job = read_text(text).job
    assert (job.sequence_length, job.output_tokens) == (want_length, want_answer)


@pytest.mark.parametrize(
    ("text", "want"),
    [
        pytest.param("seq len 8192", {"sequence_length": 8192}, id="seq len"),
        pytest.param("seq_len=8192", {"sequence_length": 8192}, id="an underscore"),
        pytest.param("max_seq_length: 4096", {"sequence_length": 4096}, id="a colon"),
        pytest.param("max length 8k", {"sequence_length": 8192}, id="max length"),
        pytest.param("4096 max len", {"sequence_length": 4096}, id="its number first"),
        pytest.param("block size 1024", {"sequence_length": 1024}, id="block size"),
        pytest.param("cutoff_len=512", {"sequence_length": 512}, id="cut-off"),
        pytest.param("context 4k", {"sequence_length": 4096}, id="context"),
        pytest.param("per_device_train_batch_size=4", {"batch_per_gpu": 4}, id="per device"),
        pytest.param("micro batch 64", {"batch_per_gpu": 64}, id="micro batch"),
        pytest.param("bs 16", {"batch_per_gpu": 16}, id="bs"),
        pytest.param(
            "gradient_accumulation_steps=4", {"accumulation": 4}, id="gradient accumulation"
        ),
        pytest.param("4 gradient accumulation steps", {"accumulation": 4}, id="accumulation steps"),
        pytest.param("global batch 512", {"batch_per_gpu": 1}, id="a batch over all GPUs"),
        pytest.param("r=64", {"lora_rank": 64}, id="r"),
        pytest.param("lora alpha 128", {"lora_rank": 16}, id="alpha is no rank"),
        pytest.param("8-bit AdamW", {"optimizer": "adamw-8bit"}, id="8-bit AdamW"),
        pytest.param("adamw_8bit", {"optimizer": "adamw-8bit"}, id="adamw_8bit"),
        pytest.param("SGD with momentum", {"optimizer": "sgd-momentum"}, id="SGD with momentum"),
        pytest.param("ZeRO-2", {"zero_stage": 2}, id="ZeRO-2"),
        pytest.param("FSDP", {"zero_stage": 3}, id="FSDP"),
        pytest.param("gradient checkpointing", {"recompute": "full"}, id="gradient checkpointing"),
        pytest.param("dropout 0.05 and weight decay 1e-4", {}, id="settings without effect"),
    ],
)
def test_settings_of_a_training(text, want):
    reading = read_text(f"LoRA fine-tuning of a 7B on 10M tokens, {text}")
    assert (reading.job.method, reading.job.amount) == ("lora", 10e6)
    assert reading.not_read == ()
    assert {name: getattr(reading.job, name) for name in want} == want


@pytest.mark.parametrize(
    ("text", "want"),
    [
        pytest.param("generate 10 images with sdxl in 50 steps", 100, id="stated"),
        pytest.param("generate 10 images with sdxl", 60, id="the usual number"),
        pytest.param("flux, 10 images, 20 steps", 20, id="without guidance"),
        pytest.param("train sdxl on 10 images for 50 steps", 60, id="steps of training"),
    ],
)
def test_denoising_steps_are_passes_of_each_image(text, want):
    assert read_text(text).job.model.passes_per_sample == want


def test_long_samples_are_split_in_training():
    job = read_text("train llama 3 8B on 2,500 books of 300 pages").job
    assert (job.amount, job.sequence_length) == (pytest.approx(2_500 * 300 * 2000 / 3), 32_768)


def test_numbers_without_effect_are_shown():
    reading = read_text("generate 64 images of 1024x1024 with flux in 3 styles")
    assert reading.job.amount == 64
    assert reading.not_read == ("of 1024x1024 with", "in 3 styles")


def test_a_second_number_of_one_noun_is_shown():
    reading = read_text("summarize 10k PDFs from 30 authors and 200 articles with llama 70b")
    assert reading.job.amount == 10_000
    assert reading.not_read == ("from 30 authors", "and 200 articles")


@pytest.mark.parametrize(
    ("text", "want_model", "want_amount"),
    [
        ("fine-tune a 7B on 12'500'000 tokens", "transformer with 7B parameters", 12.5e6),
        ("fine-tune a 7B on 12,50,000 tokens", "transformer with 7B parameters", 1.25e6),
        ("fine-tune a 7B on 5 millions of tokens", "transformer with 7B parameters", 5e6),
        ("fine-tune a 7B on 1.125 million new tokens", "transformer with 7B parameters", 1.125e6),
        ("LoRA of a 7B on 15k examples, avg length 700", "transformer with 7B parameters", 10.5e6),
        (
            "LoRA of a 7B on 15k samples with a mean sequence length of 700 tokens",
            "transformer with 7B parameters",
            10.5e6,
        ),
        ("fine-tune llama 2 epochs on 1M tokens", "llama-3-8b", 2e6),
        ("fine-tune bert 3 epochs on 1M tokens", "bert-base", 3e6),
        ("train resnet50 2 epochs on 10k images", "resnet-50", 20_000),
    ],
)
def test_a_number_belongs_to_the_word_behind_it(text, want_model, want_amount):
    reading = read_text(text)
    assert (reading.job.model.name, reading.job.amount) == (want_model, pytest.approx(want_amount))
    assert reading.not_read == ()


@pytest.mark.parametrize(
    ("text", "want"),
    [
        ("fine-tune a 3B on 12,5 million tokens", "'12,5'"),
        ("fine-tune a 7B on 10M tokens, budget $12,50", r"a point for cents"),
        ("fine-tune a 7B on 10M tokens for 12,50 dollars", r"a point for cents"),
        ("fine-tune a 7B on 10 MM tokens", "'10 mm'"),
        ("fine-tune a 7B on 30.000 instruction samples", "such as 30,000"),
        ("fine-tune a 7B on 20k x 512 tokens", "samples of 512 tokens"),
        ("fine-tune a 7B on 10 mln tokens", "'10 mln'"),
        ("fine-tune a 7B on 3 bil tokens", "'3 bil'"),
        ("fine-tune a 7B on 10 G tokens", "'10 g'"),
        ("fine-tune a 7B on a few thousand samples", "'few thousand'"),
    ],
)
def test_no_amount_is_read_as_a_thousandth_or_a_tenfold_of_it(text, want):
    with pytest.raises(InvalidInput, match=want):
        read_text(text)


@pytest.mark.parametrize(
    ("text", "want"),
    [
        ("fine-tune a 7B on 1M tokens by Friday", ("by friday",)),
        ("fine-tune a 7B on 1M tokens overnight", ("overnight",)),
        ("run a 7B over 40k prompts twice", ("2 times",)),
        ("run a 7B over 40k prompts by author", ()),
    ],
)
def test_words_for_a_moment_or_a_number_without_effect_are_shown(text, want):
    assert read_text(text).not_read == want


@pytest.mark.parametrize(
    ("text", "want_answer"),
    [
        ("score 3M pairs with a cross-encoder of 110M parameters", 0),
        ("rerank 3M pairs with a 300M model", 0),
        ("inference on 1M sentences with a 220M encoder-decoder", 256),
        ("generate synthetic data: 50k samples of 500 tokens with a 32B model", 500),
        ("generate answers to 50k questions of 500 tokens with a 32B model", 256),
    ],
)
def test_what_a_model_writes_follows_from_what_it_does(text, want_answer):
    assert read_text(text).job.output_tokens == want_answer


def test_it_says_what_it_understood_and_what_it_assumed():
    reading = read_text("Fine-tune a 7B model on 1 million examples")
    assert reading.understood == ("a model with 7B parameters", "1,000,000 samples")
    assert reading.assumed == (
        "LoRA fine-tuning",
        "bf16 precision",
        "a batch size of 1 sequence per GPU",
        "a sequence length of 2048 tokens",
        "a LoRA rank of 16",
        "512 tokens per sample",
    )


@pytest.mark.parametrize(
    ("text", "want_message"),
    [
        pytest.param(
            "make coffee", "text names no model, size or task (got 'make coffee')", id="-"
        ),
        pytest.param("", "text names no model", id="nothing"),
        pytest.param("of " * 3000, "text is too long (got '9,000 characters')", id="a file"),
        pytest.param(
            "evaluate llama-3-8b on gsm8k and mmlu",
            "text names 2 data sets (got 'GSM8K and MMLU'). Allowed: one, or the number of samples",
            id="two data sets",
        ),
        pytest.param(
            "transcribe 600 hours of speech with seamless-m4t",
            "text names a model without known figures (got 'seamless-m4t')",
            id="a model that is not known is not another one",
        ),
        pytest.param(
            "score 1M pairs with bge-reranker-large",
            "text names a model without known figures (got 'bge-reranker-large')",
            id="another model of a known family",
        ),
        pytest.param(
            "translate 4 million sentences using opus-mt",
            "text names a model without known figures (got 'opus-mt')",
            id="a model of the task that is not the usual one",
        ),
        pytest.param(
            "LoRA of llama 8b on 100 samples, 4096 tokens",
            "text counts samples and tokens. Allowed: such as '20k samples of 800 tokens'",
            id="tokens of each sample or of all",
        ),
        pytest.param("train a 0B model", "text has a model without parameters", id="size zero"),
        pytest.param(
            "train a 7b in int8",
            "text trains in int8. Allowed: bf16, fp16 or fp32 in training. Say QLoRA",
            id="training in 8 bits",
        ),
    ],
)
def test_what_is_not_understood_is_an_error(text, want_message):
    with pytest.raises(InvalidInput) as caught:
        read_text(text)
    assert want_message in str(caught.value)


words = st.sampled_from(
    ["train", "7B", "tokens", "10", "million", "images", "lora", "on", "llama-2-7b", "int8", "3",
     "epochs", "sql", "batch", "context", "0", "-", "1.5", ",", "detect", "rank", "k"]
)  # fmt: skip


@given(text=st.one_of(st.text(max_size=40), st.lists(words, max_size=8).map(" ".join)))
def test_any_text_is_a_sound_job_or_an_error(text):
    try:
        job = read_text(text).job
    except InvalidInput:
        return
    assert job is None or check_job(job) == job
