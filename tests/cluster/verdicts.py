"""What must not be after a story, by the cluster, the ledger and Prefect."""

from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence
from datetime import datetime, timedelta
from itertools import combinations

from gpu_core.decisions.kubernetes.manifests.names import ATTEMPT_ID_LABEL
from gpu_core.decisions.kubernetes.manifests.tombstone import is_tombstone
from gpu_core.decisions.model.attempts import Attempt
from tests.support.cluster import Json, Namespace
from tests.support.run_journal import Life
from tests.support.sight import Sight

# Statuses have whole seconds.
_ROUNDED = timedelta(seconds=1)


def faults_of_places(
    sight: Sight, attempts: Mapping[str, Sequence[Attempt]], lives: Sequence[Life]
) -> Iterator[str]:
    """Where do ledger and cluster not agree on an attempt's nodes, GPUs and times?

    One that was no execution of its run, as it came to no flow in an outage of Prefect's API, costs
    nothing: the ledger has no time of it, although its pod had some. It must have done no step.

    Args:
        lives: What the runs noted themselves.
    """
    worked = {
        (life.run, life.attempt) for life in lives if life.has_ended or life.step > life.began_at
    }
    for attempt in (attempt for of_run in attempts.values() for attempt in of_run):
        name = f"{attempt.flow_run_id}, attempt {attempt.number}"
        held = Counter((share.node, len(share.gpu_ids)) for share in attempt.held)
        seen = Counter(sight.placed.get(attempt.attempt_id, {}).values())
        if seen - held:
            yield f"{name} ran on {dict(seen)} and held {dict(held)}"
        began, ended = (at.get(attempt.attempt_id) for at in (sight.began, sight.ended))
        if began and (attempt.started_at is None or began + _ROUNDED < attempt.admitted_at):
            yield f"{name} began at {began} and got its GPUs at {attempt.admitted_at}"
        if not attempt.has_run:
            if (attempt.flow_run_id, attempt.number) in worked:
                yield f"{name} worked, and the ledger has it as no execution"
            if attempt.released_at != attempt.admitted_at:
                yield f"{name} was no execution, and held GPUs until {attempt.released_at}"
        elif ended and not _is_estimated(attempt) and _is_before(attempt.released_at, ended):
            yield f"{name} ended at {ended} and released its GPUs at {attempt.released_at}"


def _is_before(moment: datetime | None, other: datetime) -> bool:
    return moment is None or moment < other


def _is_estimated(attempt: Attempt) -> bool:
    """Was its pod gone before a worker saw its end? Then it counts up to when one saw it last."""
    return attempt.is_end_estimated and attempt.released_at == attempt.last_seen_at


def faults_of_gpus(sight: Sight, attempts: Mapping[str, Sequence[Attempt]]) -> Iterator[str]:
    """Which GPU had two attempts of one pool at a time? By the ledger, of those that had pods.

    Where others place the pods, one may be bound before the worker has settled the end of another.
    """
    holders: dict[tuple[str, str, str], list[Attempt]] = defaultdict(list)
    for attempt in (attempt for of_run in attempts.values() for attempt in of_run):
        if attempt.attempt_id in sight.placed and attempt.released_at is not None:
            for share in attempt.held:
                for gpu_id in share.gpu_ids:
                    holders[attempt.pool, share.node, gpu_id].append(attempt)
    for (_, node, gpu_id), of_gpu in holders.items():
        for one, other in combinations(sorted(of_gpu, key=lambda a: a.admitted_at), 2):
            ended = sight.ended.get(one.attempt_id, one.released_at)
            if ended is not None and other.admitted_at + _ROUNDED < ended:
                yield (
                    f"GPU {gpu_id} of {node} was held by {one.flow_run_id}, attempt {one.number}, "
                    f"and by {other.flow_run_id}, attempt {other.number}, at a time"
                )


