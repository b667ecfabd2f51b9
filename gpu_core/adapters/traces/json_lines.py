"""Jobs as JSON lines: one object per line, with the names and units of `TraceJob`.

`job_id`, `submit_s` and `duration_s` are required, everything else has `TraceJob`'s default:

    {"job_id": "a", "submit_s": 0, "duration_s": 3600, "gpu_count": 8, "nodes": 2, "team": "nlp"}

Empty lines are skipped. A name that is not known is refused: a misspelled one would silently be the
default.
"""

from collections.abc import Iterator
from dataclasses import MISSING, fields
from functools import partial
from pathlib import Path
from typing import Any, TypeVar, get_type_hints

from pydantic import create_model

from gpu_core.adapters.files.text_file import read_text_file
from gpu_core.decisions.model.pydantic_errors import first_mistake_refused
from gpu_core.decisions.model.section import CapacityType, Section
from gpu_core.decisions.simulation.cluster.trace import TraceJob

# The fields of `TraceJob` and its defaults; a file states no other capacity type than we know.
_TYPES = {**get_type_hints(TraceJob), "capacity_type": CapacityType | None}
_FIELDS: dict[str, Any] = {
    field.name: (_TYPES[field.name], ... if field.default is MISSING else field.default)
    for field in fields(TraceJob)
}
_Line = create_model("_Line", __base__=Section, **_FIELDS)

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
