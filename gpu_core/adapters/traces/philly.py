"""Microsoft's Philly trace as `job_id,submit_s,duration_s,num_gpus,vc`: the vc is the team."""

from pathlib import Path

from gpu_core.adapters.traces.clusters import MOST_GPUS
from gpu_core.adapters.traces.table import read_table
from gpu_core.decisions.simulation.trace import TraceJob, whole_nodes

_COLUMNS = ("job_id", "submit_s", "duration_s", "num_gpus", "vc")


def read_philly(path: Path, gpus_per_node: int) -> tuple[TraceJob, ...]:
    """The jobs of a Philly file.

    Args:
        gpus_per_node: A job with more GPUs is a gang; as `whole_nodes`.

    Raises:
        InvalidInput: The file cannot be used; the message names line and column.
    """
    jobs = []
    for row in read_table(path, _COLUMNS):
        nodes, gpu_count = whole_nodes(row.whole("num_gpus", MOST_GPUS), gpus_per_node)
        jobs.append(
            TraceJob(
                job_id=row.text("job_id"),
                submit_s=row.number("submit_s"),
                duration_s=row.number("duration_s"),
                gpu_count=gpu_count,
                nodes=nodes,
                team=row.text("vc"),
            )
        )
    return tuple(jobs)
