"""Workloads, nodes, allocations, snapshots and a policy."""

from collections.abc import Mapping
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any

from gpu_core.decisions.model.cluster import Allocation, Node, NodeShare, Placement, Snapshot
from gpu_core.decisions.model.workload import Shape, Workload
from gpu_core.decisions.policy.policy import Policy, parse_policy

NOW = datetime(2026, 9, 1, 12, 0, tzinfo=UTC)

CRITICAL, HIGH, MEDIUM, LOW = 1_000_000, 10_000, 1_000, 100


def ago(seconds: float) -> datetime:
    """The moment that many seconds before NOW."""
    return NOW - timedelta(seconds=seconds)


def make_workload(workload_id: str = "w", gpus: int = 1, **changes: Any) -> Workload:
    """A medium workload for `gpus` GPUs of any type, submitted a minute ago.

    Args:
        changes: Fields of the workload, and of its shape.
    """
    asked = {name: changes.pop(name) for name in Shape._fields if name in changes}
    values: dict[str, Any] = {
        "workload_id": workload_id,
        "name": workload_id,
        "priority": MEDIUM,
        "submitted_at": ago(60),
        "shape": Shape(**({"gpu_count": gpus} | asked)),
    }
    return Workload(**(values | changes))


def with_shape(workload: Workload, **changes: Any) -> Workload:
    """The workload, with these fields of its shape changed."""
    return replace(workload, shape=workload.shape._replace(**changes))


def make_node(name: str = "n1", gpus: int = 8, **changes: Any) -> Node:
    """A node with `gpus` healthy GPUs, a100-80gb unless it says otherwise."""
    values: dict[str, Any] = {
        "name": name,
        "gpu_type": "a100-80gb",
        "gpu_ids": tuple(str(i) for i in range(gpus)),
        "gpu_memory_gib": 80,
    }
    return Node(**(values | changes))


def make_allocation(
    workload: Workload,
    gpus: Mapping[str, str],
    gpu_type: str = "a100-80gb",
    capacity_type: str = "on-demand",
    **changes: Any,
) -> Allocation:
    """The workload on these GPUs (`{"n1": "0 1"}`), admitted an hour ago."""
    placement = Placement(
        gpu_type=gpu_type,
        capacity_type=capacity_type,
        shares=tuple(NodeShare(node=n, gpu_ids=tuple(ids.split())) for n, ids in gpus.items()),
    )
    values: dict[str, Any] = {
        "workload": workload,
        "attempt": 1,
        "placement": placement,
        "admitted_at": ago(3600),
    }
    return Allocation(**(values | changes))


def make_snapshot(
    nodes: tuple[Node, ...] = (),
    allocations: tuple[Allocation, ...] = (),
    pending: tuple[Workload, ...] = (),
) -> Snapshot:
    """A snapshot of these."""
    return Snapshot(nodes=nodes, allocations=allocations, pending=pending)


def make_policy(**sections: Any) -> Policy:
    """The default policy with prices of a100-80gb and t4, and these sections of `policy.yaml`."""
    prices = {
        "a100-80gb": {"on-demand": 3.6, "spot": 1.5},
        "t4": {"on-demand": 0.36, "spot": 0.1},
    }
    return parse_policy({"version": 1, "prices": prices} | sections)
