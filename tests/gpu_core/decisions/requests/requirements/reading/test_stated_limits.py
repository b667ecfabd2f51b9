"""A GPU, a time or a sum of money that a text states is a constraint."""

import contextlib
import time

import pytest

from gpu_core.decisions.model.errors import InvalidInput
from gpu_core.decisions.requests.requirements.reading.stated_limits import StatedLimits
from gpu_core.decisions.requests.requirements.reading.text import read_text

A100 = ("a100-40gb", "a100-80gb")


@pytest.mark.parametrize(
    ("text", "want"),
    [
        ("fine-tune a 7B on 8 H100s", StatedLimits(gpu_types=("h100-80gb",), gpus=8)),
        ("fine-tune a 7B on 4 GPUs", StatedLimits(gpus=4)),
        ("fine-tune a 7B on four GPUs", StatedLimits(gpus=4)),
        ("fine-tune a 7B on a single GPU", StatedLimits(gpus=1)),
        ("fine-tune a 7B with 2x a100 80gb", StatedLimits(gpu_types=("a100-80gb",), gpus=2)),
        ("fine-tune a 7B with 2×A100", StatedLimits(gpu_types=A100, gpus=2)),
        ("fine-tune a 7B on A100 x 4", StatedLimits(gpu_types=A100, gpus=4)),
        ("fine-tune a 7B on an NVIDIA A10G", StatedLimits(gpu_types=("a10g",), gpus=1)),
        ("fine-tune a 7B on T4", StatedLimits(gpu_types=("t4",))),
        (
            "fine-tune a 7B on 2 nodes of 8 H100",
            StatedLimits(gpu_types=("h100-80gb",), gpus=16, nodes=2),
        ),
        ("fine-tune a 7B within 6 hours", StatedLimits(within_s=6 * 3600)),
        ("fine-tune a 7B within a day", StatedLimits(within_s=86_400)),
        ("fine-tune a 7B in half a day", StatedLimits(within_s=12 * 3600)),
        ("fine-tune a 7B in half an hour", StatedLimits(within_s=1800)),
        ("label 1M ads in ad groups with a 7B", StatedLimits()),
        (
            "fine-tune a 7B in 2 days for under $50",
            StatedLimits(within_s=172_800, budget_micro_usd=50_000_000),
        ),
        ("fine-tune a 7B for at most $12.50", StatedLimits(budget_micro_usd=12_500_000)),
        (
            "fine-tune a 7B on l40s or h100",
            StatedLimits(gpu_types=("l40s", "h100-80gb")),
        ),
        ("fine-tune a 7B on 2 nodes with 8 GPUs each", StatedLimits(gpus=16, nodes=2)),
        ("fine-tune a 7B on a single 48GB GPU", StatedLimits(gpu_types=("l40s",), gpus=1)),
        ("fine-tune a 7B on 2x 24 GB GPUs", StatedLimits(gpu_types=("a10g", "l4"), gpus=2)),
        ("fine-tune a 7B with 24GB of VRAM", StatedLimits(gpu_types=("a10g", "l4"))),
        (
            "fine-tune a 7B on at least 141 GB gpus",
            StatedLimits(gpu_types=("b200", "h200")),
        ),
        (
            "pretrain a 7B, 32 nodes x 8 h100",
            StatedLimits(gpu_types=("h100-80gb",), gpus=256, nodes=32),
        ),
        ("fine-tune a 7B", StatedLimits()),
        ("train resnet-18 on t5 samples 10k", StatedLimits()),
        ("fine-tune a 7B for $1.5k", StatedLimits(budget_micro_usd=1_500_000_000)),
        ("fine-tune a 7B for at most $5 million", StatedLimits(budget_micro_usd=5_000_000_000_000)),
        ("fine-tune a 7B for 2k dollars", StatedLimits(budget_micro_usd=2_000_000_000)),
        ("fine-tune a 7B for 500 USD", StatedLimits(budget_micro_usd=500_000_000)),
        ("fine-tune a 7B for under 50 bucks", StatedLimits(budget_micro_usd=50_000_000)),
        ("fine-tune a 7B, budget 50 dollars", StatedLimits(budget_micro_usd=50_000_000)),
    ],
)
def test_limits(text, want):
    assert read_text(text).limits == want


@pytest.mark.parametrize(
    ("text", "want"),
    [
        ("fine-tune a 7B on an RTX 4090", "names a GPU without known figures (got 'rtx 4090')"),
        ("fine-tune a 7B on an A100 with 16gb", None),
        ("fine-tune a 7B on an A100 16GB", "(got 'a100 16gb'). Allowed: a100-40gb, a100-80gb"),
        ("fine-tune a 7B, not on a100", "excludes a GPU"),
        ("fine-tune a 7B on 8 h100 or 16 a100", "several numbers of GPUs"),
        ("fine-tune a 7B on 4 nodes with 8 gpus", "(got '8 GPUs, 4 nodes')"),
        ("fine-tune a 7B on 0.5 gpu", "(got '0.5 gpu')"),
        ("fine-tune a 7B on 4-8 gpus", "(got '4-8 gpus')"),
        ("fine-tune a 7B on 1,000.5 gpus", "(got '1,000.5 gpus')"),
        ("fine-tune a 7B on 3,4-8 gpus", "(got '3,4-8 gpus')"),
        ("fine-tune a 7B for $1.5b", "(got '$1.5b')"),
        ("fine-tune a 7B at $2 per hour", "(got '$2')"),
        ("fine-tune a 7B for 500 euros", "(got '500 euros')"),
        ("fine-tune a 7B at 2 dollars per hour", "(got '2 dollars')"),
        ("fine-tune a 7B on 99999 GPUs", "asks for a number of GPUs that cannot be (got 99999)"),
    ],
)
def test_what_cannot_be_is_refused(text, want):
    if want is None:
        assert read_text(text).limits.gpu_types == A100
        return
    with pytest.raises(InvalidInput) as caught:
        read_text(text)
    assert want in str(caught.value)


@pytest.mark.parametrize("unit", ["9", "9,", "9.", "9/", "9-", ".", "-", "$"])
def test_a_text_that_is_one_long_number_is_read_at_once(unit):
    """Each place of it could begin a number of GPUs: tried one by one, that took 40 s."""
    text = f"fine-tune a 7B on {unit * 1_900}"[:1_950] + " cats"
    began_s = time.process_time()
    with contextlib.suppress(InvalidInput):
        read_text(text)
    assert time.process_time() - began_s < 2
