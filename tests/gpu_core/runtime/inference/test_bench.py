"""Processes that measure inference: what they report, and what becomes of mistakes."""

import io
import json

import pytest

from gpu_core.decisions.catalog.gpu_types import Precision
from gpu_core.decisions.model.errors import InvalidInput
from gpu_core.decisions.optimization.experiments.plans import (
    Experiment,
    challenge_settings,
    measured_settings,
    projected_settings,
    turns,
)
from gpu_core.decisions.optimization.experiments.trial import Setting, Timed, repeat_of
from gpu_core.runtime.inference.bench import MeasurementFailed, bench, measured
from gpu_core.runtime.inference.perceptron import perceptron
from gpu_core.runtime.inference.process import serve
from gpu_core.runtime.inference.timing import prepared, timed
from gpu_core.runtime.inference.workload import Unsupported, load_workload
from tests.support.inference_stub import Parity

STUB = "tests.support.inference_stub:parity"
FP32 = Setting(device="cpu", batch_size=4, precision=Precision.FP32)


class Clock:
    """A clock that goes on by the same time whenever it is read."""

    def __init__(self, step_s: float) -> None:
        self._now, self._step_s = 0.0, step_s

    def __call__(self) -> float:
        self._now += self._step_s
        return self._now


def test_batches_are_timed_until_the_time_is_over() -> None:
    workload = Parity()
    infer = workload.at(Precision.FP32)
    batches, right = prepared(workload, infer, 4, seed=1)
    found = timed(workload, infer, batches, right, 0.5, clock=Clock(0.125))
    assert found.batches_s == (0.125,) * 4
    assert (found.batch_size, found.took_s, found.quality) == (4, 0.5, 1.0)


def test_a_batch_larger_than_the_inputs_of_a_repeat_is_whole() -> None:
    workload = Parity()
    batches, right = prepared(workload, workload.at(Precision.FP32), 3_000, seed=1)
    assert [len(batch) for batch in batches] == [3_000]
    assert len(right) == 3_000


def test_a_repeat_adds_up_its_processes_and_takes_the_percentile_of_all_batches() -> None:
    quick = Timed(batch_size=8, batches_s=(0.01,) * 99, took_s=1.0, quality=0.9)
    slow = Timed(batch_size=8, batches_s=(0.5,), took_s=0.5, quality=0.7)
    found = repeat_of([quick, slow])
    assert found.inferences_per_s == pytest.approx(99 * 8 + 16)
    assert found.p99_s == 0.01
    assert found.quality == pytest.approx(0.8)


def test_a_process_answers_each_request_by_a_line() -> None:
    asked = {"batch_size": 4, "seed": 1, "seconds": 1e-9}
    lines = [
        {**asked, "precision": "fp32"},
        {"go": True},
        {**asked, "precision": "bf16"},
        {"go": False},
        {**asked, "precision": "int8"},
        {"go": False},
    ]
    answers = io.StringIO()
    serve(Parity(), io.StringIO("".join(json.dumps(line) + "\n" for line in lines)), answers)
    device, ready, result, refusal, ready_again = map(json.loads, answers.getvalue().splitlines())
    assert device == {"device": "cpu", "what": "the parity of whole numbers"}
    assert ready == ready_again == {"ready": True}
    assert result["quality"] == 1.0
    assert refusal == {"unsupported": "numbers have no bf16"}


def test_two_processes_measure_together_and_a_missing_precision_is_left_out() -> None:
    settings = (
        FP32,
        Setting(device="cpu", batch_size=4, precision=Precision.BF16),
        Setting(device="cpu", batch_size=4, precision=Precision.INT8, processes=2),
    )
    with bench(STUB, 2) as on:
        found = measured(on, settings, 1_000_000, repeats=2, seconds=0.01)
    assert [trial.setting for trial in found.trials] == [settings[0], settings[2]]
    assert [len(trial.repeats) for trial in found.trials] == [2, 2]
    assert found.trials[0].quality == (1.0, 1.0)
    assert found.trials[1].quality == (0.5, 0.5)
    assert found.not_run == ((settings[1], "numbers have no bf16"),)
    assert all(process.poll() is not None for process in on.processes)


def test_a_workload_that_ends_is_a_failure_with_its_status() -> None:
    with (
        pytest.raises(MeasurementFailed, match="status 3"),
        bench("tests.support.inference_stub:ends_at_once"),
    ):
        pass


@pytest.mark.parametrize(
    ("repeats", "seconds", "want_field"),
    [
        pytest.param(0, 1.0, "repeats", id="no repeat"),
        pytest.param(2, 0.0, "seconds", id="no time"),
        pytest.param(2, float("nan"), "seconds", id="not a number"),
    ],
)
def test_numbers_out_of_range_are_refused(repeats: int, seconds: float, want_field: str) -> None:
    with bench(STUB) as on, pytest.raises(InvalidInput, match=want_field):
        measured(on, (FP32,), 1, repeats=repeats, seconds=seconds)


@pytest.mark.parametrize("name", ["no.such.module:x", "json:no_such_function", "json", ""])
def test_a_workload_that_is_not_there_is_refused(name: str) -> None:
    with pytest.raises(InvalidInput, match="workload"):
        load_workload(name)


def test_every_turn_has_every_configuration_and_begins_with_another_one() -> None:
    settings = measured_settings(Experiment.BATCH_SIZE, "cpu")
    found = turns(settings, 3)
    for turn in range(3):
        assert {s for number, s in found if number == turn} == set(settings)
    assert len({found[turn * len(settings)][1] for turn in range(3)}) == 3


def test_the_experiments_vary_one_thing() -> None:
    assert [s.batch_size for s in measured_settings(Experiment.BATCH_SIZE, "t4")] == [
        1,
        4,
        8,
        16,
        32,
    ]
    assert [s.processes for s in measured_settings(Experiment.SHARING, "t4")] == [1, 2]
    for experiment in Experiment:
        assert all(s.device == "t4" for s in measured_settings(experiment, "t4"))
    assert "t4" not in {s.device for s in projected_settings(Experiment.GPU_TYPE, "t4")}
    assert challenge_settings("t4")[-1].precision is Precision.FP16
    assert challenge_settings("cpu")[-1].precision is Precision.INT8


def test_the_classifier_learns_and_8_bits_change_few_answers() -> None:
    model = perceptron()
    inputs, right = model.inputs(400, seed=5)
    exact = model.at(Precision.FP32)(inputs)
    # 16 classes: chance is right in 1 of 16.
    assert model.quality(exact, right) > 0.8
    assert model.quality(model.at(Precision.INT8)(inputs), exact) > 0.95
    with pytest.raises(Unsupported, match="bf16"):
        model.at(Precision.BF16)
