"""A metric of a flow run over time."""

from datetime import UTC, datetime
from typing import NamedTuple

from mlflow import MlflowClient
from mlflow.entities import Run

from gpu_core.adapters.mlflow.cost import own_runs
from gpu_core.decisions.model.errors import InvalidInput
from gpu_core.decisions.optimization.sweeps.trials import MetricPoint


class MetricHistory(NamedTuple):
    """The metrics of a flow run in MLflow."""

    points: tuple[MetricPoint, ...]
    """The oldest first."""
    names: frozenset[str]
    """Of all metrics that it has."""
    run: Run | None = None
    """Its MLflow run; None: it has none."""


def read_metric(client: MlflowClient, flow_run_id: str, metric: str) -> MetricHistory:
    """The values that this metric has had in the MLflow run of a flow run.

    None where it has no MLflow run.

    Raises:
        InvalidInput: A value has a time that is no date.
        MlflowException: MLflow cannot be reached, or refuses.
    """
    found = own_runs(client, flow_run_id)
    if not found:
        return MetricHistory((), frozenset())
    names = frozenset(found[0].data.metrics)
    if metric not in names:
        return MetricHistory((), names, found[0])
    history = client.get_metric_history(found[0].info.run_id, metric)
    ordered = sorted(history, key=lambda point: (point.timestamp, point.step))
    points = (MetricPoint(_moment(point.timestamp), point.value) for point in ordered)
    return MetricHistory(tuple(points), names, found[0])


def _moment(timestamp_ms: int) -> datetime:
    try:
        return datetime.fromtimestamp(timestamp_ms / 1000, UTC)
    except (OverflowError, OSError, ValueError):
        raise InvalidInput(
            "metric", "has a value at a time that is no date", got=timestamp_ms,
            allowed="milliseconds since 1970",
            remedy="log it without a timestamp, and give the sweep another name",
        ) from None  # fmt: skip
