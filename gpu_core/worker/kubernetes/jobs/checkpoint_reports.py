"""Checkpoints and steps of runs in pods, read from the labels of their flow runs."""

import logging
from collections.abc import Mapping, Sequence
from datetime import datetime

import anyio
from prefect.client.orchestration import PrefectClient

from gpu_core.adapters.files.progress_report import ProgressReport, progress_report_of
from gpu_core.adapters.files.run_files import CheckpointReport, checkpoint_report_of
from gpu_core.adapters.prefect.flow_runs import read_flow_runs_by_id
from gpu_core.decisions.checkpoints.progress_labels import progress_values
from gpu_core.decisions.checkpoints.report_labels import from_labels
from gpu_core.decisions.model.errors import sentences
from gpu_core.decisions.requests.runs.run_context import MICRO_BATCH_LABEL
from gpu_core.worker.attempts.state import AttemptState
from gpu_core.worker.operations.throttle import Throttle

_log = logging.getLogger("prefect.gpu.reports")

# A checkpoint is worth knowing of within seconds only when another run waits for it.
_POLL_S = 10.0
_POLL_ONE_S = 1.0


class CheckpointReports:
    """Reads reports, not more often than they are needed."""

    def __init__(self, client: PrefectClient) -> None:
        self._client = client
        self._polls = Throttle(_POLL_S)
        self._polled_one_at_s: dict[str, float] = {}

    async def refresh(self, attempts: Sequence[AttemptState]) -> None:
        """Let these attempts know what their runs last said; without the API nothing changes."""
        if not self._is_due(attempts):
            return
        try:
            await self._read(attempts)
        except Exception as error:
            why = sentences(str(error), "the worker retries with the next poll")
            _log.debug("Failed to read checkpoint reports: %s", why)

    def _is_due(self, attempts: Sequence[AttemptState]) -> bool:
        now_s = anyio.current_time()
        if len(attempts) != 1:
            if not attempts or not self._polls.allows(now_s):
                return False
            self._polled_one_at_s.clear()
            return True
        attempt_id = attempts[0].attempt.attempt_id
        self._polled_one_at_s = {
            polled: at_s
            for polled, at_s in self._polled_one_at_s.items()
            if now_s - at_s < _POLL_ONE_S
        }
        if attempt_id in self._polled_one_at_s:
            return False
        self._polled_one_at_s[attempt_id] = now_s
        return True

    async def _read(self, attempts: Sequence[AttemptState]) -> None:
        ids = [running.attempt.flow_run_id for running in attempts]
        runs = await read_flow_runs_by_id(self._client, ids)
        labels = {str(run.id): run.labels for run in runs.values()}
        for running in attempts:
            found = labels.get(running.attempt.flow_run_id, {})
            running.labels = found
            attempt_id = running.attempt.attempt_id
            running.report = reported(found, attempt_id) or running.report
            running.asks_for_micro_batch |= found.get(MICRO_BATCH_LABEL) == attempt_id


def reported_progress(running: AttemptState, now: datetime) -> tuple[ProgressReport, ...]:
    """How far have its ranks come, by what the first has just said? Empty: that is unknown.

    It speaks for the ranks in its pod; those of another pod speak once they are quiet.
    """
    values = progress_values(running.labels, running.attempt.attempt_id, now)
    reports = [progress_report_of(each) for each in values]
    if not reports or reports[0] is None:
        return ()
    return tuple(each for each in reports if each is not None)


def reported(labels: Mapping[str, object], attempt_id: str) -> CheckpointReport | None:
    """The attempt's checkpoints, from these labels."""
    values = from_labels(labels, attempt_id)
    return None if values is None else checkpoint_report_of(values)
