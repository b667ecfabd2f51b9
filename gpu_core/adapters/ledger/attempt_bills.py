"""Bills of attempts: SQL statements over one connection, in its transaction."""

from collections.abc import Iterable, Sequence
from dataclasses import asdict
from datetime import datetime

import sqlalchemy as sa

from gpu_core.adapters.ledger.cost_slices import CostQuestion, key_columns
from gpu_core.adapters.ledger.engine import chunks
from gpu_core.adapters.ledger.schema import attempt_bills, attempts, runs
from gpu_core.decisions.costs.billing.run_bills import AttemptBill, RunBill, run_bills
from gpu_core.decisions.costs.reports.cost_report import BillSum, Keys
from gpu_core.decisions.costs.usage.usage_cost import Window

_c = attempt_bills.c


def replace_bills(
    connection: sa.Connection,
    instances: Iterable[str],
    window: Window,
    found: Sequence[AttemptBill],
    reconciled_at: datetime,
) -> frozenset[str]:
    """Write what bills say; it replaces what earlier ones say of these machines for this time.

    Args:
        instances: The machines of the bill.
        window: Its time.
        found: What it says, and what earlier ones say of the time around it.
        reconciled_at: The moment.

    Returns:
        The runs of which bills say something else now; empty: nothing was written.
    """
    before = set(read_bills_in(connection, instances, window))
    gone, new = before - set(found), [part for part in found if part not in before]
    for part in sorted(gone, key=lambda p: (p.attempt_id, p.instance, p.bill_start)):
        connection.execute(
            sa.delete(attempt_bills).where(
                _c.attempt_id == part.attempt_id,
                _c.instance == part.instance,
                _c.bill_start == part.bill_start,
            )
        )
    if new:
        rows = [asdict(part) | {"reconciled_at": reconciled_at} for part in new]
        connection.execute(sa.insert(attempt_bills), rows)
    return frozenset(part.flow_run_id for part in (*gone, *new))


def read_bills_in(
    connection: sa.Connection, instances: Iterable[str], window: Window
) -> list[AttemptBill]:
    """The bills of these machines, for a time in this window."""
    found: list[AttemptBill] = []
    for ids in chunks(sorted(set(instances))):
        here = (_c.instance.in_(ids), _c.bill_start < window.end, _c.bill_end > window.start)
        found += _read(connection, sa.select(attempt_bills).where(*here))
    return found


def read_run_bills(connection: sa.Connection, flow_run_ids: Sequence[str]) -> dict[str, RunBill]:
    """The bills of these runs. Runs without a bill are left out."""
    found: list[AttemptBill] = []
    for ids in chunks(flow_run_ids):
        statement = sa.select(attempt_bills).where(_c.flow_run_id.in_(ids))
        found += _read(connection, statement)
    return run_bills(found)


def read_bill_sums(connection: sa.Connection, asked: CostQuestion) -> dict[Keys, BillSum]:
    """The sums of bills of each group, for bills of a time in the window.

    A bill that is for a time beyond it says nothing: its parts are not divided.
    """
    keys = key_columns(asked.keys)
    sums = [
        sa.cast(sa.func.sum(column), sa.BigInteger)
        for column in (_c.charged_micro_usd, _c.billed_micro_usd)
    ]
    wanted = [_c.bill_start >= asked.window.start, _c.bill_end <= asked.window.end]
    if asked.pool is not None:
        wanted.append(runs.c.pool == asked.pool)
    if asked.provenance is not None:
        wanted.append(runs.c.provenance == asked.provenance)
    statement = (
        sa.select(*keys, *sums)
        .join_from(attempt_bills, attempts, _c.attempt_id == attempts.c.attempt_id)
        .join(runs, runs.c.flow_run_id == attempts.c.flow_run_id)
        .where(*wanted)
        .group_by(*keys)
    )
    rows = (tuple(row) for row in connection.execute(statement))
    return {row[:-2]: BillSum(*row[-2:]) for row in rows if row[-1] is not None}


def _read(connection: sa.Connection, statement: sa.Select[tuple[object, ...]]) -> list[AttemptBill]:
    names = [column.name for column in _c if column.name != "reconciled_at"]
    rows = connection.execute(statement).mappings()
    return [AttemptBill(**{name: row[name] for name in names}) for row in rows]
