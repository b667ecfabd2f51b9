"""Which checkpoint is newest, which number is free, and which names may be deleted."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpu_core.decisions.checkpoints.object_names import (
    CheckpointId,
    abandoned,
    claim_name,
    committed,
    deletable,
    newest_attempt,
    next_sequence,
)

ids = st.builds(CheckpointId, st.integers(1, 4), st.integers(1, 6))
part_names = st.builds(
    lambda checkpoint, suffix, temporary: f"{checkpoint}{suffix}{temporary}",
    ids,
    st.sampled_from([".bin", ".json"]),
    st.sampled_from(["", "", ".0f0f.tmp"]),
)
claim_names = st.builds(claim_name, st.integers(1, 4))
folders = st.frozensets(part_names | claim_names | st.sampled_from(["notes.txt", "x.tmp"]))


def whole(*checkpoints: CheckpointId) -> list[str]:
    return [name for c in checkpoints for name in (c.payload_name, c.manifest_name)]


@pytest.mark.parametrize(
    ("names", "want_newest"),
    [
        pytest.param([], None, id="an empty folder has none"),
        pytest.param(["000001-00000001.bin"], None, id="a payload alone is not committed"),
        pytest.param(
            whole(CheckpointId(1, 9), CheckpointId(2, 3)),
            CheckpointId(2, 3),
            id="a later attempt beats a higher sequence number",
        ),
        pytest.param(
            whole(CheckpointId(1, 9), CheckpointId(1, 10)),
            CheckpointId(1, 10),
            id="numbers are compared as numbers",
        ),
        pytest.param(
            [*whole(CheckpointId(1, 1)), "000001-00000002.bin", "000001-00000002.json.ab.tmp"],
            CheckpointId(1, 1),
            id="a manifest that is still being written does not count",
        ),
        pytest.param(
            whole(CheckpointId(1, 99_999_999), CheckpointId(1, 100_000_000)),
            CheckpointId(1, 100_000_000),
            id="the numbers may outgrow their width",
        ),
        pytest.param(
            ["1-1.json", "000001-00000001.json.bak", "٠٠٠٠٠١-00000001.json"],
            None,
            id="foreign names are left alone",
        ),
    ],
)
def test_newest_committed(names: list[str], want_newest: CheckpointId | None) -> None:
    """The newest is the greatest attempt, then the greatest sequence number."""
    found = committed(names)
    assert (found[0] if found else None) == want_newest


@pytest.mark.parametrize(
    ("names", "want_attempt", "want_sequence"),
    [
        pytest.param([], 0, 1, id="an empty folder"),
        pytest.param(["000003.claim"], 3, 1, id="a claim without a checkpoint"),
        pytest.param(
            ["000001.claim", "000002-00000004.bin.ab.tmp"], 2, 5, id="a save that was cut short"
        ),
        pytest.param(whole(CheckpointId(1, 7), CheckpointId(2, 3)), 2, 8, id="over all attempts"),
    ],
)
def test_newest_attempt_and_next_number(
    names: list[str], want_attempt: int, want_sequence: int
) -> None:
    """Whatever an attempt left makes it known, and no number is used twice."""
    assert (newest_attempt(names), next_sequence(names)) == (want_attempt, want_sequence)


@pytest.mark.parametrize(
    ("names", "keep", "damaged", "want_deleted"),
    [
        pytest.param(
            whole(CheckpointId(1, 1), CheckpointId(1, 2), CheckpointId(1, 3)),
            2,
            [],
            ("000001-00000001.json", "000001-00000001.bin"),
            id="the oldest goes, its manifest first",
        ),
        pytest.param(
            [*whole(CheckpointId(1, 1), CheckpointId(1, 3)), "000001-00000002.bin"],
            2,
            [],
            ("000001-00000002.bin",),
            id="a payload that was never committed goes and does not count",
        ),
        pytest.param(
            [*whole(CheckpointId(1, 1)), "000001-00000002.bin", "000002-00000003.bin.ab.tmp"],
            1,
            [],
            (),
            id="what is newer than the newest complete one stays",
        ),
        pytest.param(
            whole(CheckpointId(1, 1), CheckpointId(1, 2), CheckpointId(1, 3)),
            2,
            [CheckpointId(1, 2)],
            ("000001-00000002.json", "000001-00000002.bin"),
            id="a damaged one goes instead of the good one before it",
        ),
        pytest.param(
            ["000001-00000001.json", *whole(CheckpointId(1, 2))],
            2,
            [],
            ("000001-00000001.json",),
            id="a manifest without its payload is not complete",
        ),
        pytest.param(
            ["000001.claim", "000002.claim", "000003.claim.ab.tmp"],
            2,
            [],
            ("000001.claim",),
            id="only the newest whole claim is needed",
        ),
    ],
)
def test_deletable(
    names: list[str], keep: int, damaged: list[CheckpointId], want_deleted: tuple[str, ...]
) -> None:
    """The newest complete checkpoints stay, and whatever is newer; the rest goes."""
    assert deletable(names, keep, damaged) == want_deleted


@given(folders, st.integers(1, 4), st.frozensets(ids, max_size=3))
def test_deleting_never_changes_what_would_be_restored(
    names: frozenset[str], keep: int, damaged: frozenset[CheckpointId]
) -> None:
    """After any part of the deletions, in order, the kept ones are whole and still the newest."""
    complete = [c for c in committed(names) if c.payload_name in names and c not in damaged]
    doomed = deletable(names, keep, damaged)
    for done in range(len(doomed) + 1):
        left = names - set(doomed[:done])
        assert set(whole(*complete[:keep])) <= left
        assert newest_attempt(left) == newest_attempt(names)
        # No manifest outlives its payload because of a deletion that was cut short.
        assert not [c for c in committed(left) if c.payload_name in names - left]


@given(folders, st.integers(1, 4))
def test_deleting_twice_deletes_nothing_more(names: frozenset[str], keep: int) -> None:
    """What is left after a deletion has nothing left to delete."""
    left = names - set(deletable(names, keep))
    assert deletable(left, keep) == ()


@given(folders)
def test_the_next_checkpoint_is_the_newest(names: frozenset[str]) -> None:
    """What the current attempt saves next is new, and newer than everything."""
    attempt = max(1, newest_attempt(names))
    following = CheckpointId(attempt, next_sequence(names))
    assert not names & set(whole(following))
    assert all(following > checkpoint for checkpoint in committed(names))


@given(folders, st.integers(1, 4))
def test_the_order_in_which_names_are_listed_does_not_matter(
    names: frozenset[str], keep: int
) -> None:
    """A store may list in any order."""
    forwards, backwards = sorted(names), sorted(names, reverse=True)
    assert deletable(forwards, keep) == deletable(backwards, keep)
    assert committed(forwards) == committed(backwards)


def test_parts_of_ranks_belong_to_their_checkpoint() -> None:
    """They go after the manifest of the whole, and never make a checkpoint complete themselves."""
    old = [f"000001-00000001{s}" for s in (".json", ".rank0.bin", ".rank0.json", ".rank1.bin")]
    new = [f"000001-00000002{s}" for s in (".json", ".rank0.bin", ".rank0.json")]
    half = ["000001-00000003.rank0.bin", "000001-00000003.rank0.json"]
    names = [*half, *new, *old]
    assert committed(names) == (CheckpointId(1, 2), CheckpointId(1, 1))
    assert deletable(names, keep=1) == tuple(old)
    assert next_sequence(names) == 4


@pytest.mark.parametrize(
    ("unfinished", "want_abandoned"),
    [
        pytest.param("000001-00000009.bin", True, id="of an earlier attempt"),
        pytest.param("000002-00000004.bin", True, id="older than what is complete"),
        pytest.param("000002-00000006.bin", False, id="still under way"),
        pytest.param("000002-00000006.rank3.bin", False, id="another rank's"),
        pytest.param("000003-00000001.bin", False, id="of a later attempt"),
        pytest.param("notes.txt", False, id="none of ours"),
    ],
)
def test_which_uploads_are_abandoned(unfinished: str, want_abandoned: bool) -> None:
    """Those that no attempt will finish."""
    names = ["000002-00000005.bin", "000002-00000005.json"]
    assert (unfinished in abandoned([unfinished], names, attempt=2)) == want_abandoned
