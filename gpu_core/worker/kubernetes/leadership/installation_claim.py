"""One acting installation for each pool: a claim in the ledger and another one in Prefect.

Each installation has a lease of its own, so two of them would both act. The worker that has its
installation's lease renews the claim; any worker of the same installation may. Another installation
takes a claim only when it has not been renewed for `DURATION_S` by its own clock, and by comparing
and setting, so that a watcher that was suspended takes nothing. Who lost a claim without noticing
opens no attempt: the ledger checks the claim in the transaction that opens it.

Installations with different ledgers share only Prefect, whose claim is a variable of the same form.
"""

import logging
import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from datetime import UTC, datetime

import anyio
import httpx
from sqlalchemy.exc import SQLAlchemyError

from gpu_core.adapters.ledger import LedgerError
from gpu_core.decisions.checks.prefect.pool_claim import DURATION_S, Installation, PoolClaim

_log = logging.getLogger("prefect.gpu.claim")

ClaimPool = Callable[[PoolClaim, PoolClaim | None], Awaitable[PoolClaim]]
"""Creates or renews the first claim, or takes over the second; the claim that counts."""

_RENEW_S = 15.0
# Without an answer of the ledger the holder changes nothing from here on. Another installation may
# begin after twice that time: what is under way then is over by then.
_GIVE_UP_S = DURATION_S / 2

# This process's monotonic clock; a name of its own, so that tests can set it.
_now_s = time.monotonic


@dataclass(frozen=True, slots=True)
class _Seen:
    """Another installation's claim, and when it was first seen like this."""

    claim: PoolClaim
    at_s: float


class InstallationClaim:
    """The claim of a pool, as a worker of one installation sees it.

    Args:
        claim_pool: Where it is.
        pool_id: The pool's id in Prefect at this moment; a pool that is made anew has another one.
        pool: The pool's name.
        installation: Whose worker this is.
        holder: Who this worker is.
    """

    def __init__(
        self,
        claim_pool: ClaimPool,
        pool_id: Callable[[], str],
        pool: str,
        installation: Installation,
        holder: str,
    ) -> None:
        self._claim_pool = claim_pool
        self._pool_id = pool_id
        self._pool = pool
        self._holder = holder
        self.installation = installation
        """The installation of this worker."""
        self._claim: PoolClaim | None = None
        self._renewed_at_s = 0.0
        self._seen: _Seen | None = None

    @property
    def is_ours(self) -> bool:
        """Does this installation act, as the ledger said last?"""
        claim = self._claim
        if claim is None or claim.pool_id != self._pool_id():
            return False
        return claim.installation == self.installation

    @property
    def is_held(self) -> bool:
        """May this installation change anything now? Asked before everything that it does."""
        return self.is_ours and _now_s() - self._renewed_at_s < _GIVE_UP_S

    @property
    def other(self) -> PoolClaim | None:
        """The claim of the installation that acts; None: this one, or it is not known."""
        claim = self._claim
        return None if claim is None or claim.installation == self.installation else claim

    async def acquire(self) -> bool:
        """Does this installation act? Asks only where there was no answer yet.

        Raises:
            LedgerError, SQLAlchemyError: The ledger does not answer.
            httpx.HTTPError: Prefect does not answer.
        """
        if self._claim is None or self._claim.pool_id != self._pool_id():
            await self.try_once()
        return self.is_ours

    async def hold(self, may_try: Callable[[], bool], on_change: Callable[[], None]) -> None:
        """Keep the claim, or wait for it, for ever.

        Args:
            may_try: Has this worker its installation's lease?
            on_change: Called when the claim was got, and when it was lost.
        """
        while True:
            await anyio.sleep(_RENEW_S)
            if not may_try():
                self._claim = None  # asked for anew by the worker that gets the lease
                continue
            was_ours = self.is_ours
            try:
                await self.try_once()
            except (LedgerError, SQLAlchemyError, OSError, httpx.HTTPError) as error:
                _log.debug("Claim of pool %r: %s", self._pool, error)
            if self.is_ours != was_ours:
                on_change()

    async def try_once(self) -> bool:
        """Renew the claim, or take it if no other installation keeps it. Is it ours?

        Raises:
            LedgerError, SQLAlchemyError: The ledger does not answer.
            httpx.HTTPError: Prefect does not answer.
        """
        # Counted from before the question: its answer may be late.
        asked_at_s = _now_s()
        claim = await self._claim_pool(self._wanted(), self._expired(asked_at_s))
        self._claim = claim
        if claim.installation == self.installation:
            self._renewed_at_s, self._seen = asked_at_s, None
            return True
        if self._seen is None or not _is_same(self._seen.claim, claim):
            self._seen = _Seen(claim, _now_s())
        return False

    def _expired(self, now_s: float) -> PoolClaim | None:
        """The other installation's claim, if it was not renewed for too long."""
        seen = self._seen
        is_over = seen is not None and now_s - seen.at_s >= DURATION_S
        return seen.claim if seen is not None and is_over else None

    def _wanted(self) -> PoolClaim:
        now = datetime.now(UTC)
        return PoolClaim(
            pool_id=self._pool_id(),
            pool=self._pool,
            installation=self.installation,
            holder=self._holder,
            claimed_at=now,
            renewed_at=now,
            renewals=0,
        )


def _is_same(seen: PoolClaim, now: PoolClaim) -> bool:
    return (seen.pool_id, seen.installation, seen.renewals) == (
        now.pool_id,
        now.installation,
        now.renewals,
    )
