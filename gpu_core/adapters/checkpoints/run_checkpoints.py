"""The checkpoints of one flow run, as one attempt of it reads and writes them."""

import logging
import time
from collections.abc import Callable, Collection, Iterable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from datetime import datetime

from gpu_core.adapters.checkpoints.store import (
    CheckpointStore,
    NotEnoughSpace,
    store_error,
)
from gpu_core.adapters.checkpoints.verified_read import read_verified, verify_payload
from gpu_core.decisions.checkpoints.deletion import abandoned, deletable
from gpu_core.decisions.checkpoints.free_space import needed_bytes
from gpu_core.decisions.checkpoints.manifest import (
    SHARDS,
    DamagedCheckpoint,
    Manifest,
    check_part,
    decode,
    describe_shards,
    encode,
    manifest_of,
    signed_fields,
)
from gpu_core.decisions.checkpoints.object_names import (
    CheckpointId,
    claim_name,
    committed,
    newest_attempt,
    next_sequence,
    payload_names,
)
from gpu_core.decisions.checkpoints.payload import Payload
from gpu_core.decisions.checkpoints.trust import (
    TRUSTS_CHECKSUMS,
    CheckpointTrust,
    UntrustedCheckpoint,
    signed,
)
from gpu_core.decisions.model.errors import GpuSchedulingError

_log = logging.getLogger(__name__)

# How long the ranks may lie apart; the slowest upload of a large shard takes minutes.
_SHARDS_TIMEOUT_S = 600.0
_LOOK_S = 0.5


class StaleAttempt(GpuSchedulingError):
    """A later attempt of the run has started; this one must not save any more, and should end."""

    def __init__(self, flow_run_id: str, attempt: int, newest: int) -> None:
        super().__init__(flow_run_id, attempt, newest)
        self.flow_run_id = flow_run_id
        self.attempt = attempt
        self.newest = newest

    def __str__(self) -> str:
        return (
            f"attempt {self.attempt} of run {self.flow_run_id} was replaced by attempt "
            f"{self.newest}, so its checkpoint was rejected. This process is outdated and "
            "should be stopped."
        )


class MissingShards(GpuSchedulingError):
    """Some ranks have not saved their part of a checkpoint in time; it was not committed."""

    def __init__(self, missing: tuple[str, ...], timeout_s: float) -> None:
        super().__init__(missing, timeout_s)
        self.missing = missing
        self.timeout_s = timeout_s

    def __str__(self) -> str:
        return (
            f"{', '.join(self.missing)} did not arrive within {self.timeout_s:g} s. All "
            "ranks must save at the same steps."
        )


class RanksDiffer(GpuSchedulingError):
    """A checkpoint was saved by another number of ranks than this run has."""

    def __init__(self, uri: str, saved_by: int, ranks: int) -> None:
        super().__init__(uri, saved_by, ranks)
        self.uri = uri
        self.saved_by = saved_by
        self.ranks = ranks

    def __str__(self) -> str:
        return (
            f"{self.uri} was saved by {self.saved_by} ranks, and this run has {self.ranks}. Resume "
            f"with {self.saved_by} ranks, or gather the state on rank 0 before it is saved."
        )


@dataclass(frozen=True, slots=True)
class LoadedCheckpoint:
    """A checkpoint that is as it was written; of several ranks', the part of one."""

    manifest: Manifest
    payload: bytes | bytearray


