"""Checkpoints as a flow uses them: restore, is it time, save."""

import logging
import os
import pickle
import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from typing import Any, Self, TypeVar

from gpu_core.adapters.checkpoint_store import CheckpointStore, open_store
from gpu_core.adapters.run_checkpoints import LoadedCheckpoint, RunCheckpoints
from gpu_core.adapters.run_files import (
    CheckpointReport,
    Notice,
    read_checkpoint_report,
    write_checkpoint_report,
)
from gpu_core.decisions.checkpoint_manifest import Manifest
from gpu_core.decisions.errors import InvalidInput
from gpu_core.decisions.run_context import RunContext
from gpu_core.runtime.notice import NoticeWatch
from gpu_core.runtime.prefect_report import PrefectReport

_log = logging.getLogger(__name__)

State = TypeVar("State")

_PICKLE = "pickle"
_BYTES = "bytes"
# Fixed, so that every Python this library supports reads what any other has written.
_PICKLE_PROTOCOL = 5


@dataclass(frozen=True, slots=True, kw_only=True)
class SavedCheckpoint:
    """A checkpoint that is safe."""

    key: str
    """`<flow run id>/<attempt>-<sequence>`, where it lies in the store."""
    size_bytes: int
    sha256: str
    duration_s: float
    """How long the flow stood still for it: taking the state, writing it, making it durable."""


def checkpointing(
    *,
    store: CheckpointStore | str | None = None,
    interval_s: float | None = None,
    keep: int | None = None,
    clock: Callable[[], float] = time.monotonic,
) -> "Checkpointing":
    """The checkpoints of the run that this process belongs to.

        with checkpointing() as ckpt:
            state = ckpt.restore(default)
            for step in range(state.step, steps):
                ...
                if ckpt.due():
                    ckpt.save(state)

    Outside a run of a GPU work pool, and in a run without a `checkpoint_uri`, the same flow works
    and saves nothing.

    Args:
        store: Where the checkpoints lie, or its address; the run's `checkpoint_uri` by default.
        interval_s: Seconds between saves, 0 or more; by default what the worker says.
        keep: How many checkpoints stay, 1 or more; by default what the worker says.
        clock: Seconds that only ever grow.

    Raises:
        InvalidInput: An argument is out of range, or the store's address is none.
    """
    if interval_s is not None and not interval_s >= 0:
        raise InvalidInput("interval_s", "is out of range", got=interval_s, allowed="0 or more")
    if keep is not None and keep < 1:
        raise InvalidInput("keep", "is out of range", got=keep, allowed="1 or more")
    run = RunContext.from_environment(os.environ)
    if run is None:
        return Checkpointing(None, None, interval_s=0, clock=clock)
    store = store if store is not None else run.checkpoint_uri
    checkpoints = None
    if store is not None:
        checkpoints = RunCheckpoints(
            open_store(store) if isinstance(store, str) else store,
            flow_run_id=run.flow_run_id,
            attempt=run.attempt,
            keep=run.checkpoints_kept if keep is None else keep,
        )
    interval_s = run.checkpoint_interval_s if interval_s is None else interval_s
    return Checkpointing(run, checkpoints, interval_s=interval_s, clock=clock)


