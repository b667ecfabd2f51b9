"""Make inference cheaper step by step: batch, precision, GPU type; measured and projected."""

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
DESCRIPTION = "Cheaper inference, step by step"


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
    """Batch 1 in fp32; then batch 8; then fewer bits; then another GPU type: what does each save?

    The first steps are measured on this run's device. The same steps and the change of the GPU
    type are projected for a known model, and say so. One table and one plot have all of them.

    Args:
        workload: `module:function` that makes what is measured; by default a classifier in torch,
            or in NumPy where torch is not installed.
        usd_per_hour: What the device costs; by default the catalog's on-demand price of the GPU.
            A CPU has none there.
        repeats: Of each configuration, 2 or more for intervals.
        seconds: How long each repeat takes.
        projected_model: What is projected, with 512 tokens, 128 of them written.
        first_gpu_type: On which the projection begins.
        other_gpu_type: To which it moves last; by default the cheapest other one.
        catalog: Where prices are read; the package's own where there is no such file.

    Raises:
        InvalidInput: A parameter cannot be used, or the device has no price.
        MeasurementFailed: The workload has failed; the log has its last lines.
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
