"""Explanations why a workload waits, with numbers that its owner can act on."""

from collections.abc import Collection, Sequence
from dataclasses import replace
from datetime import UTC, datetime

from gpu_core.decisions.model.cluster import Allocation, Node, Placement
from gpu_core.decisions.model.errors import ended
from gpu_core.decisions.model.reasons import Explanation, Reason
from gpu_core.decisions.model.units import count
from gpu_core.decisions.model.workload import Hold, Workload
from gpu_core.decisions.placement.diagnostics import NeverFits, NotPlaced
from gpu_core.decisions.policy.scale import ScalePolicy
from gpu_core.decisions.scheduling.plan.decision import Explain
from gpu_core.decisions.scheduling.plan.wording import (
    NAMES_SHOWN,
    instant,
    moment_text,
    names_text,
    wanted_gpus_text,
    wanted_text,
)

_CHOICES = (
    ("gpu_types", "GPU types"),
    ("capacity", "Capacity"),
    ("memory", "Memory"),
    ("micro_batch", "Micro-batch"),
)
"""What is chosen for a workload: its name among the numbers, and in the summary."""
_AFTER_THAT_RUN = (
    "The run can start after that run, or on GPUs that do not meet that run's requirements."
)
_AFTER_THOSE_RUNS = (
    "The run can start after those runs, or on GPUs that do not meet their requirements."
)
_NO_REASONS = (None,) * len(_CHOICES)


def starting(workload: Workload, placement: Placement, position: int = 0) -> Explanation:
    """It was admitted in this cycle."""
    nodes = [share.node for share in placement.shares]
    on = (
        f"on {wanted_gpus_text(workload, placement.gpu_type)} of {names_text(nodes)}"
        if nodes
        else "without GPUs"
    )
    return Explanation(
        workload_id=workload.workload_id,
        reason=Reason.STARTING,
        summary=f"Starting {on}.",
        resolution="No action is needed.",
        position=position,
        numbers={"gpus": len(placement.gpu_ids), "gpu_type": placement.gpu_type},
    )


def held(workload: Workload, hold: Hold, position: int = 0) -> Explanation:
    """It may not be considered for now."""
    return Explanation(
        workload_id=workload.workload_id,
        reason=Reason(hold.reason),
        summary=hold.summary,
        resolution=hold.resolution,
        position=position,
    )


def with_choices(explanation: Explanation, workload: Workload) -> Explanation:
    """The explanation with the reason for the chosen GPU types, capacity and memory, if any."""
    reasons = (
        workload.gpu_type_reason,
        workload.capacity_reason,
        workload.memory_reason,
        workload.micro_batch_reason,
    )
    if reasons == _NO_REASONS:
        return explanation
    for (name, word), why in zip(_CHOICES, reasons, strict=True):
        if why is not None:
            explanation = replace(
                explanation,
                summary=ended(f"{explanation.summary} {word}: {why}"),
                numbers={**explanation.numbers, name: why},
            )
    return explanation


def previous_attempt_ending(workload: Workload, position: int = 0) -> Explanation:
    """Its own previous attempt still holds GPUs."""
    return Explanation(
        workload_id=workload.workload_id,
        reason=Reason.PREVIOUS_ATTEMPT_ENDING,
        summary="Waiting for the previous attempt's last process to exit.",
        resolution="The run can start once the previous attempt's GPUs are released.",
        position=position,
    )


def exceeds_cluster(workload: Workload, never: NeverFits, position: int = 0) -> Explanation:
    """No state of this cluster could ever hold it."""
    return Explanation(
        workload_id=workload.workload_id,
        reason=Reason.EXCEEDS_CLUSTER,
        summary=never.summary,
        resolution=never.resolution,
        position=position,
        numbers=never.numbers,
    )


def exceeds_max_gpus(workload: Workload, policy: ScalePolicy, position: int = 0) -> Explanation:
    """New nodes could hold it, and the pool would have too many GPUs with them."""
    return Explanation(
        workload_id=workload.workload_id,
        reason=Reason.WAITING_FOR_GPUS,
        summary=f"Waiting for {wanted_text(workload)}: adding nodes would exceed "
        f"`scale.max_gpus` ({policy.max_gpus}).",
        resolution="The run can start once other nodes are removed or `scale.max_gpus` is "
        "increased.",
        position=position,
        numbers={"wanted_gpus": workload.shape.total_gpus, "max_gpus": policy.max_gpus},
    )


