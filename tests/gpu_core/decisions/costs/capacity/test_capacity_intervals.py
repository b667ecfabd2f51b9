"""Machines that come, go, are replaced or change their price, as a worker sees them."""

from collections import defaultdict
from dataclasses import replace
from datetime import datetime, timedelta
from itertools import count, pairwise
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpu_core.decisions.costs.capacity.capacity_intervals import (
    CapacityChanges,
    CapacityInterval,
    IntervalEnd,
    Sighting,
    capacity_changes,
)
from gpu_core.decisions.costs.prices.price_book import MachinePrice
from gpu_core.decisions.model.cluster import Machine
from gpu_core.testing.builders.workloads import NOW, make_node

MINUTE = timedelta(minutes=1)
ANY = object()


def minutes(number: float) -> datetime:
    """So many minutes after NOW."""
    return NOW + number * MINUTE


def sight(name: str = "n1", usd: float | None = 2, as_of: datetime | None = None, **machine: Any):
    """A machine with 8 GPUs that is there, and its price per hour."""
    facts = {"gpus": 8, "incarnation": "uid-1", "instance_id": "i-1", "created_at": None}
    price = None if usd is None else MachinePrice(int(usd * 1e6), "a sheet", as_of)
    return make_node(name), Machine(**(facts | machine)), price


def look(
    at: datetime,
    *seen: Sighting,
    known: tuple[CapacityInterval, ...] = (),
    last_look: datetime | None = NOW,
    pool: str = "gpus",
) -> CapacityChanges:
    """What a look at this time finds."""
    ids = count()
    return capacity_changes(
        {interval.node: interval for interval in known},
        seen,
        host="host-1",
        pool=pool,
        last_look=last_look,
        now=at,
        new_id=lambda: f"new-{next(ids)}",
    )


def known(sighting: Sighting | None = None, **fields: Any) -> CapacityInterval:
    """An interval that is open since NOW."""
    (interval,) = look(NOW, sighting or sight()).begun
    return replace(interval, interval_id="old", **fields)


def test_a_machine_that_comes_is_written_down_with_all_that_is_known_of_it() -> None:
    node = make_node(
        "n1",
        capacity_type="spot",
        labels={
            "node.kubernetes.io/instance-type": "p4d.24xlarge",
            "topology.kubernetes.io/region": "us-east-1",
            "topology.k8s.aws/zone-id": "use1-az4",
        },
    )
    machine = Machine(
        gpus=8, cpu_milli=96_000, memory_mib=2**20, incarnation="uid-1", instance_id="aws:///a/i-1"
    )
    price = MachinePrice(12_000_000, "catalog: p4d", NOW)
    (found,) = look(minutes(1), (node, machine, price)).begun
    assert found == CapacityInterval(
        interval_id="new-0",
        host="host-1",
        pool="gpus",
        node="n1",
        incarnation="uid-1",
        instance_id="aws:///a/i-1",
        instance_type="p4d.24xlarge",
        region="us-east-1",
        zone="use1-az4",
        capacity_type="spot",
        gpu_type="a100-80gb",
        gpus=8,
        cpu_milli=96_000,
        memory_mib=2**20,
        faulty_gpus=0,
        micro_usd_per_hour=12_000_000,
        price_source="catalog: p4d",
        price_as_of=NOW,
        since=minutes(1),
        seen_at=minutes(1),
    )


@pytest.mark.parametrize(
    ("created_at", "last_look", "want_since"),
    [
        pytest.param(minutes(7), NOW, 7, id="created since the last look: from its creation"),
        pytest.param(minutes(-9), NOW, -9, id="its GPUs took nine minutes to be offered"),
        pytest.param(minutes(-9_000), NOW, -60, id="an old node that gets GPUs later"),
        pytest.param(minutes(7), None, 10, id="the first look of all counts from now"),
        pytest.param(minutes(90), NOW, 10, id="the clock of the cluster is ahead"),
        pytest.param(None, NOW, 10, id="the creation is not known"),
    ],
)
def test_from_when_a_new_machine_counts(
    created_at: datetime | None, last_look: datetime | None, want_since: float
) -> None:
    (found,) = look(minutes(10), sight(created_at=created_at), last_look=last_look).begun
    assert found.since == minutes(want_since)


def test_a_machine_that_was_out_of_sight_is_not_paid_for_twice() -> None:
    """Its device plugin restarted: it offered no GPU for five minutes."""
    before = known(until=minutes(5), seen_at=minutes(5), end_reason=IntervalEnd.GONE)
    back = sight(created_at=minutes(-600))
    (found,) = look(minutes(10), back, known=(before,), last_look=minutes(9)).begun
    assert found.since == minutes(5)


