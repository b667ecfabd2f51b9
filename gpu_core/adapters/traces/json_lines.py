"""Jobs as JSON lines: one object per line, with the names and units of `TraceJob`.

`job_id`, `submit_s` and `duration_s` are required, everything else has `TraceJob`'s default:

    {"job_id": "a", "submit_s": 0, "duration_s": 3600, "gpu_count": 8, "nodes": 2, "team": "nlp"}

Empty lines are skipped. A name that is not known is refused: a misspelt one would silently be the
default.
"""

from pathlib import Path

from pydantic import ValidationError

from gpu_core.decisions.errors import InvalidInput
from gpu_core.decisions.policy_base import Section
from gpu_core.decisions.simulation.trace import TraceJob
from gpu_core.decisions.validation import input_errors
from gpu_core.decisions.workload import WHOLE_GPU_MILLI


class _Line(Section):
    job_id: str
    submit_s: float
    duration_s: float
    gpu_count: int = 1
    nodes: int = 1
    gpu_share_milli: int = WHOLE_GPU_MILLI
    gpu_types: tuple[str, ...] = ()
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


def read_json_lines(path: Path) -> tuple[TraceJob, ...]:
    """The jobs of a file of JSON lines.

    Raises:
        InvalidInput: The file cannot be used; the message names the line and field.
    """
    try:
        lines = path.read_text(encoding="utf-8").splitlines()
    except (OSError, UnicodeDecodeError) as error:
        raise InvalidInput(str(path), f"cannot be read: {error}") from error
    return tuple(
        _job(line, f"{path}:{number}") for number, line in enumerate(lines, 1) if line.strip()
    )


def _job(line: str, where: str) -> TraceJob:
    try:
        return TraceJob(**_Line.model_validate_json(line).model_dump())
    except ValidationError as error:
        first = input_errors(error, _Line)[0]
        first.field = f"{where}: {first.field}" if first.field else where
        raise first from None
