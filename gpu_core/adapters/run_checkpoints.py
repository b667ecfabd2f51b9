"""The checkpoints of one flow run, as one attempt of it reads and writes them."""

import logging
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime

from gpu_core.adapters.checkpoint_store import CheckpointStore
from gpu_core.decisions.checkpoint_manifest import (
    DamagedCheckpoint,
    Manifest,
    check_payload,
    decode,
    describe,
    encode,
)
from gpu_core.decisions.checkpoint_names import (
    CheckpointId,
    claim_name,
    committed,
    deletable,
    newest_attempt,
    next_sequence,
)
from gpu_core.decisions.errors import GpuSchedulingError

_log = logging.getLogger(__name__)


class StaleAttempt(GpuSchedulingError):
    """A later attempt of the run has begun; this one must not save any more, and should end."""

    def __init__(self, flow_run_id: str, attempt: int, newest: int) -> None:
        super().__init__(flow_run_id, attempt, newest)
        self.flow_run_id = flow_run_id
        self.attempt = attempt
        self.newest = newest

    def __str__(self) -> str:
        return (
            f"attempt {self.attempt} of run {self.flow_run_id} was replaced by attempt "
            f"{self.newest}, so its checkpoint was refused; this process is left over from before "
            "and should end"
        )


@dataclass(frozen=True, slots=True)
class LoadedCheckpoint:
    """A checkpoint that is as it was written."""

    manifest: Manifest
    payload: bytes


class RunCheckpoints:
    """Save, find and prune the checkpoints of one run.

    Args:
        store: Where they lie.
        flow_run_id: The run; its checkpoints are in the folder of this name.
        attempt: The attempt that writes, from 1.
        keep: How many complete checkpoints stay, 1 or more.
    """

    def __init__(
        self, store: CheckpointStore, *, flow_run_id: str, attempt: int, keep: int
    ) -> None:
        self._store = store
        self._flow_run_id = flow_run_id
        self._attempt = attempt
        self._keep = keep
        self._damaged: set[CheckpointId] = set()

    def claim(self) -> None:
        """Begin the attempt: from now on no earlier one may save.

        Raises:
            StaleAttempt: A later attempt has begun already.
        """
        self._current_names()
        self._store.put(self.key(claim_name(self._attempt)), b"")

    def newest_first(self) -> Iterator[LoadedCheckpoint]:
        """The checkpoints that are as they were written; damaged ones are logged and left out.

        The folder is listed anew after every one, because a process of an earlier attempt that
        has not noticed its end may replace an old checkpoint by a new one meanwhile.
        """
        tried: set[CheckpointId] = set()
        while untried := [c for c in committed(self._names()) if c not in tried]:
            newest = untried[0]
            tried.add(newest)
            try:
                loaded = self._load(newest)
            except DamagedCheckpoint as damage:
                self.reject(newest, str(damage))
                continue
            yield loaded

    def reject(self, checkpoint: CheckpointId, reason: str) -> None:
        """Take this checkpoint for damaged: it no longer counts as one that is kept."""
        self._damaged.add(checkpoint)
        uri = self._store.uri(self.key(str(checkpoint)))
        _log.warning("checkpoint %s is left out: %s", uri, reason)

    def save(self, payload: bytes, *, payload_format: str, saved_at: datetime) -> Manifest:
        """Keep this payload as the newest checkpoint; it is durable when this returns.

        Raises:
            StaleAttempt: A later attempt has begun; nothing was committed.
            AlreadyCommitted: Another process of this attempt saves at the same time.
        """
        new = CheckpointId(self._attempt, next_sequence(self._current_names()))
        manifest = describe(new, payload, payload_format=payload_format, saved_at=saved_at)
        self._store.put(self.key(new.payload_name), payload)
        self._current_names()  # the payload may have taken minutes
        self._store.commit(self.key(new.manifest_name), encode(manifest))
        return manifest

    def prune(self) -> None:
        """Delete what newer checkpoints have replaced; a failure is only logged."""
        try:
            for name in deletable(self._names(), self._keep, self._damaged):
                self._store.delete(self.key(name))
        except Exception as error:  # whatever the store raises: the checkpoint itself is safe
            folder = self._store.uri(self._flow_run_id)
            _log.warning("old checkpoints in %s could not be deleted: %s", folder, error)

    def key(self, name: str) -> str:
        """Where this name of the run lies in the store."""
        return f"{self._flow_run_id}/{name}"

    def _names(self) -> tuple[str, ...]:
        return self._store.names(self._flow_run_id)

    def _current_names(self) -> tuple[str, ...]:
        names = self._names()
        newest = newest_attempt(names)
        if newest > self._attempt:
            raise StaleAttempt(self._flow_run_id, self._attempt, newest)
        return names

    def _load(self, wanted: CheckpointId) -> LoadedCheckpoint:
        try:
            manifest = decode(self._store.get(self.key(wanted.manifest_name)), wanted)
            payload = self._store.get(self.key(wanted.payload_name))
        except FileNotFoundError as error:
            raise DamagedCheckpoint(f"a part of it is missing: {error}") from None
        check_payload(payload, manifest)
        return LoadedCheckpoint(manifest, payload)
