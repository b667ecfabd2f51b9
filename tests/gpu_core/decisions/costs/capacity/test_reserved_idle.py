"""Idle capacity of a reservation is its team's; all of it adds up, however reservations lie."""

from datetime import timedelta
from fractions import Fraction
from itertools import pairwise
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpu_core.decisions.costs.capacity.idle import CapacityCost, capacity_cost
from gpu_core.decisions.costs.capacity.reserved_idle import (
    Reservation,
    ReservedTime,
    reserved_times,
    with_reserved_idle,
)
from gpu_core.decisions.costs.reports.cost_report import CostReport, CostSlice, cost_report
from gpu_core.decisions.costs.usage.time_use import Tariff
from gpu_core.decisions.costs.usage.usage import Usage
from gpu_core.decisions.costs.usage.usage_cost import Window
from gpu_core.decisions.model.errors import InvalidInput
from gpu_core.testing.builders.attempts import at
from tests.gpu_core.decisions.costs.capacity.test_idle import DAY, HOUR_US, machine

PRICE = 3_670_001


def reserved(team: str, start_h: float, end_h: float, *nodes: str, name: str = "r") -> Reservation:
    return Reservation(
        name=name, team=team, nodes=nodes or ("node-1",), window=Window(at(start_h), at(end_h))
    )


def report(*teams: str | None) -> CostReport:
    slices = [
        CostSlice(
            keys=(team,),
            tariff=Tariff(Usage(gpu_us=1, gpu_micro_usd=Fraction(5, HOUR_US))),
            uses_us=(0, 0, HOUR_US, 0),
            attempts=1,
        )
        for team in teams
    ]
    return cost_report(DAY, ("team",), slices, {})


def costs(
    reservations: list[Reservation], *machines: Any
) -> list[tuple[ReservedTime, CapacityCost]]:
    times = reserved_times(reservations, DAY, at(12))
    return [(time, capacity_cost(machines, {}, time.window, at(12))) for time in times]


@pytest.mark.parametrize(
    ("reservations", "want", "want_line"),
    [
        pytest.param([], {"a": 0}, 2 * PRICE, id="no reservation"),
        pytest.param([reserved("a", 0, 1)], {"a": PRICE}, PRICE, id="one of two hours"),
        pytest.param([reserved("b", 0, 2)], {"a": 0, "b": 2 * PRICE}, 0, id="a team without runs"),
        pytest.param([reserved("a", -99, 99)], {"a": 2 * PRICE}, 0, id="longer than the report"),
        pytest.param([reserved("a", 0, 1, "node-2")], {"a": 0}, 2 * PRICE, id="another node"),
        pytest.param(
            [reserved("a", 0, 2, name="x"), reserved("b", 1, 2, name="y")],
            {"a": 2 * PRICE},
            0,
            id="two overlap: the first name counts",
        ),
        pytest.param(
            [reserved("a", 0, 2, name="y"), reserved("b", 1, 2, name="x")],
            {"a": PRICE, "b": PRICE},
            0,
            id="two overlap, named the other way round",
        ),
    ],
)
def test_the_team_of_the_reservation_pays(
    reservations: list[Reservation], want: dict[str, int], want_line: int
) -> None:
    found = with_reserved_idle(report("a"), costs(reservations, machine()))
    assert {str(row.keys[0]): row.idle_micro_usd for row in found.rows} == want
    assert found.idle_micro_usd == want_line


def test_runs_without_a_team_do_not_pay_for_a_team_that_is_named_none() -> None:
    found = with_reserved_idle(report(None), costs([reserved("None", 0, 2)], machine()))
    assert {row.keys: row.idle_micro_usd for row in found.rows} == {
        (None,): 0,
        ("None",): 2 * PRICE,
    }


def test_only_teams_share_by_reservation() -> None:
    other = cost_report(DAY, ("user",), [], {})
    with pytest.raises(InvalidInput, match=r"idle is shared by reservation .*\(got 'by user'\)"):
        with_reserved_idle(other, [])


hours = st.floats(-14, 14, allow_nan=False)
reservations_drawn = st.lists(
    st.tuples(
        st.sampled_from("ab"), hours, hours, st.sampled_from(["node-1", "node-2"]), st.text("xy")
    ).map(lambda d: reserved(d[0], min(d[1], d[2]), max(d[1], d[2]), d[3], name=d[4])),
    max_size=5,
)


@given(reservations=reservations_drawn, now_h=hours)
def test_the_parts_cover_the_window_up_to_now_each_once(
    reservations: list[Reservation], now_h: float
) -> None:
    times = reserved_times(reservations, DAY, at(now_h))
    end = min(DAY.end, max(DAY.start, at(now_h)))
    assert sum((t.window.end - t.window.start for t in times), timedelta(0)) == end - DAY.start
    assert all(a.window.end == b.window.start for a, b in pairwise(times))
    for time in times:
        for reservation in reservations:
            inside = reservation.window.start < time.window.end > time.window.start
            touches = inside and reservation.window.end > time.window.start
            for node in reservation.nodes if touches else ():
                assert node in time.team_by_node


@given(reservations=reservations_drawn)
def test_rows_and_idle_add_up_to_the_micro_dollar(reservations: list[Reservation]) -> None:
    machines = machine(), machine("node-2", since=at(-3), micro_usd_per_hour=999_999)
    found = with_reserved_idle(report("a"), costs(reservations, *machines))
    whole = sum(row.micro_usd + row.idle_micro_usd for row in found.rows) + found.idle_micro_usd
    exact = 5 + Fraction(2 * PRICE) + Fraction(5 * 999_999)
    assert whole == exact
