"""Which jobs make sense."""

import pytest

from gpu_core.decisions.catalog.gpu_types import Precision
from gpu_core.decisions.model.errors import InvalidInput
from gpu_core.decisions.requests.requirements.estimates.cpu import cpu_answer
from gpu_core.decisions.requests.requirements.jobs.job import check_job
from gpu_core.testing.builders.jobs import make_job


@pytest.mark.parametrize(
    ("changes", "want_message"),
    [
        pytest.param({"amount": 0}, "amount is too small (got 0). Allowed: more than 0", id="none"),
        pytest.param({"batch_per_gpu": 0}, "batch is too small", id="no batch"),
        pytest.param({"zero_stage": 4}, "zero-stage is not a ZeRO stage (got 4)", id="stage 4"),
        pytest.param(
            {"precision": Precision.INT8}, "precision is for inference (got 'int8')", id="int8"
        ),
        pytest.param(
            {"method": "inference", "sequence_length": 100, "output_tokens": 100},
            "output-tokens leave no room for a prompt (got 100). Allowed: 0 to 99",
            id="an answer as long as the sequence",
        ),
    ],
)
def test_a_job_that_makes_no_sense(changes, want_message):
    with pytest.raises(InvalidInput) as caught:
        check_job(make_job("llama-2-7b", **changes))
    assert want_message in str(caught.value)


def test_all_mistakes_are_reported_at_once():
    with pytest.raises(InvalidInput) as caught:
        check_job(make_job("llama-2-7b", amount=0, batch_per_gpu=0))
    assert len(str(caught.value).splitlines()) == 2


@pytest.mark.parametrize(
    ("job", "want_gpu"),
    [
        pytest.param(make_job("resnet-50", "inference", amount=1000), False, id="a few images"),
        pytest.param(make_job("resnet-50", "inference", amount=1e6), True, id="many images"),
        pytest.param(make_job("llama-2-7b", "inference", amount=1), False, id="one prompt"),
        pytest.param(make_job("llama-2-7b", "lora"), True, id="fine-tuning"),
    ],
)
def test_a_gpu_is_needed_where_cpus_take_long(job, want_gpu):
    assert cpu_answer(job).needs_gpu is want_gpu


def test_the_answer_says_why():
    answer = cpu_answer(make_job("resnet-50", "inference", amount=1000))
    assert answer.why == "not required, because the work takes 41.0s on 8 CPUs"
