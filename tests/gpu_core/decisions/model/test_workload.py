"""A workload and the shape that it is looked up by."""

from dataclasses import fields

from gpu_core.decisions.model.workload import Shape, Workload
from gpu_core.testing.builders.workloads import make_workload, with_shape


def test_what_a_workload_asks_of_nodes_is_declared_once():
    """A second field of that name could have another value than the shape's."""
    assert {field.name for field in fields(Workload)}.isdisjoint(Shape._fields)


def test_equal_requests_have_equal_shapes():
    """So that one look-up serves thousands of waiting workloads."""
    spot = make_workload("a", 2, capacity_type="spot", team="vision")
    other = with_shape(make_workload("b", priority=1), gpu_count=2, capacity_type="spot")
    assert hash(spot.shape) == hash(other.shape)
    assert spot.shape == other.shape != make_workload("a", 2).shape
