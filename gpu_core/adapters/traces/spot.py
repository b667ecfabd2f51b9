"""Spot traces as SkyPilot publishes them: `{"metadata": {"gap_seconds": 600}, "data": [1, 0]}`.

A value is how many nodes could be had in that tick: 1 means that spot was available. (Copies in
which 1 means unavailable are in circulation; nothing in a file distinguishes them.)
"""

from pathlib import Path
from typing import Annotated

from pydantic import BaseModel, ConfigDict, Field

from gpu_core.adapters.files.text_file import read_json_file
from gpu_core.decisions.model.pydantic_errors import first_mistake_refused
from gpu_core.decisions.simulation.spot.trace import SpotTrace

_MOST_TICK_S = 7 * 24 * 3600
_MOST_NODES = 1_000_000


class _Metadata(BaseModel):
    model_config = ConfigDict(strict=True)

    gap_seconds: Annotated[int, Field(ge=1, le=_MOST_TICK_S)]


class _File(BaseModel):
    model_config = ConfigDict(strict=True)

    metadata: _Metadata
    data: Annotated[list[Annotated[int, Field(ge=0, le=_MOST_NODES)]], Field(min_length=1)]


def read_spot_trace(path: Path) -> SpotTrace:
    """The trace in a file; its name is the file's.

    Raises:
        InvalidInput: The file cannot be used; the message names the field.
    """
    data = read_json_file(path, 'spot trace, {"metadata": {"gap_seconds": 600}, "data": [1, 0]}')
    file = first_mistake_refused(lambda: _File.model_validate(data), _File, str(path))
    return SpotTrace(name=path.stem, tick_s=file.metadata.gap_seconds, nodes_up=tuple(file.data))
