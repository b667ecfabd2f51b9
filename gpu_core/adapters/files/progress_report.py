"""`progress-RANK.json` in a run folder: what each rank of a run has done last.

Written about once a second from the training loop, so nothing waits for the disk: a power cut may
take it.
"""

import json
import os
import re
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from datetime import datetime
from pathlib import Path

from gpu_core.adapters.files.run_files import RecordFields, read_record
from gpu_core.decisions.model.errors import InvalidInput

_MOST_RANKS = 1024
_LARGEST_STACKS_BYTES = 256 * 1024


@dataclass(frozen=True, slots=True, kw_only=True)
class ProgressReport:
    """The last progress of one rank."""

    attempt_id: str
    rank: int = 0
    ranks: int = 1
    pid: int
    steps: int = 0
    progressed_at: datetime
    """The last step, save or batch of an evaluation; at first the start of the report."""
    median_step_s: float | None = None
    """Between two steps, of the last ones; None: there are too few."""
    longest_step_s: float | None = None
    """The longest time between two steps, with pauses that were not announced."""
    phase: str | None = None
    """The rank's state other than steps: `restoring`, `saving`, `evaluating`, `ended`."""
    used_at: datetime | None = None
    """The last request, or action of a person, that the flow has reported."""
    gpu_id: str | None = None
    """The UUID of the GPU that the rank computes on; None: unknown."""
    node_rank: int | None = None
    """The number of its node in the gang, from 0; None: it says nothing of a gang."""
    dumps_stacks: bool = False
    """SIGUSR2 makes the process write its stacks into `stacks-RANK.txt`."""


def write_progress_report(run_dir: Path, report: ProgressReport) -> None:
    """Replace the rank's report in one step. Nothing is raised: the next one comes soon."""
    values = {
        name: value.isoformat() if isinstance(value, datetime) else value
        for name, value in asdict(report).items()
    }
    path = _path(run_dir, report.rank)
    temporary = path.with_suffix(".tmp")
    try:
        temporary.write_text(json.dumps(values), encoding="utf-8")
        os.replace(temporary, path)  # noqa: PTH105 - as short
    except OSError:
        return


def read_progress_reports(run_dir: Path, attempt_id: str) -> tuple[ProgressReport, ...]:
    """The last progress of the ranks of this attempt, by rank.

    Those that do not report here are left out.
    """
    ranks = sorted(
        int(found[1])
        for path in run_dir.glob("progress-*.json")
        if (found := re.fullmatch(r"progress-(\d{1,6})\.json", path.name))
    )
    reports = (_read(run_dir, rank, attempt_id) for rank in ranks[:_MOST_RANKS])
    return tuple(report for report in reports if report is not None)


def progress_report_of(values: Mapping[str, object]) -> ProgressReport | None:
    """The report that these values make; None: they cannot be understood."""
    try:
        return _report(RecordFields(values))
    except (ValueError, TypeError, KeyError, InvalidInput):
        return None


def stacks_path(run_dir: Path, rank: int) -> Path:
    """The file for the stacks of the rank's threads."""
    return run_dir / f"stacks-{rank}.txt"


def read_stacks(run_dir: Path, rank: int) -> str:
    """The stacks that the rank has written so far; empty: none."""
    try:
        with stacks_path(run_dir, rank).open("rb") as file:
            return file.read(_LARGEST_STACKS_BYTES).decode(errors="replace")
    except OSError:
        return ""


def _path(run_dir: Path, rank: int) -> Path:
    return run_dir / f"progress-{rank}.json"


def _read(run_dir: Path, rank: int, attempt_id: str) -> ProgressReport | None:
    report = read_record(_path(run_dir, rank), _report)
    # An earlier attempt of the run may have left its file.
    return report if report is not None and report.attempt_id == attempt_id else None


def _report(fields: RecordFields) -> ProgressReport:
    rank, ranks = fields.required("rank", int), fields.required("ranks", int)
    if not 0 <= rank < ranks:
        raise ValueError(f"rank {rank} of {ranks} is out of range")
    return ProgressReport(
        attempt_id=fields.required("attempt_id", str),
        rank=rank,
        ranks=ranks,
        pid=fields.required("pid", int),
        steps=fields.required("steps", int),
        progressed_at=fields.required("progressed_at", datetime),
        median_step_s=fields.optional("median_step_s", float),
        longest_step_s=fields.optional("longest_step_s", float),
        phase=fields.optional("phase", str),
        used_at=fields.optional("used_at", datetime),
        gpu_id=fields.optional("gpu_id", str),
        node_rank=fields.optional("node_rank", int),
        dumps_stacks=fields.optional("dumps_stacks", bool) or False,
    )
