"""The times of each machine, with its price: they are paid for, whether a run holds it or not.

An interval has one machine and one price. A machine whose price, GPUs or other facts change begins
another interval in the same moment, so that sums need no second table.
"""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from enum import StrEnum

from gpu_core.decisions.costs.prices.price_book import MachinePrice, PricedCapacity
from gpu_core.decisions.model.cluster import Machine, Node

SEEN_EVERY = timedelta(seconds=60)
"""The interval at which a worker records the machines that it sees."""

WATCHED = 3 * SEEN_EVERY
"""A machine that was seen this long ago at most was watched all the time since."""

LONGEST_START = timedelta(hours=1)
"""A node counts from its creation if its GPUs are offered within this time: drivers and device
plugins take minutes. One that is made a GPU node later counts from then."""


class IntervalEnd(StrEnum):
    """The reason why an interval ends."""

    GONE = "Gone"
    """The machine is not there any more."""
    REPLACED = "Replaced"
    """Another machine has its name."""
    CHANGED = "Changed"
    """The machine is there, at another price, with other GPUs or with another number of faulty
    ones."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CapacityInterval:
    """A machine from `since` up to `until`, at one price."""

    interval_id: str
    host: str
    """Of the worker that saw it, as in the attempts: a machine's name, or a cluster's."""
    pool: str
    """The pool whose worker wrote it, and prices it."""
    node: str
    incarnation: str | None = None
    """The machine among those of this name: a Node object's uid, a boot's id."""
    instance_id: str | None = None
    """The provider's, such as `aws:///us-east-1a/i-0abc`."""
    instance_type: str | None = None
    region: str | None = None
    zone: str | None = None
    capacity_type: str
    gpu_type: str
    gpus: int
    """All GPUs of the machine."""
    cpu_milli: int | None = None
    memory_mib: int | None = None
    micro_usd_per_hour: int | None = None
    """The price of the whole machine; None: unpriced, which is never free."""
    price_source: str | None = None
    price_as_of: datetime | None = None
    """Since when the source has had this price; None: it does not say."""
    since: datetime
    until: datetime | None = None
    """The end of the interval; None: the machine is there."""
    seen_at: datetime
    """The moment at which a worker last recorded it."""
    end_reason: IntervalEnd | None = None
    faulty_gpus: int | None = None
    """GPUs that were held because they are not well; None: from before this was kept."""
    is_end_estimated: bool = False
    """It went while no worker watched: `until` is when it was last seen."""

    def counted_until(self, now: datetime) -> datetime:
        """The moment until which it is paid for, as far as is known.

        One that is not watched: as last seen.
        """
        if self.until is not None:
            return self.until
        return max(self.since, now) if now - self.seen_at <= WATCHED else self.seen_at


@dataclass(frozen=True, slots=True)
class CapacityChanges:
    """The changes to record: first the ends, then the beginnings."""

    ended: tuple[CapacityInterval, ...] = ()
    begun: tuple[CapacityInterval, ...] = ()

    def __bool__(self) -> bool:
        return bool(self.ended or self.begun)


Sighting = tuple[Node, Machine, MachinePrice | None]
"""A machine that is there now, and what an hour of it costs."""


def capacity_changes(
    known: Mapping[str, CapacityInterval],
    seen: Iterable[Sighting],
    *,
    host: str,
    pool: str,
    last_look: datetime | None,
    now: datetime,
    new_id: Callable[[], str],
) -> CapacityChanges:
    """The intervals that started, ended, were replaced or have another price since the last poll.

    Args:
        known: The last interval of each node of this host: those that are open, and those that
            ended in the last `LONGEST_START`.
        seen: The machines that are there.
        host: Of this worker.
        pool: Of this worker. It ends and prices its own intervals; of another pool's it only sees
            that a machine was replaced.
        last_look: When a worker of this host last saw its machines; None: never, and what is there
            counts from now.
        now: The moment of this look. Clocks may jump: no interval ends before it begins, and none
            begins before its predecessor on the same node ends.
        new_id: A new interval's id.
    """
    ended, begun, there = [], [], set()
    for node, machine, price in seen:
        there.add(node.name)
        if not machine.gpus:  # its device plugin offers none yet, or is restarting
            continue
        old = known.get(node.name)
        new = _interval(node, machine, price, host, pool, now)
        if old is None or old.until is not None:
            since = _first(machine.created_at, last_look, now)
            if old is not None and old.until is not None:  # it was out of sight, or is another one
                since = max(since, old.until)
            begun.append(replace(new, interval_id=new_id(), since=since))
        elif not _is_same_machine(old, new):
            gone = _replaced(old, machine.created_at, now)
            since = max(gone.until or now, _first(machine.created_at, last_look, now))
            ended.append(gone)
            begun.append(replace(new, interval_id=new_id(), since=since))
        elif old.pool == pool and _facts(old) != _facts(new := _with_price(new, old)):
            at = _changed_at(old, new, now)
            ended.append(replace(old, until=at, end_reason=IntervalEnd.CHANGED))
            begun.append(replace(new, interval_id=new_id(), since=at))
    ended += [
        _gone(interval, now)
        for name, interval in known.items()
        if name not in there and interval.pool == pool and interval.until is None
    ]
    return CapacityChanges(tuple(ended), tuple(begun))


