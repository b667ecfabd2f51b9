"""Does an attempt that an operator runs live, how did it end, and does it wait for too long?"""

from collections.abc import Container, Iterable, Mapping, Sequence
from datetime import datetime

from gpu_core.adapters.kubernetes.api import Json
from gpu_core.decisions.kubernetes.operators import custom_job_outcome
from gpu_core.decisions.kubernetes.status.outcome import AttemptOutcome, Cause, Phase, outcome
from gpu_core.decisions.kubernetes.status.pod_pending import quota_refusal, waiting_of
from gpu_core.decisions.model.attempt_exit import Exit
from gpu_core.decisions.model.attempts import EndReason
from gpu_core.decisions.policy.kubernetes import KubernetesPolicy
from gpu_core.worker.infrastructure import TerminationRequest
from gpu_core.worker.kubernetes.cluster.cluster_cache import has_pod_ended
from gpu_core.worker.kubernetes.jobs.job_status import (
    given_up,
    image_trouble,
    is_of_others,
    node_trouble,
    parse_moment,
    runs,
    words,
)

_OVER = (Phase.SUCCEEDED, Phase.FAILED)


def is_custom_alive(item: Json | None, pods: Sequence[Json], fenced: Iterable[str]) -> bool:
    """Is the attempt on its way?

    Its object says so, not the end of one pod: an operator may make another one. Pods that are
    left behind by an object that is over do not count: they are ended with the attempt.

    Args:
        item: Its object; None: it is not there.
        pods: Its pods.
        fenced: The nodes whose pods count as gone.
    """
    if item is None:
        return any(runs(pod, fenced) for pod in pods)
    if _reported(item).phase in _OVER:
        return False
    unended = [pod for pod in pods if not has_pod_ended(pod)]
    return not unended or any(runs(pod, fenced) for pod in unended)


def may_make_pods(item: Json | None) -> bool:
    """Could an operator still make pods for this object, or have some to take away?"""
    if item is None:
        return False
    return "deletionTimestamp" in item["metadata"] or _reported(item).phase not in _OVER


def is_custom_running(item: Json) -> bool:
    """Does what it is for run by now, and not only its pods?"""
    return _reported(item).phase is Phase.RUNNING


def is_custom_pending(item: Json) -> bool:
    """Has what it is for not started?"""
    return _reported(item).phase is Phase.PENDING


def custom_exit_of(
    item: Json | None, pods: Sequence[Json], last_lines: Sequence[str]
) -> Exit | None:
    """The end of an attempt of which nothing lives.

    Args:
        item: Its object as it was seen last.
        pods: Its pods as they were seen last.
        last_lines: The end of its output.
    """
    if item is None:
        return None
    found = custom_job_outcome(item, [pod for pod in pods if has_pod_ended(pod)])
    if found.phase not in _OVER:
        found = outcome(Cause.DELETED, detail=f"its {item['kind']} no longer exists")
    is_interruption = is_of_others(found)
    is_success = found.phase is Phase.SUCCEEDED
    return Exit(
        # Operators report success and failure, and no exit code.
        exit_code=0 if is_success else found.exit_code,
        is_own_failure=not is_success and not is_interruption,
        ended_at=parse_moment(found.ended_at),
        message=None if is_success else words(found, last_lines),
        is_flow=False,
        is_interruption=is_interruption,
    )


def custom_trouble_of(
    item: Json | None,
    pods: Sequence[Json],
    nodes: Mapping[str, Json],
    policy: KubernetesPolicy,
    now: datetime,
    gone_nodes: Container[str] = (),
    *,
    events: Sequence[Json] = (),
    is_first: bool = True,
) -> TerminationRequest | None:
    """Does an attempt wait for what will not come, or is one of its nodes about to go?

    An attempt of which a ResourceQuota refuses a pod releases its GPUs until there is room.
    """
    if item is None or _reported(item).phase in _OVER:
        return None
    trouble = node_trouble(pods, nodes, gone_nodes, policy, now)
    if trouble is None and is_first and not is_custom_running(item):
        trouble = image_trouble(pods)
    return trouble or _quota_trouble(item, events) or _waits_in_vain(item, pods, policy, now)


def _quota_trouble(item: Json, events: Sequence[Json]) -> TerminationRequest | None:
    reported = _reported(item)
    if reported.phase is not Phase.PENDING or reported.cause is Cause.SUSPENDED:
        return None
    found = reported if reported.cause is Cause.QUOTA_REFUSED else quota_refusal(events)
    return (
        None
        if found is None
        else TerminationRequest(reason=EndReason.POSTPONED, message=found.message)
    )


def _waits_in_vain(
    item: Json, pods: Sequence[Json], policy: KubernetesPolicy, now: datetime
) -> TerminationRequest | None:
    """Any of its pods, also one that takes the place of another while the rest runs."""
    waiting = [(pod, found) for pod in pods if (found := waiting_of(pod)) is not None]
    reported = _reported(item)
    if reported.phase is Phase.PENDING:
        waiting.append((item, reported))
    overdue = [
        found
        for waiter, found in waiting
        if (since := parse_moment(waiter["metadata"].get("creationTimestamp"))) is not None
        and (now - since).total_seconds() >= policy.pending_timeout_s
    ]
    # What needs a person first: waiting again would not help.
    overdue.sort(key=lambda found: not found.needs_person)
    return given_up(overdue[0], policy) if overdue else None


def _reported(item: Json) -> AttemptOutcome:
    """The status that the operator reports, also while its pods still run."""
    return custom_job_outcome(item)
