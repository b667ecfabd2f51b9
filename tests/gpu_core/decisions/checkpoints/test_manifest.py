"""A manifest says what was written, and notices any change to it."""

from datetime import UTC, datetime

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpu_core.decisions.checkpoints.manifest import (
    DamagedCheckpoint,
    check_payload,
    decode,
    encode,
    manifest_of,
)
from gpu_core.decisions.checkpoints.object_names import CheckpointId
from gpu_core.decisions.checkpoints.payload import Payload
from gpu_core.decisions.model.errors import InvalidInput

NEWEST = CheckpointId(2, 7)
SAVED_AT = datetime(2026, 3, 1, 12, 30, tzinfo=UTC)


def make_manifest(payload: bytes = b"state"):
    return manifest_of(NEWEST, Payload(payload), payload_format="pickle", saved_at=SAVED_AT)


@given(
    st.builds(CheckpointId, st.integers(1, 10**7), st.integers(1, 10**9)),
    st.binary(max_size=64),
    st.datetimes(timezones=st.just(UTC)),
)
def test_what_is_written_is_read_back(
    checkpoint: CheckpointId, payload: bytes, saved_at: datetime
) -> None:
    """Encoding and decoding gives the same manifest, and the payload fits it."""
    manifest = manifest_of(checkpoint, Payload(payload), payload_format="bytes", saved_at=saved_at)
    assert decode(encode(manifest), checkpoint) == manifest
    check_payload(payload, manifest)


def test_every_changed_byte_of_a_manifest_is_noticed() -> None:
    """No byte of a manifest can become any other without being noticed."""
    content = encode(make_manifest())
    for position in range(len(content)):
        for other in {*range(0, 256, 5), 9, 10, 32, 48, 49, 65, 97} - {content[position]}:
            changed = content[:position] + bytes([other]) + content[position + 1 :]
            with pytest.raises(DamagedCheckpoint):
                decode(changed, NEWEST)


@pytest.mark.parametrize(
    ("content", "want_reason"),
    [
        pytest.param(b"", "unreadable", id="empty"),
        pytest.param(b"[1]", "unreadable", id="not an object"),
        pytest.param(b"{}", "unreadable", id="without fields"),
        pytest.param(b"\xff\xfe", "unreadable", id="not text"),
        pytest.param(b"[" * 100_000, "unreadable", id="nested without end"),
        pytest.param(encode(make_manifest())[:-1], "unreadable", id="cut short"),
        pytest.param(encode(make_manifest()) + b"\n", "checksum mismatch", id="longer"),
    ],
)
def test_what_is_not_a_manifest(content: bytes, want_reason: str) -> None:
    """Anything else is damaged, and says how."""
    with pytest.raises(DamagedCheckpoint, match=want_reason):
        decode(content, NEWEST)


def test_another_checkpoints_manifest_is_refused() -> None:
    """A manifest that was copied to another name does not describe that checkpoint."""
    with pytest.raises(DamagedCheckpoint, match="describes checkpoint 000002-00000007"):
        decode(encode(make_manifest()), CheckpointId(2, 8))


@given(st.binary(max_size=64), st.binary(max_size=64))
def test_another_payload_is_refused(payload: bytes, other: bytes) -> None:
    """A payload is accepted exactly if it is the one that was described."""
    manifest = make_manifest(payload)
    if payload == other:
        check_payload(other, manifest)
        return
    with pytest.raises(DamagedCheckpoint, match="its payload"):
        check_payload(other, manifest)


def test_a_time_without_a_zone_is_refused() -> None:
    """A naive time would be a guess."""
    with pytest.raises(InvalidInput, match="saved_at has no time zone"):
        manifest_of(NEWEST, Payload(b""), payload_format="bytes", saved_at=datetime(2026, 3, 1))  # noqa: DTZ001 - naive on purpose
