"""Alerts of budgets, through Prefect's notification blocks: Slack, e-mail or any webhook."""

import logging
from collections.abc import Collection
from datetime import datetime

import anyio
from anyio.abc import TaskGroup

from gpu_core.adapters.ledger import Ledger
from gpu_core.decisions.model.cluster import PastUsage
from gpu_core.decisions.policy.policy import Policy
from gpu_core.decisions.quota.budget_alerts import AlertMark, BudgetAlert, due_alerts
from gpu_core.worker.operations.threads import in_thread
from gpu_core.worker.watch.notifications import LoadBlock, load_block, notify

_log = logging.getLogger("prefect.gpu.budgets")

_INTERVAL_S = 60.0


class BudgetAlerts:
    """Reports each mark of each budget once in a period, also over restarts of the worker.

    A mark is written down when every block has taken its message: a worker that dies in between
    sends it again, and a block that fails is tried again a minute later. What another worker of the
    pool has reported is read before each message; two that send in the same moment both send.

    Args:
        ledger: Keeps what was reported.
        pool: Whose budgets they are.
        tasks: Where messages are sent, so that a slow webhook delays no cycle.
        load: Reads a saved block by `type/name`.
    """

    def __init__(
        self,
        ledger: Ledger,
        pool: str,
        tasks: TaskGroup,
        load: LoadBlock = load_block,
    ) -> None:
        self._ledger = ledger
        self._pool = pool
        self._tasks = tasks
        self._load = load
        self._sent: set[AlertMark] = set()
        self._logged: set[AlertMark] = set()
        self._being_sent: set[AlertMark] = set()
        self._failed_s: dict[AlertMark, float] = {}

    async def check(
        self, policy: Policy, usage: PastUsage, now: datetime, stopped: Collection[str] = ()
    ) -> None:
        """Report the marks that were reached; after a failure once a minute.

        Args:
            stopped: Names of budgets that have stopped runs in this period.
        """
        if not any(due_alerts(policy, usage, self._sent | self._left_alone(), now, stopped)):
            return
        self._sent = set(await in_thread(self._ledger.budget_alerts, self._pool))
        for alert in due_alerts(policy, usage, self._sent | self._left_alone(), now, stopped):
            if not self._logged.issuperset(alert.marks):
                _log.warning("%s. %s", alert.subject, alert.body)
                self._logged.update(alert.marks)
            self._being_sent.update(alert.marks)
            self._tasks.start_soon(self._report, alert, now)

    def _left_alone(self) -> set[AlertMark]:
        """The marks that are being sent, or failed a moment ago."""
        since_s = anyio.current_time() - _INTERVAL_S
        self._failed_s = {mark: at for mark, at in self._failed_s.items() if at > since_s}
        return self._being_sent | self._failed_s.keys()

    async def _report(self, alert: BudgetAlert, now: datetime) -> None:
        try:
            if await notify(
                alert.policy.notify,
                f"Budget {alert.policy.name}",
                alert.subject,
                alert.body,
                self._load,
            ):
                await in_thread(self._ledger.note_budget_alerts, self._pool, alert.marks, now)
                self._sent.update(alert.marks)
            else:
                self._failed_s |= dict.fromkeys(alert.marks, anyio.current_time())
        except Exception:  # the ledger is unavailable: the next check reports it again
            _log.exception("Failed to record budget alert")
            self._failed_s |= dict.fromkeys(alert.marks, anyio.current_time())
        finally:
            self._being_sent.difference_update(alert.marks)
