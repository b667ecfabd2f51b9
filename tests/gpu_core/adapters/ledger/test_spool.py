"""The file in which records wait: bounded, in order, whole, also after a kill and a full disk."""

import resource
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpu_core.adapters.ledger.spool import Spool, SpooledRecord, SpoolFull
from gpu_core.decisions.costs.capacity.capacity_intervals import CapacityChanges, IntervalEnd
from gpu_core.testing.builders.attempts import at
from tests.gpu_core.adapters.ledger.test_capacity import make_interval
from tests.gpu_core.decisions.model.test_decision_chain import make_decision


def record(number: int) -> SpooledRecord:
    """A record with a decision."""
    return SpooledRecord(writer="gpus@host-1", decisions=(make_decision(number),))


def numbers(spool: Spool) -> list[str]:
    """The decisions that wait."""
    return [r.decisions[0].decision_id if r else "unreadable" for r in spool.records()]


def fill(spool: Spool) -> None:
    """Append more records than it has room for."""
    for number in range(2, 99):
        spool.append(record(number))


def test_records_come_back_as_they_were_and_in_order(tmp_path: Path) -> None:
    interval = make_interval(until=at(1), end_reason=IntervalEnd.REPLACED, price_as_of=at(-1))
    changes = CapacityChanges((interval,), (make_interval("new", since=at(1)),))
    of_capacity = SpooledRecord(changes=changes, seen=("a", "b"), seen_at=at(1))
    decided = SpooledRecord(
        writer="w", decisions=(make_decision(message="ü\n", numbers={"a": 1, "b": "1", "c": None}),)
    )
    spool = Spool(tmp_path / "spool")
    assert spool.is_empty
    for one in (of_capacity, decided):
        spool.append(one)
    assert list(Spool(tmp_path / "spool").records()) == [of_capacity, decided]
    spool.clear()
    assert spool.is_empty
    assert not (tmp_path / "spool").exists()


@given(cut=st.integers(1, 400))
def test_the_half_of_a_line_that_a_kill_left_is_no_record(
    tmp_path_factory: pytest.TempPathFactory, cut: int
) -> None:
    path = tmp_path_factory.mktemp("s") / "spool"
    for number in (1, 2):
        Spool(path).append(record(number))
    path.write_bytes(path.read_bytes()[: -min(cut, path.stat().st_size)])
    left = numbers(Spool(path))
    assert left == ["d-1", "d-2"][: len(left)]
    assert len(left) <= 1
    Spool(path).append(record(3))
    assert numbers(Spool(path)) == [*left, "d-3"]


def test_a_full_spool_takes_no_more_and_says_so(tmp_path: Path) -> None:
    size = 900
    spool = Spool(tmp_path / "spool", most_bytes=size)
    spool.append(record(1))
    with pytest.raises(SpoolFull, match=r"of 900 bytes\. No runs are started until the ledger"):
        fill(spool)
    assert (tmp_path / "spool").stat().st_size <= size
    assert numbers(spool) == [f"d-{n}" for n in range(1, len(numbers(spool)) + 1)]


def test_a_disk_that_is_full_keeps_the_records_before(tmp_path: Path) -> None:
    spool = Spool(tmp_path / "spool")
    spool.append(record(1))
    size = (tmp_path / "spool").stat().st_size
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size + 10, limits[1]))  # SIGXFSZ is ignored
    try:
        with pytest.raises(SpoolFull, match="No runs are started"):
            spool.append(record(2))
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)
    spool.append(record(3))
    assert numbers(spool) == numbers(Spool(tmp_path / "spool")) == ["d-1", "d-3"]


def test_a_line_that_cannot_be_read_hides_no_other(tmp_path: Path) -> None:
    spool = Spool(tmp_path / "spool")
    for number in (1, 2, 3):
        spool.append(record(number))
    lines = (tmp_path / "spool").read_bytes().splitlines(keepends=True)
    lines[1] = b"x" * (len(lines[1]) - 1) + b"\n"
    (tmp_path / "spool").write_bytes(b"".join(lines))
    assert numbers(spool) == ["d-1", "unreadable", "d-3"]
