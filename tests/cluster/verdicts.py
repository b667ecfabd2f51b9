"""What must not be after a story, by the cluster, the ledger and Prefect."""

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from datetime import timedelta

from gpu_core.decisions.accounting import Attempt
from gpu_core.decisions.kubernetes.names import ATTEMPT_ID_LABEL
from tests.support.cluster import Namespace
from tests.support.sight import Sight

# Statuses have whole seconds.
_ROUNDED = timedelta(seconds=1)


def faults_of_places(sight: Sight, attempts: Mapping[str, Sequence[Attempt]]) -> Iterator[str]:
    """Where do ledger and cluster not agree on an attempt's nodes, GPUs and times?"""
    for attempt in (attempt for of_run in attempts.values() for attempt in of_run):
        name = f"{attempt.flow_run_id}, attempt {attempt.number}"
        held = Counter((share.node, len(share.gpu_ids)) for share in attempt.held)
        seen = Counter(sight.placed.get(attempt.attempt_id, {}).values())
        if seen - held:
            yield f"{name} ran on {dict(seen)} and held {dict(held)}"
        began, ended = (at.get(attempt.attempt_id) for at in (sight.began, sight.ended))
        if began and (attempt.started_at is None or began + _ROUNDED < attempt.admitted_at):
            yield f"{name} began at {began} and got its GPUs at {attempt.admitted_at}"
        if ended and (attempt.released_at is None or ended > attempt.released_at):
            yield f"{name} ended at {ended} and released its GPUs at {attempt.released_at}"


def faults_of_leftovers(
    namespace: Namespace, attempts: Mapping[str, Sequence[Attempt]]
) -> Iterator[str]:
    """What with our labels was left, and belongs to no attempt or to nothing that is deleted?"""
    known = {attempt.attempt_id for of_run in attempts.values() for attempt in of_run}
    for found in namespace.get("jobs,pods,services", f"--selector={ATTEMPT_ID_LABEL}")["items"]:
        metadata = found["metadata"]
        name = f"{found['kind']} {metadata['name']}"
        if metadata["labels"][ATTEMPT_ID_LABEL] not in known:
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
        yield f"{run} had a pod of attempt {attempt}, which is not in the ledger"
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
