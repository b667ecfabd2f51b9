"""A classifier in NumPy: two layers of random features and a trained one.

It needs no data set and no download: inputs are noisy copies of one pattern for each class, and the
last layer is a ridge regression on the features (Rahimi and Recht 2008). Its products of matrices
are those of real networks: 2.1 million weights, 8 MB in fp32.
"""

from dataclasses import dataclass
from functools import partial

import numpy as np
import numpy.typing as npt

from gpu_core.decisions.catalog.gpu_types import Precision
from gpu_core.runtime.inference.workload import Infer, Unsupported

Floats = npt.NDArray[np.float32]
Labels = npt.NDArray[np.intp]

_INPUTS, _HIDDEN, _CLASSES = 1024, 1024, 16
_LEARNED_FROM = 2_000
_NOISE = 3.5
"""Of an input, in units of its pattern: some classes overlap, so that precision can matter."""
_RIDGE = 10.0
_INT8_MOST = 127


@dataclass(frozen=True, slots=True)
class Perceptron:
    """The weights of each layer, and the pattern of each class."""

    weights: tuple[Floats, ...]
    patterns: Floats

    @property
    def device(self) -> str:
        """NumPy computes on the CPU."""
        return "cpu"

    @property
    def what(self) -> str:
        """A short description."""
        size = sum(layer.size for layer in self.weights) / 1e6
        return (
            f"a classifier with {size:.1f} million weights in NumPy on one CPU core; "
            "int8 is rounded to 8 bits and multiplied in fp32"
        )

    def at(self, precision: Precision) -> Infer:
        """Fp32, and int8 by dynamic quantization.

        NumPy has no product of 8-bit matrices: the values are rounded to 8 bits and multiplied in
        fp32, which shows what becomes of the quality, and saves no time.

        Raises:
            Unsupported: NumPy does not compute so.
        """
        if precision is Precision.FP32:
            return partial(_answers, self.weights)
        if precision is Precision.INT8:
            return partial(_answers_int8, [_rounded(layer, axis=0) for layer in self.weights])
        raise Unsupported(f"NumPy has no fast arithmetic in {precision}")

    def inputs(self, count: int, seed: int) -> tuple[Floats, Labels]:
        """Noisy patterns, and the class of each."""
        return _drawn(self.patterns, count, np.random.default_rng((1, seed)))

    def quality(self, answers: Labels, right: Labels) -> float:
        """The accuracy, 0 to 1."""
        return float(np.mean(answers == right))


def perceptron(seed: int = 0) -> Perceptron:
    """The classifier, trained; takes some seconds.

    Args:
        seed: Of patterns, features and the inputs that it learns from.
    """
    rng = np.random.default_rng((0, seed))
    patterns = rng.standard_normal((_CLASSES, _INPUTS), dtype=np.float32)
    layers = [
        rng.standard_normal(size, dtype=np.float32) * np.float32(np.sqrt(2 / size[0]))
        for size in ((_INPUTS, _HIDDEN), (_HIDDEN, _HIDDEN))
    ]
    inputs, right = _drawn(patterns, _LEARNED_FROM, rng)
    features = _features(layers, inputs)
    wanted = np.eye(_CLASSES, dtype=np.float32)[right] - np.float32(1 / _CLASSES)
    square = features.T @ features + np.float32(_RIDGE) * np.eye(_HIDDEN, dtype=np.float32)
    last = np.linalg.solve(square, features.T @ wanted)
    return Perceptron((*layers, last.astype(np.float32)), patterns)


def _drawn(patterns: Floats, count: int, rng: np.random.Generator) -> tuple[Floats, Labels]:
    right = rng.integers(0, len(patterns), count)
    noise = rng.standard_normal((count, patterns.shape[1]), dtype=np.float32)
    return patterns[right] + np.float32(_NOISE) * noise, right


def _features(layers: list[Floats], inputs: Floats) -> Floats:
    for layer in layers:
        inputs = np.maximum(inputs @ layer, 0)
    return inputs


def _answers(weights: tuple[Floats, ...], inputs: Floats) -> Labels:
    *hidden, last = weights
    return np.asarray(np.argmax(_features(hidden, inputs) @ last, axis=1))


def _answers_int8(weights: list[tuple[Floats, Floats]], inputs: Floats) -> Labels:
    for number, (layer, scale) in enumerate(weights):
        rounded, own_scale = _rounded(inputs, axis=1)
        inputs = (rounded @ layer) * own_scale * scale
        if number < len(weights) - 1:
            inputs = np.maximum(inputs, 0)
    return np.asarray(np.argmax(inputs, axis=1))


def _rounded(values: Floats, axis: int) -> tuple[Floats, Floats]:
    """Whole numbers from -127 to 127, and the scale of each row or column, as found in it."""
    most = np.abs(values).max(axis=axis, keepdims=True)
    scale = np.where(most > 0, most / _INT8_MOST, 1).astype(np.float32)
    return np.rint(values / scale), scale
