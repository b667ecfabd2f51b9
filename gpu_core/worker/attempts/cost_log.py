"""Logging a run's cost to MLflow when one of its attempts ended."""

from datetime import UTC, datetime

from gpu_core.adapters.ledger import Ledger
from gpu_core.decisions.costs.mlflow_access import MlflowAccess
from gpu_core.decisions.costs.usage_cost import price_book, run_cost


class CostLog:
    """Logs the cost of runs, from the ledger.

    Args:
        mlflow: Where MLflow is, and who we are there; None: nothing is logged.
        ledger: Where the attempts are.
    """

    def __init__(self, mlflow: MlflowAccess | None, ledger: Ledger) -> None:
        self._mlflow = mlflow
        self._ledger = ledger

    def log(self, flow_run_id: str) -> None:
        """Log what the run cost until now. The nightly report repeats what failed here."""
        if self._mlflow is None:
            return
        # MLflow takes seconds to import, and Prefect imports the worker for every command.
        from gpu_core.adapters.mlflow.client import mlflow_client
        from gpu_core.adapters.mlflow.cost import cost_status, log_run_cost

        record = self._ledger.run(flow_run_id)
        attempts = self._ledger.attempts_of([flow_run_id]).get(flow_run_id, ())
        if record is None or not attempts:
            return
        cost = run_cost(record, attempts, datetime.now(UTC))
        if not cost.held_gpus:
            return
        log_run_cost(
            mlflow_client(self._mlflow),
            record,
            cost,
            status=cost_status(cost),
            price_book=price_book(attempts),
        )
