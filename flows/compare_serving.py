"""Compares batch sizes for a backlog that is served together with interactive requests."""

from datetime import UTC, datetime
from functools import partial
from pathlib import Path

from mlflow import MlflowClient
from prefect import flow, get_run_logger

from gpu_core.adapters.files.catalog_file import load_catalog
from gpu_core.adapters.mlflow.experiments import log_experiment
from gpu_core.adapters.prefect.experiment_page import publish_page
from gpu_core.decisions.catalog import DEFAULT_CATALOG
from gpu_core.decisions.optimization.experiments.low_priority import (
    InteractiveDemand,
    compare_policies,
)
from gpu_core.decisions.optimization.experiments.low_priority_page import policies_page
from gpu_core.decisions.optimization.experiments.mlflow_runs import children_of_policies
from gpu_core.decisions.optimization.experiments.plans import Experiment, measured_settings
from gpu_core.runtime.inference.measurement import measure_workload
from gpu_core.runtime.tracking import tracked_run

ARTIFACT_KEY = "gpu-low-priority-batches"
DESCRIPTION = "Cost of a backlog against interactive latency"


@flow(name="compare-serving")
def compare_serving(
    requests_per_s: float | None = None,
    interactive_batch: int = 1,
    p99_limit_ms: float | None = None,
    workload: str | None = None,
    usd_per_hour: float | None = None,
    repeats: int = 5,
    seconds: float = 1.0,
    requests: int = 10_000,
    catalog: Path = DEFAULT_CATALOG,
) -> None:
    """Compares batch sizes for low-priority requests that share a device with interactive requests.

    The duration of batches of 1 to 32 requests is measured on the device of this run. For each
    batch size of the backlog, a simulation computes the cost, the throughput, and the p99 of the
    interactive requests, which are served first. An MLflow run with a child run for each policy is
    created.

    Args:
        requests_per_s: The number of interactive requests per second. Defaults to the number that
            keeps the device busy for 30% of the time in the slowest repeat, if requests are
            handled one by one.
        interactive_batch: The maximum number of waiting interactive requests that are handled
            together. Must be 1, 4, 8, 16 or 32.
        p99_limit_ms: The maximum p99 of the interactive requests. Defaults to twice the p99 without
            low-priority requests.
        workload: `module:function` that creates the workload to measure. Defaults to a classifier
            in torch, or in NumPy if torch is not installed.
        usd_per_hour: The price of the device. Defaults to the on-demand price of the GPU in the
            catalog. The catalog does not contain prices of CPUs.
        repeats: The number of repeats for each batch size. Must be at least 2 to calculate
            intervals.
        seconds: The duration of each repeat.
        requests: The number of interactive requests in each simulated repeat.
        catalog: The path to a catalog with prices. Defaults to the catalog of the package if the
            file does not exist.

    Raises:
        InvalidInput: A parameter cannot be used, the device does not have a price, or the device
            cannot handle all interactive requests.
        MeasurementFailed: The workload failed. The last lines of its output are in the log.
    """
    demand = InteractiveDemand(
        requests_per_s=requests_per_s,
        interactive_batch=interactive_batch,
        p99_limit_ms=p99_limit_ms,
        requests=requests,
    )
    offers = load_catalog(catalog)
    with tracked_run(run_name=f"low-priority {datetime.now(UTC):%Y-%m-%d %H:%M}") as parent:
        found = measure_workload(
            workload,
            partial(measured_settings, Experiment.BATCH_SIZE),
            offers,
            usd_per_hour=usd_per_hour,
            repeats=repeats,
            seconds=seconds,
        )
        comparison = compare_policies(found, demand)
        page = policies_page(comparison)
        log_experiment(MlflowClient(), parent.info.run_id, children_of_policies(comparison), page)
    publish_page(page, ARTIFACT_KEY, DESCRIPTION)
    get_run_logger().info("%s", comparison.sentence)
