"""Reduces the cost of inference step by step by changing the batch size, the precision and the GPU
type."""

from datetime import UTC, datetime
from pathlib import Path

from mlflow import MlflowClient
from prefect import flow, get_run_logger

from gpu_core.adapters.files.catalog_file import load_catalog
from gpu_core.adapters.mlflow.experiments import log_experiment
from gpu_core.adapters.prefect.experiment_page import publish_page
from gpu_core.decisions.catalog import DEFAULT_CATALOG
from gpu_core.decisions.optimization.experiments.challenge import measured_rungs, projected_rungs
from gpu_core.decisions.optimization.experiments.ladder import ladder
from gpu_core.decisions.optimization.experiments.mlflow_runs import children_of_ladder
from gpu_core.decisions.optimization.experiments.page import ladder_page, ladder_sentence
from gpu_core.decisions.optimization.experiments.plans import challenge_settings
from gpu_core.decisions.optimization.experiments.projection import inference_job
from gpu_core.runtime.inference.measurement import measure_workload
from gpu_core.runtime.tracking import tracked_run

ARTIFACT_KEY = "gpu-inference-savings"
DESCRIPTION = "Savings of each optimization step for inference"


@flow(name="optimize-inference")
def optimize_inference(
    workload: str | None = None,
    usd_per_hour: float | None = None,
    repeats: int = 5,
    seconds: float = 1.0,
    projected_model: str = "llama-3-1b",
    first_gpu_type: str = "t4",
    other_gpu_type: str | None = None,
    catalog: Path = DEFAULT_CATALOG,
) -> None:
    """Shows how much you can save by optimizing the batch size, the precision and the GPU type.

    The baseline is a batch size of 1 in fp32. The first steps are measured on the device of this
    run. The same steps and the change of the GPU type are also projected for a known model, and are
    marked as projected. All results are shown in one table and one plot.

    Args:
        workload: `module:function` that creates the workload to measure. Defaults to a classifier
            in torch, or in NumPy if torch is not installed.
        usd_per_hour: The price of the device. Defaults to the on-demand price of the GPU in the
            catalog. The catalog does not contain prices of CPUs.
        repeats: The number of repeats for each configuration. Must be at least 2 to calculate
            intervals.
        seconds: The duration of each repeat.
        projected_model: The model to project, with 512 tokens, 128 of which are generated.
        first_gpu_type: The GPU type at which the projection starts.
        other_gpu_type: The GPU type of the last step. Defaults to the cheapest other GPU type.
        catalog: The path to a catalog with prices. Defaults to the catalog of the package if the
            file does not exist.

    Raises:
        InvalidInput: A parameter cannot be used, or the device does not have a price.
        MeasurementFailed: The workload failed. The last lines of its output are in the log.
    """
    offers, job = load_catalog(catalog), inference_job(projected_model, 512, 128)
    with tracked_run(run_name=f"challenge {datetime.now(UTC):%Y-%m-%d %H:%M}") as parent:
        found = measure_workload(
            workload,
            challenge_settings,
            offers,
            usd_per_hour=usd_per_hour,
            repeats=repeats,
            seconds=seconds,
        )
        sections = [
            (found.what, ladder(measured_rungs(found))),
            (
                f"{projected_model} from {first_gpu_type}",
                ladder(projected_rungs(job, first_gpu_type, other_gpu_type, offers)),
            ),
        ]
        page = ladder_page(sections)
        children = children_of_ladder([step for _, steps in sections for step in steps])
        log_experiment(MlflowClient(), parent.info.run_id, children, page)
    publish_page(page, ARTIFACT_KEY, DESCRIPTION)
    for title, steps in sections:
        get_run_logger().info("%s", ladder_sentence(title, steps))
