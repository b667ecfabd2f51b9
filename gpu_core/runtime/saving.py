"""One save at a time, waited for or in the background, and what it cost."""

import logging
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from datetime import datetime

from gpu_core.adapters.checkpoints.run_checkpoints import RunCheckpoints, StaleAttempt
from gpu_core.adapters.checkpoints.store import AlreadyCommitted
from gpu_core.decisions.checkpoints.manifest import Manifest
from gpu_core.decisions.checkpoints.payload import Payload
from gpu_core.decisions.checkpoints.save_interval import SaveTime
from gpu_core.decisions.model.errors import sentences

_log = logging.getLogger(__name__)

FATAL = (StaleAttempt, AlreadyCommitted)
"""An error that no later save could fix: this process must not save any more."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SavedCheckpoint:
    """A checkpoint that is safe."""

    key: str
    """`<flow run id>/<attempt>-<sequence>`, where it lies in the store."""
    size_bytes: int
    sha256: str
    duration_s: float
    """How long the flow stood still for it: taking the state, and what it waited for."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Taken:
    """A state that was taken and is to be saved."""

    payload_format: str
    payload: Payload
    saved_at: datetime
    sequence: int | None
    began_s: float
    answers_notice: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """The result of a save."""

    saved: SavedCheckpoint | None
    """None: it failed, and the next one may succeed."""
    took: SaveTime | None


class Saver:
    """Saves states of one run, and reports when one is safe.

    Args:
        checkpoints: Where they go.
        on_saved: Called with each checkpoint that is safe, before old ones are deleted.
        clock: Seconds that only ever grow.
    """

    def __init__(
        self,
        checkpoints: RunCheckpoints,
        on_saved: Callable[[SavedCheckpoint, Manifest, bool], None],
        clock: Callable[[], float],
    ) -> None:
        self._checkpoints = checkpoints
        self._on_saved = on_saved
        self._clock = clock
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="checkpoint-save")
        self._under_way: Future[Outcome] | None = None
        self._began_s = 0.0

    def save(self, taken: Taken) -> Outcome:
        """Save now, and wait for it.

        Raises:
            StaleAttempt, AlreadyCommitted: See `FATAL`.
        """
        return self._persist(taken, stall_s=None)

    def start(self, taken: Taken) -> None:
        """Save in the background; nothing else may be under way."""
        self._began_s = taken.began_s
        stall_s = self._clock() - taken.began_s
        self._under_way = self._thread.submit(self._persist, taken, stall_s)

    def uploading_for_s(self) -> float | None:
        """How long ago did the save under way begin? None: none is."""
        return None if self._under_way is None else self._clock() - self._began_s

    def finished(self) -> Outcome | None:
        """The result of the background save, once; None: it has not ended, or there was none.

        Raises:
            StaleAttempt, AlreadyCommitted: See `FATAL`.
        """
        if self._under_way is None or not self._under_way.done():
            return None
        return self.wait()

    def wait(self) -> Outcome | None:
        """Wait for the save in the background, if there is one.

        Raises:
            StaleAttempt, AlreadyCommitted: See `FATAL`.
        """
        if self._under_way is None:
            return None
        under_way, self._under_way = self._under_way, None
        return under_way.result()

    def close(self) -> None:
        """End the thread."""
        self._thread.shutdown()

    def _persist(self, taken: Taken, stall_s: float | None) -> Outcome:
        try:
            manifest = self._checkpoints.save(
                taken.payload,
                payload_format=taken.payload_format,
                saved_at=taken.saved_at,
                sequence=taken.sequence,
            )
        except FATAL:
            raise
        except Exception as error:  # any error of the store: the training continues
            _log.warning(
                "Failed to save checkpoint: %s",
                sentences(
                    f"{type(error).__name__}: {error}",
                    "the previous checkpoints are kept, and the next save retries",
                ),
            )
            return Outcome(saved=None, took=None)
        persist_s = self._clock() - taken.began_s
        saved = SavedCheckpoint(
            key=self._checkpoints.key(str(manifest.id)),
            size_bytes=manifest.size_bytes,
            sha256=manifest.sha256,
            duration_s=persist_s if stall_s is None else stall_s,
        )
        # Before anything else: after a notice the worker waits for this until it ends the run.
        self._on_saved(saved, manifest, taken.answers_notice)
        self._checkpoints.prune()
        return Outcome(saved=saved, took=SaveTime(saved.duration_s, persist_s))
