"""How long a job takes, against published runs and its own history."""

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpu_core.decisions.catalog.gpu_types import GPU_TYPES, Precision
from gpu_core.decisions.model.errors import InvalidInput
from gpu_core.decisions.requests.requirements.estimates.duration import (
    Basis,
    Hardware,
    ObservedThroughput,
    Utilization,
    duration_of,
    flop_per_unit,
    learned,
    prior,
)
from gpu_core.decisions.requests.requirements.estimates.memory import WHOLE, Division
from gpu_core.decisions.requests.requirements.jobs.job import Recompute
from gpu_core.testing.builders.jobs import make_job

DAY_S = 86_400
PEAK = Utilization(low=1, likely=1, high=1)


def on(gpu_type, gpus=1, **changes):
    return Hardware(gpu=GPU_TYPES[gpu_type], gpus=gpus, **changes)


def test_gpt_3_on_1024_a100s_takes_34_days():
    """Narayanan et al. 2021, section 5.1: 300B tokens at 140 of 312 TFLOPS, all recomputed."""
    job = make_job(175.0, recompute=Recompute.FULL, amount=300e9)
    reached = Utilization(low=0.4, likely=140 / 312, high=0.5)
    found = duration_of(job, on("a100-80gb", 1024), WHOLE, reached)
    assert found.likely_s / DAY_S == pytest.approx(34, rel=0.05)
    assert (found.limit, found.basis) == ("arithmetic", Basis.PRIOR)


def test_llama_2_7b_took_184_320_gpu_hours():
    """Touvron et al. 2023, table 2: what 2T tokens took lies between the bounds of the prior."""
    job = make_job("llama-2-7b", amount=2e12)
    found = duration_of(job, on("a100-80gb"), WHOLE, prior(job))
    assert found.low_s / 3600 < 184_320 < found.high_s / 3600


@pytest.mark.parametrize(
    ("job", "want_flop"),
    [
        pytest.param(make_job(7.0), 42e9, id="training: six for a parameter and token"),
        pytest.param(make_job(7.0, recompute=Recompute.FULL), 56e9, id="all recomputed: eight"),
        pytest.param(make_job(7.0, "lora"), 28e9, id="adapters: no gradient of frozen weights"),
        pytest.param(
            make_job(7.0, "inference", sequence_length=1000), 14e12, id="a prompt of 1,000 tokens"
        ),
        pytest.param(make_job("resnet-50", "inference"), 8.2e9, id="an image forward"),
        pytest.param(make_job("resnet-50", "full"), 24.6e9, id="and three times that to train"),
    ],
)
def test_operations(job, want_flop):
    assert flop_per_unit(job) == pytest.approx(want_flop)


def test_writing_is_held_up_by_memory_bandwidth():
    """One sequence: each token reads all weights, 13.5 GB at 2,039 GB/s are 6.6 ms."""
    job = make_job("llama-2-7b", "inference", amount=1, output_tokens=1000, sequence_length=1001)
    found = duration_of(job, on("a100-80gb"), WHOLE, PEAK)
    assert found.limit == "memory bandwidth"
    assert found.likely_s == pytest.approx(6.6 + 0.26, rel=0.05)


def test_many_sequences_at_once_are_held_up_by_arithmetic():
    job = make_job("llama-2-7b", "inference", amount=1000, batch_per_gpu=256, output_tokens=10)
    assert duration_of(job, on("a100-80gb"), WHOLE, PEAK).limit == "arithmetic"


def test_without_nvlink_dividing_weights_is_held_up_by_communication():
    job = make_job("llama-2-7b")
    division = Division(gpus=8, zero_stage=3)
    slow = duration_of(job, on("l40s", 8, link_gb_per_s=32.0), division, PEAK)
    fast = duration_of(job, on("a100-80gb", 8, link_gb_per_s=300.0), division, PEAK)
    assert (slow.limit, fast.limit) == ("communication", "arithmetic")
    # Each of 61,035 steps of 8 GPUs: three times 13.48 GB, 7/8 of it, at 32 GB/s.
    assert slow.likely_s == pytest.approx(1e9 / 2048 / 8 * 3 * 13.48 * 7 / 8 / 32, rel=0.05)


@pytest.mark.parametrize(
    ("job", "hardware", "division"),
    [
        pytest.param(make_job("llama-2-7b"), on("t4"), WHOLE, id="a T4 has no bf16"),
        pytest.param(
            make_job("llama-2-7b"),
            on("a100-80gb", 16),
            Division(gpus=16, zero_stage=3),
            id="it is unknown how the nodes are connected",
        ),
    ],
)
def test_unknown_is_no_number(job, hardware, division):
    assert duration_of(job, hardware, division, PEAK) is None


