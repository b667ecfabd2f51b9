"""The names of the parts of a run's checkpoints, the newest of them, and those to delete.

One folder per flow run. A checkpoint is a payload and a manifest; the manifest is written last
and makes it complete:

    000002-00000007.bin     the payload of attempt 2's checkpoint with sequence number 7
    000002-00000007.json    its manifest
    000002.claim            attempt 2 has started: no earlier attempt may save any more

Where several ranks save together, each has a payload and a manifest of its own, and the manifest
of the whole is written when all of them are there:

    000002-00000007.rank3.bin
    000002-00000007.rank3.json

A name that is still being written, or whose writer was killed, has `.<random>.tmp` after it.
"""

import re
from collections.abc import Collection
from dataclasses import dataclass

_PART = re.compile(r"(\d{6,})-(\d{8,})(\.rank\d+)?\.(bin|json)(\.[^.]+\.tmp)?", re.ASCII)
_CLAIM = re.compile(r"(\d{6,})\.claim(\.[^.]+\.tmp)?", re.ASCII)


@dataclass(frozen=True, slots=True, order=True)
class CheckpointId:
    """Which checkpoint of a run. The order is that of restoring: the greatest is the newest.

    The attempt comes first, so that what a process of an earlier attempt still saves, although
    it was given up, never hides what a later attempt has saved.
    """

    attempt: int
    sequence: int

    def __str__(self) -> str:
        return f"{self.attempt:06d}-{self.sequence:08d}"

    @property
    def payload_name(self) -> str:
        """The name of the payload."""
        return f"{self}.bin"

    @property
    def manifest_name(self) -> str:
        """The name of the manifest."""
        return f"{self}.json"

    def shard_payload_name(self, rank: int) -> str:
        """The name of one rank's payload."""
        return f"{self}.rank{rank}.bin"

    def shard_manifest_name(self, rank: int) -> str:
        """The name of one rank's manifest."""
        return f"{self}.rank{rank}.json"


def claim_name(attempt: int) -> str:
    """The name of the marker that an attempt has started."""
    return f"{attempt:06d}.claim"


def newest_attempt(names: Collection[str]) -> int:
    """The latest attempt that has left anything here; 0 if none has."""
    claims = [int(match[1]) for name in names if (match := _CLAIM.fullmatch(name))]
    parts = [part.checkpoint.attempt for part in _parts(names)]
    return max(claims + parts, default=0)


def next_sequence(names: Collection[str]) -> int:
    """The next free sequence number: over all attempts, and over saves that were cut short."""
    return 1 + max((part.checkpoint.sequence for part in _parts(names)), default=0)


def committed(names: Collection[str]) -> tuple[CheckpointId, ...]:
    """The checkpoints that have a manifest, newest first."""
    ids = {part.checkpoint for part in _parts(names) if part.is_commit}
    return tuple(sorted(ids, reverse=True))


def payload_names(names: Collection[str], checkpoint: CheckpointId) -> tuple[str, ...]:
    """Which names hold the data of this checkpoint, of all its ranks?"""
    return tuple(
        part.name
        for part in _parts(names)
        if part.checkpoint == checkpoint and not part.is_manifest and not part.is_temporary
    )


def deletable(
    names: Collection[str], keep: int, damaged: Collection[CheckpointId] = ()
) -> tuple[str, ...]:
    """The names that may be deleted, in the order in which they have to be.

    The newest `keep` complete checkpoints stay, and so does everything newer than the newest of
    them: another attempt may be writing it. Older checkpoints, what saves that were cut short
    have left, and claims before the newest go. A manifest goes before its payload, so that a
    deletion that is cut short never leaves a checkpoint that only looks complete.

    Args:
        keep: How many complete checkpoints stay, 1 or more.
        damaged: Checkpoints that could not be read; they do not count as complete.
    """
    parts = _parts(names)
    have_payload = {p.checkpoint for p in parts if not p.is_manifest and not p.is_temporary}
    complete = [
        checkpoint
        for checkpoint in committed(names)
        if checkpoint in have_payload and checkpoint not in damaged
    ]
    doomed = _deletable_claims(names)
    if not complete:
        return doomed
    kept = set(complete[:keep])
    doomed_parts = [
        part
        for part in parts
        if part.checkpoint < complete[0] and (part.is_temporary or part.checkpoint not in kept)
    ]
    doomed_parts.sort(key=lambda part: (part.checkpoint, not part.is_commit, part.name))
    return tuple(part.name for part in doomed_parts) + doomed


def abandoned(unfinished: Collection[str], names: Collection[str], attempt: int) -> tuple[str, ...]:
    """Which unfinished uploads stay unfinished? Those of earlier attempts and earlier saves.

    Args:
        unfinished: The names that are being uploaded, or were when their writer was killed.
    """
    newest = max(committed(names), default=CheckpointId(0, 0))
    return tuple(
        part.name
        for part in _parts(unfinished)
        if part.checkpoint.attempt < attempt or part.checkpoint <= newest
    )


@dataclass(frozen=True, slots=True)
class _Part:
    name: str
    checkpoint: CheckpointId
    is_shard: bool
    is_manifest: bool
    is_temporary: bool

    @property
    def is_commit(self) -> bool:
        """Does it make its checkpoint complete?"""
        return self.is_manifest and not self.is_shard and not self.is_temporary


def _parts(names: Collection[str]) -> list[_Part]:
    return [
        _Part(
            name=name,
            checkpoint=CheckpointId(int(match[1]), int(match[2])),
            is_shard=match[3] is not None,
            is_manifest=match[4] == "json",
            is_temporary=match[5] is not None,
        )
        for name in names
        if (match := _PART.fullmatch(name))
    ]


def _deletable_claims(names: Collection[str]) -> tuple[str, ...]:
    claims = {name: int(match[1]) for name in names if (match := _CLAIM.fullmatch(name))}
    newest = max((a for name, a in claims.items() if name == claim_name(a)), default=0)
    return tuple(sorted(name for name, attempt in claims.items() if attempt < newest))