@pytest.mark.parametrize(
    ("at", "fields", "want_until", "want_estimated"),
    [
        pytest.param(10, {"seen_at": minutes(8)}, 10, False, id="a watched machine ends now"),
        pytest.param(600, {"seen_at": minutes(8)}, 8, True, id="unwatched: when it was last seen"),
        pytest.param(
            -5, {"seen_at": NOW}, 0, False, id="the clock jumped back: not before it began"
        ),
        pytest.param(600, {"since": minutes(9), "seen_at": NOW}, 9, True, id="it was never seen"),
    ],
)
def test_when_a_machine_that_is_gone_ended(
    at: float, fields: dict[str, Any], want_until: float, want_estimated: bool
) -> None:
    changes = look(minutes(at), known=(known(**fields),))
    (ended,) = changes.ended
    assert not changes.begun
    assert (ended.until, ended.end_reason) == (minutes(want_until), IntervalEnd.GONE)
    assert ended.is_end_estimated is want_estimated


OTHER = {"incarnation": "uid-2", "instance_id": "i-2"}


@pytest.mark.parametrize(
    ("old", "new", "want"),
    [
        pytest.param({}, {}, None, id="nothing has changed"),
        pytest.param({"usd": 2}, {"usd": 2, "as_of": minutes(5)}, None, id="the same price"),
        pytest.param({}, {"incarnation": "uid-2"}, None, id="it registered again"),
        pytest.param({}, {"usd": None}, None, id="its price cannot be read now"),
        pytest.param(
            {},
            OTHER | {"created_at": minutes(4)},
            (4, 4, "Replaced"),
            id="replaced: at the creation",
        ),
        pytest.param({}, OTHER, (10, 10, "Replaced"), id="replaced: creation unknown"),
        pytest.param(
            {},
            OTHER | {"created_at": minutes(-4)},
            (0, 0, "Replaced"),
            id="replaced before it began",
        ),
        pytest.param(
            {"instance_id": None},
            {"instance_id": None, "incarnation": "uid-2", "created_at": minutes(4)},
            (4, 4, "Replaced"),
            id="a machine without a provider's id",
        ),
        pytest.param({}, {"usd": 3}, (10, 10, "Changed"), id="a price without a date"),
        pytest.param(
            {}, {"usd": 3, "as_of": minutes(6)}, (6, 6, "Changed"), id="a price from its date"
        ),
        pytest.param(
            {}, {"usd": 3, "as_of": minutes(-6)}, (0, 0, "Changed"), id="not before the interval"
        ),
        pytest.param(
            {}, {"usd": 3, "as_of": minutes(60)}, (10, 10, "Changed"), id="nor in the future"
        ),
        pytest.param({"usd": None}, {"usd": 3}, (10, 10, "Changed"), id="a first price"),
        pytest.param({}, {"gpus": 7}, (10, 10, "Changed"), id="other GPUs"),
        pytest.param(
            {}, {"gpus": 7, "usd": 3, "as_of": minutes(6)}, (10, 10, "Changed"), id="GPUs and price"
        ),
        pytest.param(
            {"instance_id": None}, {}, (0, 0, "Changed"), id="an id that comes late is of all of it"
        ),
    ],
)
def test_what_ends_an_interval_of_a_machine_that_is_there(
    old: dict[str, Any], new: dict[str, Any], want: tuple[float, float, str] | None
) -> None:
    changes = look(minutes(10), sight(**new), known=(known(sight(**old), seen_at=minutes(9)),))
    if want is None:
        assert not changes
        return
    (ended,), (begun,) = changes.ended, changes.begun
    want_until, want_since, want_reason = want
    assert (ended.interval_id, begun.interval_id) == ("old", "new-0")
    assert (ended.until, begun.since) == (minutes(want_until), minutes(want_since))
    assert ended.end_reason == IntervalEnd(want_reason)
    assert begun.until is begun.end_reason is None


def test_a_machine_that_offers_no_gpu_just_now_neither_comes_nor_goes() -> None:
    none = sight(gpus=0)
    assert not look(minutes(10), none)
    assert not look(minutes(10), none, known=(known(seen_at=minutes(9)),))


