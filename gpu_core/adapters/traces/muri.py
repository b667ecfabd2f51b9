"""The traces of Muri (Zhao et al., SIGCOMM 2022): Philly's clusters on 64 GPUs, in ms."""

from pathlib import Path

from gpu_core.adapters.traces.clusters import MOST_GPUS
from gpu_core.adapters.traces.table import read_table
from gpu_core.decisions.simulation.trace import TraceJob, whole_nodes

_COLUMNS = ("job_id", "num_gpu", "submit_time", "duration", "model_name")
_MS_PER_S = 1000


def read_muri(path: Path, gpus_per_node: int) -> tuple[TraceJob, ...]:
    """The jobs of a Muri file; the model they train is their deployment.

    Args:
        gpus_per_node: A job with more GPUs is a gang; as `whole_nodes`.

    Raises:
        InvalidInput: The file cannot be used; the message names line and column.
    """
    jobs = []
    for row in read_table(path, _COLUMNS):
        nodes, gpu_count = whole_nodes(row.whole("num_gpu", MOST_GPUS), gpus_per_node)
        jobs.append(
            TraceJob(
                job_id=row.text("job_id"),
                submit_s=row.number("submit_time") / _MS_PER_S,
                duration_s=row.number("duration") / _MS_PER_S,
                gpu_count=gpu_count,
                nodes=nodes,
                deployment=row.text("model_name"),
            )
        )
    return tuple(jobs)
