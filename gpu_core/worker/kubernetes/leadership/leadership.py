"""One acting worker for each pool: of an installation by its lease, of several by their claims."""

import os
import socket
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from uuid import uuid4

from anyio.abc import TaskGroup

from gpu_core.adapters.kubernetes import KubernetesApi
from gpu_core.adapters.kubernetes.lease import KubernetesLease
from gpu_core.adapters.ledger import Ledger
from gpu_core.decisions.checks.prefect.pool_claim import (
    CHOOSE,
    OTHER_LEDGER,
    Installation,
    PoolClaim,
    who_acts,
)
from gpu_core.decisions.model.errors import sentences
from gpu_core.worker.kubernetes.leadership.installation_claim import ClaimPool, InstallationClaim
from gpu_core.worker.operations.threads import in_thread


@dataclass(frozen=True, slots=True, kw_only=True)
class LedPool:
    """The pool whose acting worker is wanted.

    Attributes:
        id: The pool's id in Prefect, at this moment.
        name: The pool's name.
        lease: The name of its leases.
        ledger: Opens the ledger that all workers of the pool share.
        prefect: Claims the pool in Prefect, for installations with other ledgers.
    """

    id: Callable[[], str]
    name: str
    lease: str
    ledger: Callable[[], Awaitable[Ledger]]
    prefect: ClaimPool


class ClusterLeadership:
    """The lease and the claim of a pool, asked for from the first call of `acquire` on.

    Args:
        connect: Finds the cluster.
        namespace: Where the lease lives.
        pool: Whose lease it is.
        tasks: Where both are renewed.
        wake: Called when one of them was got, and when it was lost.
    """

    def __init__(
        self,
        connect: Callable[[], Awaitable[KubernetesApi]],
        namespace: str,
        pool: LedPool,
        tasks: Callable[[], TaskGroup],
        wake: Callable[[], None],
    ) -> None:
        self._connect = connect
        self._namespace = namespace
        self._pool = pool
        self._tasks = tasks
        self._wake = wake
        self._holder = f"{socket.gethostname()}-{os.getpid()}-{uuid4().hex[:8]}"
        self._lease: KubernetesLease | None = None
        self._claim: InstallationClaim | None = None
        self._in_prefect: InstallationClaim | None = None

    async def acquire(self) -> bool:
        """Is this worker the acting one? Tries to become it.

        Raises:
            LedgerError, SQLAlchemyError, KubernetesError, httpx.HTTPError: What knows it does not
                answer.
        """
        if self._lease is None:
            api = await self._connect()
            lease = KubernetesLease(api, self._namespace, self._pool.lease, self._holder)
            await lease.try_once()
            self._lease = lease
            self._tasks().start_soon(lease.hold, self._wake)
        if not self._lease.is_held:
            return False
        if self._claim is None or self._in_prefect is None:
            self._claim, self._in_prefect = await self._new_claims()
            self._tasks().start_soon(self._claim.hold, self._has_lease, self._wake)
            self._tasks().start_soon(self._in_prefect.hold, self._has_claim, self._wake)
        # Prefect's second: an installation that shares the ledger stands by for the first alone.
        return await self._claim.acquire() and await self._in_prefect.acquire()

    async def _new_claims(self) -> tuple[InstallationClaim, InstallationClaim]:
        """The one in the ledger, and the one in Prefect."""
        system = await (await self._connect()).get("/api/v1/namespaces/kube-system")
        installation = Installation(cluster=system["metadata"]["uid"], namespace=self._namespace)
        ledger = await self._pool.ledger()
        pool = self._pool

        async def in_ledger(wanted: PoolClaim, instead_of: PoolClaim | None) -> PoolClaim:
            return await in_thread(ledger.claim_pool, wanted, instead_of)

        def claim(claim_pool: ClaimPool) -> InstallationClaim:
            return InstallationClaim(claim_pool, pool.id, pool.name, installation, self._holder)

        return claim(in_ledger), claim(pool.prefect)

    @property
    def why_not(self) -> str:
        """The known reason why this worker is not acting, as a clause."""
        lease, name = self._lease, self._pool.lease
        if lease is not None and lease.failure is not None:
            place = f"{name} in namespace {self._namespace}"
            return f"failed to acquire the lease {place}: {lease.failure}"
        if self._has_lease() and self._claim is not None and self._claim.other is not None:
            return sentences(who_acts(self._claim.other, self._claim.installation), CHOOSE)
        if self._has_claim() and self._in_prefect is not None and self._in_prefect.other:
            other = who_acts(self._in_prefect.other, self._in_prefect.installation)
            return sentences(f"{other}, with another ledger", OTHER_LEDGER, CHOOSE)
        holder = lease.holder if lease is not None else None
        return (
            f"{holder or 'another one'} holds the lease {name} and is active for this installation"
        )

    @property
    def is_standby(self) -> bool:
        """Is it known that another worker acts?"""
        return self._lease is not None and self._lease.failure is None

    @property
    def is_held(self) -> bool:
        """May this worker act at this moment?"""
        return (
            self._has_lease()
            and self._claim is not None
            and self._claim.is_held
            and self._in_prefect is not None
            and self._in_prefect.is_ours
        )

    async def release(self) -> None:
        """Let another worker of this installation act at once.

        The claim stays: in a rollout no other installation comes in between.
        """
        self._claim = self._in_prefect = None
        if self._lease is not None:
            await self._lease.release()
            self._lease = None

    def _has_claim(self) -> bool:
        return self._has_lease() and self._claim is not None and self._claim.is_ours

    def _has_lease(self) -> bool:
        return self._lease is not None and self._lease.is_held
