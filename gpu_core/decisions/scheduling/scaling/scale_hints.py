"""The nodes that should be added or removed: hints for a provisioner.

A hint names the wanted state, so it stays the same until that is reached. Up and down cannot
alternate: a node is removed only when no pending workload could use it, and added only for pending
workloads or the calendar.
"""

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta

from gpu_core.decisions.model.cluster import Allocation, Flavor, Node
from gpu_core.decisions.model.units import count, format_duration
from gpu_core.decisions.model.workload import WHOLE_GPU_MILLI, Workload
from gpu_core.decisions.policy.scale import Offer, ScalePolicy
from gpu_core.decisions.scheduling.plan.plan import ScaleDown, ScaleHint, ScaleUp, Trigger


@dataclass(frozen=True, slots=True, kw_only=True)
class ScaleState:
    """The input of scaling."""

    nodes: tuple[Node, ...]
    allocations: tuple[Allocation, ...]
    pending: tuple[Workload, ...]
    not_for_gpus: frozenset[str] = frozenset()
    """Pending workloads that more GPUs would not start, such as those over a budget."""
    kept_nodes: frozenset[str] = frozenset()
    """Nodes that the plan uses."""
    idle_since: Mapping[str, datetime] = field(default_factory=dict)
    """The start of idleness by node; a node without it is not removed."""
    scheduled_nodes: Mapping[Flavor, int] = field(default_factory=dict)
    """Nodes that the calendar asks for now."""


def scale_hints(state: ScaleState, policy: ScalePolicy, now: datetime) -> tuple[ScaleHint, ...]:
    """The nodes that should be added or removed.

    Demand counts GPUs, so a hint is a lower bound where free GPUs are fragmented; a workload that
    still waits afterwards is counted again.

    Args:
        state: Nodes, allocations and pending workloads, in queue order.
        policy: What can be provisioned, the thresholds and the cap.
        now: Aware.

    Returns:
        Ups in the order of `policy.offers`, each within what the cap leaves after those before it,
        then downs, longest idle first.
    """
    waiting = [w for w in state.pending if w.hold is None and w.shape.total_gpus > 0]
    ups = _ups(state, waiting, policy, now)
    return (*ups, *_downs(state, waiting, policy, now))


