"""One acting worker in a cluster: a `coordination.k8s.io/v1` Lease, held by renewing it.

The rules are those of client-go's leader election: a candidate watches its record, and
takes it when the record has not changed for the lease's duration by the watcher's own clock, so
that no other clock has to be right. The holder that cannot renew stops acting before another one
may begin.
"""

import logging
import time
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime

import anyio

from gpu_core.adapters.kubernetes.api import Json, KubernetesApi, KubernetesError

_log = logging.getLogger("prefect.gpu.lease")

DURATION_S = 10
# The holder gives up well before others may take over: a request that hangs, a cycle that is
# under way and the clocks' different speeds have to fit in between.
_GIVE_UP_S = 7.0
_RENEW_S = 2.0

# This process's monotonic clock; a name of its own, so that tests can set it.
_now_s = time.monotonic


@dataclass(frozen=True, slots=True)
class _Seen:
    """A record of the lease, and when it was first seen by this process's clock."""

    record: tuple[object, ...]
    at_s: float


class KubernetesLease:
    """A lease that this process has, wants or lost.

    Args:
        api: The cluster.
        namespace: Where the lease lives.
        name: Its name; one for each pool.
        holder: Who this process is; different from every other process.
    """

    def __init__(self, api: KubernetesApi, namespace: str, name: str, holder: str) -> None:
        self._api = api
        self._list_path = f"/apis/coordination.k8s.io/v1/namespaces/{namespace}/leases"
        self._path = f"{self._list_path}/{name}"
        self._name = name
        self._namespace = namespace
        self._holder = holder
        self._seen: _Seen | None = None
        self._renewed_at_s: float | None = None
        self.holder: str | None = None
        """The holder, as last seen."""
        self.failure: str | None = None
        """The reason why the last try failed; None: it showed the holder."""

    @property
    def is_held(self) -> bool:
        """May this process act now? Asked before everything that it does."""
        renewed_at_s = self._renewed_at_s
        return renewed_at_s is not None and _now_s() - renewed_at_s < _GIVE_UP_S

    async def hold(self, on_change: Callable[[], None]) -> None:
        """Get the lease and keep it, for ever; between tries others may have it.

        Args:
            on_change: Called when it was got, and when it was lost.
        """
        was_held = self.is_held
        while True:
            await self.try_once()
            if self.is_held != was_held:
                was_held = self.is_held
                on_change()
            await anyio.sleep(_RENEW_S)

    async def try_once(self) -> bool:
        """Renew the lease, or take it if it is free. Is it held?"""
        # Counted from before the request: its answer may be late.
        asked_at_s = _now_s()
        try:
            with anyio.fail_after(_RENEW_S):
                is_ours = await self._renew_or_take()
        except (KubernetesError, TimeoutError) as error:
            self.failure = str(error) or "the request timed out"
            _log.debug("Lease %s: %s", self._name, self.failure)
            return self.is_held
        self.failure = None
        if is_ours is not None:
            self._renewed_at_s = asked_at_s if is_ours else None
        return self.is_held

    async def release(self) -> None:
        """Release it, so that another worker has it at once."""
        if not self.is_held:
            return
        self._renewed_at_s = None
        try:
            lease = await self._api.get(self._path)
            if lease["spec"].get("holderIdentity") == self._holder:
                lease["spec"]["holderIdentity"] = ""
                await self._api.replace(self._path, lease)
        except KubernetesError as error:
            _log.debug(
                "Failed to release lease %s, waiting for it to expire: %s", self._name, error
            )

    async def _renew_or_take(self) -> bool | None:
        """Does this process hold it? None: it changed between the two requests."""
        now = f"{datetime.now(UTC):%Y-%m-%dT%H:%M:%S.%fZ}"
        lease = await self._api.find(self._path)
        try:
            if lease is None:
                await self._api.create(self._list_path, self._new(now))
                return True
            # A lease without a holder yet, as an installation makes it, says nothing.
            lease["spec"] = lease.get("spec") or {}
            if not self._may_take(lease["spec"]):
                return False
            await self._api.replace(self._path, self._taken(lease, now))
        except KubernetesError as error:
            if error.is_conflict:
                # The change may be this process's own renewal before, which was given up and was
                # heard all the same. A lease that is held stays held until it is due.
                return None
            raise
        self.holder = self._holder
        return True

    def _may_take(self, spec: Json) -> bool:
        holder = spec.get("holderIdentity") or None
        self.holder = holder
        if holder == self._holder or holder is None:
            return True
        record = (holder, spec.get("renewTime"), spec.get("leaseTransitions"))
        now_s = _now_s()
        if self._seen is None or self._seen.record != record:
            self._seen = _Seen(record, now_s)
            return False
        return now_s - self._seen.at_s >= (spec.get("leaseDurationSeconds") or DURATION_S)

    def _new(self, now: str) -> Json:
        return {
            "apiVersion": "coordination.k8s.io/v1",
            "kind": "Lease",
            "metadata": {"name": self._name, "namespace": self._namespace},
            "spec": {
                "holderIdentity": self._holder,
                "leaseDurationSeconds": DURATION_S,
                "acquireTime": now,
                "renewTime": now,
                "leaseTransitions": 0,
            },
        }

    def _taken(self, lease: Json, now: str) -> Json:
        spec = lease["spec"]
        is_new_holder = spec.get("holderIdentity") != self._holder
        return {
            **lease,
            "spec": {
                **spec,
                "holderIdentity": self._holder,
                "leaseDurationSeconds": DURATION_S,
                "renewTime": now,
                "acquireTime": now if is_new_holder else spec.get("acquireTime"),
                "leaseTransitions": (spec.get("leaseTransitions") or 0) + is_new_holder,
            },
        }
