"""What calls its base class's method is still called itself: Prefect's classes have no types."""

import ast
import inspect
import textwrap

import pytest

from gpu_core.worker.kubernetes.variables import GpuKubernetesJobConfiguration
from gpu_core.worker.kubernetes.worker import GpuKubernetesWorker
from gpu_core.worker.process.worker import GpuProcessWorker


def called_in_base_classes(cls):
    """The names of the methods that `cls` calls as `super().name`."""
    tree = ast.parse(textwrap.dedent(inspect.getsource(cls)))
    return {
        node.attr
        for node in ast.walk(tree)
        if isinstance(node, ast.Attribute)
        and isinstance(node.value, ast.Call)
        and isinstance(node.value.func, ast.Name)
        and node.value.func.id == "super"
    }


@pytest.mark.parametrize(
    "cls", [GpuKubernetesWorker, GpuProcessWorker, GpuKubernetesJobConfiguration]
)
def test_a_base_class_has_each_method_that_is_called_there(cls):
    missing = [
        f"{own.__name__}: super().{name}"
        for place, own in enumerate(cls.__mro__, start=1)
        if own.__module__.startswith("gpu_core.")
        for name in sorted(called_in_base_classes(own))
        if not any(name in vars(base) for base in cls.__mro__[place:])
    ]
    assert missing == []


def test_the_calls_are_found():
    assert "setup" in called_in_base_classes(GpuKubernetesWorker)
