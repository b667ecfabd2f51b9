"""Microsoft's Philly trace, where the virtual cluster is the team; and those that Muri took of it.

Muri (Zhao et al., SIGCOMM 2022) replays Philly's clusters on 64 GPUs, with times in ms; the model
that a job trains is its deployment.
"""

from pathlib import Path
from typing import TypedDict

from gpu_core.adapters.traces.clusters import MOST_GPUS
from gpu_core.adapters.traces.table import read_table
from gpu_core.decisions.simulation.cluster.trace import TraceJob, whole_nodes

_PHILLY = ("job_id", "submit_s", "duration_s", "num_gpus", "vc")
_MS_PER_S = 1000
_MURI = ("job_id", "num_gpu", "submit_time", "duration", "model_name")


class _Gang(TypedDict):
    nodes: int
    gpu_count: int


def read_philly(path: Path, gpus_per_node: int) -> tuple[TraceJob, ...]:
    """The jobs of a Philly file; one with more GPUs than a node is a gang, as `whole_nodes`.

    Raises:
        InvalidInput: The file cannot be used; the message names line and column.
    """
    return tuple(
        TraceJob(
            job_id=row.text("job_id"),
            submit_s=row.number("submit_s"),
            duration_s=row.number("duration_s"),
            team=row.text("vc"),
            **_gang(row.whole("num_gpus", MOST_GPUS), gpus_per_node),
        )
        for row in read_table(path, _PHILLY)
    )


def read_muri(path: Path, gpus_per_node: int) -> tuple[TraceJob, ...]:
    """The jobs of a Muri file; one with more GPUs than a node is a gang, as `whole_nodes`.

    Raises:
        InvalidInput: The file cannot be used; the message names line and column.
    """
    return tuple(
        TraceJob(
            job_id=row.text("job_id"),
            submit_s=row.number("submit_time") / _MS_PER_S,
            duration_s=row.number("duration") / _MS_PER_S,
            deployment=row.text("model_name"),
            **_gang(row.whole("num_gpu", MOST_GPUS), gpus_per_node),
        )
        for row in read_table(path, _MURI)
    )


def _gang(gpus: int, gpus_per_node: int) -> _Gang:
    nodes, gpu_count = whole_nodes(gpus, gpus_per_node)
    return {"nodes": nodes, "gpu_count": gpu_count}