class RunCheckpoints:
    """Save, find and prune the checkpoints of one run.

    Args:
        flow_run_id: The run; its checkpoints are in the folder of this name.
        attempt: The attempt that writes, from 1.
        keep: How many complete checkpoints stay, 1 or more.
        trust: Which checkpoints may be restored, and what new ones are signed with.
        rank: Which of the processes that save together this is, from 0.
        ranks: How many they are.
        verifies_all_shards: Read the other ranks' parts too before a checkpoint counts as good.
            Needed where the ranks cannot agree on one by other means.
        shards_timeout_s: How long rank 0 waits for the others.
        pause: Waits for this many seconds.
    """

    def __init__(
        self,
        store: CheckpointStore,
        *,
        flow_run_id: str,
        attempt: int,
        keep: int,
        trust: CheckpointTrust = TRUSTS_CHECKSUMS,
        rank: int = 0,
        ranks: int = 1,
        verifies_all_shards: bool = True,
        shards_timeout_s: float = _SHARDS_TIMEOUT_S,
        pause: Callable[[float], None] = time.sleep,
    ) -> None:
        self._store = store
        self._flow_run_id = flow_run_id
        self._attempt = attempt
        self._keep = keep
        self._trust = trust
        self._rank = rank
        self._ranks = ranks
        self._verifies_all_shards = verifies_all_shards
        self._shards_timeout_s = shards_timeout_s
        self._pause = pause
        self._damaged: set[CheckpointId] = set()

    def claim(self) -> None:
        """Begin the attempt: from now on no earlier one may save.

        Raises:
            StaleAttempt: A later attempt has started already.
            StoreUnreachable: The store cannot be listed or written to.
            NotEnoughSpace: Its disk cannot take one save; nothing was written.
        """
        try:
            self._check_space(self._current_names())
            self._store.put(self.key(claim_name(self._attempt)), b"")
        except GpuSchedulingError:
            raise
        except Exception as error:  # any error of the store: better now than at the first save
            raise store_error(self._store.uri(self._flow_run_id), error) from error

    def next_sequence(self) -> int:
        """The number that the next checkpoint gets.

        Raises:
            StaleAttempt: A later attempt has started.
        """
        return next_sequence(self._current_names())

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
            except (DamagedCheckpoint, UntrustedCheckpoint) as damage:
                self.reject(newest, str(damage))
                continue
            yield loaded

    def reject(self, checkpoint: CheckpointId, reason: str) -> None:
        """Take this checkpoint for unusable: it no longer counts as one that is kept."""
        self._damaged.add(checkpoint)
        uri = self._store.uri(self.key(str(checkpoint)))
        _log.warning("Skipping checkpoint %s: %s", uri, reason)

    def save(
        self,
        payload: bytes | Payload,
        *,
        payload_format: str,
        saved_at: datetime,
        sequence: int | None = None,
    ) -> Manifest:
        """Keep this payload as the newest checkpoint; it is durable when this returns.

        Where several ranks save, each keeps its part, and what rank 0 answers is the whole.

        Args:
            payload: The state, or this rank's part of it.
            sequence: The checkpoint's number, which all ranks must give; by default the next one.

        Raises:
            StaleAttempt: A later attempt has started; nothing was committed.
            AlreadyCommitted: Another process of this attempt saves at the same time.
            MissingShards: Another rank has not saved its part.
            UntrustedCheckpoint: Another rank's part is not signed as this rank signs.
        """
        content = payload if isinstance(payload, Payload) else Payload(payload)
        new = CheckpointId(self._attempt, self.next_sequence() if sequence is None else sequence)
        payload_name, manifest_name = self._names_of(new)
        self._store.upload(self.key(payload_name), content)
        manifest = manifest_of(new, content, payload_format=payload_format, saved_at=saved_at)
        self._current_names()  # the payload may have taken minutes
        own_rank = None if self._ranks == 1 else self._rank
        self._store.commit(self.key(manifest_name), self._encode(manifest, own_rank))
        if self._ranks == 1 or self._rank > 0:
            return manifest
        shards = self._all_shards(new)
        whole = describe_shards(shards, new)
        for rank, encoded in enumerate(shards):
            self._trust.of_parts().require_signed(signed_fields(encoded), self._place(rank))
        self._current_names()
        self._store.commit(self.key(new.manifest_name), self._encode(whole, None))
        return whole

    def prune(self) -> None:
        """Delete what newer checkpoints have replaced; a failure is only logged."""
        if self._rank > 0:
            return
        try:
            names = self._names()
            for name in deletable(names, self._keep, self._damaged):
                self._store.delete(self.key(name))
            unfinished = self._store.unfinished(self._flow_run_id)
            for name in abandoned(unfinished, names, self._attempt):
                self._store.abort(self.key(name))
        except Exception as error:  # any error of the store: the checkpoint itself is safe
            folder = self._store.uri(self._flow_run_id)
            _log.warning("Failed to delete old checkpoints in %s: %s", folder, error)

    def key(self, name: str) -> str:
        """The path of this name of the run in the store."""
        return f"{self._flow_run_id}/{name}"

    def _check_space(self, names: Collection[str]) -> None:
        free_bytes = self._store.free_bytes()
        if free_bytes is None:
            return
        last_bytes = self._last_size_bytes(names)
        if free_bytes < needed_bytes(last_bytes):
            uri = self._store.uri(self._flow_run_id)
            raise NotEnoughSpace(uri, free_bytes, needed_bytes(last_bytes), last_bytes)

    def _last_size_bytes(self, names: Collection[str]) -> int | None:
        """The size of the newest checkpoint; None: none exists, or its manifest is not trusted.

        Where no signature is required, anyone who can write to the store can claim any size: the
        claim counts up to what lies in the store.
        """
        for newest in committed(names)[:1]:
            try:
                size = self._trusted(self._encoded(newest.manifest_name), newest, None).size_bytes
            except (DamagedCheckpoint, UntrustedCheckpoint):
                return None
            if type(size) is not int or size < 0:
                return None
            return min(size, self._stored_bytes(payload_names(names, newest)))
        return None

    def _stored_bytes(self, names: Iterable[str]) -> int:
        total = 0
        for name in names:
            with suppress(FileNotFoundError):  # deleted since the names were listed
                total += self._store.size_bytes(self.key(name))
        return total

    def _encode(self, manifest: Manifest, rank: int | None) -> bytes:
        key = self._trust.signing_key
        if key is None:
            return encode(manifest)
        return encode(manifest, lambda fields: signed(fields, self._place(rank), key))

    def _place(self, rank: int | None) -> dict[str, object]:
        """The scope of a signature: this run, as this rank's part or as the whole."""
        return {"flow_run_id": self._flow_run_id, "rank": rank}

    def _trusted(self, encoded: bytes, wanted: CheckpointId, rank: int | None) -> Manifest:
        manifest = decode(encoded, wanted)
        self._trust.require_signed(signed_fields(encoded), self._place(rank))
        self._trust.require_readable(manifest.format)
        return manifest

    def _names(self) -> tuple[str, ...]:
        return self._store.names(self._flow_run_id)

    def _current_names(self) -> tuple[str, ...]:
        names = self._names()
        newest = newest_attempt(names)
        if newest > self._attempt:
            raise StaleAttempt(self._flow_run_id, self._attempt, newest)
        return names

    def _names_of(self, checkpoint: CheckpointId) -> tuple[str, str]:
        """The objects that this process writes for a checkpoint: payload and manifest."""
        if self._ranks == 1:
            return checkpoint.payload_name, checkpoint.manifest_name
        return (
            checkpoint.shard_payload_name(self._rank),
            checkpoint.shard_manifest_name(self._rank),
        )

    def _all_shards(self, new: CheckpointId) -> list[bytes]:
        wanted = [new.shard_manifest_name(rank) for rank in range(self._ranks)]
        left_s = self._shards_timeout_s
        while missing := sorted(set(wanted) - set(self._current_names())):
            if left_s <= 0:
                raise MissingShards(tuple(missing), self._shards_timeout_s)
            self._pause(_LOOK_S)
            left_s -= _LOOK_S
        return [self._store.get(self.key(name)) for name in wanted]

    def _load(self, wanted: CheckpointId) -> LoadedCheckpoint:
        manifest = self._trusted(self._encoded(wanted.manifest_name), wanted, None)
        saved_by = len(manifest.shard_sha256) or 1
        if saved_by != self._ranks:
            uri = self._store.uri(self.key(str(wanted)))
            raise RanksDiffer(uri, saved_by, self._ranks)
        if manifest.format != SHARDS:
            payload = read_verified(self._store, self.key(wanted.payload_name), manifest)
            return LoadedCheckpoint(manifest, payload)
        if self._verifies_all_shards:
            for rank in {*range(self._ranks)} - {self._rank}:
                shard = self._shard(manifest, rank)
                verify_payload(self._store, self.key(wanted.shard_payload_name(rank)), shard)
        own = self._shard(manifest, self._rank)
        key = self.key(wanted.shard_payload_name(self._rank))
        return LoadedCheckpoint(own, read_verified(self._store, key, own))

    def _shard(self, whole: Manifest, rank: int) -> Manifest:
        encoded = self._encoded(whole.id.shard_manifest_name(rank))
        check_part(encoded, whole.shard_sha256[rank])
        return self._trusted(encoded, whole.id, rank)

    def _encoded(self, manifest_name: str) -> bytes:
        try:
            return self._store.get(self.key(manifest_name))
        except FileNotFoundError as error:
            raise DamagedCheckpoint(f"part of the checkpoint is missing: {error}") from None
