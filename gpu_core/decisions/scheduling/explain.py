"""Why a workload waits, in words and numbers that its owner can act on."""

from collections.abc import Sequence
from datetime import datetime

from gpu_core.decisions.cluster import Allocation, Node, Placement
from gpu_core.decisions.placement import NeverFits, NotPlaced
from gpu_core.decisions.plan import Explanation, Reason
from gpu_core.decisions.scheduling.room import ComingGpu
from gpu_core.decisions.units import count
from gpu_core.decisions.workload import Hold, Workload

_NAMES_SHOWN = 3


def starting(workload: Workload, placement: Placement) -> Explanation:
    """It was admitted in this cycle."""
    nodes = [share.node for share in placement.shares]
    on = f"on {_gpus(workload, placement.gpu_type)} of {_names(nodes)}" if nodes else "without GPUs"
    return Explanation(
        workload_id=workload.workload_id,
        reason=Reason.STARTING,
        summary=f"Starting {on}.",
        resolution="Nothing to do.",
        position=0,
        numbers={"gpus": len(placement.gpu_ids), "gpu_type": placement.gpu_type},
    )


def held(workload: Workload, hold: Hold) -> Explanation:
    """It may not be considered for now."""
    return Explanation(
        workload_id=workload.workload_id,
        reason=Reason(hold.reason),
        summary=hold.summary,
        resolution=hold.resolution,
        position=0,
    )


def previous_attempt_ending(workload: Workload) -> Explanation:
    """Its own previous attempt still holds GPUs."""
    return Explanation(
        workload_id=workload.workload_id,
        reason=Reason.PREVIOUS_ATTEMPT_ENDING,
        summary="Waiting for the last process of the previous attempt to end.",
        resolution="It starts again when that attempt has given its GPUs back.",
        position=0,
    )


def exceeds_cluster(workload: Workload, never: NeverFits) -> Explanation:
    """No state of this cluster could ever hold it."""
    return Explanation(
        workload_id=workload.workload_id,
        reason=Reason.EXCEEDS_CLUSTER,
        summary=never.summary,
        resolution=never.resolution,
        position=0,
        numbers=never.numbers,
    )


def waiting_for_victims(
    workload: Workload, position: int, awaited: Sequence[ComingGpu], now: datetime
) -> Explanation:
    """GPUs are being given back for it: whose, how many, and by when?"""
    names = sorted({coming.holder_name for coming in awaited})
    ends = [coming.at for coming in awaited if coming.at is not None]
    latest = max(ends) if len(ends) == len(awaited) else None
    by = f", at the latest at {_moment(latest, now)}" if latest else ""
    gpus = "1 GPU" if len(awaited) == 1 else f"{len(awaited)} GPUs"
    return Explanation(
        workload_id=workload.workload_id,
        reason=Reason.WAITING_FOR_VICTIMS,
        summary=f"Waiting for {_wanted(workload)}: {_names(names)} "
        f"{'is' if len(names) == 1 else 'are'} giving back {gpus}{by}.",
        resolution="It starts when those runs have saved their progress and ended.",
        position=position,
        expected_start_at=latest,
        numbers={"wanted_gpus": workload.total_gpus, "coming_gpus": len(awaited)},
    )


def min_runtime_protects(
    workload: Workload,
    position: int,
    protected: Sequence[str],
    possible_from: datetime,
    expected_start_at: datetime,
    now: datetime,
) -> Explanation:
    """The runs that it may preempt have not had their minimum run time yet."""
    return Explanation(
        workload_id=workload.workload_id,
        reason=Reason.MIN_RUNTIME_PROTECTS,
        summary=f"Waiting for {_wanted(workload)}: {_names(sorted(protected))} may be preempted "
        f"for it, but not inside the minimum run time, which lasts until "
        f"{_moment(possible_from, now)}.",
        resolution="It preempts them then, unless GPUs become free before.",
        position=position,
        expected_start_at=expected_start_at,
        numbers={
            "wanted_gpus": workload.total_gpus,
            "protected_runs": len(protected),
            "possible_from": possible_from.isoformat(),
        },
    )


