"""A job from a text and from what is stated next to it."""

import pytest

from gpu_core.decisions.catalog.gpu_types import Precision
from gpu_core.decisions.model.errors import InvalidInput
from gpu_core.decisions.requests.requirements.jobs.job import Method
from gpu_core.decisions.requests.requirements.reading.job_request import JobRequest, job_of


def test_what_is_stated_comes_before_the_text():
    stated = JobRequest(method=Method.QLORA, amount=5e6, sequence_length=512)
    reading = job_of("fine-tune a 7B model with LoRA", stated)
    assert (reading.job.method, reading.job.amount) == (Method.QLORA, 5e6)
    assert reading.understood[-1] == "amount 5000000.0"


def test_a_stated_model_needs_no_name_in_the_text():
    reading = job_of("fine-tune it on 1M tokens", JobRequest(model_name="llama-3-8b"))
    assert (reading.job.model.name, reading.job.amount) == ("llama-3-8b", 1e6)


def test_without_a_text_everything_is_stated():
    stated = JobRequest(parameters=7 * 10**9, method=Method.INFERENCE, amount=100)
    reading = job_of(None, stated)
    assert reading.job.precision is Precision.FP16
    assert reading.assumed == ("fp16 precision",)


def test_work_for_a_cpu_stays_work_for_a_cpu():
    assert job_of("monthly sql report", JobRequest(amount=1)).job is None


@pytest.mark.parametrize(
    ("text", "stated", "want_message"),
    [
        pytest.param(
            None, JobRequest(), "model is missing. Allowed: a model such as", id="nothing at all"
        ),
        pytest.param(None, JobRequest(parameters=1), "method is missing", id="no method"),
        pytest.param(
            None, JobRequest(parameters=1, method=Method.FULL), "amount is missing", id="no amount"
        ),
        pytest.param(
            None,
            JobRequest(model_name="llama3-8b"),
            "model is not known (got 'llama3-8b'). Did you mean 'llama-3-8b'?",
            id="a misspelled model",
        ),
        pytest.param(
            None,
            JobRequest(model_name="gpt-2", parameters=1),
            "parameters contradicts model",
            id="two",
        ),
        pytest.param(
            "fine-tune a 7B model",
            JobRequest(precision=Precision.INT8),
            "precision is for inference",
            id="text and statement do not fit",
        ),
    ],
)
def test_mistakes(text, stated, want_message):
    with pytest.raises(InvalidInput) as caught:
        job_of(text, stated)
    assert want_message in str(caught.value)
