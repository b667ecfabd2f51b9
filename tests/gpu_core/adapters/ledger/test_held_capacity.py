"""What the database sums up of machines is what their attempts say one by one."""

import sqlite3
from collections.abc import Iterator
from contextlib import closing
from dataclasses import replace
from datetime import timedelta
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gpu_core.adapters.ledger import Ledger, held_capacity
from gpu_core.adapters.ledger.cost_slices import CostQuestion
from gpu_core.decisions.costs.capacity.capacity_intervals import CapacityChanges, CapacityInterval
from gpu_core.decisions.costs.usage.time_use import spans_of_prices
from gpu_core.decisions.costs.usage.usage_cost import Window
from gpu_core.decisions.model.attempts import Attempt, Provenance
from gpu_core.decisions.model.cluster import NodeShare
from gpu_core.decisions.model.prices import PriceChange, Rates
from gpu_core.testing.builders.attempts import NOON, admit, at, make_attempt, make_run
from tests.gpu_core.adapters.ledger.test_capacity import make_interval, write
from tests.gpu_core.adapters.ledger.test_cost_slices import NOW, attempts, moments
from tests.gpu_core.decisions.costs.capacity.test_idle import cost, held

nodes = st.sampled_from(["node-1", "node-2"])


@st.composite
def machines(draw: st.DrawFn) -> list[CapacityInterval]:
    """Machines that come and go, open or over, watched or not."""
    found = []
    for node in draw(st.sets(nodes)):
        edges = sorted(draw(st.lists(moments, min_size=1, max_size=3, unique=True)))
        for n, since in enumerate(edges):
            until = edges[n + 1] if n + 1 < len(edges) else draw(st.none() | st.just(at(2)))
            one = make_interval(
                f"{node}/{n}",
                node=node,
                since=since,
                until=None if until is None else max(since, until),
                seen_at=draw(st.sampled_from([since, max(since, NOW - timedelta(minutes=2))])),
                micro_usd_per_hour=draw(st.none() | st.integers(0, 10**8)),
            )
            found.append(one)
    return found


@st.composite
def placed(draw: st.DrawFn) -> Attempt:
    """Any attempt on one machine, or a gang on two."""
    one = replace(draw(attempts()), node=draw(nodes))
    if draw(st.booleans()):
        own = tuple(replace(share, node=one.node) for share in one.shares or ())
        return replace(one, shares=own or None)
    shares = tuple(NodeShare(node=n, gpu_ids=("0",)) for n in ("node-1", "node-2"))
    return replace(one, node="node-1", shares=shares[: draw(st.integers(1, 2))])


@settings(deadline=None)
@given(
    of_machines=machines(),
    of_runs=st.lists(placed(), max_size=6),
    window=st.tuples(moments, moments).map(lambda pair: Window(min(pair), max(pair))),
)
def test_the_sums_of_the_database_are_those_of_the_attempts(
    one_ledger: tuple[Ledger, Path],
    of_machines: list[CapacityInterval],
    of_runs: list[Attempt],
    window: Window,
) -> None:
    runs = [
        replace(attempt, flow_run_id=f"run-{n}", attempt_id=f"run-{n}/1")
        for n, attempt in enumerate(of_runs)
    ]
    ledger, path = one_ledger
    with closing(sqlite3.connect(path)) as connection, connection:
        for table in ("attempts", "runs", "capacity_intervals"):
            connection.execute(f"DELETE FROM {table}")  # noqa: S608 - a name of this test
    ledger.import_records([(make_run(a.flow_run_id), (a,)) for a in runs])
    ledger.write_capacity(CapacityChanges((), tuple(of_machines)), [], NOON)
    found = ledger.capacity_cost(CostQuestion(window=window, keys=(), now=NOW))
    want = cost(of_machines, runs, window, now=3)
    by_id = {machine.interval.interval_id: machine for machine in want.machines}
    assert {machine.interval.interval_id: machine for machine in found.machines} == by_id


