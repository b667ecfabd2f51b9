"""`activity.json` in a run folder: since when the GPUs and processes of a run are quiet."""

import json
import logging
import math
import os
from collections.abc import Mapping
from dataclasses import asdict
from datetime import datetime
from pathlib import Path
from typing import Any, TypeVar

from gpu_core.adapters.files.plain_file import read_plain_file
from gpu_core.decisions.model.errors import InvalidInput
from gpu_core.decisions.model.units import require_aware
from gpu_core.decisions.telemetry.activity import GpuActivity, RunActivity, Signal

_log = logging.getLogger(__name__)

T = TypeVar("T")

_FILE = "activity.json"

# 64 GPUs have 40 KB.
_LARGEST_BYTES = 256 * 1024


def write_activity_report(run_dir: Path, activity: RunActivity) -> None:
    """Replace the report in one step. Nothing is raised: the next one comes soon."""
    path = run_dir / _FILE
    temporary = path.with_suffix(".tmp")
    try:
        temporary.write_text(json.dumps(asdict(activity), default=_text), encoding="utf-8")
        os.replace(temporary, path)  # noqa: PTH105 - as short
    except OSError:
        return


def read_activity_report(run_dir: Path) -> RunActivity | None:
    """The activity of the run's GPUs and processes.

    None: unknown, which nothing may be decided from.
    """
    path = run_dir / _FILE
    try:
        return _activity(json.loads(read_plain_file(path, _LARGEST_BYTES)))
    except FileNotFoundError:
        return None
    except (OSError, ValueError, TypeError, KeyError, RecursionError, InvalidInput) as error:
        _log.warning("Ignoring %s because it could not be parsed: %s", path, error)
        return None


def _text(value: object) -> str:
    if isinstance(value, datetime):
        return value.isoformat()
    raise TypeError(f"{value!r} is no JSON")


def _activity(row: Mapping[str, Any]) -> RunActivity:
    return RunActivity(
        began_at=_moment(row["began_at"]),
        at=_moment(row["at"]),
        gpus=tuple(_gpu(each) for each in row["gpus"]),
        cores=_signal(row["cores"]),
        io_bytes_per_s=_signal(row["io_bytes_per_s"]),
    )


def _gpu(row: Mapping[str, Any]) -> GpuActivity:
    return GpuActivity(
        gpu_id=_of_type(row["gpu_id"], str),
        utilization=_signal(row["utilization"]),
        sm_active=_signal(row["sm_active"]),
        power=_signal(row["power"]),
        memory_used_bytes=_bytes(row["memory_used_bytes"]),
        memory_lowest_bytes=_bytes(row["memory_lowest_bytes"]),
        was_touched=_of_type(row["was_touched"], bool),
    )


def _signal(row: Mapping[str, Any]) -> Signal:
    value, since = row["value"], row["quiet_since"]
    if value is not None and (isinstance(value, bool) or not math.isfinite(value)):
        raise TypeError(f"a signal has the value {value!r}")
    return Signal(
        value=None if value is None else float(value),
        quiet_since=None if since is None else _moment(since),
        is_known=_of_type(row["is_known"], bool),
    )


def _bytes(value: object) -> int | None:
    return None if value is None else _of_type(value, int)


def _of_type(value: object, kind: type[T]) -> T:
    if not isinstance(value, kind) or (kind is int and isinstance(value, bool)):
        raise TypeError(f"{value!r} is not a {kind.__name__}")
    return value


def _moment(text: str) -> datetime:
    return require_aware(datetime.fromisoformat(text), "at")
