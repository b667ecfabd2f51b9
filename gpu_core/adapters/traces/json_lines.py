"""Jobs as JSON lines: one object per line, with the names and units of `TraceJob`.

`job_id`, `submit_s` and `duration_s` are required, everything else has `TraceJob`'s default:

    {"job_id": "a", "submit_s": 0, "duration_s": 3600, "gpu_count": 8, "nodes": 2, "team": "nlp"}

Empty lines are skipped. A name that is not known is refused: a misspelt one would silently be the
default.
"""

from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import TypeVar

from gpu_core.adapters.files.text_file import read_text_file
from gpu_core.decisions.model.pydantic_errors import first_mistake_refused
from gpu_core.decisions.model.section import CapacityType, Section
from gpu_core.decisions.model.workload import WHOLE_GPU_MILLI
from gpu_core.decisions.simulation.trace import TraceJob


class _Line(Section):
    job_id: str
    submit_s: float
    duration_s: float
    gpu_count: int = 1
    nodes: int = 1
    gpu_share_milli: int = WHOLE_GPU_MILLI
    gpu_types: tuple[str, ...] = ()
    capacity_type: CapacityType | None = None
    cpu_milli: int = 0
    memory_mib: int = 0
    team: str | None = None
    user: str | None = None
    deployment: str | None = None
    priority: int = 0
    stated_s: float | None = None
    deadline_s: float | None = None
    is_preemptible: bool = True
    checkpoint_interval_s: float | None = None
    checkpoint_stall_s: float = 0.0


LineT = TypeVar("LineT", bound=Section)


def read_json_lines(path: Path) -> tuple[TraceJob, ...]:
    """The jobs of a file of JSON lines.

    Raises:
        InvalidInput: The file cannot be used; the message names the line and field.
    """
    return tuple(TraceJob(**line.model_dump()) for _, line in read_lines(path, _Line))


def read_lines(path: Path, model: type[LineT]) -> Iterator[tuple[str, LineT]]:
    """The objects of a file of JSON lines, each with its file and line for further errors.

    Raises:
        InvalidInput: The file cannot be used; the message names the line and field.
    """
    for number, line in enumerate(read_text_file(path, "file of JSON lines").splitlines(), 1):
        if line.strip():
            where = f"{path}:{number}"
            read = partial(model.model_validate_json, line)
            yield where, first_mistake_refused(read, model, where)
