"""Plans without the workloads that make planning fail."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from typing import TypeVar

from gpu_core.decisions.model.cluster import Allocation, Snapshot
from gpu_core.decisions.model.workload import Shape, Workload, without_request
from gpu_core.decisions.policy.policy import Policy
from gpu_core.decisions.scheduling.cycle.planner import SnapshotPlanner, plan_cycle
from gpu_core.decisions.scheduling.plan.plan import Plan

T = TypeVar("T")


@dataclass(frozen=True, slots=True, kw_only=True)
class IsolatedPlan:
    """A plan, and the workloads that are left out of it."""

    plan: Plan
    faults: tuple[tuple[Workload, Exception], ...] = ()
    """Workloads left out, each with its error. Of one that holds GPUs the allocation counts."""


def plan_apart(
    snapshot: Snapshot, policy: Policy, now: datetime, planner: SnapshotPlanner | None = None
) -> IsolatedPlan:
    """The plan for now, without the workloads that make planning fail.

    All are planned together first. If that fails, halves of the queue are tried, then halves of
    those that fail: k faulty workloads among n cost about k × log2(n) more plans.

    Args:
        snapshot: As for `plan_cycle`.
        policy: The rules and prices.
        now: Aware.
        planner: Has planned for the pool before, which makes this plan faster; None: none has.

    Raises:
        Exception: Planning fails without any workload, too.
    """
    try:
        return IsolatedPlan(plan=(planner or SnapshotPlanner()).plan(snapshot, policy, now))
    except Exception:  # any error: the other workloads are planned
        return _plan_without_faulty(snapshot, policy, now)


def _plan_without_faulty(snapshot: Snapshot, policy: Policy, now: datetime) -> IsolatedPlan:
    bare = [_bare(held) for held in snapshot.allocations]

    def with_allocations(places: Sequence[int]) -> None:
        chosen = set(places)
        mixed = [
            held if place in chosen else bare[place]
            for place, held in enumerate(snapshot.allocations)
        ]
        plan_cycle(replace(snapshot, allocations=tuple(mixed), pending=()), policy, now)

    bad_places = dict(_faulty(range(len(bare)), with_allocations))
    allocations = tuple(
        bare[place] if place in bad_places else held
        for place, held in enumerate(snapshot.allocations)
    )
    sound = replace(snapshot, allocations=allocations)

    def with_pending(chosen: Sequence[Workload]) -> None:
        plan_cycle(replace(sound, pending=tuple(chosen)), policy, now)

    bad = _faulty(snapshot.pending, with_pending)
    left_out = {workload.workload_id for workload, _ in bad}
    pending = tuple(w for w in snapshot.pending if w.workload_id not in left_out)
    of_holders = [(snapshot.allocations[place].workload, e) for place, e in bad_places.items()]
    return IsolatedPlan(
        plan=plan_cycle(replace(sound, pending=pending), policy, now),
        faults=(*of_holders, *bad),
    )


def _faulty(
    items: Sequence[T], attempt: Callable[[Sequence[T]], None]
) -> list[tuple[T, Exception]]:
    """The items that make the attempt fail, each alone, with their errors."""
    if not items:
        return []
    try:
        attempt(items)
    except Exception as error:
        if len(items) == 1:
            return [(items[0], error)]
        half = len(items) // 2
        return _faulty(items[:half], attempt) + _faulty(items[half:], attempt)
    return []


def _bare(held: Allocation) -> Allocation:
    """The same GPUs, held by a workload without other fields, which is never preempted."""
    workload, shape = held.workload, held.workload.shape
    return replace(
        held,
        workload=replace(
            without_request(workload),
            shape=Shape(
                gpu_count=shape.gpu_count,
                nodes=shape.nodes,
                gpu_share_milli=shape.gpu_share_milli,
                mig_profile=shape.mig_profile,
            ),
            is_preemptible=False,
        ),
        checkpointed_at=None,
    )
