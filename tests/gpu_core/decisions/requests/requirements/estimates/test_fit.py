"""On how many GPUs a job fits."""

import pytest

from gpu_core.decisions.catalog.gpu_types import GPU_TYPES
from gpu_core.decisions.requests.requirements.estimates.fit import best_fit, least_gpus
from gpu_core.decisions.requests.requirements.jobs.job import Recompute
from gpu_core.testing.builders.jobs import make_job


def memory_mib(gpu_type):
    return GPU_TYPES[gpu_type].reported_memory_mib


@pytest.mark.parametrize(
    ("job", "gpu_type", "want_gpus", "want_stage"),
    [
        pytest.param(make_job(0.1), "t4", 1, 0, id="a small model needs one small GPU"),
        # 2 + 14/2 B a parameter and 10 GB of activations: 73 of 77 GB.
        pytest.param(make_job(7.0), "a100-80gb", 2, 2, id="7B, all trained, on two A100s"),
        # 16/4 B a parameter, a layer of 0.4 GB and 10 GB of activations: 38.3 of 38.7 GB.
        pytest.param(make_job(7.0), "a100-40gb", 4, 3, id="and on four with half the memory"),
        pytest.param(
            make_job("llama-2-7b", "lora", sequence_length=512),
            "a10g",
            1,
            0,
            id="with adapters: one A10G",
        ),
        pytest.param(make_job("llama-2-7b", "qlora"), "t4", 1, 0, id="in 4 bits: one T4"),
        pytest.param(
            make_job("llama-3-70b", "inference"), "h100-80gb", 4, 0, id="70B to answer: four H100s"
        ),
        pytest.param(make_job("llama-3-70b", "inference"), "b200", 1, 0, id="or one B200"),
    ],
)
def test_least_gpus(job, gpu_type, want_gpus, want_stage):
    fit = least_gpus(job, memory_mib(gpu_type), 64)
    assert (fit.division.gpus, fit.division.zero_stage) == (want_gpus, want_stage)


def test_no_number_of_gpus_is_enough():
    job = make_job(400.0, recompute=Recompute.NONE, zero_stage=2)
    assert least_gpus(job, memory_mib("t4"), 1024) is None


def test_it_is_divided_as_little_as_fits():
    stages = [
        best_fit(make_job(billions), 8, memory_mib("a100-80gb")).division.zero_stage
        for billions in (1.0, 7.0, 20.0)
    ]
    assert stages == [0, 1, 3]


def test_inference_keeps_whole_copies_where_they_fit():
    job = make_job("llama-2-7b", "inference")
    assert best_fit(job, 8, memory_mib("a100-80gb")).division.gpus == 1
    assert best_fit(job, 8, memory_mib("t4")).division.gpus == 2


def test_a_stated_stage_is_kept():
    assert (
        best_fit(make_job(1.0, zero_stage=3), 8, memory_mib("a100-80gb")).division.zero_stage == 3
    )


def test_one_tenth_of_the_memory_is_left():
    fit = best_fit(make_job(1.0), 1, 100)
    assert fit.usable_bytes == 90 * 1024**2
    assert not fit.fits
