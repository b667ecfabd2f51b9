"""How far have the ranks of this pod come, and where do they hang? For their worker, as labels."""

from collections.abc import Sequence
from dataclasses import asdict
from datetime import datetime
from pathlib import Path

from gpu_core.adapters.files.progress_report import ProgressReport, read_progress_reports
from gpu_core.decisions.checkpoints.progress_labels import (
    MOST_RANKS,
    QUIET_S,
    no_pod_labels,
    pod_labels,
    progress_labels,
)
from gpu_core.decisions.checkpoints.report_labels import Label
from gpu_core.decisions.telemetry.hung_training import makes_no_steps


class PodProgress:
    """Reads what the ranks of this pod have written into its folder, and takes their stacks.

    The lowest rank of each pod does it, because no worker can reach the processes of a pod. Stacks
    are taken once for each time that a rank gets stuck.

    Args:
        run_dir: The pod's folder; None: each rank is alone.
    """

    def __init__(self, run_dir: Path | None) -> None:
        self._run_dir = run_dir
        self._stuck_at: tuple[tuple[int, int], ...] = ()
        self._stacks: dict[int, str] = {}
        self._has_said_quiet = False

    def labels(self, own: ProgressReport, now: datetime) -> dict[str, Label]:
        """The labels that this rank sends now; empty: nothing.

        Args:
            own: Its report.
            now: Aware.
        """
        peers = self._peers(own)
        if own.rank == 0:
            stacks = self._stacks_of((own, *peers), now)
            return progress_labels(asdict(own), now, [asdict(each) for each in peers], stacks)
        if any(each.rank < own.rank for each in peers):
            return {}  # that one speaks for it
        return self._of_another_pod((own, *peers), now)

    def _of_another_pod(self, reports: Sequence[ProgressReport], now: datetime) -> dict[str, Label]:
        own = asdict(reports[0])
        if not any(_is_quiet(each, now) for each in reports):
            said, self._has_said_quiet = self._has_said_quiet, False
            return no_pod_labels(own) if said else {}
        self._has_said_quiet = True
        stacks = self._stacks_of(reports, now)
        return pod_labels([asdict(each) for each in reports], now, stacks)

    def _peers(self, own: ProgressReport) -> list[ProgressReport]:
        if self._run_dir is None or own.ranks == 1:
            return []
        reports = read_progress_reports(self._run_dir, own.attempt_id)
        return [each for each in reports if each.rank != own.rank][:MOST_RANKS]

    def _stacks_of(self, reports: Sequence[ProgressReport], now: datetime) -> dict[int, str]:
        if self._run_dir is None or not any(makes_no_steps(each, now) for each in reports):
            self._stuck_at, self._stacks = (), {}
            return {}
        steps = tuple((each.rank, each.steps) for each in reports)
        if steps != self._stuck_at or not self._stacks:
            # psutil is needed for this alone.
            from gpu_core.adapters.host.stack_dumps import dump_stacks

            own_id = reports[0].attempt_id
            self._stuck_at = steps
            self._stacks = dump_stacks(self._run_dir, own_id, reports[:MOST_RANKS])
        return self._stacks


def _is_quiet(report: ProgressReport, now: datetime) -> bool:
    has_ended = report.phase == "ended"
    return not has_ended and (now - report.progressed_at).total_seconds() >= QUIET_S