@pytest.mark.parametrize(
    ("pool", "want_idle_hours"),
    [
        pytest.param(None, 8 + 7, id="all machines"),
        pytest.param("gpus", 7, id="those of one pool, with what all pools' runs hold"),
        pytest.param("none", 0, id="a pool without machines"),
    ],
)
def test_which_machines_count(ledger: Ledger, pool: str | None, want_idle_hours: float) -> None:
    one = make_interval(until=at(1))
    other = make_interval("i-2", node="node-2", pool="other", until=at(1))
    write(ledger, one, other)
    attempt = replace(held(1), pool="other")
    generated = make_run("run-2", provenance=Provenance.GENERATED)
    ledger.import_records(
        [
            (make_run("run-1", pool="other"), (attempt,)),
            (generated, (make_attempt("run-2", node="node-2"),)),
        ]
    )
    asked = CostQuestion(window=Window(at(0), at(1)), keys=(), now=NOW, pool=pool)
    assert ledger.capacity_cost(asked).idle.gpu_hours == want_idle_hours


@pytest.mark.parametrize(
    ("bound_at", "released_at", "want_counts"),
    [
        pytest.param(at(0), None, True, id="it is on the machine"),
        pytest.param(None, None, False, id="another scheduler has still to place it"),
        pytest.param(None, at(1), True, id="it is over: an older version wrote it"),
    ],
)
@pytest.mark.parametrize("nodes", [("node-1",), ("node-1", "node-2")], ids=["alone", "a gang"])
def test_a_machine_that_is_only_planned_with_is_idle(
    ledger: Ledger, nodes, bound_at, released_at, want_counts
) -> None:
    write(ledger, make_interval(until=at(1)))
    shares = tuple(NodeShare(node=node, gpu_ids=("0",)) for node in nodes)
    attempt = replace(held(1), shares=shares, bound_at=bound_at, released_at=released_at)
    ledger.import_records([(make_run("run-1"), (attempt,))])
    asked = CostQuestion(window=Window(at(0), at(1)), keys=(), now=NOW)
    assert (ledger.capacity_cost(asked).idle.gpu_hours < 8) is want_counts


@pytest.mark.parametrize("nodes", [("node-1",), ("node-1", "node-2")], ids=["alone", "a gang"])
def test_gpus_are_idle_from_when_they_are_free_and_not_from_when_that_is_settled(
    ledger: Ledger, nodes: tuple[str, ...]
) -> None:
    write(ledger, make_interval(until=at(2)))
    shares = tuple(NodeShare(node=node, gpu_ids=("0",)) for node in nodes)
    gone = replace(held(1), gpu_quantity=None, shares=shares, released_at=None, end_reason=None)
    admit(ledger, gone)
    ledger.note_gone(gone.attempt_id, at(1), None)
    asked = CostQuestion(window=Window(at(0), at(2)), keys=(), now=NOW)
    assert ledger.capacity_cost(asked).idle.gpu_hours == 2 * 8 - 1


def test_an_attempt_on_several_nodes_is_compared_with_the_machines_of_its_nodes_only(
    ledger: Ledger, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A month has 100,000 attempts and thousands of machines: not each with each."""
    write(ledger, *(make_interval(f"i-{n}", node=f"n-{n}", until=at(1)) for n in range(9)))
    gang = tuple(NodeShare(node=node, gpu_ids=("0",)) for node in ("n-1", "n-2"))
    later = (PriceChange(since=at(0.5), rates=Rates(gpu_micro_usd_per_hour=5, source="c")),)
    repriced = {"later_prices": later, "released_at": at(1)}
    ledger.import_records(
        [
            (make_run("gang"), (make_attempt("gang", shares=gang, **repriced),)),
            (make_run("one"), (make_attempt("one", node="n-1", **repriced),)),
        ]
    )
    spans = []

    def counted(*of: object) -> Iterator[tuple[int, int]]:
        spans.append(of)
        return spans_of_prices(*of)

    monkeypatch.setattr(held_capacity, "spans_of_prices", counted)
    ledger.capacity_cost(CostQuestion(window=Window(at(0), at(1)), keys=(), now=NOW))
    assert len(spans) == 3, "of the gang on each of its two nodes, and of the other on its own"


def test_damaged_shares_do_not_fail_a_report(tmp_path: Path) -> None:
    with Ledger.open(f"sqlite:///{tmp_path / 'ledger.db'}") as ledger:
        write(ledger, make_interval(until=at(1)))
        ledger.import_records([(make_run("run-1"), (held(1),))])
        with ledger._writer.begin() as connection:
            connection.exec_driver_sql("UPDATE attempts SET shares = '[{\"node\": broken'")
        asked = CostQuestion(window=Window(at(0), at(1)), keys=(), now=NOW)
        assert ledger.capacity_cost(asked).idle.gpu_hours == 7
