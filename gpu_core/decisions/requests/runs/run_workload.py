"""The scheduler's view of a run: its workload, and the bounds of its attempts."""

from collections.abc import Collection
from dataclasses import dataclass
from datetime import datetime, timedelta

from gpu_core.decisions.catalog.mig import MIG_PROFILES, mig_profile, mig_share_milli
from gpu_core.decisions.model.errors import InvalidInput, listed, nearest_name
from gpu_core.decisions.model.reasons import Reason
from gpu_core.decisions.model.units import format_duration
from gpu_core.decisions.model.workload import WHOLE_GPU_MILLI, Hold, Shape, Workload
from gpu_core.decisions.policy.policy import PREFECT_DEFAULT_QUEUE, Policy
from gpu_core.decisions.requests.runs.permissions import permitted
from gpu_core.decisions.requests.runs.run_tags import FIRST_TAG, held_by_tag
from gpu_core.decisions.requests.variables.job_variables import GpuRequest
from gpu_core.decisions.requests.variables.variable_values import AUTO


@dataclass(frozen=True, slots=True, kw_only=True)
class RunLimits:
    """The bounds of a run: its own constraints, else the policy's. None means no bound."""

    max_duration_s: int | None
    max_failures: int
    max_interruptions: int | None
    start_timeout_s: int | None = None
    """How long an attempt may take to begin before it can be preempted; None: it begins with its
    admission."""


def run_limits(request: GpuRequest, policy: Policy) -> RunLimits:
    """The limits of this run under this policy.

    Raises:
        InvalidInput: The run asks for a longer time than the policy allows.
    """
    wanted_s, longest_s = request.max_duration_s, policy.limits.max_duration_s
    if wanted_s is not None and longest_s is not None and wanted_s > longest_s:
        raise InvalidInput(
            "max_duration",
            "exceeds the limit in the policy",
            got=format_duration(wanted_s),
            allowed=f"at most {format_duration(longest_s)} (limits.max_duration)",
        )
    return RunLimits(
        max_duration_s=wanted_s or longest_s,
        max_failures=request.max_failures or policy.limits.max_failures,
        max_interruptions=request.max_interruptions,
        start_timeout_s=policy.kubernetes.pending_timeout_s,
    )


def workload_from_request(
    request: GpuRequest,
    *,
    workload_id: str,
    name: str,
    queue: str | None,
    submitted_at: datetime,
    policy: Policy,
    user: str | None = None,
    tags: Collection[str] = (),
    hold: Hold | None = None,
    deployment: str | None = None,
) -> Workload:
    """The workload that the scheduler sees for this run.

    Args:
        queue: The run's work queue; None: it has none and counts as in Prefect's `default`.
        submitted_at: When the run first wanted to start.
        policy: Gives the priority and what the request leaves open.
        user: Who made the run, as Prefect knows it; the job variable `user` comes before it.
        tags: The flow run's tags; those of `run_tags.py` have a meaning.
        hold: Why the run may not be considered for now. It comes before a person's hold, a request
            beyond the team's permission before both, and an unknown queue before all: the graver
            reason wins.

        deployment: The run's deployment as `FLOW/DEPLOYMENT`; None: it has none.

    Raises:
        InvalidInput: `gpu_priority` is no queue of the policy, the run asks for more GPUs than the
            policy allows, or its deadline was over when it was submitted.
    """
    _check_gpu_limit(request, policy)
    priority = _priority(request, queue, policy)
    hold = _unknown_queue(str(queue), policy) if priority is None else hold or held_by_tag(tags)
    workload = Workload(
        workload_id=workload_id,
        name=name,
        priority=priority or 0,
        submitted_at=submitted_at,
        shape=_shape(request),
        is_preemptible=request.preemptible,
        min_runtime_s=(
            policy.preemption.min_runtime_s
            if request.min_runtime_s is None
            else request.min_runtime_s
        ),
        expected_duration_s=request.expected_duration_s,
        deadline_at=_deadline_at(request, submitted_at),
        budget_micro_usd=request.budget_micro_usd,
        team=request.team,
        user=request.user or user,
        project=request.project,
        deployment=deployment,
        queue=queue,
        group=request.sweep,
        priority_override=int(FIRST_TAG in tags),
        hold=hold,
    )
    if priority is None:
        return workload
    asked_queue = request.gpu_priority or queue or PREFECT_DEFAULT_QUEUE
    return permitted(workload, policy.queue_with_points(asked_queue), policy)


def _shape(request: GpuRequest) -> Shape:
    return Shape(
        gpu_count=request.gpu_count,
        nodes=request.nodes,
        gpu_types=request.gpu_type,
        gpu_memory_gib=request.gpu_memory_gib,
        gpu_share_milli=_gpu_share_milli(request),
        mig_profile=request.mig_profile,
        capacity_type=None if request.capacity_type == AUTO else request.capacity_type,
    )


def _deadline_at(request: GpuRequest, submitted_at: datetime) -> datetime | None:
    deadline = request.deadline
    at = submitted_at + deadline if isinstance(deadline, timedelta) else deadline
    if at is not None and at <= submitted_at:
        raise InvalidInput(
            "deadline",
            "must be later than the run's submission",
            got=at.isoformat(),
            allowed=f"later than {submitted_at.isoformat(timespec='seconds')}, or a duration such "
            "as '6h' from submission",
            remedy="please submit the run again with a later deadline or without a deadline",
        )
    return at


def _gpu_share_milli(request: GpuRequest) -> int:
    """The part of each GPU; of an instance the largest that it may turn out to be."""
    if request.mig_profile is not None:
        types = request.gpu_type or MIG_PROFILES
        known = [name for name in types if mig_profile(name, request.mig_profile) is not None]
        shares = (mig_share_milli(name, request.mig_profile) for name in known)
        return max(shares, default=WHOLE_GPU_MILLI)
    if request.gpu_fraction is None:
        return WHOLE_GPU_MILLI
    return max(1, round(request.gpu_fraction * WHOLE_GPU_MILLI))


def _check_gpu_limit(request: GpuRequest, policy: Policy) -> None:
    wanted = request.gpu_count * request.nodes
    most = policy.limits.max_gpus_per_run
    if most is not None and wanted > most:
        raise InvalidInput(
            "gpu_count" if request.nodes == 1 else "gpu_count × nodes",
            "exceeds the limit in the policy",
            got=wanted,
            allowed=f"at most {most} GPUs for one run (limits.max_gpus_per_run)",
        )


def _priority(request: GpuRequest, queue: str | None, policy: Policy) -> int | None:
    if request.gpu_priority is None:
        return policy.priority_of_queue(PREFECT_DEFAULT_QUEUE if queue is None else queue)
    priority = policy.priority_of_queue(request.gpu_priority)
    if priority is None:
        raise InvalidInput(
            "gpu_priority",
            "is not a queue of the policy",
            got=request.gpu_priority,
            allowed=listed(policy.priorities),
            nearest=nearest_name(request.gpu_priority, policy.priorities),
        )
    return priority


def _unknown_queue(queue: str, policy: Policy) -> Hold:
    nearest = nearest_name(queue, policy.priorities)
    meant = f". Did you mean {nearest!r}?" if nearest else "."
    return Hold(
        reason=Reason.UNKNOWN_QUEUE,
        summary=f"Held: the policy does not define a priority for queue {queue!r}{meant}",
        resolution=f"You can add {queue!r} to the priorities in the policy or set "
        f"`gpu_priority` to one of {listed(policy.priorities)}.",
    )