@pytest.mark.parametrize(
    ("stage", "accumulation", "want_gb"),
    [
        pytest.param(0, 1, 2 * 13.48, id="all gradients at each batch, there and back"),
        pytest.param(1, 8, 2 * 13.48 / 8, id="only every eighth batch"),
        pytest.param(2, 8, 13.48 * (1 + 1 / 8), id="stage 2 reduces them at each batch"),
        pytest.param(3, 8, 3 * 13.48, id="stage 3 gathers the weights too"),
    ],
)
def test_what_is_exchanged_for_a_batch(stage, accumulation, want_gb):
    """One batch for each of 1,000 GPUs over a slow link: it is all that counts."""
    job = make_job("llama-2-7b", amount=2048 * 1000, accumulation=accumulation)
    division = Division(gpus=1000, zero_stage=stage)
    found = duration_of(job, on("h100-80gb", 1000, link_gb_per_s=0.001), division, PEAK)
    assert found.limit == "communication"
    assert found.likely_s * 0.001 == pytest.approx(want_gb, rel=0.01)


def test_fp16_runs_where_bf16_does_not():
    job = make_job("llama-2-7b", precision=Precision.FP16)
    assert duration_of(job, on("t4"), WHOLE, PEAK) is not None


def test_a_quarter_of_a_gpu_takes_four_times_as_long():
    job = make_job("resnet-50", "inference")
    whole = duration_of(job, on("l4"), WHOLE, PEAK)
    part = duration_of(job, on("l4", gpu_share_milli=250), WHOLE, PEAK)
    assert part.likely_s == pytest.approx(4 * whole.likely_s)


def test_history_replaces_the_prior_on_the_same_gpu_type():
    job = make_job("llama-2-7b", amount=1e9)
    observed = ObservedThroughput(hardware=on("a100-80gb"), units_per_s=(2500.0, 2600.0, 2400.0))
    reached = learned(job, observed, WHOLE, "a100-80gb")
    found = duration_of(job, on("a100-80gb"), WHOLE, reached)
    assert found.basis is Basis.OBSERVED
    assert found.likely_s == pytest.approx(1e9 / 2500)
    assert 1e9 / 2600 < found.low_s < found.likely_s < found.high_s < 1e9 / 2400


def test_history_on_another_gpu_type_has_wider_bounds():
    job = make_job("llama-2-7b")
    observed = ObservedThroughput(hardware=on("a100-80gb"), units_per_s=(2500.0,))
    reached = learned(job, observed, WHOLE, "h100-80gb")
    assert reached.basis is Basis.TRANSFERRED
    assert reached.high / reached.low == pytest.approx(1.69)


@pytest.mark.parametrize(
    ("observed", "want_message"),
    [
        pytest.param(
            ObservedThroughput(hardware=on("a100-80gb"), units_per_s=()),
            "observed is no throughput (got []). Allowed: tokens per second, more than 0",
            id="none",
        ),
        pytest.param(
            ObservedThroughput(hardware=on("a100-80gb"), units_per_s=(5.0, 0.0)),
            "no throughput",
            id="zero",
        ),
        pytest.param(
            ObservedThroughput(hardware=on("t4"), units_per_s=(5.0,)),
            "observed cannot be of such a job (got 't4'). Name a GPU type that computes in bf16",
            id="where it cannot run",
        ),
    ],
)
def test_a_history_that_cannot_be_used(observed, want_message):
    with pytest.raises(InvalidInput) as caught:
        learned(make_job("llama-2-7b"), observed, WHOLE, "a100-80gb")
    assert want_message in str(caught.value)


methods = st.sampled_from(["full", "lora", "qlora", "inference"])
gpu_types = st.sampled_from(sorted(set(GPU_TYPES) - {"t4", "v100-16gb", "v100-32gb"}))


@given(method=methods, gpu_type=gpu_types, speed=st.floats(1, 1e6))
def test_one_observed_speed_is_predicted_again(method, gpu_type, speed):
    job = make_job("llama-3-8b", method)
    observed = ObservedThroughput(hardware=on(gpu_type), units_per_s=(speed,))
    found = duration_of(job, on(gpu_type), WHOLE, learned(job, observed, WHOLE, gpu_type))
    assert found.likely_s == pytest.approx(job.amount / speed)


@given(method=methods, gpu_type=gpu_types, gpus=st.sampled_from([1, 2, 8]))
def test_bounds_enclose_the_estimate_and_twice_the_work_takes_twice_as_long(method, gpu_type, gpus):
    job = make_job("llama-3-8b", method)
    hardware = on(gpu_type, gpus, link_gb_per_s=32.0)
    division = Division(gpus=gpus, zero_stage=3 if gpus > 1 and method != "inference" else 0)
    found = duration_of(job, hardware, division, prior(job))
    twice = duration_of(replace(job, amount=2 * job.amount), hardware, division, prior(job))
    assert 0 < found.low_s < found.likely_s < found.high_s
    assert twice.likely_s == pytest.approx(2 * found.likely_s)
