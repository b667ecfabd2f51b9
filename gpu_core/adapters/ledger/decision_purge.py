"""Purges of the log of decisions: old records go, a signed anchor of each chain stays.

So do the texts of policies, outside the chains: a report of a past month uses the one of then.
"""

from collections.abc import Mapping
from dataclasses import asdict
from datetime import UTC, datetime

import sqlalchemy as sa

from gpu_core.adapters.ledger.decision_log import lock_chain
from gpu_core.adapters.ledger.engine import upsert
from gpu_core.adapters.ledger.schema import decision_anchors, decisions, purged_policies
from gpu_core.decisions.model.decision_anchor import signed_anchor
from gpu_core.decisions.model.decision_chain import DecisionKind
from gpu_core.decisions.optimization.proposals.records import WRITER as PROPOSALS

_c = decisions.c


def purgeable(connection: sa.Connection, before: datetime) -> dict[str, int]:
    """The last record up to which each chain can be cut.

    Chains without a record that old are left out.

    The chain of proposals is kept: each applied one is scored, and can be undone. Of others only
    the beginning is cut, up to the first record that is not older, and never the last record: a
    writer continues from it.
    """
    text = before.astimezone(UTC).isoformat(timespec="microseconds")
    newer = sa.func.min(sa.case((_c.decided_at >= text, _c.number)))
    last = sa.func.max(_c.number)
    cut = sa.func.coalesce(newer, last) - 1
    statement = (
        sa.select(_c.writer, cut)
        .where(_c.writer != PROPOSALS)
        .group_by(_c.writer)
        .having(cut >= sa.func.min(_c.number))
    )
    return dict(row._tuple() for row in connection.execute(statement))


def purge(
    connection: sa.Connection, cuts: Mapping[str, int], key: bytes, now: datetime
) -> dict[str, int]:
    """Delete the records up to these, and leave an anchor for each chain.

    Returns the numbers deleted.

    Args:
        cuts: By writer: the last record that goes.
        key: Signs the anchors.
        now: When it is done.
    """
    deleted: dict[str, int] = {}
    for writer, number in sorted(cuts.items()):
        lock_chain(connection, writer)
        of_cut = sa.select(_c.hash).where(_c.writer == writer, _c.number == number)
        record_hash = connection.scalar(of_cut)
        if record_hash is None:  # another purge was faster
            continue
        anchor = signed_anchor(writer, number, record_hash, now, key)
        connection.execute(sa.insert(decision_anchors).values(asdict(anchor)))
        is_old = sa.and_(_c.writer == writer, _c.number <= number)
        _keep_policies(connection, is_old)
        deleted[writer] = connection.execute(sa.delete(decisions).where(is_old)).rowcount
    return deleted


def _keep_policies(connection: sa.Connection, is_old: sa.ColumnElement[bool]) -> None:
    kept = purged_policies.c
    is_policy = _c.kind == DecisionKind.POLICY_CHANGED.value
    old = sa.select(*(_c[column.name] for column in kept)).where(is_old, is_policy)
    insert = upsert(connection.dialect.name)(purged_policies)
    connection.execute(insert.from_select(list(kept), old).on_conflict_do_nothing())
