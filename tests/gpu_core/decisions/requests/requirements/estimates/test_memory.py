"""Memory of a job, against published and hand-calculated cases; all within 5%."""

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpu_core.decisions.catalog.gpu_types import Precision
from gpu_core.decisions.requests.requirements.estimates.memory import (
    Division,
    checkpoint_bytes,
    kv_bytes_per_token,
    memory_per_gpu,
    trained_parameters,
)
from gpu_core.decisions.requests.requirements.jobs.job import Method, Optimizer, Recompute
from gpu_core.decisions.requests.requirements.jobs.models import KNOWN_MODELS, transformer_of
from gpu_core.testing.builders.jobs import make_job

GB = 1e9
STATES = {
    "weights",
    "gradients",
    "master weights",
    "adamw states",
    "adamw-8bit states",
    "sgd-momentum states",
}


def term_bytes(job, names, division=None):
    memory = memory_per_gpu(job, division or Division())
    return sum(term.bytes for term in memory.terms if term.name in names)


@pytest.mark.parametrize(
    ("job", "division", "want_gb"),
    [
        pytest.param(
            make_job(7.5),
            Division(),
            120,
            id="ZeRO paper, figure 1: 7.5B without ZeRO takes 120 GB",
        ),
        pytest.param(
            make_job(7.5),
            Division(gpus=64, zero_stage=1),
            31.4,
            id="ZeRO paper, figure 1: stage 1 over 64 GPUs takes 31.4 GB",
        ),
        pytest.param(
            make_job(7.5),
            Division(gpus=64, zero_stage=2),
            16.6,
            id="ZeRO paper, figure 1: stage 2 over 64 GPUs takes 16.6 GB",
        ),
        pytest.param(
            make_job(7.5),
            Division(gpus=64, zero_stage=3),
            1.9,
            id="ZeRO paper, figure 1: stage 3 over 64 GPUs takes 1.9 GB",
        ),
        pytest.param(make_job(1.0), Division(), 16, id="Adam in mixed precision: 16 B a parameter"),
        pytest.param(
            make_job(1.0, optimizer=Optimizer.ADAMW_8BIT),
            Division(),
            10,
            id="8-bit Adam saves 6 B a parameter",
        ),
        pytest.param(
            make_job(1.0, optimizer=Optimizer.SGD_MOMENTUM),
            Division(),
            12,
            id="SGD with momentum saves 4 B a parameter",
        ),
        pytest.param(
            make_job(1.0, precision=Precision.FP32), Division(), 16, id="fp32 has no master copy"
        ),
    ],
)
def test_weights_gradients_and_optimizer(job, division, want_gb):
    assert term_bytes(job, STATES, division) / GB == pytest.approx(want_gb, rel=0.05)


@pytest.mark.parametrize(
    ("model", "want_kib"),
    [
        pytest.param("llama-2-7b", 512, id="Llama-2-7B, without grouped queries"),
        pytest.param("llama-3-8b", 128, id="Llama-3-8B, 8 KV heads for 32"),
        pytest.param("llama-3-70b", 320, id="Llama-3-70B"),
    ],
)
def test_kv_cache_of_a_token(model, want_kib):
    shape = KNOWN_MODELS[model].shape
    assert kv_bytes_per_token(shape, Precision.BF16) == want_kib * 1024


@pytest.mark.parametrize(
    ("job", "want_gb"),
    [
        pytest.param(
            make_job(175.0, batch_per_gpu=1, recompute=Recompute.NONE),
            # s b h L (34 + 5 a s / h), with a 96, s 2048, h 12288, L 96.
            2048 * 12288 * 96 * (34 + 5 * 96 * 2048 / 12288) / GB,
            id="GPT-3, nothing recomputed: 275 GB",
        ),
        pytest.param(
            make_job(175.0, batch_per_gpu=1),
            2048 * 12288 * 96 * 34 / GB,
            id="GPT-3, selective: 82 GB",
        ),
        pytest.param(
            make_job(175.0, batch_per_gpu=1, recompute=Recompute.FULL),
            2048 * 12288 * 96 * 2 / GB,
            id="GPT-3, all recomputed: 4.8 GB",
        ),
        pytest.param(
            make_job("resnet-50", batch_per_gpu=64), 3.2, id="64 images of 50 MB in ResNet-50"
        ),
    ],
)
def test_activations(job, want_gb):
    assert term_bytes(job, {"activations"}) / GB == pytest.approx(want_gb, rel=0.05)


