"""Does a run use the GPUs that it holds? States from several signals, not one threshold.

Of 143 serving pods of a public trace with a mean duty of 7% (Alibaba cluster-trace-v2026-GenAI),
"at most 1% for 30 minutes" flags 129, though each of them works. So a single signal is never
enough, and a run that serves requests or a person is judged by its use, where it reports that.
"""

from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime, timedelta
from enum import StrEnum

from gpu_core.decisions.model.units import count, format_duration
from gpu_core.decisions.policy.idle import IdlePolicy
from gpu_core.decisions.telemetry.activity import LONGEST_GAP, GpuActivity, RunActivity, Signal
from gpu_core.decisions.telemetry.use_text import format_ratio

ON_REQUEST = frozenset({"inference", "interactive"})
"""Workload types that wait for requests or a person by design."""

_GIB = 1024**3


class IdleState(StrEnum):
    """The way in which a run uses its GPUs. A stable contract: metrics and alerts match on it."""

    WORKING = "working"
    STALLED = "stalled"
    """Its GPUs wait for data, a barrier or the processor, or have been quiet for a short time."""
    BETWEEN_REQUESTS = "between-requests"
    """It waits for requests or a person, as its workload type does by design."""
    NEVER_TOUCHED = "never-touched"
    """No process of it has computed on its GPUs or taken memory of them."""
    FINISHED = "finished-but-holding"
    """It has used its GPUs, and has not done anything for long."""


_NAMES = {
    IdleState.WORKING: "Working",
    IdleState.STALLED: "Its GPUs wait",
    IdleState.BETWEEN_REQUESTS: "Between requests",
    IdleState.NEVER_TOUCHED: "Never touched its GPUs",
    IdleState.FINISHED: "Finished, but holding its GPUs",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class RunUse:
    """The report of a run on itself. None: it does not say."""

    progressed_at: datetime | None = None
    """Its last step or save."""
    used_at: datetime | None = None
    """The last request, or action in a kernel or terminal."""


@dataclass(frozen=True, slots=True, kw_only=True)
class IdleFinding:
    """The use of a run's GPUs."""

    state: IdleState
    is_idle: bool
    """It has been quiet for longer than the policy allows its workload type."""
    since: datetime | None
    """Since when it is quiet; None: it is not."""
    text: str
    """One sentence that names each signal."""
    unused_gpu_ids: tuple[str, ...] = ()
    """GPUs that were never touched, of a run that uses others."""


def idle_state(
    activity: RunActivity,
    use: RunUse,
    workload_type: str | None,
    policy: IdlePolicy,
    now: datetime,
) -> IdleFinding:
    """The state of a run's use of its GPUs.

    Args:
        activity: What its GPUs and processes did.
        use: What it reports of itself. A moment in the future counts as activity.
        workload_type: Its own, as its job variables say; None: not stated.
        policy: How long it may be quiet.
        now: Aware.
    """
    if not -LONGEST_GAP <= now - activity.at <= LONGEST_GAP or not activity.gpus:
        return _active(activity, use, now, "samples are delayed, so the run is considered active")
    moments = [gpu.quiet_since for gpu in activity.gpus]
    known = [moment for moment in moments if moment is not None]
    if len(known) < len(moments):
        return _active(activity, use, now)
    since = max(known)
    if activity.is_host_known:
        host_since = activity.host_quiet_since
        if host_since is None:
            return _finding(activity, use, now, IdleState.STALLED, since)
        since = max(since, host_since)
    since = _last_of(since, use.progressed_at, use.used_at)
    return _quiet(activity, use, workload_type, policy, since, now)


def _quiet(
    activity: RunActivity,
    use: RunUse,
    workload_type: str | None,
    policy: IdlePolicy,
    since: datetime,
    now: datetime,
) -> IdleFinding:
    """The finding for signals that are all quiet since then: whether that is long enough."""
    is_on_request = workload_type in ON_REQUEST
    if is_on_request and use.used_at is None:
        return _finding(
            *(activity, use, now, IdleState.BETWEEN_REQUESTS, since),
            note="usage is unknown, so the run is considered active",
        )
    judged_from = max(since, activity.began_at + timedelta(seconds=policy.grace_s))
    limit = timedelta(seconds=policy.quiet_limit_s(workload_type))
    is_idle = now - judged_from >= limit
    if not any(gpu.was_touched for gpu in activity.gpus):
        state = IdleState.NEVER_TOUCHED
    elif is_idle:
        state = IdleState.FINISHED
    else:
        state = IdleState.BETWEEN_REQUESTS if is_on_request else IdleState.STALLED
    return _finding(activity, use, now, state, since, is_idle=is_idle)


def is_under_used(mean_ratio: float | None, policy: IdlePolicy) -> bool:
    """Is this mean utilization to be reported as under-used? Not where it is unknown."""
    return mean_ratio is not None and mean_ratio < policy.under_used_below


def _last_of(first: datetime, *others: datetime | None) -> datetime:
    return max((first, *(moment for moment in others if moment is not None)))


def _active(
    activity: RunActivity, use: RunUse, now: datetime, note: str | None = None
) -> IdleFinding:
    return _finding(activity, use, now, IdleState.WORKING, None, note=note)


def _finding(
    activity: RunActivity,
    use: RunUse,
    now: datetime,
    state: IdleState,
    since: datetime | None,
    *,
    is_idle: bool = False,
    note: str | None = None,
) -> IdleFinding:
    untouched = tuple(gpu.gpu_id for gpu in activity.gpus if not gpu.was_touched)
    head = _NAMES[state]
    if since is not None and now > since:
        head = f"{head} for {format_duration((now - since).total_seconds())}"
    parts = [*_signals(activity, use, now), *([note] if note else [])]
    return IdleFinding(
        state=state,
        is_idle=is_idle,
        since=since,
        text=f"{head}: {', '.join(parts)}.",
        unused_gpu_ids=untouched if len(untouched) < len(activity.gpus) else (),
    )


def _signals(activity: RunActivity, use: RunUse, now: datetime) -> list[str]:
    """Each signal with its last value."""
    gpus = activity.gpus
    parts = [f"utilization {_ratios(gpus, lambda gpu: gpu.utilization)}"]
    if any(gpu.sm_active.is_known for gpu in gpus):
        parts.append(f"SM activity {_ratios(gpus, lambda gpu: gpu.sm_active)}")
    if any(gpu.power.is_known for gpu in gpus):
        parts.append(f"power {_ratios(gpus, lambda gpu: gpu.power)} of the limit")
    memory = [gpu.memory_used_bytes for gpu in gpus if gpu.memory_used_bytes is not None]
    if memory:
        parts.append(f"{sum(memory) / _GIB:.1f} GiB of GPU memory held")
    if activity.cores.is_known:
        cores = activity.cores.value
        parts.append("processor unknown" if cores is None else f"{cores:.2f} processor cores")
    for what, moment in (("step", use.progressed_at), ("use", use.used_at)):
        if moment is not None and moment <= now:
            ago = format_duration((now - moment).total_seconds())
            parts.append(f"last {what} {ago} ago")
    if len(gpus) > 1:
        parts.append(f"over {count(len(gpus), 'GPU')}")
    return parts


def _ratios(gpus: tuple[GpuActivity, ...], signal: Callable[[GpuActivity], Signal]) -> str:
    """The highest of all GPUs; a dash where one is unknown."""
    values = [signal(gpu).value for gpu in gpus if signal(gpu).is_known]
    known = [value for value in values if value is not None]
    return format_ratio(max(known) if known and len(known) == len(values) else None)