def _ups(
    state: ScaleState, waiting: Sequence[Workload], policy: ScalePolicy, now: datetime
) -> list[ScaleUp]:
    demand = _demand_by_flavor(state, waiting, policy.offers)
    gpus = sum(len(node.gpu_ids) for node in state.nodes)
    ups = []
    for offer in policy.offers:
        wanted = _wanted(state, offer, demand.get(offer.flavor, []), policy, now)
        if wanted is None:
            continue
        left_gpus = math.inf if policy.max_gpus is None else policy.max_gpus - gpus
        node_count = int(min(wanted.node_count, max(left_gpus, 0) // offer.gpus_per_node))
        if node_count == 0:
            continue
        gpus += node_count * offer.gpus_per_node
        ups.append(_up(state, offer, wanted, node_count))
    return ups


@dataclass(frozen=True, slots=True, kw_only=True)
class _Wanted:
    node_count: int
    workload_ids: tuple[str, ...]
    triggers: Mapping[Trigger, str]


def _wanted(
    state: ScaleState,
    offer: Offer,
    demand: Sequence[Workload],
    policy: ScalePolicy,
    now: datetime,
) -> _Wanted | None:
    own = [node for node in state.nodes if node.flavor == offer.flavor]
    total_milli = sum(_usable_milli(node) for node in own)
    busy_milli = _busy_milli(state.allocations, own)
    triggers = _demand_triggers(demand, busy_milli, total_milli, policy, now)
    node_count = 0
    if triggers:
        missing_milli = sum(w.shape.total_gpu_milli for w in demand) - (total_milli - busy_milli)
        node_count = math.ceil(max(missing_milli, 1) / (offer.gpus_per_node * WHOLE_GPU_MILLI))
    scheduled = state.scheduled_nodes.get(offer.flavor, 0)
    if scheduled > len(own):
        triggers[Trigger.CALENDAR] = f"the calendar requires {count(scheduled, 'node')}"
        node_count = max(node_count, scheduled - len(own))
    if not triggers:
        return None
    return _Wanted(
        node_count=node_count, workload_ids=tuple(w.workload_id for w in demand), triggers=triggers
    )


def _demand_triggers(
    demand: Sequence[Workload],
    busy_milli: int,
    total_milli: int,
    policy: ScalePolicy,
    now: datetime,
) -> dict[Trigger, str]:
    triggers: dict[Trigger, str] = {}
    if not demand:
        return triggers
    longest_s = max((now - w.submitted_at).total_seconds() for w in demand)
    if longest_s > policy.waiting_s:
        triggers[Trigger.WAITING] = f"a workload has been pending for {format_duration(longest_s)}"
    if busy_milli > policy.utilization * total_milli:
        triggers[Trigger.UTILIZATION] = f"{busy_milli / total_milli:.0%} of the GPUs are in use"
    if len(demand) > policy.queued:
        triggers[Trigger.QUEUED] = f"{count(len(demand), 'workload')} wait"
    return triggers


def _up(state: ScaleState, offer: Offer, wanted: _Wanted, node_count: int) -> ScaleUp:
    over = wanted.node_count - node_count
    capped = f"; {over} more would exceed the limit" if over else ""
    existing = sum(node.flavor == offer.flavor for node in state.nodes)
    return ScaleUp(
        flavor=offer.flavor,
        nodes=node_count,
        target_nodes=existing + node_count,
        workload_ids=wanted.workload_ids,
        triggers=tuple(wanted.triggers),
        reason=f"{', '.join(wanted.triggers.values())}{capped}",
    )


def _downs(
    state: ScaleState, waiting: Sequence[Workload], policy: ScalePolicy, now: datetime
) -> list[ScaleDown]:
    held = {share.node for a in state.allocations for share in a.placement.shares}
    longest_idle = sorted(
        (state.idle_since[node.name], node.name, node)
        for node in state.nodes
        if node.name in state.idle_since and node.name not in held | state.kept_nodes
    )
    left = _nodes_by_flavor(state.nodes)
    downs = []
    for since, name, node in longest_idle:
        is_due = now - since >= timedelta(seconds=policy.idle_s)
        is_scheduled = left[node.flavor] <= state.scheduled_nodes.get(node.flavor, 0)
        if not is_due or is_scheduled or _someone_could_use(node, waiting):
            continue
        left[node.flavor] -= 1
        idle = format_duration((now - since).total_seconds())
        reason = f"idle for {idle} and not required by any pending run"
        downs.append(ScaleDown(node=name, idle_since=since, reason=reason))
    return downs


def _demand_by_flavor(
    state: ScaleState, waiting: Sequence[Workload], offers: Sequence[Offer]
) -> dict[Flavor, list[Workload]]:
    demand: dict[Flavor, list[Workload]] = {}
    for workload in waiting:
        offer = _best_offer(workload, offers)
        if offer is not None and workload.workload_id not in state.not_for_gpus:
            demand.setdefault(offer.flavor, []).append(workload)
    return demand


def _best_offer(workload: Workload, offers: Sequence[Offer]) -> Offer | None:
    """The first suitable offer, of the type that the workload prefers."""
    suitable = [
        offer
        for offer in offers
        if _suits(workload, offer.flavor, offer.gpu_memory_gib)
        and workload.shape.gpu_count <= offer.gpus_per_node
    ]
    if not workload.shape.gpu_types:
        return suitable[0] if suitable else None
    return min(
        suitable, key=lambda o: workload.shape.gpu_types.index(o.flavor.gpu_type), default=None
    )


def _someone_could_use(node: Node, waiting: Iterable[Workload]) -> bool:
    return any(
        _suits(w, node.flavor, node.gpu_memory_gib)
        and node.taints <= w.shape.tolerations
        and all(node.labels.get(key) == value for key, value in w.shape.node_labels)
        for w in waiting
    )


def _suits(workload: Workload, flavor: Flavor, gpu_memory_gib: int | None) -> bool:
    wanted_gib = workload.shape.gpu_memory_gib
    return (
        (not workload.shape.gpu_types or flavor.gpu_type in workload.shape.gpu_types)
        and workload.shape.capacity_type in (None, flavor.capacity_type)
        and (wanted_gib is None or (gpu_memory_gib is not None and gpu_memory_gib >= wanted_gib))
    )


def _usable_milli(node: Node) -> int:
    return len(set(node.gpu_ids) - node.unhealthy_gpu_ids) * WHOLE_GPU_MILLI


def _busy_milli(allocations: Iterable[Allocation], nodes: Iterable[Node]) -> int:
    usable = {(n.name, g) for n in nodes for g in n.gpu_ids if g not in n.unhealthy_gpu_ids}
    return sum(
        share.share_milli
        for allocation in allocations
        for share in allocation.placement.shares
        for gpu_id in share.gpu_ids
        if (share.node, gpu_id) in usable
    )


def _nodes_by_flavor(nodes: Iterable[Node]) -> dict[Flavor, int]:
    counts: dict[Flavor, int] = {}
    for node in nodes:
        counts[node.flavor] = counts.get(node.flavor, 0) + 1
    return counts
