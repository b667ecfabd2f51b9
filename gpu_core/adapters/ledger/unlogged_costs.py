"""Runs whose cost is not in MLflow yet: statements over one connection, in its transaction.

A run is listed in the transaction that changes its cost, and leaves the list when MLflow has it: an
outage of MLflow and a killed worker lose nothing. (The pattern "transactional outbox": C.
Richardson, "Microservices Patterns", 2018, section 3.3.)
"""

from collections.abc import Mapping
from datetime import datetime
from uuid import uuid4

import sqlalchemy as sa

from gpu_core.adapters.ledger.engine import upsert
from gpu_core.adapters.ledger.schema import runs, unlogged_costs
from gpu_core.decisions.costs.mlflow.unlogged_cost import TAKEN_OVER_AFTER, CostChange, UnloggedCost
from gpu_core.decisions.model.units import require_aware

_c = unlogged_costs.c


def mark_unlogged(
    connection: sa.Connection, hosts: Mapping[str, str], cause: CostChange, since: datetime
) -> None:
    """List these runs, which the ledger has; one that is listed keeps its place.

    Args:
        hosts: By flow run: the host whose worker logs its cost.
        cause: Why it is logged.
        since: From when on.
    """
    rows = [{"run": run, "on_host": hosts[run], "change": uuid4().hex} for run in sorted(hosts)]
    if not rows:
        return
    pool = sa.select(runs.c.pool).where(runs.c.flow_run_id == sa.bindparam("run"))
    insert = upsert(connection.dialect.name)(unlogged_costs).values(
        flow_run_id=sa.bindparam("run"),
        pool=pool.scalar_subquery(),
        host=sa.bindparam("on_host"),
        cause=cause,
        since=require_aware(since, "since"),
        change_id=sa.bindparam("change"),
    )
    changed = {name: insert.excluded[name] for name in ("host", "cause", "change_id")}
    connection.execute(
        insert.on_conflict_do_update(index_elements=[_c.flow_run_id], set_=changed), rows
    )


def read_unlogged(
    connection: sa.Connection, pool: str, host: str, now: datetime
) -> tuple[UnloggedCost, ...]:
    """The costs that this host's worker of the pool logs.

    Those of ends first, as a bill can change those of a month; then the one that waits longest.
    """
    statement = (
        sa.select(unlogged_costs)
        .where(_c.pool == pool, sa.or_(_c.host == host, _c.since < now - TAKEN_OVER_AFTER))
        .order_by(_c.cause != CostChange.ENDED, _c.since, _c.flow_run_id)
    )
    return tuple(UnloggedCost(**row) for row in connection.execute(statement).mappings())


def forget_unlogged(connection: sa.Connection, logged: UnloggedCost) -> None:
    """MLflow has this cost; a change since it was read stays listed."""
    connection.execute(
        sa.delete(unlogged_costs).where(
            _c.flow_run_id == logged.flow_run_id, _c.change_id == logged.change_id
        )
    )
