"""`gpus.json` in a run folder: what the sampler of the run has seen so far."""

import json
import logging
import os
from collections.abc import Mapping, Sequence
from dataclasses import asdict, fields
from pathlib import Path
from typing import Any, TypeVar

from gpu_core.adapters.files.plain_file import read_plain_file
from gpu_core.decisions.model.gpu_summary import GpuSummary
from gpu_core.decisions.model.host_summary import HostSummary

_log = logging.getLogger(__name__)

Summary = TypeVar("Summary", GpuSummary, HostSummary)

GPUS_FILE = "gpus.json"

# 64 GPUs have 25 KB.
_LARGEST_BYTES = 256 * 1024

# Joules and bytes of any run are far below.
_LARGEST_NUMBER = 2**63


def write_gpu_report(
    run_dir: Path,
    summaries: Sequence[GpuSummary],
    error: str | None = None,
    host: HostSummary | None = None,
) -> None:
    """Replace the report in one step. Nothing is raised: a sample that cannot be kept is lost.

    Args:
        run_dir: The run's folder.
        summaries: Of the GPUs that were sampled.
        error: Why there are no samples at the moment; None: there are.
        host: Of the run's processes; None: they were not sampled.
    """
    path = run_dir / GPUS_FILE
    temporary = path.with_suffix(".tmp")
    record = {
        "gpus": [asdict(summary) for summary in summaries],
        "error": error,
        "host": None if host is None else asdict(host),
    }
    try:
        # Written every second: a power cut may take it, so that it need not wait for the disk.
        temporary.write_text(json.dumps(record), encoding="utf-8")
        os.replace(temporary, path)  # noqa: PTH105 - as short
    except OSError:
        return


def read_gpu_report(run_dir: Path) -> tuple[GpuSummary, ...]:
    """The activity of this run's GPUs. Empty: nothing was sampled, or it cannot be understood."""
    path = run_dir / GPUS_FILE
    try:
        record = json.loads(read_plain_file(path, _LARGEST_BYTES))
        summaries = tuple(gpu_summary_of(row) for row in record["gpus"])
        if record["error"] is not None:
            _log.warning(
                "Failed to read the latest GPU samples of %s: %s", run_dir, record["error"]
            )
        return summaries
    except FileNotFoundError:
        return ()
    except (OSError, ValueError, TypeError, KeyError, RecursionError) as error:
        _log.warning("Ignoring %s because it could not be parsed: %s", path, error)
        return ()


def read_host_report(run_dir: Path) -> HostSummary | None:
    """The usage of its machine by this run; None: not sampled, or it cannot be understood."""
    try:
        record = json.loads(read_plain_file(run_dir / GPUS_FILE, _LARGEST_BYTES))
        row = record.get("host")
        return None if row is None else _checked(HostSummary, row, {"samples": int})
    except FileNotFoundError:
        return None
    except (OSError, ValueError, TypeError, AttributeError, RecursionError) as error:
        _log.warning("Ignoring host metrics of %s: %s", run_dir / GPUS_FILE, error)
        return None


def gpu_summary_of(row: object) -> GpuSummary:
    """The summary in this JSON object; what it does not know is left out.

    Raises:
        TypeError: It is none, or a value is missing or of another type.
    """
    kinds = {"gpu_id": str, "samples": int, "is_simulated": bool}
    return _checked(GpuSummary, row, kinds)


def _checked(kind: type[Summary], row: object, kinds: Mapping[str, type]) -> Summary:
    """The summary in this JSON object; what it does not know is left out.

    Args:
        kind: Of the summary.
        row: The object.
        kinds: The types of its fields that are no numbers, or are always there.

    Raises:
        TypeError: It is none, or a value is missing or of another type.
    """
    if not isinstance(row, Mapping):
        raise TypeError(f"{row!r} is no JSON object")
    known = {field.name for field in fields(kind)}
    values: dict[str, Any] = {name: row[name] for name in known & row.keys()}
    summary = kind(**values)
    for name, of in kinds.items():
        if not isinstance(getattr(summary, name), of):
            raise TypeError(f"{name} is {getattr(summary, name)!r}")
    for name in sorted(known - {name for name, of in kinds.items() if of is not int}):
        value = getattr(summary, name)
        if value is None:
            continue
        is_number = isinstance(value, int | float) and not isinstance(value, bool)
        if not is_number or not 0 <= value < _LARGEST_NUMBER:
            raise TypeError(f"{name} is {value!r}")
    return summary