class Checkpointing:
    """Restore, and save when it is due. `checkpointing()` makes one.

    Not for several threads at once. Saving blocks: in an async flow, call
    `await asyncio.to_thread(ckpt.save, state)`.
    """

    def __init__(
        self,
        run: RunContext | None,
        checkpoints: RunCheckpoints | None,
        *,
        interval_s: float,
        clock: Callable[[], float],
    ) -> None:
        self._run_dir = None if run is None else run.run_dir
        self._attempt = 0 if run is None else run.attempt
        self._checkpoints = checkpoints
        self._interval_s = interval_s
        self._clock = clock
        self._notices = NoticeWatch(self._run_dir)
        self._answered: Notice | None = None
        self._report = CheckpointReport(attempt_id="" if run is None else run.attempt_id)
        self._prefect: PrefectReport | None = None
        if run is not None and run.reports_to_prefect:
            self._prefect = PrefectReport(run.flow_run_id)
        self._saved_at_s = clock()
        self._has_warned = False

    def __enter__(self) -> Self:
        """Begin: earlier attempts can no longer save, and the worker knows that this one can.

        Raises:
            StaleAttempt: A later attempt has begun already.
        """
        if self._checkpoints is None:
            return self
        self._checkpoints.claim()
        self._saved_at_s = self._clock()
        self._tell_worker(self._earlier_report() or self._report)
        return self

    def __exit__(self, *_exception: object) -> None:
        """Let the worker know what is safe; what was saved stays until newer ones replace it."""
        if self._prefect is not None:
            self._prefect.close()

    @property
    def notice(self) -> Notice | None:
        """Why and by when this run will be ended; None: nobody wants it to end."""
        return self._notices.current()

    def restore(self, default: State) -> State:
        """The state of the newest checkpoint that is as it was written, or `default`.

        Raises:
            OSError, botocore.exceptions.ClientError: The store did not answer. To begin anew then
                would throw away what it holds.
        """
        if self._checkpoints is None:
            return default
        for loaded in self._checkpoints.newest_first():
            try:
                state: State = _unpacked(loaded)
            except Exception as error:  # unpickling runs the code of whatever was pickled
                self._checkpoints.reject(loaded.manifest.id, f"it cannot be read: {error!r}")
                continue
            self._tell_restored(loaded.manifest)
            return state
        _log.info("there is no checkpoint to restore: beginning from the start")
        return default

    def due(self) -> bool:
        """Is it time to save? Cheap enough for every step: one clock and one `stat`, 2 µs.

        Yes when the interval has passed since the start or the last save, and when the run has
        been given notice and has not saved since.
        """
        if self._checkpoints is None:
            return False
        if self._clock() - self._saved_at_s >= self._interval_s:
            return True
        notice = self._notices.current()
        return notice is not None and notice != self._answered

    def save(self, state: object) -> SavedCheckpoint | None:
        """Keep this state; it survives whatever comes when this returns.

        Args:
            state: `bytes` are kept as they are, everything else is pickled.

        Returns:
            What was saved, or None where there is nowhere to save (logged once).

        Raises:
            StaleAttempt: A later attempt of this run has begun; this process should end.
            OSError, botocore.exceptions.ClientError: The store refused; earlier checkpoints are
                as they were.
        """
        if self._checkpoints is None:
            self._warn_once()
            return None
        # Looked up before the state is taken: a notice that comes during the save asks for more.
        notice = self._notices.current()
        began_s = self._clock()
        saved_at = datetime.now(UTC)
        payload_format, payload = _packed(state)
        manifest = self._checkpoints.save(payload, payload_format=payload_format, saved_at=saved_at)
        self._saved_at_s = self._clock()
        saved = SavedCheckpoint(
            key=self._checkpoints.key(str(manifest.id)),
            size_bytes=manifest.size_bytes,
            sha256=manifest.sha256,
            duration_s=self._saved_at_s - began_s,
        )
        self._answered = notice
        # The worker first: after a notice it waits for this before it ends the run.
        self._tell_worker(self._report_of(saved, manifest))
        self._checkpoints.prune()
        return saved

    def _tell_restored(self, manifest: Manifest) -> None:
        _log.info("restored checkpoint %s of %s", manifest.id, manifest.saved_at.isoformat())
        # What the attempt itself saved earlier is not what it began with.
        if self._checkpoints is not None and manifest.attempt != self._attempt:
            key = self._checkpoints.key(str(manifest.id))
            self._tell_worker(replace(self._report, restored_from=key))

    def _report_of(self, saved: SavedCheckpoint, manifest: Manifest) -> CheckpointReport:
        return replace(
            self._report,
            checkpoint=saved.key,
            sequence=manifest.sequence,
            saved_at=manifest.saved_at,
            size_bytes=saved.size_bytes,
            duration_s=saved.duration_s,
            answers_notice=self._answered is not None,
        )

    def _earlier_report(self) -> CheckpointReport | None:
        """What an earlier `with checkpointing()` of this same attempt has reported."""
        if self._run_dir is None:
            return None
        report = read_checkpoint_report(self._run_dir)
        if report is None or report.attempt_id != self._report.attempt_id:
            return None
        return report

    def _tell_worker(self, report: CheckpointReport) -> None:
        self._report = report
        if self._prefect is not None:
            self._prefect.tell(report)
        if self._run_dir is None:
            return
        try:
            write_checkpoint_report(self._run_dir, report)
        except OSError as error:
            # The checkpoint is safe; that the worker does not know of it costs no work.
            _log.warning("the worker could not be told about the checkpoint: %s", error)

    def _warn_once(self) -> None:
        if self._has_warned:
            return
        self._has_warned = True
        _log.warning(
            "nothing is saved: this process is not a run of a GPU work pool, or its "
            "checkpoint_uri is not set"
        )


def _packed(state: object) -> tuple[str, bytes]:
    if type(state) is bytes:
        return _BYTES, state
    return _PICKLE, pickle.dumps(state, protocol=_PICKLE_PROTOCOL)


def _unpacked(loaded: LoadedCheckpoint) -> Any:
    if loaded.manifest.format == _BYTES:
        return loaded.payload
    if loaded.manifest.format != _PICKLE:
        raise ValueError(f"the format {loaded.manifest.format!r} is unknown to this version")
    # The run's own state, just compared with the checksum it was saved with.
    return pickle.loads(loaded.payload)  # noqa: S301
