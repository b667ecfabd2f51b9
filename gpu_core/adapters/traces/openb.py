"""Alibaba's OpenB (cluster-trace-gpu-v2023): nodes, and pods that share GPUs."""

from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from gpu_core.adapters.files.text_file import read_text_file
from gpu_core.adapters.traces.clusters import MOST_GPUS_PER_NODE
from gpu_core.adapters.traces.table import Row, read_table
from gpu_core.decisions.model.cluster import Node
from gpu_core.decisions.model.errors import InvalidInput
from gpu_core.decisions.model.workload import WHOLE_GPU_MILLI
from gpu_core.decisions.simulation.cluster.trace import TraceJob

_NODE_COLUMNS = ("sn", "cpu_milli", "memory_mib", "gpu", "model")
_POD_COLUMNS = ("name", "cpu_milli", "memory_mib", "num_gpu", "gpu_milli")
_TIME_COLUMNS = ("creation_time", "deletion_time")


def read_openb_nodes(path: Path) -> tuple[Node, ...]:
    """The nodes of an OpenB node list; all GPUs may be shared.

    Raises:
        InvalidInput: The file cannot be used; the message names line and column.
    """
    return tuple(
        Node(
            name=row.text("sn"),
            gpu_type=row.optional_text("model") or "none",
            gpu_ids=tuple(str(i) for i in range(row.whole("gpu", MOST_GPUS_PER_NODE))),
            cpu_milli=row.whole("cpu_milli"),
            memory_mib=row.whole("memory_mib"),
            is_shareable=True,
        )
        for row in read_table(path, _NODE_COLUMNS)
    )


def read_openb_pods(path: Path) -> tuple[TraceJob, ...]:
    """The pods of an OpenB pod list, from creation on, each as long as it lived in the cluster.

    Raises:
        InvalidInput: The file cannot be used; the message names line and column.
    """
    rows = read_table(path, (*_POD_COLUMNS, *_TIME_COLUMNS))
    return tuple(_timed(_pod(row), row) for row in rows)


def read_openb_shapes(path: Path) -> tuple[TraceJob, ...]:
    """The pods of a list that need not have times, all at second 0 and of no length.

    Raises:
        InvalidInput: The file cannot be used; the message names line and column.
    """
    return tuple(_pod(row) for row in read_table(path, _POD_COLUMNS))


def read_openb_order(path: Path, pods: Sequence[TraceJob]) -> tuple[TraceJob, ...]:
    """The pods in the order of a file, as the placement experiments of FGD offer them.

    A pod that is named again is a further one like it. Their times mean nothing.

    Args:
        path: One pod's number per line, `0255` for `openb-pod-0255`.

    Raises:
        InvalidInput: The file cannot be read, or names no pod of the list.
    """
    numbers = read_text_file(path, "list of pods").splitlines()
    by_name = {pod.job_id: pod for pod in pods}
    offered: Counter[str] = Counter()
    jobs = []
    for line, number in enumerate(numbers, 1):
        name = f"openb-pod-{number.strip()}"
        if name not in by_name:
            raise InvalidInput(f"{path}:{line}", "names no pod of the list", got=number)
        offered[name] += 1
        job_id = name if offered[name] == 1 else f"{name}/{offered[name]}"
        jobs.append(replace(by_name[name], job_id=job_id))
    return tuple(jobs)


def _timed(pod: TraceJob, row: Row) -> TraceJob:
    created_s = row.number("creation_time")
    began_s = created_s
    if row.optional_text("scheduled_time") is not None:
        began_s = row.number("scheduled_time")
    duration_s = max(0.0, row.number("deletion_time") - began_s)
    return replace(pod, submit_s=created_s, duration_s=duration_s)


def _pod(row: Row) -> TraceJob:
    gpu_count = row.whole("num_gpu")
    models = row.optional_text("gpu_spec")
    return TraceJob(
        job_id=row.text("name"),
        submit_s=0.0,
        duration_s=0.0,
        gpu_count=gpu_count,
        gpu_share_milli=row.whole("gpu_milli") if gpu_count == 1 else WHOLE_GPU_MILLI,
        gpu_types=() if models is None else tuple(models.split("|")),
        cpu_milli=row.whole("cpu_milli"),
        memory_mib=row.whole("memory_mib"),
    )
