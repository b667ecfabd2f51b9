"""May a run refer to what its job variables bring into its Job?

The pool's base job template is the operator's: what it refers to itself is permitted.
"""

from collections.abc import Collection, Iterator
from dataclasses import dataclass, replace

from gpu_core.decisions.kubernetes.manifests.references import Reference
from gpu_core.decisions.model.errors import alternatives, listed, nearest_name
from gpu_core.decisions.model.reasons import Reason
from gpu_core.decisions.model.workload import Workload
from gpu_core.decisions.policy.permissions import Permission, Referred
from gpu_core.decisions.policy.pod_fields import ONLY_LISTED
from gpu_core.decisions.policy.policy import Policy
from gpu_core.decisions.requests.runs.permissions import not_permitted


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkersOwn:
    """The objects that the worker itself has in the cluster, and runs may not have."""

    namespace: str
    service_account: str
    secrets: frozenset[str] = frozenset()
    """Those that its own pod reads."""


@dataclass(frozen=True, slots=True, kw_only=True)
class JobReferences:
    """The references of the Job of a run, and their origin."""

    namespace: str
    """The namespace of the Job."""
    by_run: frozenset[Reference]
    """References by the job variables of the run and its deployment."""
    by_template: frozenset[Reference]
    """References of the pool's base job template without them."""
    moved: frozenset[Reference] = frozenset()
    """Those of the template that mean other objects here, because the run chose the namespace."""


def held_if_not_permitted(
    workload: Workload, found: JobReferences, policy: Policy, own: WorkersOwn | None
) -> Workload:
    """The workload, held if it refers to what its team is not permitted.

    Args:
        own: The worker's own; None: it has nothing in the cluster.
    """
    excess = beyond_permission(found, policy.permissions.of(workload.team), own)
    if not excess or (workload.hold is not None and workload.hold.reason in _GRAVER):
        return workload
    return replace(workload, hold=not_permitted(workload.team, excess, policy))


_GRAVER = (Reason.UNKNOWN_QUEUE, Reason.NOT_PERMITTED)


def beyond_permission(
    found: JobReferences, permission: Permission, own: WorkersOwn | None
) -> tuple[str, ...]:
    """The references that the permission does not cover, each as the end of "may not"."""
    return tuple(dict.fromkeys(_excess(found, permission, own)))


def unlisted(found: JobReferences, permission: Permission) -> tuple[Reference, ...]:
    """The references of the run that are permitted as the policy does not list their kind."""
    return tuple(sorted(each for each in found.by_run if not permission.is_stated(each.what)))


def reference_text(reference: Reference) -> str:
    """The reference as a person calls it: `Secret 'keys'`."""
    if reference.what is Referred.POD_FIELD:
        return reference.name
    return f"{reference.what.noun} {reference.name!r}"


def _excess(found: JobReferences, permission: Permission, own: WorkersOwn | None) -> Iterator[str]:
    for reference in sorted(found.by_run | found.moved):
        names = permission.names(reference.what)
        verb = _VERBS.get(reference.what, "use")
        if _is_workers_own(reference, found.namespace, names, own):
            yield f"{verb} {reference_text(reference)}, which is reserved for the worker"
        elif reference in found.moved:
            continue
        elif names is None and _is_only_listed(reference):
            yield (
                f"{verb} {reference_text(reference)}, whose devices are not accounted for "
                "by the scheduler"
            )
        elif names is not None and not _is_listed(reference, names):
            known = {*names, *_names(found.by_template, reference.what)}
            yield f"{verb} {reference_text(reference)} ({_allowed(reference.name, known)})"


_VERBS = {Referred.NAMESPACE: "run in", Referred.POD_FIELD: "set", Referred.HOST_PATH: "mount"}


def _is_workers_own(
    reference: Reference, namespace: str, names: Collection[str] | None, own: WorkersOwn | None
) -> bool:
    """Its account never; a Secret that it reads, too, only where a permission lists it."""
    if own is None or own.namespace != namespace:
        return False
    if reference.what is Referred.SERVICE_ACCOUNT:
        return reference.name == own.service_account
    is_read = reference.what is Referred.SECRET and reference.name in own.secrets
    return is_read and reference.name not in (names or ())


def _is_only_listed(reference: Reference) -> bool:
    return reference.what is Referred.POD_FIELD and reference.name in ONLY_LISTED


def _is_listed(reference: Reference, names: Collection[str]) -> bool:
    if reference.what is not Referred.HOST_PATH:
        return reference.name in names
    path = reference.name.rstrip("/") or "/"
    return ".." not in path.split("/") and any(
        path == name or path.startswith(f"{name.rstrip('/')}/") for name in names
    )


def _names(found: Collection[Reference], what: Referred) -> set[str]:
    return {reference.name for reference in found if reference.what is what}


def _allowed(name: str, known: Collection[str]) -> str:
    allowed = listed(known)
    meant = alternatives(nearest_name(name, known))
    return f"allowed: {allowed}" if meant is None else f"did you mean {meant}? Allowed: {allowed}"
