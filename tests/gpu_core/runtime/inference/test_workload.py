"""The names of the measured model's interface."""

import pytest

from gpu_core.runtime.inference import workload
from gpu_core.runtime.inference.workload import InferenceModel


def test_the_earlier_name_of_a_model_works_and_warns():
    with pytest.warns(DeprecationWarning, match="Workload is called InferenceModel"):
        assert workload.Workload is InferenceModel


def test_other_names_are_as_missing_as_before():
    with pytest.raises(AttributeError, match="has no attribute 'Model'"):
        workload.Model  # noqa: B018 - that it is missing is what is tested
