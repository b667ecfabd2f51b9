"""Compares configurations of inference on the device of the run."""

from datetime import UTC, datetime
from functools import partial
from pathlib import Path

from mlflow import MlflowClient
from prefect import flow, get_run_logger

from gpu_core.adapters.files.catalog_file import load_catalog
from gpu_core.adapters.mlflow.experiments import log_experiment
from gpu_core.adapters.prefect.experiment_page import publish_page
from gpu_core.decisions.catalog import DEFAULT_CATALOG
from gpu_core.decisions.optimization.experiments.comparison import compare_trials
from gpu_core.decisions.optimization.experiments.mlflow_runs import children_of
from gpu_core.decisions.optimization.experiments.page import comparison_page
from gpu_core.decisions.optimization.experiments.plans import (
    MOST_PROCESSES,
    Experiment,
    measured_settings,
    projected_settings,
)
from gpu_core.decisions.optimization.experiments.projection import (
    Projection,
    inference_job,
    project,
)
from gpu_core.runtime.inference.measurement import measure_workload
from gpu_core.runtime.tracking import tracked_run

ARTIFACT_KEY = "gpu-inference-comparison"
DESCRIPTION = "Cost and latency of inference"


@flow(name="compare-inference")
def compare_inference(
    experiment: Experiment = Experiment.BATCH_SIZE,
    workload: str | None = None,
    usd_per_hour: float | None = None,
    repeats: int = 5,
    seconds: float = 1.0,
    projected_model: str = "llama-3-1b",
    catalog: Path = DEFAULT_CATALOG,
) -> None:
    """Measures configurations of inference on the device of this run, and compares cost and
    latency.

    If a difference can be explained by noise, no winner is reported. An MLflow run with a child run
    for each configuration is created. Configurations that did not run are projected, and are marked
    as projected.

    Args:
        experiment: The setting to vary.
        workload: `module:function` that creates the workload to measure. Defaults to a classifier
            in torch, or in NumPy if torch is not installed.
        usd_per_hour: The price of the device. Defaults to the on-demand price of the GPU in the
            catalog. The catalog does not contain prices of CPUs.
        repeats: The number of repeats for each configuration. Must be at least 2 to calculate
            intervals.
        seconds: The duration of each repeat.
        projected_model: The model for which other GPU types are projected, with 512 tokens, 128 of
            which are generated.
        catalog: The path to a catalog with prices. Defaults to the catalog of the package if the
            file does not exist.

    Raises:
        InvalidInput: A parameter cannot be used, or the device does not have a price.
        MeasurementFailed: The workload failed. The last lines of its output are in the log.
    """
    offers, job = load_catalog(catalog), inference_job(projected_model, 512, 128)
    with tracked_run(run_name=f"{experiment} {datetime.now(UTC):%Y-%m-%d %H:%M}") as parent:
        found = measure_workload(
            workload,
            partial(measured_settings, experiment),
            offers,
            usd_per_hour=usd_per_hour,
            repeats=repeats,
            seconds=seconds,
            processes=MOST_PROCESSES if experiment is Experiment.SHARING else 1,
        )
        projections = [
            project(job, setting, offers)
            for setting in projected_settings(experiment, found.device)
        ]
        comparison = compare_trials(str(experiment), found.trials)
        title = f"{projected_model}, 512 tokens, 128 of them written"
        page = comparison_page(comparison, found, projections, title)
        known = [each for each in projections if isinstance(each, Projection)]
        children = children_of(comparison, known)
        log_experiment(MlflowClient(), parent.info.run_id, children, page)
    publish_page(page, ARTIFACT_KEY, DESCRIPTION)
    get_run_logger().info("%s: %s", experiment, comparison.sentence)
