"""Scale replicas with demand: measure a request, compute a day, publish."""

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
    """What does it save to have the replicas that each hour needs, and what becomes of the p99?

    The time of a request is measured on this run's device. From it a simulation of a day computes
    cost and p99 of fixed replicas, of replicas that start at the hour, and of replicas that start
    ahead of it. MLflow gets a run with a child for each of them.

    Args:
        peak_load: Requests at the peak, in what one replica answers when it is never idle.
        target_load: Part of the time for which a replica is busy at most, 0.1 to 0.95, where
            replicas follow the demand.
        startup_s: How long a replica takes to start; it costs meanwhile.
        day: The demand of the 24 hours in parts of the peak, 0.001 to 1; by default an invented day
            with 20 % of the peak at 4 o'clock.
        workload: `module:function` that makes what is measured; by default a classifier in torch,
            or in NumPy where torch is not installed.
        usd_per_hour: What a replica costs; by default the catalog's on-demand price of the GPU.
            A CPU has none there.
        repeats: Of the measurement, 2 or more for intervals.
        seconds: How long each repeat takes.
        catalog: Where prices are read; the package's own where there is no such file.

    Raises:
        InvalidInput: A parameter cannot be used, or the device has no price.
        MeasurementFailed: The workload has failed; the log has its last lines.
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
