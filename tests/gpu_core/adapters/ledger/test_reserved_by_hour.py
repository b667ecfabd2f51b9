"""Idle cost of reservations against a sum hour by hour, over random ledgers."""

import sqlite3
from collections import defaultdict
from contextlib import closing
from dataclasses import replace
from fractions import Fraction
from pathlib import Path

import sqlalchemy as sa
from hypothesis import given, settings
from hypothesis import strategies as st

from gpu_core.adapters.ledger import Ledger
from gpu_core.adapters.ledger.cost_slices import CostQuestion
from gpu_core.adapters.ledger.schema import attempts, capacity_intervals, runs
from gpu_core.decisions.costs.capacity.reserved_idle import (
    Reservation,
    reserved_times,
    with_reserved_idle,
)
from gpu_core.decisions.costs.reports.cost_report import cost_report
from gpu_core.decisions.costs.usage.usage_cost import Window
from gpu_core.decisions.model.cluster import NodeShare
from gpu_core.testing.builders.attempts import at, make_attempt, make_run
from tests.gpu_core.adapters.ledger.test_capacity import make_interval, write

HOURS = 6
PRICE = 16_000_000
NODES = ("node-1", "node-2")
hours = st.integers(-1, HOURS + 1)
spans = st.tuples(hours, hours).map(sorted)
places = st.sampled_from(NODES)
reservations = st.tuples(st.sampled_from("ab"), st.sampled_from("xyz"), places, spans)
held = st.tuples(st.sampled_from("abc"), st.integers(1, 4), places, spans, st.booleans())


@settings(deadline=None)
@given(
    of_calendar=st.lists(reservations, max_size=4),
    of_runs=st.lists(held, max_size=2),
    there=spans,
    now_h=st.integers(0, HOURS),
)
def test_idle_of_a_reservation_is_the_sum_of_its_hours(
    one_ledger: tuple[Ledger, Path],
    of_calendar: list[tuple[str, str, str, list[int]]],
    of_runs: list[tuple[str, int, str, list[int], bool]],
    there: list[int],
    now_h: int,
) -> None:
    """The team of a node changes within the report; runs of any team use the node meanwhile."""
    ledger, path = one_ledger
    with closing(sqlite3.connect(path)) as connection, connection:
        for table in (attempts, runs, capacity_intervals):
            connection.execute(str(sa.delete(table)))
    write(
        ledger,
        make_interval("i-1", until=at(HOURS), seen_at=at(HOURS)),
        make_interval(
            "i-2", node="node-2", since=at(there[0]), until=at(there[1]), seen_at=at(there[1])
        ),
    )
    records = []
    for number, (team, gpus, node, (start, end), is_over) in enumerate(of_runs):
        ids = tuple(f"GPU-{4 * number + place}" for place in range(gpus))
        share = NodeShare(node=node, gpu_ids=ids)
        attempt = make_attempt(
            f"run-{number}",
            node=node,
            gpu_ids=ids,
            shares=(share,),
            gpu_quantity=Fraction(gpus),
            price_micro_usd_per_gpu_hour=PRICE // 8,
            price_source="policy",
            bound_at=at(start),
            admitted_at=at(start),
            released_at=at(end) if is_over else None,
        )
        records.append((make_run(f"run-{number}", team=team), (attempt,)))
    ledger.import_records(records)
    asked = CostQuestion(window=Window(at(0), at(HOURS)), keys=("team",), now=at(now_h))
    times = reserved_times(
        [
            Reservation(name=name, team=team, nodes=(node,), window=Window(at(s), at(e)))
            for team, name, node, (s, e) in of_calendar
        ],
        asked.window,
        asked.now,
    )
    costs = [(t, ledger.capacity_cost(replace(asked, window=t.window))) for t in times]
    of_teams = cost_report(asked.window, asked.keys, *ledger.cost_slices(asked))
    found = with_reserved_idle(of_teams, costs)
    want: dict[str | None, Fraction] = defaultdict(Fraction)
    paid = Fraction(0)
    for hour in range(min(HOURS, now_h)):
        for node in NODES:
            is_there = node == "node-1" or there[0] <= hour < there[1]
            gpus = sum(
                count
                for _, count, place, (start, end), is_over in of_runs
                if place == node and start <= hour < (end if is_over else HOURS)
            )
            paid += Fraction(PRICE * gpus, 8)
            # The first name counts, and of one name the reservation that begins first.
            owners = sorted(
                (name, start, place_in_list, team)
                for place_in_list, (team, name, place, (start, end)) in enumerate(of_calendar)
                if place == node and start <= hour < end
            )
            team = owners[0][-1] if owners else None
            if is_there:
                want[team] += Fraction(PRICE * (8 - gpus), 8)
    got = {row.keys[0]: row.idle.exact_micro_usd for row in found.rows}
    assert {team: cost for team, cost in got.items() if cost} == {
        team: cost for team, cost in want.items() if cost and team is not None
    }
    assert found.idle.exact_micro_usd == want[None]
    assert sum(row.micro_usd for row in found.rows) == paid
