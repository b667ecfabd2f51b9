"""Does exactly one worker of the pool act?"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime

from gpu_core.decisions.checks.doctor.finding import Finding, failed, ok, unknown, warning
from gpu_core.decisions.checks.prefect.pool_claim import (
    CHOOSE,
    DURATION_S,
    OTHER_LEDGER,
    Installation,
    PoolClaim,
    who_acts,
)
from gpu_core.decisions.checks.prefect.pool_commands import worker_command
from gpu_core.decisions.model.errors import sentences
from gpu_core.decisions.model.units import count


@dataclass(frozen=True, slots=True, kw_only=True)
class SeenLease:
    """A lease of a pool as the cluster has it.

    Attributes:
        name: Its name, which follows from the pool's.
        holder: Its holder; None: none.
        renewed_at: When it was last renewed, by its holder's clock; None: never.
    """

    namespace: str
    name: str
    holder: str | None
    renewed_at: datetime | None
    duration_s: int
    transitions: int = 0

    def age_s(self, now: datetime) -> float | None:
        """The time since its last renewal; None if it was never renewed."""
        return None if self.renewed_at is None else (now - self.renewed_at).total_seconds()

    def is_held(self, now: datetime) -> bool:
        """Does a worker act with it now?"""
        age_s = self.age_s(now)
        return self.holder is not None and age_s is not None and age_s <= self.duration_s


def lease_findings(
    pool: str,
    name: str,
    leases: Sequence[SeenLease],
    now: datetime,
    *,
    looked_in: Sequence[str] | None,
    claim: PoolClaim | None = None,
    cluster: str | None = None,
) -> Iterator[Finding]:
    """The findings on leases: the worker that acts for the pool, and others in this cluster.

    Args:
        leases: The leases of all pools that were found.
        now: By the clock of the API server.
        looked_in: The namespaces that were looked in; None: all.
        claim: Which installation acts, by the ledger; None: that is not known.
        cluster: The uid of this cluster's namespace kube-system; None: it is not known.
    """
    ours = [lease for lease in leases if lease.name == name]
    held = [lease for lease in ours if lease.is_held(now)]
    where = "any namespace" if looked_in is None else f"the namespaces {', '.join(looked_in)}"
    if len(held) > 1:
        yield _several(pool, held, claim)
    elif held:
        (lease,) = held
        own = Installation(cluster=cluster or "", namespace=lease.namespace)
        acts = claim is None or cluster is None or claim.installation == own
        does = "acts" if acts else "holds the lease and is on standby"
        yield ok(
            "lease.holder",
            f"{lease.holder} {does}, renewed {max(0.0, lease.age_s(now) or 0.0):.0f} s ago, "
            f"in {lease.namespace} ({count(lease.transitions, 'change')} so far)",
        )
    elif ours:
        yield _not_held(pool, ours[0], now)
    else:
        text = f"Lease {name} not found in {where}. No worker of this pool has become active yet"
        yield unknown("lease.holder", text, worker_command(pool, "gpu-kubernetes"))
    yield from _others(name, leases, ours, now)


def _several(pool: str, held: Sequence[SeenLease], claim: PoolClaim | None) -> Finding:
    places = " and ".join(f"{each.holder} in {each.namespace}" for each in held)
    if claim is None:
        return failed(
            "lease.holder",
            f"{len(held)} workers are active for pool {pool!r}: {places}. This causes runs to be "
            "started more than once",
            "please set PREFECT_INTEGRATIONS_GPU_KUBERNETES_NAMESPACE to the same value for all "
            "workers",
        )
    return warning(
        "lease.holder",
        f"{len(held)} installations of pool {pool!r} hold a lease: {places}. The installation in "
        f"{claim.installation.namespace} is active",
        CHOOSE,
    )


def installation_finding(
    claim: PoolClaim, now: datetime, *, cluster: str | None, namespace: str | None
) -> Finding:
    """The finding on the installation that acts for the pool, by the ledger that all of them share.

    Args:
        now: By the clock of the API server.
        cluster: The uid of this cluster's namespace kube-system; None: it cannot be read.
        namespace: That of the workers that are checked; None: it is not known here.
    """
    there = claim.installation
    own = None if cluster is None else Installation(cluster=cluster, namespace=namespace or "")
    age_s = max(0.0, (now - claim.renewed_at).total_seconds())
    text = f"{who_acts(claim, own)}, renewed {age_s:,.0f} s ago"
    details = (f"worker: {claim.holder}", f"renewals: {claim.renewals}")
    if age_s > DURATION_S:
        text += f". Another installation may take over {DURATION_S}s after the last renewal"
        return warning("lease.installation", text, "please check the logs of its worker", details)
    is_other = cluster is not None and there.cluster != cluster
    if is_other or (namespace is not None and there.namespace != namespace):
        return warning("lease.installation", text, CHOOSE, details)
    return ok("lease.installation", text, details)


def ledgers_finding(
    claim: PoolClaim, in_prefect: PoolClaim, now: datetime, *, cluster: str | None
) -> Finding | None:
    """Do two installations of the pool have different ledgers? None: the claims agree.

    Args:
        claim: As the ledger that is looked at has it.
        in_prefect: As Prefect has it.
        now: By the clock of the API server.
        cluster: The uid of this cluster's namespace kube-system; None: it cannot be read.
    """
    age_s = (now - in_prefect.renewed_at).total_seconds()
    if in_prefect.installation == claim.installation or age_s > DURATION_S:
        return None
    own = None if cluster is None else Installation(cluster=cluster, namespace="")
    text = f"{who_acts(in_prefect, own)}, using a different ledger"
    return failed("lease.ledgers", text, sentences(OTHER_LEDGER, CHOOSE))


def _not_held(pool: str, lease: SeenLease, now: datetime) -> Finding:
    age_s = lease.age_s(now)
    start = worker_command(pool, "gpu-kubernetes")
    if lease.holder is None or age_s is None:
        text = (
            f"The lease {lease.name} in {lease.namespace} is not held by any worker, so no "
            "worker is active"
        )
        return failed("lease.holder", text, start)
    return failed(
        "lease.holder",
        f"{lease.holder} has not renewed the lease in {lease.namespace} for {age_s:,.0f} s "
        f"(lease duration: {lease.duration_s}s), so no worker is active",
        f"please check the logs of this worker or start a new one with: {start}",
    )


def _others(
    name: str, leases: Sequence[SeenLease], ours: Sequence[SeenLease], now: datetime
) -> Iterator[Finding]:
    places = {lease.namespace for lease in ours}
    for lease in leases:
        if lease.name == name or not lease.is_held(now):
            continue
        same = " in the same namespace" if lease.namespace in places else ""
        yield warning(
            "lease.others",
            f"{lease.holder} acts for another pool{same} ({lease.namespace}/{lease.name}), so "
            "its pods are treated as pods of other users",
            "please assign separate nodes to each pool in its template, or use a single pool "
            "with several queues",
        )
