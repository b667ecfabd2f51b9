"""The checkpoints that a run may restore. Checksums find accidents; signatures find attackers.

A checkpoint store is writable by others than the run. Two rules of the policy limit what they can
do: `checkpoints.refuse_pickles`, because reading a pickle runs code, and
`checkpoints.require_signatures`, because only holders of the key can sign a manifest.

A signature is HMAC-SHA256 (RFC 2104, FIPS 180-4) over the manifest's fields as JSON. These hold the
checksums of the payload, the run's id, the checkpoint's number and, of several ranks, the rank: a
signed checkpoint is valid in one place only.
"""

import hashlib
import hmac
import json
from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from gpu_core.decisions.checkpoints.manifest import PICKLE, SECTIONS
from gpu_core.decisions.model.errors import GpuSchedulingError, InvalidInput

SIGNATURE = "signature"
"""The field of a manifest that holds its signature, as 64 hexadecimal digits."""

SIGNING_KEY_VARIABLE = "PREFECT_GPU_CHECKPOINT_SIGNING_KEY"
"""The environment variable of a run that holds the keys: the first signs, each may have signed."""
SIGNING_KEY_HELP = (
    "set PREFECT_INTEGRATIONS_GPU_CHECKPOINT_SIGNING_KEY for a gpu-process worker. For a "
    f"gpu-kubernetes pool, add a Secret for {SIGNING_KEY_VARIABLE} to `kubernetes.secrets` "
    "in the policy"
)
# So that the key signs nothing else by accident; with a version, should the form change.
_PURPOSE = b"prefect-gpu checkpoint manifest 1\n"
# NIST SP 800-107: an HMAC key is at least as strong as half the digest.
_LEAST_KEY_CHARACTERS = 16


class UntrustedCheckpoint(GpuSchedulingError):
    """A checkpoint is intact, and the run may not restore it; the text is the reason."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CheckpointTrust:
    """The checkpoints that a run restores."""

    refuses_pickles: bool = False
    requires_signatures: bool = False
    keys: tuple[bytes, ...] = field(default=(), repr=False)
    """The first signs; the others are of before the key was changed. Empty: nothing is signed."""

    @property
    def signing_key(self) -> bytes | None:
        """The key that signs new manifests; None if they are not signed."""
        return self.keys[0] if self.keys else None

    def of_parts(self) -> "CheckpointTrust":
        """The trust that a rank requires of other ranks' parts before it signs for the whole."""
        return replace(self, requires_signatures=self.requires_signatures or bool(self.keys))

    def require_readable(self, payload_format: str) -> None:
        """May a payload of this format be read?

        Raises:
            UntrustedCheckpoint: It is a pickle, and the policy refuses pickles.
        """
        if self.refuses_pickles and payload_format in (PICKLE, SECTIONS):
            raise UntrustedCheckpoint(
                f"its format is {payload_format!r}, but pickles are not allowed by the "
                "policy (checkpoints.refuse_pickles)"
            )

    def require_signed(self, fields: Mapping[str, object], place: Mapping[str, object]) -> None:
        """Is a manifest with these fields signed with one of the keys, for this place?

        Args:
            place: What `signed` was given.

        Raises:
            UntrustedCheckpoint: It has no signature and needs one, or has a wrong one.
        """
        signature = fields.get(SIGNATURE)
        if signature is None:
            if self.requires_signatures:
                raise UntrustedCheckpoint("it is not signed, but signatures are required")
            return
        if not self.keys:
            return
        unsigned = {name: value for name, value in fields.items() if name != SIGNATURE}
        candidates = [_signature(unsigned, key) for key in self.keys]
        if not any(hmac.compare_digest(str(signature).encode(), one) for one in candidates):
            raise UntrustedCheckpoint(
                "its signature is invalid: it was signed with a different key or without a key"
            )
        elsewhere = {
            name: fields.get(name) for name, value in place.items() if fields.get(name) != value
        }
        if elsewhere:
            raise UntrustedCheckpoint(
                f"its signature is for a different location: {elsewhere}, not {dict(place)}"
            )


TRUSTS_CHECKSUMS = CheckpointTrust()
"""Every checkpoint that is as it was written is restored: what holds without a policy."""


def signed(
    fields: Mapping[str, object], place: Mapping[str, object], key: bytes
) -> dict[str, object]:
    """The fields of a manifest with the place that it is valid in, and a signature over both.

    Args:
        place: `flow_run_id`, and `rank`; None for what is no rank's part.
    """
    placed = {**fields, **{name: value for name, value in place.items() if value is not None}}
    return {**placed, SIGNATURE: _signature(placed, key).decode()}


def checkpoint_trust(
    environment: Mapping[str, str], *, refuses_pickles: bool, requires_signatures: bool
) -> CheckpointTrust:
    """The checkpoints that this run may restore, by their format and signature.

    Args:
        environment: Its environment variables, which hold the keys.

    Raises:
        InvalidInput: A key is too short, or signatures are required and there is no key.
    """
    keys = parse_signing_keys(environment.get(SIGNING_KEY_VARIABLE, ""), SIGNING_KEY_VARIABLE)
    if requires_signatures and not keys:
        raise InvalidInput(
            SIGNING_KEY_VARIABLE,
            "must be set, because the policy requires signed checkpoints",
            remedy=SIGNING_KEY_HELP,
        )
    return CheckpointTrust(
        refuses_pickles=refuses_pickles, requires_signatures=requires_signatures, keys=keys
    )


def parse_signing_keys(text: str, field_name: str) -> tuple[bytes, ...]:
    """The keys in a text. White space separates them; the first one signs.

    Raises:
        InvalidInput: One has fewer than 16 characters. The error does not show it.
    """
    keys = text.split()
    if any(len(key) < _LEAST_KEY_CHARACTERS for key in keys):
        raise InvalidInput(
            field_name,
            "has a key that is too short",
            allowed=f"at least {_LEAST_KEY_CHARACTERS} characters for each key",
            remedy="make one with `openssl rand -hex 32`",
        )
    return tuple(key.encode() for key in keys)


def _signature(fields: Mapping[str, object], key: bytes) -> bytes:
    content = json.dumps(fields, sort_keys=True, separators=(",", ":")).encode("ascii")
    return hmac.new(key, _PURPOSE + content, hashlib.sha256).hexdigest().encode()
