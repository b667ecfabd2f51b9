"""The signed anchor that a purge leaves of a chain of decisions, so that the rest verifies.

A signature is HMAC-SHA256 (RFC 2104, FIPS 180-4) over the anchor's other fields as JSON. It proves
that a holder of the key cut the chain here. Workers do not need the key: keep it where those who
can write to the ledger do not read it.
"""

import hashlib
import hmac
import json
from collections.abc import Iterable
from dataclasses import asdict, dataclass, replace
from datetime import datetime

from gpu_core.decisions.model.errors import InvalidInput
from gpu_core.decisions.model.units import require_aware

# So that the key signs nothing else by accident; with a version, should the form change.
_PURPOSE = b"prefect-gpu decision anchor 1\n"
# NIST SP 800-107: an HMAC key is at least as strong as half the digest.
_LEAST_KEY_CHARACTERS = 16


@dataclass(frozen=True, slots=True, kw_only=True)
class Anchor:
    """The last record of a writer that was purged."""

    writer: str
    number: int
    """Records up to this one were purged."""
    hash: str
    """Of this record: the next one has it as its `previous_hash`."""
    purged_at: str
    signature: str = ""


def anchor_key(text: str) -> bytes:
    """The key that signs anchors.

    Raises:
        InvalidInput: It is too short to be a secret.
    """
    if len(text) < _LEAST_KEY_CHARACTERS:
        raise InvalidInput(
            "--anchor-key-file",
            "has too short a key",
            got=f"{len(text)} characters",
            allowed=f"at least {_LEAST_KEY_CHARACTERS} characters",
            remedy="make one, such as with `openssl rand -hex 32`",
        )
    return text.encode()


def signed_anchor(
    writer: str, number: int, record_hash: str, purged_at: datetime, key: bytes
) -> Anchor:
    """The anchor of a purge up to this record."""
    at = require_aware(purged_at, "purged_at").isoformat(timespec="microseconds")
    anchor = Anchor(writer=writer, number=number, hash=record_hash, purged_at=at)
    return replace(anchor, signature=_signature(anchor, key))


def anchor_problem(anchors: Iterable[Anchor], key: bytes | None) -> str | None:
    """The error for the first anchor that was not signed with the key; None: none, or no key."""
    if key is None:
        return None
    for anchor in anchors:
        if not hmac.compare_digest(anchor.signature.encode(), _signature(anchor, key).encode()):
            return (
                f"the anchor of the purge up to record {anchor.number} has a wrong signature: "
                "another key signed it, or it was changed"
            )
    return None


def _signature(anchor: Anchor, key: bytes) -> str:
    unsigned = {name: value for name, value in asdict(anchor).items() if name != "signature"}
    content = json.dumps(unsigned, sort_keys=True, separators=(",", ":")).encode()
    return hmac.new(key, _PURPOSE + content, hashlib.sha256).hexdigest()
