"""Serve a backlog next to interactive requests: measure batches, compute policies, publish."""

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
    """In which batches is a backlog of low-priority requests served next to interactive ones?

    The times of batches of 1 to 32 are measured on this run's device. From them a simulation
    computes, for each batch of the backlog, its cost, its throughput and the p99 of the interactive
    requests, which come first. MLflow gets a run with a child for each policy.

    Args:
        requests_per_s: Interactive requests; by default as many as keep the device busy for 30 %
            of the time in the slowest repeat, one by one.
        interactive_batch: How many of them that wait are answered together, at most: 1, 4, 8, 16
            or 32.
        p99_limit_ms: What the p99 of the interactive requests may be; by default twice what it is
            without low-priority requests.
        workload: `module:function` that makes what is measured; by default a classifier in torch,
            or in NumPy where torch is not installed.
        usd_per_hour: What the device costs; by default the catalog's on-demand price of the GPU.
            A CPU has none there.
        repeats: Of each batch size, 2 or more for intervals.
        seconds: How long each repeat takes.
        requests: Interactive requests of each simulated repeat.
        catalog: Where prices are read; the package's own where there is no such file.

    Raises:
        InvalidInput: A parameter cannot be used, the device has no price, or it cannot answer all
            interactive requests.
        MeasurementFailed: The workload has failed; the log has its last lines.
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