def capacity_closed(workload: Workload, position: int) -> Explanation:
    """Free GPUs are closed by the calendar before it would have ended."""
    return Explanation(
        workload_id=workload.workload_id,
        reason=Reason.CAPACITY_CLOSED,
        summary=f"Waiting for {wanted_text(workload)}: the free GPUs enter maintenance or "
        "an advance reservation before this run ends.",
        resolution="The run can start afterwards or on other GPUs. You can set a shorter "
        "`expected_duration` to start earlier.",
        position=position,
        numbers={"wanted_gpus": workload.shape.total_gpus},
    )


def with_unfinished_search(workload: Workload, explain: Explain, position: int) -> Explanation:
    """The explanation, where the search for victims has reached its work limit."""
    explanation = explain(workload, position=position)
    return replace(
        explanation,
        resolution=f"{explanation.resolution} No preemption candidates were found before "
        "the search limit of the cycle was reached, but some may exist.",
        numbers={**explanation.numbers, "preemption": "not found"},
    )


def backfill_would_delay(workload: Workload, position: int) -> Explanation:
    """GPUs are free, but reserved for a workload ahead before it would end."""
    known = workload.run_time is not None or workload.expected_duration_s is not None
    end = "would finish after that run's start" if known else "has an unknown duration"
    return Explanation(
        workload_id=workload.workload_id,
        reason=Reason.RESERVED_AHEAD,
        summary=f"Waiting for {wanted_text(workload)}: the free GPUs are reserved for a run "
        f"ahead and this run {end}.",
        resolution="The run can start after the run ahead. You can set a shorter "
        "`expected_duration` to allow backfilling.",
        position=position,
        numbers={"wanted_gpus": workload.shape.total_gpus},
    )


def spare_is_left(workload: Workload, position: int, spare: int) -> Explanation:
    """GPUs are free, but the policy leaves them to runs of the highest priority."""
    return Explanation(
        workload_id=workload.workload_id,
        reason=Reason.RESERVED_AHEAD,
        summary=f"Waiting for {wanted_text(workload)}: the policy reserves {spare} of the "
        "free GPUs for runs with the highest priority.",
        resolution="The run can start once more GPUs are free or `preemption.spare_gpus` is "
        "reduced.",
        position=position,
        numbers={"wanted_gpus": workload.shape.total_gpus, "spare_gpus": spare},
    )


def waiting_for_victims(
    workload: Workload,
    awaited: Sequence[tuple[str, int]],
    latest_s: float | None,
    now_s: float,
    position: int,
    *,
    is_certain: bool = True,
) -> Explanation:
    """The explanation of a run for which workloads drain: which, how many GPUs, and by when.

    Args:
        awaited: Name and number of GPUs of everyone who gives some back.
        latest_s: When all are free at the latest; None: unknown.
        is_certain: No run ahead may take them first.
    """
    names = sorted(name for name, _ in awaited)
    coming = sum(gpus for _, gpus in awaited)
    latest = instant(latest_s)
    by = f" by {moment_text(latest, now_s)}" if latest else ""
    if latest_s is not None and latest_s < now_s:
        # A promise in the past is none: its process does not end, for example on a lost node.
        latest, by = (
            None,
            f", overdue since {moment_text(datetime.fromtimestamp(latest_s, UTC), now_s)}",
        )
    return Explanation(
        workload_id=workload.workload_id,
        reason=Reason.WAITING_FOR_VICTIMS,
        summary=f"Waiting for {wanted_text(workload)}: {names_text(names)} "
        f"{'is' if len(names) == 1 else 'are'} releasing {count(coming, 'GPU')}{by}.",
        resolution=f"The run can start once {_those(names)} saved a checkpoint and stopped."
        if is_certain
        else f"The run can start once {_those(names)} stopped, unless the GPUs are required "
        "by a run ahead.",
        position=position,
        expected_start_at=latest if is_certain else None,
        numbers={"wanted_gpus": workload.shape.total_gpus, "coming_gpus": coming},
    )


