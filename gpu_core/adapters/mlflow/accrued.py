"""Logs the accrued cost of a running run, as a metric over time."""

from datetime import datetime
from fractions import Fraction

from mlflow import MlflowClient

from gpu_core.adapters.mlflow.cost import ACCRUED_METRIC, own_runs
from gpu_core.decisions.costs.usage.usage_cost import RunCost
from gpu_core.decisions.model.units import MICRO_USD_PER_USD


def log_accrued_cost(client: MlflowClient, cost: RunCost, now: datetime) -> bool:
    """Log what this run has cost by now to the MLflow run that it tracks.

    Returns:
        False: a part of it has no price, or it has no MLflow run yet; none is created for it.

    Raises:
        MlflowException: MLflow cannot be reached, or refuses.
    """
    if cost.usage.is_unpriced:
        return False
    found = own_runs(client, cost.run.flow_run_id)
    if not found:
        return False
    usd = float(cost.usage.exact_micro_usd / Fraction(MICRO_USD_PER_USD))
    at_ms = int(now.timestamp() * 1000)
    client.log_metric(found[0].info.run_id, ACCRUED_METRIC, usd, timestamp=at_ms)
    return True
