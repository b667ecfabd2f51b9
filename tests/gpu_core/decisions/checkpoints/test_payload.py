"""Parts that cover a payload, and sections that are found again in it."""

import hashlib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpu_core.decisions.checkpoints.payload import Payload, Sections, part_bytes, read_sections

MIB = 1024 * 1024


@given(st.binary(max_size=50), st.integers(1, 60))
def test_parts_cover_the_payload_once(content: bytes, in_parts_of: int) -> None:
    """In order, all of the same size but the last, and never none."""
    parts = Payload(content, in_parts_of).parts
    assert b"".join(part.content for part in parts) == content
    assert [part.offset for part in parts] == [in_parts_of * n for n in range(len(parts))]
    assert {part.content.nbytes for part in parts[:-1]} <= {in_parts_of}
    assert parts[0].number == 1


def test_the_checksum_of_one_part_is_that_of_its_bytes() -> None:
    """As earlier versions wrote it."""
    assert Payload(b"state").sha256 == hashlib.sha256(b"state").hexdigest()


def test_the_checksum_of_several_parts_is_that_of_their_digests() -> None:
    """As S3 computes it for an upload in parts."""
    digests = hashlib.sha256(b"sta").digest() + hashlib.sha256(b"te").digest()
    assert Payload(b"state", in_parts_of=3).sha256 == hashlib.sha256(digests).hexdigest()


@given(st.integers(0, 5 * 10**13))
def test_parts_are_within_what_s3_takes(size_bytes: int) -> None:
    """At most 10,000, each of whole MiB, none under 16 MiB."""
    size = part_bytes(size_bytes)
    assert size % MIB == 0
    assert size >= 16 * MIB
    assert size_bytes <= 10_000 * size


@given(st.lists(st.binary(max_size=200), max_size=6))
def test_sections_are_found_again(contents: list[bytes]) -> None:
    """Each begins on a cache line, and none overlaps another."""
    sections = Sections([len(content) for content in contents])
    payload = bytearray(sections.size_bytes)
    payload[: len(sections.header)] = sections.header
    for offset, content in zip(sections.offsets, contents, strict=True):
        assert offset % 64 == 0
        payload[offset : offset + len(content)] = content
    assert [bytes(section) for section in read_sections(payload)] == contents


@pytest.mark.parametrize(
    "payload",
    [
        pytest.param(b"", id="empty"),
        pytest.param(b"\xff" * 8, id="more sections than memory"),
        pytest.param(b"\x02" + bytes(7) + b"\x01" + bytes(7), id="a header cut short"),
        pytest.param(Sections([5]).header, id="without its sections"),
    ],
)
def test_what_holds_no_sections(payload: bytes) -> None:
    """It is said, not guessed."""
    with pytest.raises(ValueError, match="the payload "):
        read_sections(payload)
