"""Compares fixed and scaled replicas over a day with a changing load."""

from datetime import UTC, datetime
from pathlib import Path

from mlflow import MlflowClient
from prefect import flow, get_run_logger

from gpu_core.adapters.files.catalog_file import load_catalog
from gpu_core.adapters.mlflow.experiments import log_experiment
from gpu_core.adapters.prefect.experiment_page import publish_page
from gpu_core.decisions.catalog import DEFAULT_CATALOG
from gpu_core.decisions.optimization.experiments.mlflow_runs import children_of_scaling
from gpu_core.decisions.optimization.experiments.plans import one_by_one
from gpu_core.decisions.optimization.experiments.scaling import USUAL_DAY, DayDemand, compare_plans
from gpu_core.decisions.optimization.experiments.scaling_page import scaling_page
from gpu_core.runtime.inference.measurement import measure_workload
from gpu_core.runtime.tracking import tracked_run

ARTIFACT_KEY = "gpu-scaling-with-demand"
DESCRIPTION = "Cost and p99 of replicas over a day"


@flow(name="compare-scaling")
def compare_scaling(
    peak_load: float = 2.8,
    target_load: float = 0.7,
    startup_s: float = 120.0,
    day: list[float] | None = None,
    workload: str | None = None,
    usd_per_hour: float | None = None,
    repeats: int = 5,
    seconds: float = 1.0,
    catalog: Path = DEFAULT_CATALOG,
) -> None:
    """Compares the cost and the p99 of fixed replicas with replicas that follow the demand.

    The duration of a request is measured on the device of this run, and is used to simulate a day.
    The simulation computes the cost and the p99 for fixed replicas, for replicas that start at the
    hour, and for replicas that start ahead of time. An MLflow run with a child run for each of them
    is created.

    Args:
        peak_load: The number of requests at the peak, as a multiple of the requests that one
            replica can handle without idle time.
        target_load: The maximum fraction of time for which a replica is busy if replicas follow the
            demand, from 0.1 to 0.95.
        startup_s: The number of seconds that a replica needs to start. The replica is charged
            during this time.
        day: The demand in each of the 24 hours as a fraction of the peak, from 0.001 to 1. Defaults
            to an invented day with 20% of the peak at 4 o'clock.
        workload: `module:function` that creates the workload to measure. Defaults to a classifier
            in torch, or in NumPy if torch is not installed.
        usd_per_hour: The price of a replica. Defaults to the on-demand price of the GPU in the
            catalog. The catalog does not contain prices of CPUs.
        repeats: The number of repeats of the measurement. Must be at least 2 to calculate
            intervals.
        seconds: The duration of each repeat.
        catalog: The path to a catalog with prices. Defaults to the catalog of the package if the
            file does not exist.

    Raises:
        InvalidInput: A parameter cannot be used, or the device does not have a price.
        MeasurementFailed: The workload failed. The last lines of its output are in the log.
    """
    demand = DayDemand(
        peak_load=peak_load,
        target_load=target_load,
        startup_s=startup_s,
        day=USUAL_DAY if day is None else tuple(day),
    )
    offers = load_catalog(catalog)
    with tracked_run(run_name=f"scaling {datetime.now(UTC):%Y-%m-%d %H:%M}") as parent:
        found = measure_workload(
            workload,
            one_by_one,
            offers,
            usd_per_hour=usd_per_hour,
            repeats=repeats,
            seconds=seconds,
        )
        comparison = compare_plans(found, demand)
        page = scaling_page(comparison)
        log_experiment(MlflowClient(), parent.info.run_id, children_of_scaling(comparison), page)
    publish_page(page, ARTIFACT_KEY, DESCRIPTION)
    get_run_logger().info("%s", comparison.sentence)
