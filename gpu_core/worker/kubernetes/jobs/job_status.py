"""The life of an attempt: whether it lives, how it ended, and whether it can work where it is."""

import re
from collections.abc import Container, Iterable, Mapping, Sequence
from datetime import UTC, datetime

from gpu_core.adapters.kubernetes.api import Json
from gpu_core.decisions.kubernetes.manifests.gang import is_first
from gpu_core.decisions.kubernetes.nodes.taints_and_conditions import interruption_of
from gpu_core.decisions.kubernetes.status.attempt_status import observe
from gpu_core.decisions.kubernetes.status.gang_failure import silent_partner
from gpu_core.decisions.kubernetes.status.image_errors import why_never_pulled
from gpu_core.decisions.kubernetes.status.outcome import AttemptOutcome, Cause, ChargedParty, Phase
from gpu_core.decisions.kubernetes.status.pod_pending import quota_refusal
from gpu_core.decisions.kubernetes.status.pod_termination import main_end
from gpu_core.decisions.model.attempt_exit import Exit
from gpu_core.decisions.model.attempts import EndReason
from gpu_core.decisions.model.units import format_duration
from gpu_core.decisions.policy.kubernetes import KubernetesPolicy
from gpu_core.worker.infrastructure import TerminationRequest
from gpu_core.worker.kubernetes.cluster.cluster_cache import has_pod_ended

# Messages of runc and crun; no other error that keeps a container from starting has them.
_NO_PROGRAM = re.compile(
    r"exec: .*(?:executable file not found in \$PATH|no such file or directory|permission denied)"
)

_OF_OTHERS = frozenset({ChargedParty.INTERRUPTION, ChargedParty.PREEMPTION})


def is_alive(
    jobs: Sequence[Json], pods: Sequence[Json], fenced: Iterable[str], *, is_flow: bool = False
) -> bool:
    """Is the attempt on its way, with all the pods that it needs?

    Where one pod of a gang failed the others wait for what cannot come. One that has done its part
    leaves them to do theirs, such as writing the model; a flow is over when its first node is.

    Args:
        jobs: Its Jobs.
        pods: Its pods.
        fenced: The nodes whose pods count as gone.
        is_flow: Whether Prefect runs inside.
    """
    if any(_has_failed(pod) or (is_flow and is_first(pod) and is_done(pod)) for pod in pods):
        # Those that are terminating already have their grace period, in which they save.
        return any(is_being_deleted(pod) and _works(pod, fenced) for pod in pods)
    if any(_works(pod, fenced) for pod in pods):
        return True
    if any(not is_done(pod) for pod in pods):
        return False  # the last ones are on fenced nodes
    return wants_pods(jobs, pods)


def wants_pods(jobs: Sequence[Json], pods: Sequence[Json]) -> bool:
    """Is there a Job whose pods are still to be made?"""
    wanted = sum(job["spec"].get("completions") or 1 for job in jobs)
    may_make = any(not _is_finished(job) and not is_being_deleted(job) for job in jobs)
    return len(pods) < wanted and may_make


def is_done(pod: Json) -> bool:
    """Has the run's own container ended? Sidecars may run for ever, and hold its GPUs."""
    return has_pod_ended(pod) or main_end(pod) is not None


def _has_failed(pod: Json) -> bool:
    main = main_end(pod)
    if main is not None:
        return bool(main.get("exitCode"))
    return has_pod_ended(pod) and pod["status"]["phase"] != "Succeeded"


def _works(pod: Json, fenced: Iterable[str]) -> bool:
    return runs(pod, fenced) and not is_done(pod)


def runs(pod: Json, fenced: Iterable[str]) -> bool:
    """May a process of this pod be alive?"""
    return not has_pod_ended(pod) and pod["spec"].get("nodeName") not in fenced


def _has_started(pod: Json) -> bool:
    """Are all its containers running?"""
    containers = (pod.get("status") or {}).get("containerStatuses") or ()
    return bool(containers) and all("running" in (each.get("state") or {}) for each in containers)


