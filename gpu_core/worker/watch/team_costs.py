"""The spending of teams this day and month, read from the ledger once a minute."""

import logging
from datetime import datetime

from gpu_core.adapters.ledger import Ledger
from gpu_core.adapters.ledger.cost_slices import CostQuestion
from gpu_core.decisions.costs.reports.cost_report import cost_report, period_window
from gpu_core.decisions.model.errors import sentences
from gpu_core.worker.operations.metrics import WorkerMetrics
from gpu_core.worker.operations.threads import in_thread
from gpu_core.worker.operations.throttle import Throttle

_log = logging.getLogger("prefect.gpu.metrics")

_EVERY_S = 60.0
_PERIODS = ("day", "month")
_BY = ("team",)


class TeamCosts:
    """Reads the costs for the metrics. Nothing else depends on them: a failure is only logged.

    Args:
        ledger: The usage ledger.
        pool: Whose runs count.
        metrics: Where the costs are noted.
    """

    def __init__(self, ledger: Ledger, pool: str, metrics: WorkerMetrics) -> None:
        self._ledger = ledger
        self._pool = pool
        self._metrics = metrics
        self._turns = Throttle(_EVERY_S)

    async def refresh(self, now: datetime, now_s: float) -> None:
        """Read the costs, if they were not read within the last minute.

        Args:
            now: Attempts that hold their GPUs are costed up to here.
            now_s: By a monotonic clock.
        """
        if not self._turns.allows(now_s):
            return
        try:
            costs = await in_thread(self._read, now)
        except Exception as error:
            why = sentences(str(error), "retrying in about a minute")
            _log.debug("Failed to read team spending: %s", why)
            return
        self._metrics.note_team_costs(costs)

    def _read(self, now: datetime) -> dict[tuple[str | None, str], float]:
        found: dict[tuple[str | None, str], float] = {}
        for period in _PERIODS:
            window = period_window(period, now.date())
            asked = CostQuestion(window=window, keys=_BY, now=now, pool=self._pool)
            slices, runs = self._ledger.cost_slices(asked)
            for row in cost_report(window, _BY, slices, runs).rows:
                (team,) = row.keys
                found[(None if team is None else str(team), period)] = float(row.micro_usd)
        return found