def waiting_for_gpus(
    workload: Workload,
    position: int,
    room: NotPlaced,
    holders: Sequence[tuple[str, int]],
    expected_start_at: datetime | None,
) -> Explanation:
    """It is next for these GPUs, and they are in use: by whom?

    Args:
        holders: Name and number of GPUs of everyone who holds some that it could use.
    """
    facts = [_free(room, workload)]
    if room.unhealthy_gpus:
        verb = "is" if room.unhealthy_gpus == 1 else "are"
        facts.append(f"{room.unhealthy_gpus} {verb} unhealthy")
    if holders:
        facts.append(_holding(holders))
    return Explanation(
        workload_id=workload.workload_id,
        reason=Reason.WAITING_FOR_GPUS,
        summary=f"Waiting for {_wanted(workload)}: {', '.join(facts)}.",
        resolution="It starts when enough of them are free; it is first in line for them.",
        position=position,
        expected_start_at=expected_start_at,
        numbers={
            "wanted_gpus": workload.total_gpus,
            "free_gpus": room.free_gpus,
            "usable_gpus": room.usable_gpus,
            "most_free_on_one_node": room.most_free_on_one_node,
            "unhealthy_gpus": room.unhealthy_gpus,
        },
    )


def behind_others(
    workload: Workload, position: int, ahead: Sequence[str], count: int
) -> Explanation:
    """Others ahead in the line want the same GPUs.

    Args:
        ahead: The first few of them by name, in the order of the line.
        count: How many they are.
    """
    return Explanation(
        workload_id=workload.workload_id,
        reason=Reason.BEHIND_OTHERS,
        summary=f"Waiting for {_wanted(workload)} behind {_names(ahead, count)}.",
        resolution="It starts after them, or on GPUs that none of them can use.",
        position=position,
        numbers={"wanted_gpus": workload.total_gpus, "ahead": count},
    )


def holders_on(nodes: Sequence[Node], running: Sequence[Allocation]) -> list[tuple[str, int]]:
    """Who holds GPUs on these nodes, and how many? Most first."""
    names = {node.name for node in nodes}
    counts = [
        (
            allocation.workload.name,
            sum(len(s.gpu_ids) for s in allocation.placement.shares if s.node in names),
        )
        for allocation in running
    ]
    return sorted((c for c in counts if c[1]), key=lambda c: (-c[1], c[0]))


def _wanted(workload: Workload) -> str:
    if workload.nodes > 1:
        return f"{workload.nodes} nodes with {_gpus(workload)} each"
    return f"{_gpus(workload)} on one node" if workload.gpu_count > 1 else _gpus(workload)


def _gpus(workload: Workload, gpu_type: str | None = None) -> str:
    kind = gpu_type or " or ".join(workload.gpu_types)
    capacity = f" ({workload.capacity_type})" if workload.capacity_type else ""
    memory = f" with {workload.gpu_memory_gib} GiB" if workload.gpu_memory_gib else ""
    any_type = f"{count(workload.gpu_count, 'GPU')} of any type"
    return f"{f'{workload.gpu_count} × {kind}' if kind else any_type}{memory}{capacity}"


def _free(room: NotPlaced, workload: Workload) -> str:
    free = f"{room.free_gpus} of {room.usable_gpus} {'is' if room.free_gpus == 1 else 'are'} free"
    is_scattered = room.most_free_on_one_node < room.free_gpus >= workload.gpu_count
    return f"{free} ({room.most_free_on_one_node} on one node)" if is_scattered else free


def _holding(holders: Sequence[tuple[str, int]]) -> str:
    shown = [f"{name!r} holds {gpus}" for name, gpus in holders[:_NAMES_SHOWN]]
    rest = holders[_NAMES_SHOWN:]
    if rest:
        held = sum(gpus for _, gpus in rest)
        shown.append(f"{len(rest)} {'other holds' if len(rest) == 1 else 'others hold'} {held}")
    return ", ".join(shown)


def _names(names: Sequence[str], count: int | None = None) -> str:
    """`'a', 'b', 'c' and 3 others`"""
    shown = [repr(name) for name in names[:_NAMES_SHOWN]]
    others = (len(names) if count is None else count) - len(shown)
    if others:
        return f"{', '.join(shown)} and {others} other{'s' if others > 1 else ''}"
    return shown[0] if len(shown) == 1 else f"{', '.join(shown[:-1])} and {shown[-1]}"


def _moment(moment: datetime, now: datetime) -> str:
    day = "" if moment.date() == now.date() else f"{moment:%Y-%m-%d} "
    return f"{day}{moment:%H:%M:%S} UTC"
