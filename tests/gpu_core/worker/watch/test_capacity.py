"""What workers write down about machines, with restarts, take-overs and two pools."""

from collections.abc import Callable, Iterator
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path

import anyio
import pytest
import sqlalchemy as sa

from gpu_core.adapters.ledger import Ledger
from gpu_core.decisions.costs.capacity.capacity_intervals import CapacityInterval, IntervalEnd
from gpu_core.decisions.model.cluster import Machine, Node
from gpu_core.decisions.policy.policy import Policy, parse_policy
from gpu_core.testing.builders.workloads import make_node
from gpu_core.worker.watch.capacity import CapacityWatch
from gpu_core.worker.watch.prices import Prices
from gpu_core.worker.watch.spooled_writes import SpooledWrites

NOON = datetime(2026, 3, 4, 12, tzinfo=UTC)


def policy(usd: float = 3) -> Policy:
    """A policy with this price of a GPU."""
    return parse_policy({"version": 1, "prices": {"a100-80gb": {"on-demand": usd}}})


def at(minutes: float) -> datetime:
    """So many minutes after noon."""
    return NOON + timedelta(minutes=minutes)


def node(name: str = "n1", *, uid: str = "uid-1", created: float = 0) -> Node:
    """A node with 8 GPUs, of which 6 are left for us."""
    machine = Machine(gpus=8, incarnation=uid, created_at=at(created))
    return make_node(name, gpus=6, machine=machine)


@pytest.fixture
def ledger(tmp_path: Path) -> Iterator[Ledger]:
    with Ledger.open(f"sqlite:///{tmp_path / 'ledger.db'}") as opened:
        yield opened


Look = Callable[..., None]


def _spool(ledger: Ledger) -> Path:
    """The file next to the ledger's in which records wait."""
    return Path(str(ledger._reader.url.database)).with_name("spool")


def worker(ledger: Ledger, pool: str = "gpus") -> Look:
    """A worker's looks, by the minute."""
    writes = SpooledWrites(ledger, _spool(ledger))
    watch = CapacityWatch(ledger, "cluster-1", pool, Prices(ledger), writes)

    def look(minute: float, *nodes: Node, price: Policy | None = None) -> None:
        anyio.run(watch.observe, nodes, price or _POLICY, at(minute))

    return look


_POLICY = policy()


def written(ledger: Ledger) -> list[CapacityInterval]:
    """All intervals, by node."""
    return sorted(ledger.capacity(at(-10_000), at(10_000)), key=lambda i: (i.node, i.since))


def test_all_gpus_of_a_machine_are_paid_for_also_those_that_others_hold(ledger: Ledger) -> None:
    worker(ledger)(0, node(), replace(node("planned"), is_planned=True), make_node("unknown"))
    (found,) = written(ledger)
    assert (found.node, found.gpus, found.micro_usd_per_hour) == ("n1", 8, 24_000_000)
    assert (found.since, found.price_source) == (at(0), "policy")


def test_a_restarted_worker_goes_on_where_the_last_one_ended(ledger: Ledger) -> None:
    worker(ledger)(0, node("n1"), node("n2"))
    worker(ledger)(1, node("n1"), node("n2"))
    worker(ledger)(2, node("n1"))
    n1, n2 = written(ledger)
    assert (n1.since, n1.until, n1.seen_at) == (at(0), None, at(2))
    assert (n2.until, n2.end_reason, n2.is_end_estimated) == (at(2), IntervalEnd.GONE, False)


def test_what_went_while_no_worker_watched_ends_when_it_was_last_seen(ledger: Ledger) -> None:
    look = worker(ledger)
    look(0, node("n1"), node("n2"))
    look(1, node("n1"), node("n2"))
    worker(ledger)(500, node("n1", uid="uid-2", created=400))
    n1, new, n2 = written(ledger)
    assert (n1.until, n1.end_reason, n1.is_end_estimated) == (at(1), IntervalEnd.REPLACED, True)
    assert (n2.until, n2.end_reason, n2.is_end_estimated) == (at(1), IntervalEnd.GONE, True)
    assert (new.incarnation, new.since) == ("uid-2", at(400))


def test_another_price_begins_another_interval(ledger: Ledger) -> None:
    look = worker(ledger)
    look(0, node())
    look(5, node(), price=policy(4))
    look(6, node(), price=policy(4))
    dear, dearer = written(ledger)
    assert (dear.micro_usd_per_hour, dear.until) == (24_000_000, at(5))
    assert (dearer.micro_usd_per_hour, dearer.since, dearer.until) == (32_000_000, at(5), None)


def test_two_pools_that_share_machines_pay_them_once(ledger: Ledger) -> None:
    ours, theirs = worker(ledger), worker(ledger, "other")
    ours(0, node("n1"))
    theirs(0, node("n1"), node("n2"), price=policy(9))
    theirs(2, node("n1"), node("n2"), price=policy(9))
    ours(3, node("n1"))
    theirs(4)  # it sees no machine any more: its own is gone, ours is not
    assert [(i.node, i.pool, i.until) for i in written(ledger)] == [
        ("n1", "gpus", None),
        ("n2", "other", at(4)),
    ]


def test_a_look_without_news_does_not_touch_the_ledger(ledger: Ledger) -> None:
    look, statements = worker(ledger), []
    look(0, node())
    engine = ledger._reader
    sa.event.listen(engine, "before_cursor_execute", lambda *args: statements.append(args[2]))
    look(0.2, node())
    look(0.9, node())
    assert not statements
    look(1, node())
    assert statements
    assert written(ledger)[0].seen_at == at(1)
