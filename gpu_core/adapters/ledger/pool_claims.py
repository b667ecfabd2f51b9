"""The claim of a pool by an installation: statements over one connection, in its transaction.

A claim changes hands by comparing and setting: the installation that takes it names the claim that
it has watched, and gets it only if that one was not renewed since. No other machine's clock counts.
"""

import sqlalchemy as sa
from sqlalchemy.dialects import postgresql, sqlite

from gpu_core.adapters.ledger.errors import PoolNotOurs
from gpu_core.adapters.ledger.schema import pool_claims
from gpu_core.decisions.checks.prefect.pool_claim import Installation, PoolClaim, who_acts

_c = pool_claims.c


def claim_pool(
    connection: sa.Connection, wanted: PoolClaim, instead_of: PoolClaim | None
) -> PoolClaim:
    """Insert, renew or take over; the claim that counts afterwards.

    Raises:
        PoolNotOurs: The row was deleted in the same moment.
    """
    insert = postgresql.insert if connection.dialect.name == "postgresql" else sqlite.insert
    connection.execute(insert(pool_claims).values(_row(wanted)).on_conflict_do_nothing())
    renewed = {
        "pool": wanted.pool,
        "holder": wanted.holder,
        "renewed_at": wanted.renewed_at,
        "renewals": _c.renewals + 1,
    }
    update = sa.update(pool_claims).where(_c.pool_id == wanted.pool_id)
    own = connection.execute(update.where(_is_of(wanted.installation)).values(renewed))
    if own.rowcount == 0 and instead_of is not None:
        there = wanted.installation
        taken = {"cluster": there.cluster, "namespace": there.namespace}
        connection.execute(
            update.where(
                _is_of(instead_of.installation), _c.renewals == instead_of.renewals
            ).values({**renewed, **taken, "claimed_at": wanted.claimed_at})
        )
    now = read_claim(connection, wanted.pool_id)
    if now is None:
        raise PoolNotOurs(f"the claim of pool {wanted.pool!r} was deleted from the ledger")
    return now


def read_claim(
    connection: sa.Connection, pool_id: str, *, is_kept: bool = False
) -> PoolClaim | None:
    """The claim of this pool; None: there is none.

    Args:
        is_kept: Whether it is locked until this transaction ends.
    """
    statement = sa.select(pool_claims).where(_c.pool_id == pool_id)
    if is_kept:
        statement = statement.with_for_update(read=True)
    row = connection.execute(statement).mappings().one_or_none()
    if row is None:
        return None
    return PoolClaim(
        pool_id=row[_c.pool_id],
        pool=row[_c.pool],
        installation=Installation(cluster=row[_c.cluster], namespace=row[_c.namespace]),
        holder=row[_c.holder],
        claimed_at=row[_c.claimed_at],
        renewed_at=row[_c.renewed_at],
        renewals=row[_c.renewals],
    )


def check_claim(connection: sa.Connection, pool_id: str, own: Installation) -> None:
    """Let what follows in this transaction be written only while the claim is this installation's.

    Raises:
        PoolNotOurs: It is not, or is gone.
    """
    claim = read_claim(connection, pool_id, is_kept=True)
    if claim is None:
        raise PoolNotOurs("the claim of this installation was deleted from the ledger")
    if claim.installation != own:
        raise PoolNotOurs(f"unable to start runs: {who_acts(claim, own)}")


def _is_of(installation: Installation) -> sa.ColumnElement[bool]:
    return sa.and_(_c.cluster == installation.cluster, _c.namespace == installation.namespace)


def _row(claim: PoolClaim) -> dict[str, object]:
    return {
        "pool_id": claim.pool_id,
        "pool": claim.pool,
        "cluster": claim.installation.cluster,
        "namespace": claim.installation.namespace,
        "holder": claim.holder,
        "claimed_at": claim.claimed_at,
        "renewed_at": claim.renewed_at,
        "renewals": 0,
    }
