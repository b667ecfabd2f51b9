"""Intervals of capacity in the ledger: written once, by any worker and however often."""

from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest

from gpu_core.adapters.ledger import Ledger
from gpu_core.decisions.costs.capacity.capacity_intervals import (
    CapacityChanges,
    CapacityInterval,
    IntervalEnd,
)
from gpu_core.testing.builders.attempts import NOON, at


def make_interval(interval_id: str = "i-1", **fields: Any) -> CapacityInterval:
    """A machine with 8 A100 at 16 USD an hour, there since noon."""
    ordinary: dict[str, Any] = {
        "interval_id": interval_id,
        "host": "host-1",
        "pool": "gpus",
        "node": "node-1",
        "capacity_type": "on-demand",
        "gpu_type": "a100-80gb",
        "gpus": 8,
        "micro_usd_per_hour": 16_000_000,
        "price_source": "policy",
        "since": NOON,
        "seen_at": NOON,
    }
    return CapacityInterval(**(ordinary | fields))


def write(
    ledger: Ledger, *begun: CapacityInterval, ended: tuple[CapacityInterval, ...] = ()
) -> None:
    """Write down these."""
    ledger.write_capacity(CapacityChanges(ended, begun), [], at(0))


def test_an_interval_comes_back_as_it_was_written(ledger: Ledger) -> None:
    written = make_interval(
        incarnation="uid-1",
        instance_id="aws:///a/i-1",
        instance_type="p4d.24xlarge",
        region="us-east-1",
        zone="use1-az4",
        cpu_milli=96_000,
        memory_mib=2**20,
        price_as_of=at(-1),
        since=NOON + timedelta(microseconds=7),
    )
    write(ledger, written)
    assert ledger.capacity(at(0), at(1)) == (written,)
    assert ledger.known_capacity("host-1").by_node == {"node-1": written}


def test_of_two_workers_that_see_a_machine_come_one_writes_it_down(ledger: Ledger) -> None:
    write(ledger, make_interval("first"))
    write(ledger, make_interval("second", pool="other"))
    assert [i.interval_id for i in ledger.capacity(at(0), at(1))] == ["first"]


def test_writing_changes_twice_is_writing_them_once(ledger: Ledger) -> None:
    old = make_interval("old")
    write(ledger, old)
    ended = replace(old, until=at(1), end_reason=IntervalEnd.CHANGED)
    new = make_interval("new", since=at(1), seen_at=at(1), micro_usd_per_hour=None)
    for _ in range(2):
        write(ledger, new, ended=(ended,))
    later = replace(ended, until=at(2), end_reason=IntervalEnd.GONE)
    write(ledger, ended=(later,))  # of a worker that has lost its lease
    assert ledger.capacity(at(0), at(3)) == (ended, new)


@pytest.mark.parametrize(
    ("start", "end", "want"),
    [
        pytest.param(-2, 0, [], id="before: the end is not in the window"),
        pytest.param(0, 1, ["over"], id="the one that is over"),
        pytest.param(1, 2, ["there"], id="its end is no time of it"),
        pytest.param(0.5, 9, ["over", "there"], id="both"),
    ],
)
def test_which_intervals_have_a_time_in_a_window(
    ledger: Ledger, start: float, end: float, want: list[str]
) -> None:
    over = make_interval("over", until=at(1), end_reason=IntervalEnd.GONE)
    write(ledger, over, make_interval("there", since=at(1)))
    assert [i.interval_id for i in ledger.capacity(at(start), at(end))] == want


def test_seen_machines_are_noted_and_a_clock_that_jumped_back_takes_nothing_back(
    ledger: Ledger,
) -> None:
    write(ledger, make_interval("a"), make_interval("b", node="node-2"))
    write(ledger, make_interval("c", node="node-3", until=at(0)))
    for moment in (at(2), at(1)):
        ledger.write_capacity(CapacityChanges(), ["a", "c"], moment)
    seen = {i.interval_id: i.seen_at for i in ledger.capacity(at(-1), at(3))}
    assert seen == {"a": at(2), "b": at(0), "c": at(0)}
    assert ledger.known_capacity("host-1").last_look == at(2)


def test_what_is_known_of_a_host_is_its_last_interval_of_each_machine(ledger: Ledger) -> None:
    long_ago = make_interval("1", since=at(-9), until=at(-2), seen_at=at(-2))
    lately = make_interval("2", node="node-2", since=at(-9), until=at(-0.5), seen_at=at(-0.5))
    changed = make_interval("3", node="node-3", since=at(-9), until=at(-0.5), seen_at=at(-0.5))
    there = make_interval("4", node="node-3", since=at(-0.5))
    elsewhere = make_interval("5", host="host-2")
    write(ledger, long_ago, lately, changed, there, elsewhere)
    assert ledger.known_capacity("host-1").by_node == {"node-2": lately, "node-3": there}
    assert ledger.known_capacity("host-9").last_look is None


def test_since_when_there_are_machines(ledger: Ledger) -> None:
    assert ledger.first_capacity_at() is None
    write(ledger, make_interval("a", since=at(2)), make_interval("b", node="node-2", since=at(1)))
    write(ledger, make_interval("c", node="node-3", since=at(-1), pool="other"))
    assert ledger.first_capacity_at() == at(-1)
    assert ledger.first_capacity_at("gpus") == at(1)
    assert ledger.first_capacity_at("none") is None
