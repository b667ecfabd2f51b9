"""Which checkpoint is newest, and which number is free."""

import pytest
from hypothesis import given

from gpu_core.decisions.checkpoints.object_names import (
    CheckpointId,
    committed,
    newest_attempt,
    next_sequence,
)
from tests.gpu_core.decisions.checkpoints.folders import folders, whole


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


@given(folders)
def test_the_next_checkpoint_is_the_newest(names: frozenset[str]) -> None:
    """What the current attempt saves next is new, and newer than everything."""
    attempt = max(1, newest_attempt(names))
    following = CheckpointId(attempt, next_sequence(names))
    assert not names & set(whole(following))
    assert all(following > checkpoint for checkpoint in committed(names))


@given(folders)
def test_the_order_in_which_names_are_listed_does_not_matter(names: frozenset[str]) -> None:
    """A store may list in any order."""
    assert committed(sorted(names)) == committed(sorted(names, reverse=True))
