"""The expected mix of requests, rounded so that it seldom changes."""

from collections import Counter
from collections.abc import Mapping

from gpu_core.decisions.model.workload import Shape

_SHAPES = 512
"""Rarer shapes are left out; the bound is high, as rare shapes may be many together."""


def rounded_mix(counts: Mapping[Shape, int]) -> dict[Shape, int]:
    """How often is each shape requested, roughly?

    Counts are rounded down to two binary digits (4, 6, 8, 12, ...), and only the most frequent
    shapes count: a new mix costs as much as some hundred placements.

    Args:
        counts: How often each shape is requested.
    """
    # Avoided and preferred nodes of a workload say nothing about future requests.
    merged: Counter[Shape] = Counter()
    for shape, count in counts.items():
        plain = shape._replace(avoided_nodes=frozenset(), preferred_nodes=frozenset())
        merged[plain] += count
    asked = [(shape, count) for shape, count in merged.items() if count > 0]
    asked.sort(key=lambda item: (-item[1], _sortable(item[0])))
    return {shape: _rounded(count) for shape, count in asked[:_SHAPES]}


def _rounded(count: int) -> int:
    dropped = max(0, count.bit_length() - 2)
    return count >> dropped << dropped


def _sortable(shape: Shape) -> str:
    """An order of shapes that is the same in every process."""
    return f"{shape._replace(tolerations=frozenset())} {sorted(shape.tolerations)}"
