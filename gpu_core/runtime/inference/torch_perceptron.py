"""The same classifier in torch, on the run's GPU, or on the CPU where it has none."""

import warnings
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch

from gpu_core.decisions.catalog.gpu_types import GPU_TYPES, Precision
from gpu_core.decisions.catalog.product_names import gpu_types_meant
from gpu_core.runtime.inference.perceptron import Floats, Labels, Perceptron, perceptron
from gpu_core.runtime.inference.workload import Infer, Unsupported

_TYPES = {
    Precision.FP32: torch.float32,
    Precision.FP16: torch.float16,
    Precision.BF16: torch.bfloat16,
}


@dataclass(frozen=True, slots=True)
class TorchPerceptron:
    """The weights, and where torch computes."""

    of: Perceptron
    torch_device: str
    device: str

    @property
    def what(self) -> str:
        """A short description."""
        size = sum(layer.size for layer in self.of.weights) / 1e6
        where = "one CPU core" if self.torch_device == "cpu" else f"one {self.device}"
        release = torch.__version__.partition("+")[0]
        return f"a classifier with {size:.1f} million weights in torch {release} on {where}"

    def at(self, precision: Precision) -> Infer:
        """Fp32, and what the device computes in; int8 by torch's dynamic quantization, on a CPU.

        Raises:
            Unsupported: The device does not compute so.
        """
        if precision is Precision.INT8:
            return self._int8()
        if precision not in _TYPES:
            raise Unsupported(f"torch does not compute in {precision} here")
        is_cuda = self.torch_device != "cpu"
        if precision is Precision.BF16 and is_cuda and not torch.cuda.is_bf16_supported(False):
            raise Unsupported(f"a {self.device} has no fast arithmetic in bf16")
        return self._inferring(self._module().to(self.torch_device, _TYPES[precision]))

    def inputs(self, count: int, seed: int) -> tuple[Floats, Labels]:
        """Noisy patterns, and the class of each, in the memory of the CPU."""
        return self.of.inputs(count, seed)

    def quality(self, answers: Labels, right: Labels) -> float:
        """The accuracy, 0 to 1."""
        return self.of.quality(answers, right)

    def _module(self) -> "torch.nn.Sequential":
        layers: list[torch.nn.Module] = []
        for number, weights in enumerate(self.of.weights):
            layer = torch.nn.Linear(*weights.shape, bias=False)
            layer.weight = torch.nn.Parameter(torch.from_numpy(np.ascontiguousarray(weights.T)))
            layers += [torch.nn.ReLU(), layer] if number else [layer]
        return torch.nn.Sequential(*layers).eval()

    def _int8(self) -> Infer:
        if self.torch_device != "cpu":
            raise Unsupported("torch's dynamic quantization to int8 is for CPUs")
        quantize: Callable[..., Any] | None = getattr(
            torch.ao.quantization, "quantize_dynamic", None
        )
        if quantize is None:
            raise Unsupported("this release of torch has no dynamic quantization")
        with warnings.catch_warnings():
            # From 2.8 on torch says that torchao, a package of its own, will replace it.
            warnings.simplefilter("ignore")
            module = quantize(self._module(), {torch.nn.Linear}, dtype=torch.qint8)
        return self._inferring(module)

    def _inferring(self, module: "torch.nn.Module") -> Infer:
        weight = next(module.parameters(), None)
        number_type = torch.float32 if weight is None else weight.dtype

        def infer(batch: Floats) -> Labels:
            with torch.inference_mode():
                inputs = torch.from_numpy(batch).to(self.torch_device, number_type)
                # To the CPU's memory: only then are the answers there.
                return np.asarray(module(inputs).argmax(dim=1).cpu().numpy())

        return infer


def torch_perceptron() -> TorchPerceptron:
    """The classifier on the first GPU that this process sees, else on the CPU."""
    of = perceptron()
    if not torch.cuda.is_available():
        return TorchPerceptron(of, "cpu", "cpu")
    product = torch.cuda.get_device_name(0)
    meant = gpu_types_meant(product, GPU_TYPES)
    return TorchPerceptron(of, "cuda", meant[0] if len(meant) == 1 else product.lower())
