"""One acting worker for each pool of a cluster."""

import os
import socket
from collections.abc import Awaitable, Callable
from uuid import uuid4

from anyio.abc import TaskGroup

from gpu_core.adapters.kubernetes import KubernetesApi
from gpu_core.adapters.kubernetes.lease import KubernetesLease


class ClusterLeadership:
    """The lease of a pool, asked for from the first time that somebody wants to act.

    Args:
        connect: Finds the cluster.
        namespace: Where the lease lives.
        name: The lease's name.
        tasks: Where it is renewed.
        wake: Called when it was got, and when it was lost.
    """

    def __init__(
        self,
        connect: Callable[[], Awaitable[KubernetesApi]],
        namespace: str,
        name: str,
        tasks: Callable[[], TaskGroup],
        wake: Callable[[], None],
    ) -> None:
        self._connect = connect
        self._namespace = namespace
        self._name = name
        self._tasks = tasks
        self._wake = wake
        self._lease: KubernetesLease | None = None

    async def acquire(self) -> bool:
        """Is this worker the acting one? Tries to become it."""
        if self._lease is None:
            holder = f"{socket.gethostname()}-{os.getpid()}-{uuid4().hex[:8]}"
            lease = KubernetesLease(await self._connect(), self._namespace, self._name, holder)
            await lease.try_once()
            self._lease = lease
            self._tasks().start_soon(lease.hold, self._wake)
        return self._lease.is_held

    @property
    def why_not(self) -> str:
        """Why this worker does not act, as far as it knows: a clause."""
        lease = self._lease
        if lease is not None and lease.failure is not None:
            place = f"{self._name} in namespace {self._namespace}"
            return f"the lease {place} cannot be had: {lease.failure}"
        holder = lease.holder if lease is not None else None
        return f"{holder or 'another one'} has the lease {self._name} and acts"

    @property
    def is_standby(self) -> bool:
        """Is it known that another worker acts?"""
        return self._lease is not None and self._lease.failure is None

    @property
    def is_held(self) -> bool:
        """May this worker act at this moment?"""
        return self._lease is not None and self._lease.is_held

    async def release(self) -> None:
        """Let another worker act at once."""
        if self._lease is not None:
            await self._lease.release()
            self._lease = None
