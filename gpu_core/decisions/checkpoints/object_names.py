"""The names of the parts of a run's checkpoints, and the newest of them.

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
    """The number of a checkpoint of a run. The order is that of restoring: the greatest is the
    newest.

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
    parts = [part.checkpoint.attempt for part in parsed_names(names)]
    return max([*claims(names).values(), *parts], default=0)


def next_sequence(names: Collection[str]) -> int:
    """The next free sequence number: over all attempts, and over saves that were cut short."""
    return 1 + max((part.checkpoint.sequence for part in parsed_names(names)), default=0)


def committed(names: Collection[str]) -> tuple[CheckpointId, ...]:
    """The checkpoints that have a manifest, newest first."""
    ids = {part.checkpoint for part in parsed_names(names) if part.is_commit}
    return tuple(sorted(ids, reverse=True))


def payload_names(names: Collection[str], checkpoint: CheckpointId) -> tuple[str, ...]:
    """The names of the objects that hold the data of this checkpoint, of all its ranks."""
    return tuple(
        part.name
        for part in parsed_names(names)
        if part.checkpoint == checkpoint and not part.is_manifest and not part.is_temporary
    )


@dataclass(frozen=True, slots=True)
class ObjectName:
    """The parts of an object's name."""

    name: str
    checkpoint: CheckpointId
    is_shard: bool
    is_manifest: bool
    is_temporary: bool

    @property
    def is_commit(self) -> bool:
        """Does it make its checkpoint complete?"""
        return self.is_manifest and not self.is_shard and not self.is_temporary


def parsed_names(names: Collection[str]) -> list[ObjectName]:
    """The names that are of a checkpoint's parts, in the given order."""
    return [
        ObjectName(
            name=name,
            checkpoint=CheckpointId(int(match[1]), int(match[2])),
            is_shard=match[3] is not None,
            is_manifest=match[4] == "json",
            is_temporary=match[5] is not None,
        )
        for name in names
        if (match := _PART.fullmatch(name))
    ]


def claims(names: Collection[str]) -> dict[str, int]:
    """The attempts that have left a claim, by the claim's name, also by one that is temporary."""
    return {name: int(match[1]) for name in names if (match := _CLAIM.fullmatch(name))}
