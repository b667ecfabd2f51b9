"""The log of decisions: statements over one connection, in its transaction. Nothing is updated."""

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict
from datetime import UTC, datetime
from typing import Any, NamedTuple

import sqlalchemy as sa

from gpu_core.adapters.ledger.engine import chunks
from gpu_core.adapters.ledger.schema import decisions, purged_policies
from gpu_core.decisions.model.decision_chain import (
    POLICY_TEXT,
    Decision,
    DecisionKind,
    Head,
    Link,
    chained,
)

_c = decisions.c
_ROWS_PER_READ = 1000


class PolicyText(NamedTuple):
    """A policy that a worker had in force."""

    since: datetime
    text: str | None
    """Of its file, without passwords; None: the default policy."""


def append(connection: sa.Connection, writer: str, batch: Sequence[Decision]) -> None:
    """Add these decisions to the end of a writer's chain; those that are there are left out."""
    if not batch:
        return
    lock_chain(connection, writer)
    known = _known(connection, [decision.decision_id for decision in batch])
    new = {d.decision_id: d for d in batch if d.decision_id not in known}
    links = chained(writer, _head(connection, writer), new.values())
    if links:
        connection.execute(sa.insert(decisions), [asdict(link) for link in links])


def lock_chain(connection: sa.Connection, writer: str) -> None:
    """Let no other transaction change this writer's chain before this one has ended."""
    if connection.dialect.name == "postgresql":  # SQLite lets one transaction write at a time
        lock = sa.func.pg_advisory_xact_lock(sa.func.hashtext(f"prefect-gpu decisions {writer}"))
        connection.execute(sa.select(lock))


def read_links(
    connection: sa.Connection,
    flow_run_id: str | None = None,
    kind: str | None = None,
    writer: str | None = None,
) -> Iterator[Link]:
    """All decisions by writer and number, or those about a run, of a kind or of a writer."""
    statement = sa.select(decisions).order_by(_c.writer, _c.number)
    if flow_run_id is not None:
        statement = statement.where(_c.flow_run_id == flow_run_id)
    if kind is not None:
        statement = statement.where(_c.kind == kind)
    if writer is not None:
        statement = statement.where(_c.writer == writer)
    found = connection.execution_options(yield_per=_ROWS_PER_READ).execute(statement)
    return (Link(**row) for row in found.mappings())


def runs_with(
    connection: sa.Connection, kind: DecisionKind, flow_run_ids: Sequence[str]
) -> frozenset[str]:
    """The runs among these with a decision of this kind."""
    of_kind = sa.select(_c.flow_run_id).where(_c.kind == kind.value).distinct()
    found: set[str] = set()
    for chunk in chunks(flow_run_ids):
        found.update(connection.scalars(of_kind.where(_c.flow_run_id.in_(chunk))))
    return frozenset(found)


def last_policy(connection: sa.Connection, writer: str, since: datetime) -> str | None:
    """The digest of the policy that this writer noted last.

    Returns:
        None: It has noted none with its text since then.
    """
    of_policy = sa.and_(
        _c.writer == writer,
        _c.kind == DecisionKind.POLICY_CHANGED.value,
        _c.decided_at >= _stored(since),
    )
    last = sa.select(_c.numbers).where(of_policy).order_by(_c.number.desc()).limit(1)
    text = connection.scalar(last)
    numbers = {} if text is None else _numbers(text)
    return str(numbers.get("sha256", "")) if POLICY_TEXT in numbers else None


def policy_text_at(
    connection: sa.Connection, pool: str | None, moment: datetime
) -> PolicyText | None:
    """The policy that the workers of the pool had in force then; before the first one, the first.

    Args:
        pool: The work pool; None: that of any.

    Returns:
        None: No record has the text of a policy.
    """
    is_policy, p = _c.kind == DecisionKind.POLICY_CHANGED.value, purged_policies.c
    known = sa.union_all(
        sa.select(_c.decision_id, _c.pool, _c.decided_at, _c.numbers).where(is_policy),
        sa.select(p.decision_id, p.pool, p.decided_at, p.numbers),
    )
    noted = known.subquery().c
    of_policy = sa.select(noted.decided_at, noted.numbers)
    if pool is not None:
        of_policy = of_policy.where(noted.pool == pool)
    then = _stored(moment)
    # By the id too: of two at one moment the same one counts before and after a purge.
    before = of_policy.where(noted.decided_at <= then).order_by(
        noted.decided_at.desc(), noted.decision_id.desc()
    )
    after = of_policy.where(noted.decided_at > then).order_by(noted.decided_at, noted.decision_id)
    for statement in (before, after):
        for row in connection.execute(statement):
            numbers = _numbers(row.numbers)
            if POLICY_TEXT in numbers:
                return PolicyText(datetime.fromisoformat(row.decided_at), numbers[POLICY_TEXT])
    return None


def _stored(moment: datetime) -> str:
    """A moment as records have it: in the order of time."""
    return moment.astimezone(UTC).isoformat(timespec="microseconds")


def _numbers(text: str) -> Mapping[str, Any]:
    """The numbers of a record; empty where a person has changed the record."""
    try:
        found = json.loads(text)
    except (ValueError, RecursionError):
        return {}
    return found if isinstance(found, dict) else {}


def _known(connection: sa.Connection, ids: Sequence[str]) -> set[str]:
    found: set[str] = set()
    for chunk in chunks(ids):
        found.update(connection.scalars(sa.select(_c.decision_id).where(_c.decision_id.in_(chunk))))
    return found


def _head(connection: sa.Connection, writer: str) -> Head:
    last = sa.select(_c.number, _c.hash).where(_c.writer == writer)
    row = connection.execute(last.order_by(_c.number.desc()).limit(1)).one_or_none()
    return Head() if row is None else Head(row.number, row.hash)