@pytest.mark.parametrize(
    ("seen", "want_ended"),
    [
        pytest.param((), 0, id="a machine that this pool does not see stays the other's"),
        pytest.param((sight(usd=9),), 0, id="the other pool says what it costs"),
        pytest.param((sight(**OTHER),), 1, id="a replaced machine is gone for both"),
    ],
)
def test_a_machine_that_another_pools_worker_wrote_down(
    seen: tuple[Sighting, ...], want_ended: int
) -> None:
    changes = look(minutes(10), *seen, known=(known(pool="other", seen_at=minutes(9)),))
    assert len(changes.ended) == len(changes.begun) == want_ended


@pytest.mark.parametrize(
    ("now", "fields", "want"),
    [
        pytest.param(10, {"until": minutes(5)}, 5, id="it is over"),
        pytest.param(10, {"seen_at": minutes(8)}, 10, id="it is watched"),
        pytest.param(600, {"seen_at": minutes(8)}, 8, id="no worker has seen it for hours"),
        pytest.param(-10, {"seen_at": NOW}, 0, id="a clock that is behind"),
    ],
)
def test_until_when_a_machine_is_paid_for(now: float, fields: dict[str, Any], want: float) -> None:
    assert known(**fields).counted_until(minutes(now)) == minutes(want)


names = st.sampled_from(["n1", "n2"])
lives = st.tuples(st.integers(1, 3), st.sampled_from([None, 1, 2]), st.booleans())


@given(
    looks=st.lists(
        st.tuples(st.integers(-30, 90), st.dictionaries(names, lives, max_size=2), st.booleans()),
        max_size=12,
    )
)
def test_no_machine_is_paid_for_twice_whatever_comes_goes_and_jumps(
    looks: list[tuple[int, dict[str, tuple[int, int | None, bool]], bool]],
) -> None:
    """Steps of the clock from half an hour back to 90 minutes on, with restarts of the worker."""
    ids, now, last = count(), NOW, None
    known_: dict[str, CapacityInterval] = {}
    all_: dict[str, CapacityInterval] = {}
    for step, there, is_restarted in looks:
        now += step * MINUTE
        seen = [
            sight(
                name,
                usd,
                incarnation=f"{name}-{machine}",
                instance_id=None,
                created_at=now - machine * 20 * MINUTE if is_dated else None,
            )
            for name, (machine, usd, is_dated) in there.items()
        ]
        changes = capacity_changes(
            known_,
            seen,
            host="h",
            pool="p",
            last_look=last,
            now=now,
            new_id=lambda: str(next(ids)),
        )
        all_ |= {interval.interval_id: interval for interval in (*changes.ended, *changes.begun)}
        open_ = {i.interval_id: i for i in all_.values() if i.until is None}
        if not is_restarted:  # the worker noted that it saw them
            open_ = {key: replace(i, seen_at=max(i.seen_at, now)) for key, i in open_.items()}
        all_ |= open_
        known_, last = (
            known_ | {i.node: all_[i.interval_id] for i in (*changes.ended, *changes.begun)},
            now,
        )
        known_ = {name: all_[i.interval_id] for name, i in known_.items()}
        assert len({i.node for i in open_.values()}) == len(open_)
        assert {i.node: i.incarnation for i in open_.values()} == {
            node.name: machine.incarnation for node, machine, _ in seen
        }
    by_node = defaultdict(list)
    for interval in all_.values():
        assert interval.until is None or interval.since <= interval.until
        by_node[interval.node].append(interval)
    for intervals in by_node.values():
        for earlier, later in pairwise(sorted(intervals, key=lambda i: int(i.interval_id))):
            assert earlier.until <= later.since


@pytest.mark.parametrize(
    ("before", "now_faulty", "want"),
    [
        pytest.param({}, 1, [1], id="a GPU fails"),
        pytest.param({"faulty_gpus": 1}, 0, [0], id="it is freed"),
        pytest.param({"faulty_gpus": 1}, 1, [], id="nothing changes"),
        pytest.param({"faulty_gpus": None}, 0, [], id="written before this was kept"),
    ],
)
def test_an_interval_has_one_number_of_faulty_gpus(
    before: dict[str, Any], now_faulty: int, want: list[int]
) -> None:
    seen = sight(faulty_gpus=now_faulty)
    found = look(minutes(5), seen, known=(known(**before),), last_look=minutes(4))
    assert [interval.faulty_gpus for interval in found.begun] == want
    assert [interval.end_reason for interval in found.ended] == [IntervalEnd.CHANGED] * len(want)
    assert all(interval.until == minutes(5) for interval in found.ended)
    assert all(interval.since == minutes(5) for interval in found.begun)
