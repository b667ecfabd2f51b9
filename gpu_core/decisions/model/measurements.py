"""Measurements of the last minutes, as far as plans may read them."""

from collections.abc import Mapping
from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeLoad:
    """The load of the GPUs of one node."""

    load_ratio: float
    """The mean over its GPUs of the larger of utilization and used memory, 0 to 1."""
    held_milli: int
    """Thousandths of its GPUs that were held while this was measured. What is held beyond that
    came later, and counts as loaded in full."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Measurements:
    """The mean of the last minutes, 0 to 1. What is not here is planned without a measurement."""

    loads: Mapping[str, NodeLoad] = field(default_factory=dict)
    """By node; read for nodes with shared GPUs under the strategy `least-loaded`."""
    utilization: Mapping[str, float] = field(default_factory=dict)
    """The utilization of a workload's GPUs, by workload; read where victims are chosen."""
