"""Hypothesis strategies for the values that the decisions take."""

import random
from dataclasses import replace
from datetime import datetime
from typing import Any

from hypothesis import strategies as st

from gpu_core.decisions.model.cluster import Allocation, Node, Snapshot
from gpu_core.decisions.model.workload import Workload
from gpu_core.decisions.scheduling.plan.plan import Admit, Plan, Preempt
from gpu_core.testing.builders.workloads import (
    CRITICAL,
    HIGH,
    LOW,
    MEDIUM,
    ago,
    make_allocation,
    make_node,
    make_snapshot,
    make_workload,
    with_shape,
)


def apply(snapshot: Snapshot, plan: Plan, now: datetime) -> Snapshot:
    """The snapshot after the plan: who was admitted holds GPUs, victims have left and wait."""
    pending = {w.workload_id: w for w in snapshot.pending}
    running = {a.workload.workload_id: a for a in snapshot.allocations}
    for command in plan.commands:
        match command:
            case Preempt(workload_id=victim_id):
                pending[victim_id] = running.pop(victim_id).workload
            case Admit(workload_id=workload_id, placement=placement):
                running[workload_id] = Allocation(
                    workload=pending.pop(workload_id),
                    attempt=1,
                    placement=placement,
                    admitted_at=now,
                )
    return replace(snapshot, pending=tuple(pending.values()), allocations=tuple(running.values()))


def shuffled(snapshot: Snapshot, seed: int) -> Snapshot:
    """The same snapshot with its tuples in another order."""
    rng = random.Random(seed)

    def shuffle(items: tuple[Any, ...]) -> tuple[Any, ...]:
        return tuple(rng.sample(items, len(items)))

    return Snapshot(
        nodes=shuffle(snapshot.nodes),
        allocations=shuffle(snapshot.allocations),
        pending=shuffle(snapshot.pending),
    )


gpu_types = st.sampled_from(["a100-80gb", "t4"])
priorities = st.sampled_from([LOW, MEDIUM, HIGH])
ages_s = st.integers(0, 5).map(lambda n: n * 50)


@st.composite
def nodes(draw: st.DrawFn, name: str) -> Node:
    """A small node, now and then with unhealthy GPUs or unknown memory."""
    node = make_node(
        name,
        draw(st.integers(0, 4)),
        gpu_type=draw(gpu_types),
        gpu_memory_gib=draw(st.sampled_from([None, 16, 80])),
        capacity_type=draw(st.sampled_from(["on-demand", "on-demand", "spot"])),
    )
    sick = draw(st.sets(st.sampled_from(node.gpu_ids), max_size=1)) if node.gpu_ids else set()
    return replace(node, unhealthy_gpu_ids=frozenset(sick))


@st.composite
def workloads(draw: st.DrawFn, workload_id: str) -> Workload:
    """A workload of any shape that a small cluster may or may not hold."""
    return make_workload(
        workload_id,
        draw(st.integers(0, 4)),
        nodes=draw(st.sampled_from([1, 1, 1, 2])),
        priority=draw(priorities),
        submitted_at=ago(draw(ages_s)),
        gpu_types=draw(st.sampled_from([(), (), ("t4",), ("a100-80gb", "t4")])),
        gpu_memory_gib=draw(st.sampled_from([None, None, 40])),
        capacity_type=draw(st.sampled_from([None, None, None, "spot"])),
        is_preemptible=draw(st.sampled_from([True, True, True, False])),
        min_runtime_s=draw(st.sampled_from([0, 0, 100])),
        expected_duration_s=draw(st.sampled_from([None, 60, 600])),
    )


@st.composite
def snapshots(draw: st.DrawFn) -> Snapshot:
    """A small cluster with some of its GPUs held, also by gangs, and a line of workloads."""
    machines = [draw(nodes(f"n{i}")) for i in range(draw(st.integers(0, 3)))]
    free = {node.name: list(node.gpu_ids) for node in machines}
    allocations = []
    for i in range(draw(st.integers(0, 6))):
        available = [node for node in machines if free[node.name]]
        if not available:
            break
        allocations.append(draw(_allocation(f"r{i}", available, free)))
    pending = [draw(workloads(f"p{i}")) for i in range(draw(st.integers(0, 6)))]
    return make_snapshot(tuple(machines), tuple(allocations), tuple(pending))


@st.composite
def _allocation(
    draw: st.DrawFn, workload_id: str, available: list[Node], free: dict[str, list[str]]
) -> Allocation:
    first = draw(st.sampled_from(available))
    alike = [n for n in available if n.gpu_type == first.gpu_type]
    alike = [n for n in alike if n.capacity_type == first.capacity_type]
    members = alike[:2] if draw(st.booleans()) else [first]
    gpus = draw(st.integers(1, min(len(free[n.name]) for n in members)))
    taken = {n.name: " ".join(free[n.name][:gpus]) for n in members}
    for node in members:
        del free[node.name][:gpus]
    workload = with_shape(draw(workloads(workload_id)), gpu_count=gpus, nodes=len(members))
    is_draining = draw(st.sampled_from([False, False, False, True]))
    return make_allocation(
        workload,
        taken,
        first.gpu_type,
        first.capacity_type,
        admitted_at=ago(draw(ages_s)),
        checkpointed_at=draw(st.one_of(st.none(), ages_s.map(ago))),
        is_draining=is_draining,
        drain_deadline_at=ago(-20) if is_draining else None,
    )


@st.composite
def contests(draw: st.DrawFn, nodes_wanted: int | None = None) -> Snapshot:
    """Two nodes full of less urgent workloads, gangs among them, and one that wants in.

    Args:
        nodes_wanted: How many nodes the urgent one wants; None: one or two.
    """
    machines = tuple(
        make_node(name, 4, gpu_type=draw(gpu_types), capacity_type="on-demand") for name in "ab"
    )
    free = {node.name: list(node.gpu_ids) for node in machines}
    allocations = []
    while available := [node for node in machines if free[node.name]]:
        allocations.append(draw(_allocation(f"r{len(allocations)}", available, free)))
    wanted = make_workload(
        "w",
        draw(st.integers(1, 4)),
        nodes=nodes_wanted or draw(st.integers(1, 2)),
        priority=CRITICAL,
    )
    return make_snapshot(machines, tuple(allocations), (wanted,))
