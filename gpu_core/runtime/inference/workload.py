"""The measured workload: a model with its inputs, in every precision that its device supports."""

import warnings
from collections.abc import Callable
from importlib import import_module
from importlib.util import find_spec
from typing import Any, Protocol

from gpu_core.decisions.catalog.gpu_types import Precision
from gpu_core.decisions.model.errors import InvalidInput

Infer = Callable[[Any], Any]

NUMPY_WORKLOAD = "gpu_core.runtime.inference.perceptron:perceptron"
TORCH_WORKLOAD = "gpu_core.runtime.inference.torch_perceptron:torch_perceptron"


class Unsupported(Exception):
    """The device does not compute in this precision; the message says why."""


class InferenceModel(Protocol):
    """A model that is ready to infer."""

    @property
    def device(self) -> str:
        """The GPU type that it runs on, or `cpu`."""

    @property
    def what(self) -> str:
        """A short description, for reports."""

    def at(self, precision: Precision) -> Infer:
        """A function that answers a batch in this precision, and returns when it is complete.

        Raises:
            Unsupported: The device does not compute so.
        """

    def inputs(self, count: int, seed: int) -> tuple[Any, Any]:
        """`count` inputs that slicing divides into batches, and the right answers."""

    def quality(self, answers: Any, right: Any) -> float:
        """The quality of these answers. More is better."""


def usual_workload() -> str:
    """The name of the model that is measured by default: with torch where it is installed."""
    return TORCH_WORKLOAD if find_spec("torch") else NUMPY_WORKLOAD


def load_workload(name: str) -> InferenceModel:
    """Make the workload of this name.

    Args:
        name: `module:function` of a function without arguments that makes it.

    Raises:
        InvalidInput: There is no such module or function.
    """
    module_name, _, function = name.partition(":")
    try:
        made: InferenceModel = getattr(import_module(module_name), function)()
    except (ImportError, AttributeError, ValueError) as error:
        raise InvalidInput(
            "workload",
            f"cannot be made: {error}",
            got=name,
            allowed=f"module:function, such as {NUMPY_WORKLOAD}",
        ) from error
    return made


def __getattr__(name: str) -> object:
    """The earlier name of `InferenceModel`, until the next release."""
    if name != "Workload":
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    warnings.warn(
        f"{__name__}.Workload is called InferenceModel. The old name goes with the next release",
        DeprecationWarning,
        stacklevel=2,
    )
    return InferenceModel
