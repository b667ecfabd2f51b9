"""Which names may be deleted, and which uploads are abandoned."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpu_core.decisions.checkpoints.deletion import abandoned, deletable
from gpu_core.decisions.checkpoints.object_names import (
    CheckpointId,
    committed,
    newest_attempt,
    next_sequence,
)
from tests.gpu_core.decisions.checkpoints.folders import folders, ids, whole


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


@given(folders, st.integers(1, 4))
def test_the_order_in_which_names_are_listed_does_not_matter(
    names: frozenset[str], keep: int
) -> None:
    """A store may list in any order."""
    forwards, backwards = sorted(names), sorted(names, reverse=True)
    assert deletable(forwards, keep) == deletable(backwards, keep)


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