def _those(names: Sequence[str]) -> str:
    return "that run has" if len(names) == 1 else "those runs have"


def _their(names: Sequence[str]) -> str:
    return "its" if len(names) == 1 else "their"


def min_runtime_protects(
    workload: Workload,
    protected: Sequence[str],
    starting: int,
    repaying: int,
    possible_from_s: float,
    starts_s: float | None,
    now_s: float,
    position: int,
) -> Explanation:
    """The runs that it may preempt start, are within their minimum run time, or repay preemptions.

    Args:
        protected: Their names.
        starting: How many of them start.
        repaying: How many have worked for a shorter time than their preemptions have cost.
        starts_s: When it starts, if no GPUs are released before; None: no nodes are kept for it.
    """
    possible_from = datetime.fromtimestamp(possible_from_s, UTC)
    until = moment_text(possible_from, now_s)
    if starting == len(protected) == 1:
        why = f"that run is protected while it is starting, until {until} at the latest"
    elif starting == len(protected):
        why = f"those runs are protected while they are starting, until {until} at the latest"
    else:
        parts = {
            "while they are starting": starting,
            "within the minimum run time": len(protected) - starting - repaying,
            "before they have recovered the time lost to preemption": repaying,
        }
        why = f"not {' or '.join(part for part, runs in parts.items() if runs)}, until {until}"
        if repaying == len(protected) == 1:
            why = f"not before the run has recovered the time lost to preemption, until {until}"
    return Explanation(
        workload_id=workload.workload_id,
        reason=Reason.MIN_RUNTIME_PROTECTS,
        summary=f"Waiting for {wanted_text(workload)}: {names_text(protected)} can be preempted, "
        f"but {why}.",
        resolution="The run will then preempt "
        f"{'that run' if len(protected) == 1 else 'them'} unless enough GPUs "
        "become available earlier.",
        position=position,
        expected_start_at=instant(starts_s),
        numbers={
            "wanted_gpus": workload.shape.total_gpus,
            "protected_runs": len(protected),
            "starting_runs": starting,
            "repaying_runs": repaying,
            "possible_from": possible_from.isoformat(),
        },
    )


# Of nodes with a held GPU.
_MOST_NAMED = 2


def _withheld(nodes: Sequence[Node]) -> list[str]:
    """The GPUs of nodes with a held one: whose, and why."""
    named = [
        f"{count(len(node.gpu_ids), 'GPU')} of {node.name} withheld because the held GPU "
        f"might be assigned to a pod on that node ({node.machine.why_held})"
        for node in nodes[:_MOST_NAMED]
        if node.machine is not None
    ]
    more = len(nodes) - _MOST_NAMED
    return [*named, f"and also the GPUs of {count(more, 'more node')}"] if more > 0 else named


def _what_frees(withheld: Sequence[Node], *, needs_repair: bool) -> str:
    helps = [
        f" {node.name}: {node.machine.held_until}."
        for node in withheld[:_MOST_NAMED]
        if node.machine is not None
    ]
    if not needs_repair:
        first = (
            "No run ahead in the queue requires these GPUs. The run can start once enough "
            "GPUs are available."
        )
    elif withheld:
        first = (
            "Insufficient usable GPUs. The run can start once the held GPUs are freed, "
            "withdrawn or replaced."
        )
    else:
        first = (
            "Insufficient usable GPUs. The run can start once GPUs are repaired, replaced "
            "or released by other processes."
        )
    return first + "".join(helps)


