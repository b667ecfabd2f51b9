"""Reports of checkpoints and steps where the worker shares no folder: labels of the flow run."""

import logging
import threading
from collections.abc import Callable
from dataclasses import asdict
from datetime import datetime
from typing import TYPE_CHECKING
from uuid import UUID

from gpu_core.adapters.files.run_files import CheckpointReport
from gpu_core.decisions.checkpoints.progress_labels import EVERY_S
from gpu_core.decisions.checkpoints.report_labels import Label, to_labels
from gpu_core.decisions.requests.runs.run_context import RunContext

if TYPE_CHECKING:
    from prefect.client.orchestration import SyncPrefectClient

_log = logging.getLogger(__name__)

# How long the end of a run waits for its last report: a busy server answers within seconds, and
# the worker does without it as well.
_LAST_WORDS_S = 15.0


class PrefectReport:
    """Sends reports one after the other, in a thread of its own.

    The newest report replaces the one that waits. What is followed is sent once a minute.

    A slow or unreachable server must not stop training. A report that cannot be sent is dropped:
    the next one has its content, too.

    Args:
        flow_run_id: The run.
        send: Sends labels; by default to Prefect's API, as this process's settings have it.
        every_s: Seconds between two reports of what is followed.
    """

    def __init__(
        self,
        flow_run_id: str,
        send: "Callable[[str, dict[str, Label]], None] | None" = None,
        every_s: float = EVERY_S,
    ) -> None:
        self._flow_run_id = flow_run_id
        self._send = send or _Sender()
        self._changed = threading.Condition()
        self._every_s = every_s
        self._waiting: dict[str, Label] = {}
        self._progress: Callable[[], dict[str, Label]] | None = None
        self._is_sending = False
        self._thread: threading.Thread | None = None

    def publish(self, report: CheckpointReport) -> None:
        """Send this report soon; returns at once."""
        self._add(_labels(report))

    def follow(self, progress: Callable[[], dict[str, Label]]) -> None:
        """Send now, and once a minute, how far the run has come; returns at once."""
        self._progress = progress
        self._add(_read(progress))

    def unfollow(self) -> None:
        """Send for the last time how far the run has come; returns at once."""
        progress, self._progress = self._progress, None
        if progress is not None:
            self._add(_read(progress))

    def _add(self, labels: "dict[str, Label]") -> None:
        with self._changed:
            self._waiting |= labels
            if self._thread is None:
                self._thread = threading.Thread(
                    target=self._work, name="prefect-gpu-report", daemon=True
                )
                self._thread.start()
            self._changed.notify_all()

    def close(self) -> None:
        """Wait until everything is reported, but not for long."""
        with self._changed:
            self._changed.wait_for(
                lambda: not self._waiting and not self._is_sending, timeout=_LAST_WORDS_S
            )

    def _work(self) -> None:
        while True:
            with self._changed:
                self._changed.wait_for(lambda: bool(self._waiting), timeout=self._every_s)
                labels, self._waiting, self._is_sending = self._waiting, {}, True
                progress = self._progress
            try:
                if progress is not None:
                    labels |= _read(progress)
                if labels:
                    self._send(self._flow_run_id, labels)
            except Exception as error:
                _log.warning("Failed to report a checkpoint or step to the worker: %s", error)
            with self._changed:
                self._is_sending = False
                self._changed.notify_all()


def _read(progress: "Callable[[], dict[str, Label]]") -> "dict[str, Label]":
    """The labels of the progress.

    None where reading fails: no training and no report depends on it.

    It reads the files of other ranks and asks their processes, each of which may be at fault.
    """
    try:
        return progress()
    except Exception:
        _log.warning("Failed to read the progress of the run", exc_info=True)
        return {}


def prefect_report_of(run: RunContext | None) -> PrefectReport | None:
    """The report of this process to its worker; None: it shares a folder.

    What is not of the first rank is sent only while it hangs.
    """
    if run is None or not run.reports_to_prefect:
        return None
    return PrefectReport(run.flow_run_id)


def _labels(report: CheckpointReport) -> dict[str, Label]:
    return to_labels(
        {
            name: value.isoformat() if isinstance(value, datetime) else value
            for name, value in asdict(report).items()
        }
    )


class _Sender:
    """Sends labels over one connection, opened with the first of them."""

    def __init__(self) -> None:
        self._client: SyncPrefectClient | None = None

    def __call__(self, flow_run_id: str, labels: dict[str, Label]) -> None:
        if self._client is None:
            # Prefect takes a second to import, and a flow has it already.
            from prefect.client.orchestration import get_client

            self._client = get_client(sync_client=True)
        self._client.update_flow_run_labels(UUID(flow_run_id), labels)


def send_labels(flow_run_id: str, labels: dict[str, Label]) -> None:
    """Give the flow run these labels, over a connection of its own."""
    _Sender()(flow_run_id, labels)
