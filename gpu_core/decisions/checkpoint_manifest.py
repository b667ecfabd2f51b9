"""What a checkpoint's manifest says, and whether manifest and payload are as they were written."""

import hashlib
import json
from dataclasses import asdict, dataclass
from datetime import datetime

from gpu_core.decisions.checkpoint_names import CheckpointId
from gpu_core.decisions.errors import GpuSchedulingError
from gpu_core.decisions.units import require_aware

_OWN_CHECKSUM = "manifest_sha256"


class DamagedCheckpoint(GpuSchedulingError):
    """A checkpoint is not as it was written; the text is the reason, as a clause."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Manifest:
    """What a complete checkpoint consists of."""

    attempt: int
    sequence: int
    size_bytes: int
    sha256: str
    """Of the payload, as 64 hexadecimal digits."""
    saved_at: datetime
    format: str
    """How the payload is to be read: `pickle`, or `bytes` for bytes as they were given."""

    @property
    def id(self) -> CheckpointId:
        """Which checkpoint this is the manifest of."""
        return CheckpointId(self.attempt, self.sequence)


def describe(
    checkpoint: CheckpointId, payload: bytes, *, payload_format: str, saved_at: datetime
) -> Manifest:
    """The manifest of this payload.

    Args:
        checkpoint: Which checkpoint it is.
        payload: The bytes to keep.
        payload_format: How they are to be read.
        saved_at: When the state was taken, an aware time.
    """
    return Manifest(
        attempt=checkpoint.attempt,
        sequence=checkpoint.sequence,
        size_bytes=len(payload),
        sha256=hashlib.sha256(payload).hexdigest(),
        saved_at=require_aware(saved_at, "saved_at"),
        format=payload_format,
    )


def encode(manifest: Manifest) -> bytes:
    """The manifest as JSON, with a checksum of its own in `manifest_sha256`."""
    fields: dict[str, object] = asdict(manifest)
    fields["saved_at"] = manifest.saved_at.isoformat()
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
        )
    except (ValueError, TypeError, KeyError, AttributeError) as error:
        raise DamagedCheckpoint(f"its manifest is unreadable: {error!r}") from None
    is_intact = hashlib.sha256(_json(fields)).hexdigest() == own_checksum
    # A changed byte may leave the values as they were (white space, a repeated key).
    if not is_intact or _json(fields | {_OWN_CHECKSUM: own_checksum}) != content:
        raise DamagedCheckpoint("its manifest is not as it was written: the checksum differs")
    if manifest.id != wanted:
        raise DamagedCheckpoint(f"its manifest describes checkpoint {manifest.id}")
    return manifest


def check_payload(payload: bytes, manifest: Manifest) -> None:
    """Is the payload the one that the manifest describes?

    Raises:
        DamagedCheckpoint: Its size or its checksum differs.
    """
    if len(payload) != manifest.size_bytes:
        raise DamagedCheckpoint(
            f"its payload has {len(payload)} bytes instead of {manifest.size_bytes}"
        )
    if hashlib.sha256(payload).hexdigest() != manifest.sha256:
        raise DamagedCheckpoint("its payload is not as it was written: the checksum differs")


def _json(fields: dict[str, object]) -> bytes:
    return json.dumps(fields, sort_keys=True, separators=(",", ":")).encode("ascii")