def lives_seen(sight: Sight, attempts: Mapping[str, Sequence[Attempt]]) -> list[Life]:
    """What the cluster shows of attempts that note nothing themselves, as lives."""
    known = {a.attempt_id: a for of_run in attempts.values() for a in of_run}
    return [
        Life(
            run=run, attempt=known[attempt].number, pod=attempt,
            began_s=0, last_s=0, began_at=0, step=0, has_ended=True,
        )
        for run, attempt in sorted(sight.ran)
        if run in attempts and attempt in known
    ]  # fmt: skip


def faults_of_prices(
    sight: Sight,
    attempts: Mapping[str, Sequence[Attempt]],
    prices_micro_usd: Mapping[str, int],
) -> Iterator[str]:
    """Which attempt costs something else than its GPUs do where its pods were bound?

    Args:
        sight: Of the pods.
        attempts: The ledger's, by flow run.
        prices_micro_usd: Of a GPU-hour, by node; of every other node: that of the last one.
    """
    (*_, usual) = prices_micro_usd.values()
    for attempt in (attempt for of_run in attempts.values() for attempt in of_run):
        nodes = {node for node, _ in sight.placed.get(attempt.attempt_id, {}).values()}
        price = attempt.price_micro_usd_per_gpu_hour
        for node in sorted(nodes):
            want = prices_micro_usd.get(node, usual)
            if price != want:
                yield (
                    f"{attempt.flow_run_id}, attempt {attempt.number} ran on {node} for {price}, "
                    f"where a GPU-hour is {want}"
                )


# What Kubernetes makes in every namespace.
_KUBERNETES_OWN = frozenset({"kube-root-ca.crt"})
_ACCOUNT_TOKEN = "kubernetes.io/service-account-token"  # noqa: S105 # the type of a Secret
_KINDS = "jobs,pods,services,secrets,configmaps"


def leftovers(namespace: Namespace) -> list[Json]:
    """What is in the namespace, besides what Kubernetes makes in each."""
    return [
        found
        for found in namespace.get(_KINDS)["items"]
        if found["metadata"]["name"] not in _KUBERNETES_OWN and found.get("type") != _ACCOUNT_TOKEN
    ]


def faults_of_leftovers(
    namespace: Namespace, attempts: Mapping[str, Sequence[Attempt]]
) -> Iterator[str]:
    """What was left, and belongs to no attempt or to nothing that is deleted?"""
    known = {attempt.attempt_id for of_run in attempts.values() for attempt in of_run}
    for found in leftovers(namespace):
        metadata = found["metadata"]
        name = f"{found['kind']} {metadata['name']}"
        is_known = metadata.get("labels", {}).get(ATTEMPT_ID_LABEL) in known
        # A tombstone keeps the name of an attempt that the ledger does not have any more.
        if not is_known and not is_tombstone(found):
            yield f"{name} is left of an attempt that the ledger does not have"
        if found["kind"] != "Job" and not metadata.get("ownerReferences"):
            yield f"{name} is left and nobody owns it"
        if found["kind"] == "Job" and "ttlSecondsAfterFinished" not in found["spec"]:
            yield f"{name} is left and is never removed"


def faults_of_sight(
    sight: Sight, gpus: int, attempts: Mapping[str, Sequence[Attempt]]
) -> Iterator[str]:
    """What did the API server show that must not be?"""
    yield from (f"{run} had two pods at a time" for run in sorted(sight.twice))
    known = {(a.flow_run_id, a.attempt_id) for of_run in attempts.values() for a in of_run}
    for run, attempt in sorted(sight.ran - known):
        yield f"{run} had a pod of attempt {attempt}, which was not found in the ledger"
    if sight.most_gpus > gpus:
        pods = "; ".join(sight.fullest)
        yield f"pods held {sight.most_gpus} GPUs at a time, of {gpus}: {pods}"
    if not sight.looks:
        yield "nobody looked"


def faults_of_states(run: str, states: Sequence[str]) -> Iterator[str]:
    """What did Prefect note of this run that must not be?"""
    if "Completed" not in states:
        yield f"{run} never completed: {', '.join(states)}"
    elif set(states[states.index("Completed") :]) != {"Completed"}:
        yield f"{run} went on after it had completed: {', '.join(states)}"
