"""The one of several installations that acts for a work pool, and the remedy for the others."""

from dataclasses import dataclass
from datetime import datetime

from gpu_core.decisions.model.units import count

DURATION_S = 180
"""A claim without renewal for this long, by the clock of the worker that waits, may be taken."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Installation:
    """The workers of a pool that share one lease.

    Attributes:
        cluster: The uid of its cluster's namespace kube-system.
    """

    cluster: str
    namespace: str


@dataclass(frozen=True, slots=True, kw_only=True)
class PoolClaim:
    """An installation's claim of a pool, as the ledger or Prefect has it.

    Attributes:
        pool_id: The pool's id in Prefect: other servers have pools of the same name.
        holder: Which of its workers renewed it last.
        claimed_at: Since when this installation has it, by its clock.
        renewed_at: When it was last renewed, by its clock. No decision reads it.
        renewals: How often it was renewed: the mark of a claim that has not changed.
    """

    pool_id: str
    pool: str
    installation: Installation
    holder: str
    claimed_at: datetime
    renewed_at: datetime
    renewals: int


def who_acts(claim: PoolClaim, own: Installation | None) -> str:
    """The clause that names the installation that acts for the pool, and since when.

    Args:
        own: The installation that asks; None: it is not known here.
    """
    there = claim.installation
    if own is None or own.cluster != there.cluster:
        cluster = f"of cluster {there.cluster} (the uid of its namespace kube-system)"
    else:
        cluster = "of this cluster"
    return (
        f"the installation in namespace {there.namespace} {cluster} acts for pool {claim.pool!r} "
        f"since {claim.claimed_at:%Y-%m-%d %H:%M} UTC"
    )


CHOOSE = (
    "uninstall one of the two, or give one a pool of its own. "
    f"This one acts {count(DURATION_S // 60, 'minute')} after the last worker of the other ends"
)
"""The remedy for two installations of one pool."""

OTHER_LEDGER = "give all installations of a pool one ledger, or its costs are in two"
"""The remedy for two installations of one pool with different ledgers."""