def test_selective_recomputing_saves_seven_tenths_of_gpt_3():
    """Korthikanti et al. 2022, section 5: for GPT-3 it saves 70% of the activations."""
    none = term_bytes(make_job(175.0, recompute=Recompute.NONE), {"activations"})
    selective = term_bytes(make_job(175.0), {"activations"})
    assert 1 - selective / none == pytest.approx(0.70, rel=0.05)


@pytest.mark.parametrize(
    ("job", "want_gb"),
    [
        pytest.param(
            make_job("llama-2-7b", "inference", sequence_length=4096),
            13.48 * 1.2 + 2.147,
            id="Llama-2-7B with 4,096 tokens of cache",
        ),
        pytest.param(
            make_job("llama-2-7b", "inference", sequence_length=1, precision=Precision.INT8),
            6.74 * 1.2,
            id="8-bit weights halve it",
        ),
        pytest.param(
            make_job("llama-2-7b", "inference", sequence_length=1, precision=Precision.INT4),
            6.74 * 0.55 * 1.2,
            id="4-bit weights with their scales",
        ),
        pytest.param(
            make_job("llama-2-7b", "inference", sequence_length=4096, batch_per_gpu=8),
            13.48 * 1.2 + 8 * 2.147,
            id="eight sequences at once",
        ),
    ],
)
def test_inference(job, want_gb):
    assert memory_per_gpu(job).bytes / GB == pytest.approx(want_gb, rel=0.05)


def test_qlora_of_65b_fits_into_48_gb():
    """Dettmers et al. 2023: a 65B model is tuned on one GPU with 48 GB."""
    job = make_job(65.0, "qlora", sequence_length=512, recompute=Recompute.FULL)
    assert 36 * GB < memory_per_gpu(job).bytes < 48 * GB


def test_adapters_of_llama_2_7b_at_rank_16():
    """39,976,960 on all linear layers, as the PEFT library counts them."""
    assert trained_parameters(make_job("llama-2-7b", "lora")) == pytest.approx(39_976_960, rel=0.05)


@pytest.mark.parametrize(
    ("job", "want_gb"),
    [
        pytest.param(make_job(7.0), 98, id="14 B: 16-bit weights, master copy and two moments"),
        pytest.param(make_job(7.0, precision=Precision.FP32), 84, id="12 B: no master copy"),
        pytest.param(make_job(7.0, "inference"), 0, id="inference changes nothing"),
    ],
)
def test_checkpoint(job, want_gb):
    assert checkpoint_bytes(job) / GB == pytest.approx(want_gb, rel=0.05)


@pytest.mark.parametrize(
    ("billions", "want_shape"),
    [
        pytest.param(175.0, (96, 12288), id="GPT-3"),
        pytest.param(6.74, (32, 4096), id="Llama-2-7B"),
    ],
)
def test_a_number_of_parameters_gives_the_usual_shape(billions, want_shape):
    shape = transformer_of(round(billions * 1e9)).shape
    assert (shape.layers, shape.hidden) == want_shape


def test_every_term_shows_its_arithmetic():
    terms = memory_per_gpu(make_job("llama-2-7b"), Division(gpus=8, zero_stage=3)).terms
    assert [(term.name, term.arithmetic) for term in terms[:2]] == [
        ("weights", "2 B x 6.74B parameters / 8 GPUs"),
        ("gradients", "2 B x 6.74B parameters / 8 GPUs"),
    ]
    assert all(term.bytes and term.arithmetic for term in terms)


jobs = st.builds(
    make_job,
    model=st.sampled_from([0.1, 7.0, "llama-3-8b", "resnet-50"]),
    method=st.sampled_from([str(method) for method in Method]),
    optimizer=st.sampled_from(Optimizer),
    recompute=st.sampled_from(Recompute),
    batch_per_gpu=st.integers(1, 8),
    sequence_length=st.sampled_from([512, 4096]),
)


@given(job=jobs, gpus=st.sampled_from([2, 8, 64]))
def test_a_higher_stage_never_takes_more_of_the_states(job, gpus):
    takes = [term_bytes(job, STATES, Division(gpus=gpus, zero_stage=stage)) for stage in range(4)]
    assert takes == sorted(takes, reverse=True)


@given(job=jobs)
def test_more_work_at_once_never_takes_less(job):
    more = replace(job, batch_per_gpu=job.batch_per_gpu + 1)
    assert memory_per_gpu(more).bytes >= memory_per_gpu(job).bytes > 0
