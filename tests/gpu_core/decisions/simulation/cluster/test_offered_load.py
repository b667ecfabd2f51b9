"""Requests that only come: what is allocated, worked out by hand."""

import pytest

from gpu_core.decisions.model.workload import Shape
from gpu_core.decisions.policy.placement import Strategy
from gpu_core.decisions.simulation.cluster.offered_load import (
    OfferedLoad,
    Placer,
    by_strategy,
    offer,
)
from gpu_core.testing.builders.workloads import make_node

NODES = (make_node("n1", 2), make_node("n2", 2))


@pytest.mark.parametrize(
    ("place", "want"),
    [
        pytest.param(
            # 1 to n1, 2 to n2, 1 to n1; then nothing is left for the second 2.
            by_strategy(NODES, Strategy.BEST_FIT),
            OfferedLoad(
                offered=4,
                failed=1,
                arrived_percent=150,
                allocated_at_100_percent=100,
                allocated_percent=100,
            ),
            id="best fit",
        ),
        pytest.param(
            # 1 to n1, 2 to n2 as no other has them, 1 to n1 again.
            by_strategy(NODES, Strategy.FRAGMENTATION_AWARE),
            OfferedLoad(
                offered=4,
                failed=1,
                arrived_percent=150,
                allocated_at_100_percent=100,
                allocated_percent=100,
            ),
            id="fragmentation-aware",
        ),
    ],
)
def test_what_fits_nowhere_is_lost(place: Placer, want: OfferedLoad) -> None:
    """Two nodes of 2 GPUs are asked for 1, 2, 1 and 2."""
    shapes = [Shape(gpu_count=gpus) for gpus in (1, 2, 1, 2)]
    assert offer(shapes, 4, place) == want


def test_spreading_leaves_no_whole_node() -> None:
    """1 to n1, 1 to n2, and there is no place for 2: half of what was asked for."""
    shapes = [Shape(gpu_count=gpus) for gpus in (1, 1, 2)]
    found = offer(shapes, 4, by_strategy(NODES, Strategy.SPREAD))
    assert (found.failed, found.allocated_percent) == (1, 50)


def test_less_than_the_cluster_was_asked_for() -> None:
    """Unknown is None, never 0."""
    found = offer([Shape(gpu_count=1)], 4, by_strategy(NODES, Strategy.BEST_FIT))
    assert (found.allocated_at_100_percent, found.allocated_percent) == (None, 25)