def waiting_for_gpus(
    workload: Workload,
    not_placed: NotPlaced,
    holders: Sequence[tuple[str, int]],
    starts_s: float | None,
    position: int,
    *,
    needs_repair: bool = False,
) -> Explanation:
    """The explanation of the next run for GPUs that are in use, with the runs that hold them.

    Args:
        holders: Name and number of GPUs of everyone who holds some that it could use.
        starts_s: When it starts if all end when they are thought to; None: unknown.
    """
    parts = [_free(not_placed, workload)]
    unhealthy = not_placed.unhealthy_gpus - sum(len(n.gpu_ids) for n in not_placed.withheld)
    if unhealthy:
        verb = "is" if unhealthy == 1 else "are"
        parts.append(f"{unhealthy} {verb} unhealthy or in use by other workloads")
    parts += _withheld(not_placed.withheld)
    if not_placed.avoided_free_gpus:
        parts.append(_avoided(not_placed.avoided_free_gpus, workload))
    if holders:
        parts.append(_holding(holders))
    return Explanation(
        workload_id=workload.workload_id,
        reason=Reason.WAITING_FOR_GPUS,
        summary=f"Waiting for {wanted_text(workload)}: {', '.join(parts)}.",
        resolution=_what_frees(not_placed.withheld, needs_repair=needs_repair),
        position=position,
        expected_start_at=instant(starts_s),
        numbers={
            "wanted_gpus": workload.shape.total_gpus,
            "free_gpus": not_placed.free_gpus,
            "usable_gpus": not_placed.usable_gpus,
            "most_free_on_one_node": not_placed.most_free_on_one_node,
            "unhealthy_gpus": not_placed.unhealthy_gpus,
            "avoided_free_gpus": not_placed.avoided_free_gpus,
            **_avoided_until(workload),
        },
    )


def _avoided(gpus: int, workload: Workload) -> str:
    """The GPUs of nodes that it avoids for some time, for `Reason.WAITING_FOR_GPUS`."""
    until = workload.avoided_until
    text = f"{gpus} free on nodes where this run recently failed"
    return text if until is None else f"{text}, excluded until {until:%H:%M:%S} UTC"


def _avoided_until(workload: Workload) -> dict[str, str]:
    until = workload.avoided_until
    return {} if until is None else {"avoided_until": until.isoformat()}


class BehindOthers:
    """Others ahead in the queue need the same GPUs: the words that thousands have in common.

    Args:
        workload: One of those that wait; they have one shape.
        ahead: The first few of those ahead by name, in queue order.
    """

    __slots__ = ("_ahead", "_wanted", "_wanted_gpus")

    def __init__(self, workload: Workload, ahead: Sequence[str]) -> None:
        self._ahead = ahead
        self._wanted = wanted_text(workload)
        self._wanted_gpus = workload.shape.total_gpus

    def explanation(
        self, workload_id: str, ahead_count: int, decided_by: str, position: int
    ) -> Explanation:
        """The explanation of one of them.

        Args:
            workload_id: Which one.
            ahead_count: How many are ahead of it.
            decided_by: The key of the order in which the first of them is ahead.
            position: Its position in the queue.
        """
        return Explanation(
            workload_id=workload_id,
            reason=Reason.BEHIND_OTHERS,
            summary=f"Waiting for {self._wanted} behind {names_text(self._ahead, ahead_count)}.",
            resolution=_AFTER_THAT_RUN if ahead_count == 1 else _AFTER_THOSE_RUNS,
            position=position,
            numbers={
                "wanted_gpus": self._wanted_gpus,
                "ahead": ahead_count,
                "ahead_by": decided_by,
            },
        )


def holders_on(names: Collection[str], running: Sequence[Allocation]) -> list[tuple[str, int]]:
    """The workloads that hold GPUs on these nodes, with their numbers of GPUs. Most first."""
    counts = [
        (
            allocation.workload.name,
            sum(len(s.gpu_ids) for s in allocation.placement.shares if s.node in names),
        )
        for allocation in running
    ]
    return sorted((c for c in counts if c[1]), key=lambda c: (-c[1], c[0]))


def _free(not_placed: NotPlaced, workload: Workload) -> str:
    verb = "is" if not_placed.free_gpus == 1 else "are"
    free = f"{not_placed.free_gpus} of {not_placed.usable_gpus} {verb} free"
    is_scattered = (
        not_placed.most_free_on_one_node < not_placed.free_gpus >= workload.shape.gpu_count
    )
    return f"{free} ({not_placed.most_free_on_one_node} on one node)" if is_scattered else free


def _holding(holders: Sequence[tuple[str, int]]) -> str:
    shown = [f"{name!r} holds {gpus}" for name, gpus in holders[:NAMES_SHOWN]]
    rest = holders[NAMES_SHOWN:]
    if rest:
        held = sum(gpus for _, gpus in rest)
        shown.append(f"{len(rest)} {'other holds' if len(rest) == 1 else 'others hold'} {held}")
    return ", ".join(shown)