def is_losing_pods(jobs: Sequence[Json], pods: Sequence[Json]) -> bool:
    """Is one of its pods being deleted while its Job may make another one?

    Before podFailurePolicy (1.26) the Job controller does so at once, while the first still ends:
    when that has failed, the other one may be there and not be seen yet.
    """
    is_replacing = any(not _is_finished(job) and not is_being_deleted(job) for job in jobs)
    return is_replacing and any(
        is_being_deleted(pod) and pod["status"]["phase"] != "Succeeded" for pod in pods
    )


def silent_for_s(node: Json, now: datetime) -> float | None:
    """How long has this node been silent? None: it is not."""
    ready = _conditions(node).get("Ready", {})
    if ready.get("status") == "True":
        return None
    since = parse_moment(ready.get("lastTransitionTime"))
    return 0.0 if since is None else (now - since).total_seconds()


def exit_of(
    jobs: Sequence[Json],
    pods: Sequence[Json],
    last_lines: Sequence[str],
    *,
    is_flow: bool,
    nodes: int = 1,
) -> Exit | None:
    """The end of an attempt of which nothing lives.

    Args:
        jobs: Its Jobs that are there.
        pods: Its pods as they were seen last.
        last_lines: The end of its output, where it was followed.
        is_flow: Whether Prefect ran inside.
        nodes: How many it needed at once.
    """
    if not jobs and not pods:
        return None
    # Pods that were never seen to end are gone without a word.
    ended = [pod for pod in pods if is_done(pod)]
    if is_flow and not any(_has_failed(pod) for pod in ended):
        # A flow is done when the first node of its gang is, also while the others still run.
        first = [pod for pod in ended if is_first(pod)]
        jobs, ended, nodes = ((), first, 1) if first else (jobs, ended, nodes)
    found = observe(jobs, ended, size=nodes)
    if found.phase in (Phase.PENDING, Phase.RUNNING):
        found = observe(())
    return Exit(
        exit_code=found.exit_code,
        ended_at=parse_moment(found.ended_at),
        message=None if found.phase is Phase.SUCCEEDED else words(found, last_lines),
        is_flow=is_flow,
        is_interruption=is_of_others(found),
        is_permanent=is_no_program(found),
    )


# What can follow from a partner that does not answer; running out of memory, for one, does not.
# A flow reports its failure to Prefect, and its pod succeeds.
_MAY_FOLLOW = frozenset({Cause.FAILED, Cause.COMPLETED})


def silent_partner_of(
    ended: Sequence[Json], pods: Sequence[Json], nodes: Mapping[str, Json]
) -> str | None:
    """The node that did not report when a pod of another node ended their gang.

    None: there is none.

    Args:
        ended: The pods whose ends say why the attempt ended.
        pods: All its pods as they were seen last.
        nodes: All of the cluster, by name.
    """
    finished = [pod for pod in ended if is_done(pod)]
    found = observe((), finished) if finished else None
    if found is None or found.cause not in _MAY_FOLLOW or len(pods) < 2:
        return None
    failed_at = parse_moment(found.ended_at)
    # Where a node is back before the worker polls, its pods have ended too, and said so late.
    return silent_partner(
        failed_at, [pod for pod in pods if not _ended_before(pod, failed_at)], nodes
    )


def _ended_before(pod: Json, at: datetime | None) -> bool:
    """Had it ended by then? The pod that failed just then had not: its own node may have been cut
    off from the others."""
    if not is_done(pod):
        return False
    finished_at = parse_moment((main_end(pod) or {}).get("finishedAt"))
    return at is None or finished_at is None or finished_at < at