def _interval(
    node: Node,
    machine: Machine,
    price: MachinePrice | None,
    host: str,
    pool: str,
    now: datetime,
) -> CapacityInterval:
    where = PricedCapacity.of_node(node)
    return CapacityInterval(
        interval_id="",
        host=host,
        pool=pool,
        node=node.name,
        incarnation=machine.incarnation,
        instance_id=machine.instance_id,
        instance_type=where.instance_type,
        region=where.region,
        zone=where.zone,
        capacity_type=node.capacity_type,
        gpu_type=node.gpu_type,
        gpus=machine.gpus,
        cpu_milli=machine.cpu_milli,
        memory_mib=machine.memory_mib,
        faulty_gpus=machine.faulty_gpus,
        micro_usd_per_hour=None if price is None else price.micro_usd_per_hour,
        price_source=None if price is None else price.source,
        price_as_of=None if price is None else price.as_of,
        since=now,
        seen_at=now,
    )


def _is_same_machine(old: CapacityInterval, new: CapacityInterval) -> bool:
    """A node that registers again has another uid, and the same instance below it."""
    if old.instance_id is not None and new.instance_id is not None:
        return old.instance_id == new.instance_id
    return old.incarnation == new.incarnation


def _with_price(new: CapacityInterval, old: CapacityInterval) -> CapacityInterval:
    """A machine that has a price never becomes unpriced: its source is unreadable, or away."""
    if new.micro_usd_per_hour is not None:
        return new
    return replace(
        new,
        micro_usd_per_hour=old.micro_usd_per_hour,
        price_source=old.price_source,
        price_as_of=old.price_as_of,
    )


def _facts(interval: CapacityInterval) -> tuple[object, ...]:
    return (
        interval.instance_id,
        interval.instance_type,
        interval.region,
        interval.zone,
        interval.capacity_type,
        interval.gpu_type,
        interval.gpus,
        interval.cpu_milli,
        interval.memory_mib,
        interval.micro_usd_per_hour,
        interval.faulty_gpus or 0,
    )


def _first(created_at: datetime | None, last_look: datetime | None, now: datetime) -> datetime:
    """The moment from which a machine counts that is seen for the first time."""
    if created_at is None or last_look is None:
        return now
    return min(now, max(created_at.astimezone(UTC), last_look - LONGEST_START))


def _replaced(
    old: CapacityInterval, created_at: datetime | None, now: datetime
) -> CapacityInterval:
    """The end of a machine whose name another one has: no later than that one started."""
    gone = _gone(old, now)
    if created_at is None or gone.until is None:
        return replace(gone, end_reason=IntervalEnd.REPLACED)
    until = max(old.since, min(gone.until, created_at.astimezone(UTC)))
    return replace(gone, until=until, end_reason=IntervalEnd.REPLACED)


def _gone(old: CapacityInterval, now: datetime) -> CapacityInterval:
    was_watched = now - old.seen_at <= WATCHED
    return replace(
        old,
        until=max(old.since, now if was_watched else old.seen_at),
        end_reason=IntervalEnd.GONE,
        is_end_estimated=not was_watched,
    )


def _changed_at(old: CapacityInterval, new: CapacityInterval, now: datetime) -> datetime:
    """The moment from which a difference counts: as the price's source says, else now.

    A first id counts from the start.
    """
    if _facts(replace(new, instance_id=None)) == _facts(replace(old, instance_id=None)):
        return old.since if old.instance_id is None else max(old.since, now)
    is_price = _facts(replace(new, micro_usd_per_hour=old.micro_usd_per_hour)) == _facts(old)
    if not is_price or new.price_as_of is None:
        return max(old.since, now)
    return max(old.since, min(now, new.price_as_of))
