"""`gpus.json` in a run folder: what the sampler of the run has seen so far."""

import json
import logging
import os
from collections.abc import Mapping, Sequence
from dataclasses import asdict, fields
from pathlib import Path
from typing import Any

from gpu_core.adapters.files.plain_file import read_plain_file
from gpu_core.decisions.model.gpu_summary import GpuSummary

_log = logging.getLogger(__name__)

GPUS_FILE = "gpus.json"

# 64 GPUs have 25 KB.
_LARGEST_BYTES = 256 * 1024

# Joules and bytes of any run are far below.
_LARGEST_NUMBER = 2**63


def write_gpu_report(
    run_dir: Path, summaries: Sequence[GpuSummary], error: str | None = None
) -> None:
    """Replace the report in one step. Nothing is raised: a sample that cannot be kept is lost.

    Args:
        run_dir: The run's folder.
        summaries: Of the GPUs that were sampled.
        error: Why there are no samples at the moment; None: there are.
    """
    path = run_dir / GPUS_FILE
    temporary = path.with_suffix(".tmp")
    record = {"gpus": [asdict(summary) for summary in summaries], "error": error}
    try:
        # Written every second: a power cut may take it, so that it need not wait for the disk.
        temporary.write_text(json.dumps(record), encoding="utf-8")
        os.replace(temporary, path)  # noqa: PTH105 - as short
    except OSError:
        return


def read_gpu_report(run_dir: Path) -> tuple[GpuSummary, ...]:
    """What did the GPUs of this run do? Empty: nothing was sampled, or it cannot be understood."""
    path = run_dir / GPUS_FILE
    try:
        record = json.loads(read_plain_file(path, _LARGEST_BYTES))
        summaries = tuple(gpu_summary_of(row) for row in record["gpus"])
        if record["error"] is not None:
            _log.warning("The last GPU samples of %s are missing: %s", run_dir, record["error"])
        return summaries
    except FileNotFoundError:
        return ()
    except (OSError, ValueError, TypeError, KeyError, RecursionError) as error:
        _log.warning("%s is ignored, because it cannot be understood: %s", path, error)
        return ()


def gpu_summary_of(row: object) -> GpuSummary:
    """The summary in this JSON object; what it does not know is left out.

    Raises:
        TypeError: It is none, or a value is missing or of another type.
    """
    if not isinstance(row, Mapping):
        raise TypeError(f"{row!r} is no JSON object")
    known = {field.name for field in fields(GpuSummary)}
    values: dict[str, Any] = {name: row[name] for name in known & row.keys()}
    summary = GpuSummary(**values)
    if not isinstance(summary.gpu_id, str) or not isinstance(summary.samples, int):
        raise TypeError("a GPU has no id, or no number of samples")
    if not isinstance(summary.is_simulated, bool):
        raise TypeError(f"is_simulated is {summary.is_simulated!r}")
    for name in sorted(known - {"gpu_id", "is_simulated"}):
        value = getattr(summary, name)
        if value is None:
            continue
        is_number = isinstance(value, int | float) and not isinstance(value, bool)
        if not is_number or not 0 <= value < _LARGEST_NUMBER:
            raise TypeError(f"{name} is {value!r}")
    return summary
