"""The records of spending: sums of costs, bills, alerts of budgets, and costs that MLflow lacks."""

from collections.abc import Iterable, Sequence
from dataclasses import replace
from datetime import datetime, timedelta

import sqlalchemy as sa

from gpu_core.adapters.ledger.attempt_bills import (
    read_bill_sums,
    read_bills_in,
    read_run_bills,
    replace_bills,
)
from gpu_core.adapters.ledger.capacity import (
    read_overlapping,
)
from gpu_core.adapters.ledger.cost_slices import (
    CostQuestion,
    read_cost_slices,
)
from gpu_core.adapters.ledger.database import LedgerDatabase, values_of
from gpu_core.adapters.ledger.engine import scan, upsert
from gpu_core.adapters.ledger.held_capacity import read_held
from gpu_core.adapters.ledger.month_work import WorkQuestion, read_month_work
from gpu_core.adapters.ledger.run_families import last_hosts
from gpu_core.adapters.ledger.schema import (
    budget_alerts,
)
from gpu_core.adapters.ledger.unlogged_costs import forget_unlogged, mark_unlogged, read_unlogged
from gpu_core.decisions.costs.billing.run_bills import AttemptBill, RunBill
from gpu_core.decisions.costs.capacity.idle import CapacityCost, capacity_cost
from gpu_core.decisions.costs.mlflow.unlogged_cost import CostChange, UnloggedCost
from gpu_core.decisions.costs.reports.cost_report import BillSum, CostSlice, Keys
from gpu_core.decisions.costs.savings.month_savings import MonthWork
from gpu_core.decisions.costs.usage.usage_cost import Window
from gpu_core.decisions.quota.budget_alerts import AlertMark


class CostRecords(LedgerDatabase):
    """The costs of runs and machines, and what of them was reported."""

    def cost_slices(self, asked: CostQuestion) -> tuple[list[CostSlice], dict[Keys, int]]:
        """The usage of each group, in slices of one price, and its number of runs."""
        with scan(self._reader) as connection:
            return read_cost_slices(connection, asked)

    def cost_slices_by_day(self, asked: CostQuestion) -> list[list[CostSlice]]:
        """The usage and cost of each group on each UTC day that starts in the window."""
        start, end = asked.window.start, asked.window.end
        days = [Window.of_day(start.date() + timedelta(days=n)) for n in range((end - start).days)]
        with scan(self._reader) as connection:
            by_day = (read_cost_slices(connection, replace(asked, window=day)) for day in days)
            return [held.slices for held in by_day]

    def capacity_cost(self, asked: CostQuestion) -> CapacityCost:
        """The cost of machines in the window, and the part of it that runs paid.

        With a pool only the machines that its worker wrote down, with what all pools' runs paid.
        """
        window, now = asked.window, asked.now
        with scan(self._reader) as connection:
            end = min(window.end, now)
            found = read_overlapping(connection, window.start, end, self._damaged)
            intervals = [i for i in found if asked.pool in (None, i.pool)]
            if not intervals:
                return CapacityCost(machines=())
            held, twice = read_held(connection, intervals, asked)
        return capacity_cost(intervals, held, window, now, twice)

    def month_work(self, asked: WorkQuestion) -> MonthWork:
        """The work of a month, as far as savings depend on it."""
        with scan(self._reader) as connection:
            return read_month_work(connection, asked)

    def note_bills(
        self,
        instances: Iterable[str],
        window: Window,
        found: Sequence[AttemptBill],
        reconciled_at: datetime,
    ) -> frozenset[str]:
        """Write down what a bill says of attempts; the costs of their runs are to be logged again.

        All that earlier bills say of the same machines for a time in the window goes: the same bill
        again changes nothing.

        Args:
            instances: The machines of the bill that are in the ledger.
            window: Its time.
            found: What it says, and what earlier ones say of the time around it (`bills_around`).
            reconciled_at: The moment.

        Returns:
            The runs of which bills say something else now.
        """
        machines = tuple(instances)

        def write(connection: sa.Connection) -> frozenset[str]:
            changed = replace_bills(connection, machines, window, found, reconciled_at)
            hosts = last_hosts(connection, changed)
            mark_unlogged(connection, hosts, CostChange.RECONCILED, reconciled_at)
            return changed

        return self._commits.write(write)

    def bills_in(self, instances: Iterable[str], window: Window) -> tuple[AttemptBill, ...]:
        """The bills of these machines, for a time in this window."""
        with self._reader.begin() as connection:
            return tuple(read_bills_in(connection, instances, window))

    def run_bills(self, flow_run_ids: Iterable[str]) -> dict[str, RunBill]:
        """The bills of these runs. Runs without a bill are left out."""
        with self._reader.begin() as connection:
            return read_run_bills(connection, list(dict.fromkeys(flow_run_ids)))

    def bill_sums(self, asked: CostQuestion) -> dict[Keys, BillSum]:
        """The sums of each group over bills for a time in the window."""
        with self._reader.begin() as connection:
            return read_bill_sums(connection, asked)

    def budget_alerts(self, pool: str) -> tuple[AlertMark, ...]:
        """The marks of this pool's budgets that were reported."""
        c = budget_alerts.c
        statement = sa.select(c.budget, c.period_start, c.percent).where(c.pool == pool)
        with self._reader.begin() as connection:
            return tuple(AlertMark(*row) for row in connection.execute(statement))

    def note_budget_alerts(self, pool: str, marks: Iterable[AlertMark], sent_at: datetime) -> None:
        """Write down that these marks were reported."""
        rows = [values_of({"pool": pool, "sent_at": sent_at, **mark._asdict()}) for mark in marks]
        insert = upsert(self._writer.dialect.name)(budget_alerts).on_conflict_do_nothing()
        self._commits.write(lambda connection: connection.execute(insert, rows))

    def unlogged_costs(self, pool: str, host: str, now: datetime) -> tuple[UnloggedCost, ...]:
        """The costs that this host's worker of the pool logs, the oldest first."""
        with self._reader.begin() as connection:
            return read_unlogged(connection, pool, host, now)

    def note_logged(self, logged: UnloggedCost) -> None:
        """MLflow has this cost; what changed since it was read is still listed."""
        self._commits.write(lambda connection: forget_unlogged(connection, logged))
