"""A workload and the shape that it is looked up by."""

from dataclasses import MISSING, fields, replace

import pytest

from gpu_core.decisions.model.workload import Shape, Workload
from gpu_core.testing.builders.workloads import make_workload

ASKED = {
    "gpu_count": 4,
    "nodes": 2,
    "gpu_types": ("h100", "a100-80gb"),
    "gpu_memory_gib": 80,
    "capacity_type": "spot",
    "gpu_share_milli": 250,
    "mig_profile": "1g.10gb",
    "cpu_milli": 4_000,
    "memory_mib": 32_768,
    "node_labels": (("zone", "a"),),
    "tolerations": frozenset({"dedicated"}),
    "same_label": "rack",
    "avoided_nodes": frozenset({"n1"}),
    "preferred_nodes": frozenset({"n2"}),
}


@pytest.mark.parametrize("name", Shape._fields)
def test_each_field_of_a_shape_is_the_workloads_of_that_name(name):
    """With the same default: a workload that asks for nothing special has the plain shape."""
    default = next(field.default for field in fields(Workload) if field.name == name)
    assert default is not MISSING
    assert Shape._field_defaults[name] == default
    workload = replace(make_workload("a"), **{name: ASKED[name]})
    assert getattr(workload.shape, name) == ASKED[name]
    others = set(Shape._fields) - {name}
    assert all(getattr(workload.shape, each) == getattr(workload, each) for each in others)
