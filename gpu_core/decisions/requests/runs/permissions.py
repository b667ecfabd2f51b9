"""Is a run permitted what it asks for?"""

from collections.abc import Iterator, Sequence
from dataclasses import replace

from gpu_core.decisions.model.errors import listed
from gpu_core.decisions.model.reasons import Reason
from gpu_core.decisions.model.units import format_duration, format_usd
from gpu_core.decisions.model.workload import Hold, Workload
from gpu_core.decisions.policy.permissions import Permission
from gpu_core.decisions.policy.policy import Policy
from gpu_core.decisions.requests.runs.run_tags import FIRST_TAG


def permitted(workload: Workload, priority_queue: str | None, policy: Policy) -> Workload:
    """The workload within its team's permission, or held if it asks for more.

    What it leaves open is set to what is permitted: its GPU types and its budget.

    Args:
        priority_queue: The queue whose priority it has; None: the policy knows no such queue.
    """
    permission = policy.permissions.of(workload.team)
    excess = [*_excess(workload, priority_queue, permission, policy.preemption.min_runtime_s)]
    open_types = tuple(permission.gpu_types or ()) if workload.shape.gpu_count else ()
    within = replace(
        workload,
        shape=workload.shape._replace(gpu_types=workload.shape.gpu_types or open_types),
        budget_micro_usd=(
            permission.max_budget_micro_usd
            if workload.budget_micro_usd is None
            else workload.budget_micro_usd
        ),
    )
    # One that is held may run already, and keeps its budget.
    return replace(within, hold=not_permitted(workload.team, excess, policy)) if excess else within


def _excess(
    workload: Workload, priority_queue: str | None, permission: Permission, min_runtime_s: int
) -> Iterator[str]:
    """The requests of the run beyond its permission, each as the end of "may not"."""
    queues = permission.queues
    if queues is not None and priority_queue is not None and priority_queue not in queues:
        yield f"have the priority of the queue {priority_queue!r} (allowed: {listed(queues)})"
    if not permission.non_preemptible and not workload.is_preemptible:
        yield "set preemptible to false"
    if not permission.non_preemptible and workload.min_runtime_s > min_runtime_s:
        yield (
            f"set min_runtime to {format_duration(workload.min_runtime_s)} (at most "
            f"{format_duration(min_runtime_s)})"
        )
    if not permission.move_up and workload.priority_override:
        yield f"move to the front of the queue with the tag {FIRST_TAG!r}"
    most_gpus = permission.max_gpus_per_run
    if most_gpus is not None and workload.shape.total_gpus > most_gpus:
        yield f"use {workload.shape.total_gpus} GPUs (at most {most_gpus})"
    budget, most_budget = workload.budget_micro_usd, permission.max_budget_micro_usd
    if budget is not None and most_budget is not None and budget > most_budget:
        yield f"have a budget of {format_usd(budget)} (at most {format_usd(most_budget)})"
    if permission.gpu_types is not None:
        others = {*workload.shape.gpu_types} - {*permission.gpu_types}
        if others:
            yield f"use {listed(others)} (allowed: {listed(permission.gpu_types)})"


def not_permitted(team: str | None, excess: Sequence[str], policy: Policy) -> Hold:
    """The hold of a run that asks for more than the policy permits its team.

    Args:
        excess: What it asks for beyond, each as the end of "may not".
    """
    is_listed = team in policy.permissions.teams
    who = "a run without a team" if team is None else f"a run of team {team!r}"
    section = f"permissions.teams.{team}" if is_listed else "permissions.default"
    return Hold(
        reason=Reason.NOT_PERMITTED,
        summary=f"Held: {who} is not permitted to {', or to '.join(excess)}.",
        resolution=(
            f"Please submit the run again within these limits or change {section} in the policy."
        ),
    )
