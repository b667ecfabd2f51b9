"""Test tools for users: a pool in memory, a clock, a notice, a checkpoint store in memory."""

from gpu_core.testing.attempt import AttemptInTest, attempt_of_a_run
from gpu_core.testing.builders.workloads import (
    CRITICAL,
    HIGH,
    LOW,
    MEDIUM,
    NOW,
    ago,
    make_allocation,
    make_node,
    make_policy,
    make_snapshot,
    make_workload,
)
from gpu_core.testing.clock import Clock
from gpu_core.testing.memory_store import MemoryStore
from gpu_core.testing.pool import MemoryPool

__all__ = [
    "CRITICAL",
    "HIGH",
    "LOW",
    "MEDIUM",
    "NOW",
    "AttemptInTest",
    "Clock",
    "MemoryPool",
    "MemoryStore",
    "ago",
    "attempt_of_a_run",
    "make_allocation",
    "make_node",
    "make_policy",
    "make_snapshot",
    "make_workload",
]
