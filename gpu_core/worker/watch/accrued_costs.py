"""Logs the accrued costs of running runs to MLflow."""

import logging
from collections.abc import Iterable, Sequence
from datetime import datetime

import anyio
from anyio.abc import TaskGroup
from httpx import codes

from gpu_core.adapters.ledger import Ledger
from gpu_core.decisions.costs.mlflow.mlflow_access import MlflowAccess
from gpu_core.decisions.costs.usage.usage_cost import run_cost
from gpu_core.worker.attempts.state import AttemptState
from gpu_core.worker.operations.threads import in_abandonable_thread
from gpu_core.worker.operations.throttle import LastSaid, Throttle

_log = logging.getLogger("prefect.gpu.mlflow")

_INTERVAL_S = 60.0


class AccruedCosts:
    """Logs `cost/accrued_usd` of all running runs once a minute.

    Nothing depends on it: an MLflow that is unavailable or slow delays no cycle, and the next round
    has the cost of then.

    Args:
        ledger: Where the attempts and their prices are.
        mlflow: Where costs are logged; None: nowhere.
        tasks: Runs a round in the background, so that the cycle does not wait for it.
    """

    def __init__(self, ledger: Ledger, mlflow: MlflowAccess | None, tasks: TaskGroup) -> None:
        self._ledger = ledger
        self._mlflow = mlflow
        self._tasks = tasks
        self._throttle = Throttle(_INTERVAL_S)
        self._is_logging = False
        self._threads = anyio.CapacityLimiter(1)
        self._failure = LastSaid()

    def check(self, running: Iterable[AttemptState], now: datetime) -> None:
        """Begin a round if one is due and the last one is over."""
        if self._mlflow is None or self._is_logging:
            return
        if not self._throttle.allows(anyio.current_time()):
            return
        with_gpus = {each.attempt.flow_run_id for each in running if each.attempt.gpu_ids}
        flow_run_ids = sorted(with_gpus)
        if flow_run_ids:
            self._is_logging = True
            self._tasks.start_soon(self._round, self._mlflow, flow_run_ids, now)

    async def _round(
        self, mlflow: MlflowAccess, flow_run_ids: Sequence[str], now: datetime
    ) -> None:
        try:
            # A worker that stops does not wait for MLflow's retries, which take minutes.
            await in_abandonable_thread(self._threads, self._log_all, mlflow, flow_run_ids, now)
            self._failure.forget()
        except Exception as error:
            if self._failure.is_news(type(error)):
                _log.warning(
                    "Failed to log the cost of active flow runs to MLflow: %s", type(error).__name__
                )
        finally:
            self._is_logging = False

    def _log_all(self, mlflow: MlflowAccess, flow_run_ids: Sequence[str], now: datetime) -> None:
        # MLflow takes seconds to import, and Prefect imports the worker for every command.
        from mlflow.exceptions import MlflowException

        from gpu_core.adapters.mlflow.accrued import log_accrued_cost
        from gpu_core.adapters.mlflow.client import mlflow_client

        client, refused = mlflow_client(mlflow), None
        for record, attempts in self._ledger.records_of(flow_run_ids):
            try:
                log_accrued_cost(client, run_cost(record, attempts, now), now)
            except MlflowException as error:
                # A server that refuses one run, such as in an experiment of others, takes the next.
                status: int = error.get_http_status_code()  # type: ignore[no-untyped-call]  # MLflow's
                if status >= codes.INTERNAL_SERVER_ERROR:
                    raise
                refused = error
        if refused is not None:
            raise refused
