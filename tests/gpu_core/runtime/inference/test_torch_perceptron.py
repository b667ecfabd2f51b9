"""The classifier in torch. Skipped where torch is not installed."""

import warnings

import pytest

from gpu_core.decisions.catalog.gpu_types import Precision

with warnings.catch_warnings():
    warnings.simplefilter("ignore")  # torch's own, at import
    torch = pytest.importorskip("torch")

from gpu_core.runtime.inference.torch_perceptron import torch_perceptron
from gpu_core.runtime.inference.workload import Unsupported


def test_all_precisions_answer_nearly_alike() -> None:
    model = torch_perceptron()
    inputs, right = model.inputs(400, seed=5)
    exact = model.of.at(Precision.FP32)(inputs)
    for precision in (Precision.FP32, Precision.FP16, Precision.BF16, Precision.INT8):
        try:
            answers = model.at(precision)(inputs)
        except Unsupported:
            assert model.torch_device != "cpu"
            continue
        assert model.quality(answers, exact) > 0.95, precision
        assert model.quality(answers, right) > 0.8, precision
    with pytest.raises(Unsupported):
        model.at(Precision.INT4)
