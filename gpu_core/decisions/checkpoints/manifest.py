"""The manifest of a checkpoint, and the check that it and the payload are as they were written."""

import hashlib
import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime

from gpu_core.decisions.checkpoints.object_names import CheckpointId
from gpu_core.decisions.checkpoints.payload import Buffer, Payload, combined_sha256
from gpu_core.decisions.model.errors import GpuSchedulingError
from gpu_core.decisions.model.units import require_aware

BYTES = "bytes"
"""The format of a state that was given as bytes, kept as they are."""
PLAIN = "plain"
"""Plain data and arrays, written without pickle."""
PICKLE = "pickle"
SECTIONS = "pickle-sections"
"""A pickle, and behind it the arrays of which it has only the description."""
SHARDS = "shards"
"""The format of a checkpoint that several ranks have written, each its part."""

_OWN_CHECKSUM = "manifest_sha256"


class DamagedCheckpoint(GpuSchedulingError):
    """A checkpoint is not as it was written; the text is the reason, as a clause."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Manifest:
    """The parts of a complete checkpoint."""

    attempt: int
    sequence: int
    size_bytes: int
    sha256: str
    """Of the payload, as 64 hexadecimal digits; of its parts' digests where it has several."""
    saved_at: datetime
    format: str
    """The format of the payload: `bytes`, `plain`, `pickle`, `pickle-sections`, or `shards`: the
    payload is that of the ranks together, each with a manifest of its own."""
    part_bytes: int | None = None
    """The size of all parts but the last; None: the payload is one part."""
    part_sha256: tuple[str, ...] = ()
    """Of each part, where there are several."""
    shard_sha256: tuple[str, ...] = ()
    """Of each rank's manifest, where there are shards; their number is that of the ranks."""

    @property
    def id(self) -> CheckpointId:
        """The checkpoint that this manifest describes."""
        return CheckpointId(self.attempt, self.sequence)


def manifest_of(
    checkpoint: CheckpointId, payload: Payload, *, payload_format: str, saved_at: datetime
) -> Manifest:
    """The manifest of this payload.

    Args:
        saved_at: When the state was taken, an aware time.
    """
    several = len(payload.parts) > 1
    return Manifest(
        attempt=checkpoint.attempt,
        sequence=checkpoint.sequence,
        size_bytes=payload.size_bytes,
        sha256=payload.sha256,
        saved_at=require_aware(saved_at, "saved_at"),
        format=payload_format,
        part_bytes=payload.part_bytes if several else None,
        part_sha256=tuple(part.digest.hex() for part in payload.parts) if several else (),
    )


def describe_shards(encoded_shards: Sequence[bytes], checkpoint: CheckpointId) -> Manifest:
    """The manifest of a checkpoint that the ranks have written together.

    Args:
        encoded_shards: The manifest of each rank, in their order, as `encode` gave it.

    Raises:
        DamagedCheckpoint: One of them is not as it was written, or is another checkpoint's.
    """
    shards = [decode(encoded, checkpoint) for encoded in encoded_shards]
    return Manifest(
        attempt=checkpoint.attempt,
        sequence=checkpoint.sequence,
        size_bytes=sum(shard.size_bytes for shard in shards),
        sha256=combined_sha256([bytes.fromhex(shard.sha256) for shard in shards]),
        saved_at=max(shard.saved_at for shard in shards),
        format=SHARDS,
        shard_sha256=tuple(hashlib.sha256(encoded).hexdigest() for encoded in encoded_shards),
    )


def encode(
    manifest: Manifest,
    sign: Callable[[Mapping[str, object]], dict[str, object]] | None = None,
) -> bytes:
    """The manifest as JSON, with a checksum of its own in `manifest_sha256`.

    What does not apply is left out, so that earlier versions read what they know.

    Args:
        sign: Adds a signature to the fields; None: it is not signed.
    """
    fields: dict[str, object] = {
        "attempt": manifest.attempt,
        "sequence": manifest.sequence,
        "size_bytes": manifest.size_bytes,
        "sha256": manifest.sha256,
        "saved_at": manifest.saved_at.isoformat(),
        "format": manifest.format,
    }
    if manifest.part_bytes is not None:
        fields["part_bytes"] = manifest.part_bytes
    if manifest.part_sha256:
        fields["part_sha256"] = list(manifest.part_sha256)
    if manifest.shard_sha256:
        fields["shard_sha256"] = list(manifest.shard_sha256)
    if sign is not None:
        fields = sign(fields)
    return _json(fields | {_OWN_CHECKSUM: hashlib.sha256(_json(fields)).hexdigest()})


def decode(content: bytes, wanted: CheckpointId) -> Manifest:
    """The manifest that was written as these bytes; fields of a later version are left out.

    Args:
        content: What `encode` gave.
        wanted: The checkpoint that its name says it describes.

    Raises:
        DamagedCheckpoint: A byte differs, or it is another checkpoint's manifest.
    """
    try:
        fields = json.loads(content)
        own_checksum = fields.pop(_OWN_CHECKSUM)
        manifest = Manifest(
            attempt=fields["attempt"],
            sequence=fields["sequence"],
            size_bytes=fields["size_bytes"],
            sha256=fields["sha256"],
            saved_at=datetime.fromisoformat(fields["saved_at"]),
            format=fields["format"],
            part_bytes=fields.get("part_bytes"),
            part_sha256=tuple(fields.get("part_sha256", ())),
            shard_sha256=tuple(fields.get("shard_sha256", ())),
        )
    except (ValueError, TypeError, KeyError, AttributeError, RecursionError) as error:
        raise DamagedCheckpoint(f"its manifest is unreadable: {error!r}") from None
    is_intact = hashlib.sha256(_json(fields)).hexdigest() == own_checksum
    # A changed byte may leave the values as they were (white space, a repeated key).
    if not is_intact or _json(fields | {_OWN_CHECKSUM: own_checksum}) != content:
        raise DamagedCheckpoint("its manifest is corrupted: checksum mismatch")
    if manifest.id != wanted:
        raise DamagedCheckpoint(f"its manifest describes checkpoint {manifest.id}")
    return manifest


def signed_fields(content: bytes) -> dict[str, object]:
    """All the fields that a signature is over, and the signature itself."""
    fields: dict[str, object] = json.loads(content)
    del fields[_OWN_CHECKSUM]
    return fields


def check_size(size_bytes: int, manifest: Manifest) -> None:
    """Has the payload the size that the manifest says?

    Raises:
        DamagedCheckpoint: It has another.
    """
    if size_bytes != manifest.size_bytes:
        raise DamagedCheckpoint(
            f"its payload has {size_bytes} bytes instead of {manifest.size_bytes}"
        )


def check_part(content: Buffer, want_sha256: str) -> None:
    """Are these the bytes that were written?

    Raises:
        DamagedCheckpoint: Their checksum differs.
    """
    if hashlib.sha256(content).hexdigest() != want_sha256:
        raise DamagedCheckpoint("its payload is corrupted: checksum mismatch")


def check_payload(payload: bytes, manifest: Manifest) -> None:
    """Is a payload of one part the one that the manifest describes?

    Raises:
        DamagedCheckpoint: Its size or its checksum differs.
    """
    check_size(len(payload), manifest)
    check_part(payload, manifest.sha256)


def _json(fields: dict[str, object]) -> bytes:
    return json.dumps(fields, sort_keys=True, separators=(",", ":")).encode("ascii")