def trouble_of(
    jobs: Sequence[Json],
    pods: Sequence[Json],
    events: Sequence[Json],
    nodes: Mapping[str, Json],
    policy: KubernetesPolicy,
    now: datetime,
    *,
    gone_nodes: Container[str] = (),
    is_for_new_node: bool = False,
    is_first: bool = True,
    is_starting: bool = True,
) -> TerminationRequest | None:
    """Does an attempt wait for what will not come, or is one of its nodes about to go?

    Args:
        jobs: Its Jobs.
        pods: Its pods.
        events: Of both, oldest first.
        nodes: All of the cluster, by name.
        policy: Of the pool.
        now: Aware.
        gone_nodes: The names of nodes that were there.
        is_for_new_node: Whether it was placed on nodes that were still to come.
        is_first: Whether it is the first attempt of its run: an image that another one had may be
            back in time.
        is_starting: Whether neither its flow nor its container is known to have started.
    """
    trouble = node_trouble(pods, nodes, gone_nodes, policy, now)
    if trouble is not None:
        return trouble
    if pods and all(_has_started(pod) for pod in pods) and not wants_pods(jobs, pods):
        return None  # most attempts, most of the time: they wait for nothing
    if is_first and (trouble := image_trouble(pods, events, is_new_node=is_for_new_node)):
        return trouble
    if is_starting and (trouble := _quota_trouble(jobs, pods, events, policy, now)):
        return trouble
    trouble = _waits_in_vain(jobs, pods, events, policy, now)
    if trouble is None or not is_for_new_node or not pods or bound_at(pods) is not None:
        return trouble
    within = format_duration(policy.pending_timeout_s)
    detail = trouble.message.partition(": ")[2]
    return TerminationRequest(
        reason=EndReason.INTERRUPTED, message=f"No node became available within {within}: {detail}"
    )


def node_trouble(
    pods: Sequence[Json],
    nodes: Mapping[str, Json],
    gone_nodes: Container[str],
    policy: KubernetesPolicy,
    now: datetime,
) -> TerminationRequest | None:
    """Is a node of these pods gone, about to go, or in trouble?"""
    for pod in pods:
        name = pod["spec"].get("nodeName")
        if name is None or has_pod_ended(pod):
            continue
        node = nodes.get(name)
        if node is not None:
            why = _trouble_of_node(node, policy, now)
        else:
            why = "is gone" if name in gone_nodes else None
        if why is not None:
            return TerminationRequest(reason=EndReason.INTERRUPTED, message=f"Node {name} {why}.")
    return None


def image_trouble(
    pods: Sequence[Json], events: Sequence[Json] = (), *, is_new_node: bool = False
) -> TerminationRequest | None:
    """Does one of these pods wait for an image that can never be pulled?"""
    why = why_never_pulled(pods, events, is_new_node=is_new_node)
    return None if why is None else TerminationRequest(reason=EndReason.REFUSED, message=why)


def bound_at(pods: Iterable[Json]) -> datetime | None:
    """The moment since when all these pods have been on nodes.

    None: one is not, or there is none.
    """
    moments = []
    for pod in pods:
        conditions = {c["type"]: c for c in (pod.get("status") or {}).get("conditions") or ()}
        scheduled = conditions.get("PodScheduled", {})
        since = parse_moment(scheduled.get("lastTransitionTime"))
        if "nodeName" not in pod["spec"] or since is None:
            return None
        moments.append(since)
    return max(moments, default=None)


def has_run_a_pod(job: Json) -> bool:
    """Did a pod of this Job end, so that it was on a node?"""
    status = job.get("status") or {}
    return bool(status.get("succeeded") or status.get("failed"))


def given_up(found: AttemptOutcome, policy: KubernetesPolicy) -> TerminationRequest:
    """The trouble of an attempt that waits for too long.

    Args:
        found: What it waits for.
        policy: Says how long it may.
    """
    text = (
        f"The pods did not start within {format_duration(policy.pending_timeout_s)}: "
        f"{found.message}"
    )
    # What only a person can fix is not tried again; for the rest there may be room elsewhere.
    reason = EndReason.TIMED_OUT if found.needs_person else EndReason.INTERRUPTED
    return TerminationRequest(reason=reason, message=" ".join(filter(None, (text, found.remedy))))


def waiting_outcome(
    jobs: Sequence[Json], pods: Sequence[Json], events: Sequence[Json]
) -> AttemptOutcome | None:
    """The cause for which it waits; None: it runs, or has ended."""
    if not jobs:
        return None
    found = observe(jobs, pods, events)
    return found if found.phase is Phase.PENDING else None


def _quota_trouble(
    jobs: Sequence[Json],
    pods: Sequence[Json],
    events: Sequence[Json],
    policy: KubernetesPolicy,
    now: datetime,
) -> TerminationRequest | None:
    """Does a ResourceQuota refuse one of its pods? It releases its GPUs until there is room.

    The pods of a gang that were made wait for what cannot come. After `pending_timeout` it is no
    start any more: then a pod that was lost could not be replaced.
    """
    if not wants_pods(jobs, pods) or any(job["spec"].get("suspend") for job in jobs):
        return None
    found = quota_refusal(events)
    is_early = _age_s(jobs, now) < policy.pending_timeout_s
    if found is None or (pods and not is_early):
        return None
    return TerminationRequest(reason=EndReason.POSTPONED, message=found.message)


def _age_s(items: Sequence[Json], now: datetime) -> float:
    """How long ago was the first of these made? 0: they do not say."""
    made = [parse_moment(item["metadata"].get("creationTimestamp")) for item in items]
    known = [at for at in made if at is not None]
    return (now - min(known)).total_seconds() if known else 0.0


def _waits_in_vain(
    jobs: Sequence[Json],
    pods: Sequence[Json],
    events: Sequence[Json],
    policy: KubernetesPolicy,
    now: datetime,
) -> TerminationRequest | None:
    found = waiting_outcome(jobs, pods, events)
    created_at = parse_moment(jobs[0]["metadata"].get("creationTimestamp")) if jobs else None
    if found is None or created_at is None or found.cause is Cause.SUSPENDED:
        return None  # it runs, or it is in the queue of Kueue
    # A node that came late leaves its pods as long to start as one that was there.
    waited_s = (now - (bound_at(pods) or created_at)).total_seconds()
    if waited_s < policy.pending_timeout_s:
        return None
    return given_up(found, policy)


def _trouble_of_node(node: Json, policy: KubernetesPolicy, now: datetime) -> str | None:
    taint = interruption_of(node)
    if taint is not None:
        return f"is about to be removed (taint {taint})"
    conditions = _conditions(node)
    for kind, bad in policy.gpu_conditions.items():
        if conditions.get(kind, {}).get("status") == bad:
            return f"has unhealthy GPUs: {kind} is {bad}"
    silent_s = silent_for_s(node, now)
    if silent_s is not None and silent_s >= policy.silent_after_s:
        return f"has not reported for {format_duration(int(silent_s))}"
    return None


def is_no_program(found: AttemptOutcome) -> bool:
    """Does the image lack the program that the container's command names?"""
    return found.cause is Cause.NOT_STARTED and _NO_PROGRAM.search(found.message) is not None


def is_of_others(found: AttemptOutcome) -> bool:
    """Did the run not end by itself?"""
    return found.charge in _OF_OTHERS


def words(found: AttemptOutcome, last_lines: Sequence[str]) -> str:
    """The message of an end: what happened, the remedy, and the last lines of a run that failed."""
    text = " ".join(filter(None, (found.message.rstrip(), found.remedy)))
    if not last_lines or found.charge is not ChargedParty.RUN:
        return text
    return "\n".join((text, "Its last lines:", *last_lines))


def is_being_deleted(item: Json) -> bool:
    return item["metadata"].get("deletionTimestamp") is not None


def _is_finished(job: Json) -> bool:
    conditions = (job.get("status") or {}).get("conditions") or ()
    return any(c["type"] in ("Complete", "Failed") and c["status"] == "True" for c in conditions)


def _conditions(node: Json) -> dict[str, Json]:
    return {c["type"]: c for c in (node.get("status") or {}).get("conditions") or ()}


def parse_moment(text: object) -> datetime | None:
    """A time as Kubernetes writes it; None: there is none."""
    return datetime.fromisoformat(text).astimezone(UTC) if isinstance(text, str) else None
