"""What machines cost, what runs paid of it, and what was idle."""

from collections.abc import Sequence
from dataclasses import replace
from datetime import timedelta
from fractions import Fraction
from itertools import pairwise
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpu_core.decisions.costs.capacity.capacity_intervals import CapacityInterval, IntervalEnd
from gpu_core.decisions.costs.capacity.idle import (
    CapacityCost,
    IdleRule,
    capacity_cost,
    counted_in,
    parse_idle_rule,
    usage_on,
    with_idle,
)
from gpu_core.decisions.costs.capacity.overlap import twice_on
from gpu_core.decisions.costs.reports.cost_report import CostReport, CostSlice, cost_report
from gpu_core.decisions.costs.usage.time_use import Tariff
from gpu_core.decisions.costs.usage.usage import NO_USAGE, Usage, sum_usage
from gpu_core.decisions.costs.usage.usage_cost import Window, attempt_usage
from gpu_core.decisions.model.attempts import Attempt, EndReason
from gpu_core.decisions.model.cluster import NodeShare
from gpu_core.decisions.model.errors import InvalidInput
from gpu_core.decisions.model.prices import PriceChange, Rates
from gpu_core.testing.builders.attempts import NOON, at, make_attempt

DAY = Window(at(-12), at(12))
HOUR_US = 3_600_000_000


def machine(node: str = "node-1", **fields: Any) -> CapacityInterval:
    """One A100 at 3.670001 USD an hour, there from noon to two."""
    ordinary: dict[str, Any] = {
        "interval_id": node,
        "host": "host-1",
        "pool": "gpus",
        "node": node,
        "capacity_type": "on-demand",
        "gpu_type": "a100-80gb",
        "gpus": 1,
        "micro_usd_per_hour": 3_670_001,
        "since": NOON,
        "until": at(2),
        "seen_at": at(2),
        "end_reason": IntervalEnd.GONE,
    }
    return CapacityInterval(**(ordinary | fields))


def held(number: int, part: Fraction = Fraction(1), **fields: Any) -> Attempt:
    """A run that held this part of a GPU of node-1 from noon to one."""
    share = NodeShare(node="node-1", gpu_ids=("0",), exact_part=(part.numerator, part.denominator))
    ordinary: dict[str, Any] = {
        "node": "node-1",
        "shares": (share,),
        "gpu_quantity": part,
        "price_source": "policy",
        "price_micro_usd_per_gpu_hour": 3_670_001,
        "released_at": at(1),
        "end_reason": EndReason.COMPLETED,
    }
    return make_attempt(f"run-{number}", **(ordinary | fields))


def cost(
    machines: Sequence[CapacityInterval],
    attempts: Sequence[Attempt],
    window: Window = DAY,
    now: float = 9,
) -> CapacityCost:
    """What machines cost with these runs, one by one."""
    of_machines: dict[str, Usage] = {}
    twice: dict[str, Usage] = {}
    for interval in machines:
        counted = counted_in(interval, window, at(now))
        if counted is not None:
            of_machines[interval.interval_id] = sum_usage(
                usage_on(attempt, interval.node, counted, at(now)) for attempt in attempts
            )
            twice[interval.interval_id] = twice_on(interval, attempts, counted, at(now))
    return capacity_cost(machines, of_machines, window, at(now), twice)


@pytest.mark.parametrize(
    ("attempts", "want_idle_hours", "want_idle_usd", "want_beyond_usd"),
    [
        pytest.param([], 2, 2 * 3.670001, 0, id="no run: all is idle"),
        pytest.param([held(1)], 1, 3.670001, 0, id="one hour of two"),
        pytest.param(
            [held(n, Fraction(1, 4)) for n in range(4)], 1, 3.670001, 0, id="four quarters"
        ),
        pytest.param(
            [held(n, Fraction(1, 7)) for n in range(7)], 1, 3.670001, 0, id="seven MIG 1g"
        ),
        pytest.param(
            [held(n, Fraction(1, 7)) for n in range(6)],
            1 + 1 / 7,
            (1 + 1 / 7) * 3.670001,
            0,
            id="six of seven MIG 1g",
        ),
        pytest.param([held(1), held(2)], 1, 3.670001, 3.670001, id="two at once on one GPU"),
        pytest.param(
            [held(1), held(2), held(3)], 1, 3.670001, 2 * 3.670001, id="three at once on one GPU"
        ),
        pytest.param(
            [held(1), held(2, admitted_at=at(0.75), released_at=at(1.75))],
            *(0.25, 0.25 * 3.670001, 0.25 * 3.670001),
            id="the next one began a quarter of an hour before the last one's end",
        ),
        pytest.param(
            [held(1, Fraction(3, 4)), held(2, Fraction(1, 2))],
            *(1, 3.670001, 0.25 * 3.670001),
            id="parts that are more than the GPU",
        ),
        pytest.param([held(1, released_at=at(9))], 0, 0, 0, id="a run that outlives its machine"),
        pytest.param(
            [held(1, end_reason=EndReason.POSTPONED)], 2, 2 * 3.670001, 0, id="it held nothing"
        ),
        pytest.param([held(1, node="n", shares=None)], 2, 2 * 3.670001, 0, id="elsewhere"),
        pytest.param(
            [held(1, released_at=None, bound_at=None)],
            *(2, 2 * 3.670001, 0),
            id="it is only planned there",
        ),
    ],
)
def test_idle_is_what_the_machine_costs_beyond_its_runs(
    attempts: list[Attempt], want_idle_hours: float, want_idle_usd: float, want_beyond_usd: float
) -> None:
    found = cost([machine()], attempts)
    assert found.idle.gpu_hours == pytest.approx(want_idle_hours)
    assert float(found.idle.exact_micro_usd) == pytest.approx(want_idle_usd * 1e6)
    assert float(found.machines[0].beyond_micro_usd) == pytest.approx(want_beyond_usd * 1e6)
    assert found.attributed.exact_micro_usd + found.idle.exact_micro_usd == 2 * 3_670_001
    assert found.capacity.exact_micro_usd == 2 * 3_670_001


@pytest.mark.parametrize(
    ("interval", "attempts", "want"),
    [
        pytest.param(machine(micro_usd_per_hour=None), [], 2, id="a machine without a price"),
        pytest.param(machine(), [held(1, price_micro_usd_per_gpu_hour=None)], 1, id="a run"),
        pytest.param(machine(), [held(1)], 0, id="both have one"),
    ],
)
def test_idle_time_without_a_price_is_unpriced(
    interval: CapacityInterval, attempts: list[Attempt], want: float
) -> None:
    assert cost([interval], attempts).idle.unpriced_gpu_s == want * 3600


def test_a_gang_pays_on_each_node_what_it_holds_there() -> None:
    """Three GPUs on one node and one on another: a quarter of CPU and memory is there."""
    shares = (
        NodeShare(node="node-1", gpu_ids=("0", "1", "2")),
        NodeShare(node="node-2", gpu_ids=("0",)),
    )
    gang = held(
        1,
        Fraction(4),
        shares=shares,
        cpu_milli=8_000,
        memory_mib=4_096,
        price_micro_usd_per_cpu_hour=1_000,
        price_micro_usd_per_gib_hour=10,
    )
    on = {node: usage_on(gang, node, DAY, at(9)) for node in ("node-1", "node-2", "node-3")}
    assert on["node-2"].exact_micro_usd == 3_670_001 + 2 * 1_000 + 10
    assert sum_usage(on.values()) == attempt_usage(gang, at(9))
    assert on["node-3"].exact_micro_usd == 0


def test_a_gang_without_gpus_pays_evenly() -> None:
    shares = tuple(NodeShare(node=f"node-{n}", gpu_ids=()) for n in (1, 2, 3))
    gang = held(1, Fraction(0), shares=shares, cpu_milli=1, price_micro_usd_per_cpu_hour=3_000)
    assert usage_on(gang, "node-1", DAY, at(9)).exact_micro_usd == 1


def test_nodes_are_in_the_order_of_their_idle_cost() -> None:
    found = cost([machine(), machine("node-2"), machine("node-3", gpus=8)], [held(1)])
    assert list(found.by_node()) == ["node-3", "node-2", "node-1"]


# Random timelines: machines with changing prices, runs on slots that come, crash and share.

moments = st.integers(-(10**10), 10**10).map(lambda us: NOON + timedelta(microseconds=us))
prices = st.integers(0, 50_000_000)
sizes = st.sampled_from([Fraction(1), *(Fraction(1, n) for n in (2, 3, 4, 7, 16, 48))])


@st.composite
def timelines(draw: st.DrawFn) -> tuple[list[CapacityInterval], list[Attempt], Usage]:
    """A GPU over some time, at changing prices, for a part of it at an unknown one; runs on its
    slots; and what is idle of it."""
    edges = sorted(draw(st.lists(moments, min_size=2, max_size=5, unique=True)))
    rates = [draw(st.none() | prices) for _ in edges[1:]]
    machines = [
        machine(interval_id=str(n), since=since, until=until, micro_usd_per_hour=rate)
        for n, ((since, until), rate) in enumerate(zip(pairwise(edges), rates, strict=True))
    ]
    size, attempts, idle = draw(sizes), [], []
    for slot in range(size.denominator):
        cuts = sorted({edges[0], edges[-1], *draw(st.lists(moments, max_size=3))})
        inside = [cut for cut in cuts if edges[0] <= cut <= edges[-1]]
        for number, (start, end) in enumerate(pairwise(inside)):
            one = _of(f"{slot}-{number}", start, end, size, edges, rates)
            if slot < 4 and draw(st.booleans()):
                attempts.append(replace(one, end_reason=draw(st.sampled_from(EndReason))))
            else:
                idle.append(attempt_usage(one, at(99)))
    return machines, attempts, sum_usage(idle)


def _of(
    name: str,
    start: Any,
    end: Any,
    size: Fraction,
    edges: Sequence[Any],
    rates: Sequence[int | None],
) -> Attempt:
    first = max(n for n, edge in enumerate(edges[:-1]) if edge <= start)
    later = tuple(
        PriceChange(since=edge, rates=Rates(gpu_micro_usd_per_hour=rate, source="catalog"))
        for edge, rate in zip(edges[first + 1 : -1], rates[first + 1 :], strict=True)
        if edge < end
    )
    return held(
        0,
        size,
        attempt_id=name,
        admitted_at=start,
        released_at=end,
        price_micro_usd_per_gpu_hour=rates[first],
        later_prices=later or None,
    )


@given(timeline=timelines(), cut=moments)
def test_attributed_and_idle_make_the_cost_of_the_capacity(
    timeline: tuple[list[CapacityInterval], list[Attempt], Usage], cut: Any
) -> None:
    """In one window and in two; what runs paid and what was idle are both exact."""
    machines, attempts, idle = timeline
    took_nothing = [a for a in attempts if not a.has_run]
    idle = sum_usage([idle, *(attempt_usage(a, at(99)) for a in took_nothing)])
    always = Window(at(-99), at(99))
    found = cost(machines, attempts, always, now=99)
    assert found.idle.exact_micro_usd == idle.exact_micro_usd
    assert found.idle.gpu_us == idle.gpu_us
    assert found.idle.unpriced_gpu_us == idle.unpriced_gpu_us
    assert found.beyond_micro_usd == 0
    paid = sum_usage(attempt_usage(a, at(99)) for a in attempts if a.has_run)
    assert found.attributed.exact_micro_usd == paid.exact_micro_usd
    assert paid.exact_micro_usd + idle.exact_micro_usd == found.capacity.exact_micro_usd
    halves = [
        cost(machines, attempts, window, now=99)
        for window in (Window(at(-99), cut), Window(cut, at(99)))
    ]
    assert sum_usage(half.idle for half in halves) == found.idle
    assert sum_usage(half.capacity for half in halves) == found.capacity


@given(
    machines=st.lists(
        st.tuples(moments, moments, st.none() | prices, st.integers(1, 8)), max_size=4
    ),
    attempts=st.lists(st.tuples(moments, st.none() | moments, prices, sizes), max_size=6),
    window=st.tuples(moments, moments).map(lambda pair: Window(min(pair), max(pair))),
)
def test_they_add_up_also_where_clocks_overlap(
    machines: list[Any], attempts: list[Any], window: Window
) -> None:
    intervals = [
        machine(interval_id=str(n), since=min(a, b), until=max(a, b), gpus=gpus,
                micro_usd_per_hour=price)
        for n, (a, b, price, gpus) in enumerate(machines)
    ]  # fmt: skip
    runs = [
        held(n, size, admitted_at=start, price_micro_usd_per_gpu_hour=price,
             released_at=None if end is None else max(start, end))
        for n, (start, end, price, size) in enumerate(attempts)
    ]  # fmt: skip
    for one in cost(intervals, runs, window).machines:
        parts = one.attributed.exact_micro_usd, one.idle.exact_micro_usd
        assert sum(parts) == one.capacity.exact_micro_usd
        assert min(*parts, one.beyond_micro_usd, one.idle.gpu_us) >= 0
        assert one.interval.micro_usd_per_hour is not None or not one.beyond_micro_usd
        assert one.attributed.gpu_us + one.idle.gpu_us == one.capacity.gpu_us


# Idle capacity in a report


def priced(micro_usd: Fraction | int, gpu_us: int = HOUR_US) -> Usage:
    """GPU time at this price."""
    return Usage(gpu_us=gpu_us, gpu_micro_usd=micro_usd)


def report(*costs: Fraction | int) -> CostReport:
    """A report with a team for each cost, the dearest first."""
    slices = [
        CostSlice(
            keys=(f"team-{n}",),
            tariff=Tariff(priced(Fraction(cost, HOUR_US), 1)),
            uses_us=(0, 0, HOUR_US, 0),
            attempts=1,
        )
        for n, cost in enumerate(costs)
    ]
    return cost_report(DAY, ("team",), slices, {})


@pytest.mark.parametrize(
    ("rule", "costs", "want_of_rows", "want_line"),
    [
        pytest.param(IdleRule.NONE, (3, 1), (0, 0), 8, id="a line of its own"),
        pytest.param(IdleRule.EVENLY, (3, 1), (4, 4), 0, id="each the same"),
        pytest.param(IdleRule.BY_USE, (3, 1), (6, 2), 0, id="by cost"),
        pytest.param(IdleRule.BY_USE, (0, 0), (4, 4), 0, id="by GPU time where nothing costs"),
        pytest.param(IdleRule.BY_USE, (), (), 8, id="no run is there to pay"),
    ],
)
def test_who_pays_for_idle_capacity(
    rule: IdleRule, costs: tuple[int, ...], want_of_rows: tuple[int, ...], want_line: int
) -> None:
    found = with_idle(report(*costs), priced(8), rule)
    assert tuple(row.idle_micro_usd for row in found.rows) == want_of_rows
    assert found.idle_micro_usd == want_line
    assert tuple(row.micro_usd for row in found.rows) == costs


@given(
    costs=st.lists(st.fractions(0, 1000), max_size=5),
    idle=st.fractions(0, 1000),
    rule=st.sampled_from(IdleRule),
)
def test_rows_and_idle_add_up_to_the_micro_dollar(
    costs: list[Fraction], idle: Fraction, rule: IdleRule
) -> None:
    without = report(*costs)
    found = with_idle(without, priced(idle), rule)
    whole = sum(row.micro_usd + row.idle_micro_usd for row in found.rows) + found.idle_micro_usd
    assert whole == priced(sum(costs) + idle).micro_usd
    parts = [*(row.idle for row in found.rows), found.idle]
    assert sum_usage(parts).exact_micro_usd == idle
    amounts = [*(row.idle_micro_usd for row in found.rows), found.idle_micro_usd]
    for amount, part in zip(amounts, parts, strict=True):
        assert abs(amount - part.exact_micro_usd) < 1
    # What runs cost is what they are billed, under each rule.
    assert [row.micro_usd for row in found.rows] == [row.micro_usd for row in without.rows]


def test_a_rule_that_is_misspelled_is_named() -> None:
    with pytest.raises(InvalidInput, match=r"idle .*\(got 'by-us'\).*Did you mean 'by-use'"):
        parse_idle_rule("by-us")


@pytest.mark.parametrize(
    ("interval", "attempts", "want_hours", "want_micro_usd"),
    [
        pytest.param(machine(), [], 0, 0, id="from before it was kept"),
        pytest.param(machine(faulty_gpus=0), [], 0, 0, id="all are well"),
        pytest.param(machine(faulty_gpus=1), [], 2, 2 * 3_670_001, id="the only GPU"),
        pytest.param(machine(faulty_gpus=1, gpus=4), [], 2, 3_670_001 / 2, id="one of four"),
        pytest.param(
            machine(faulty_gpus=1), [held(1)], 1, 3_670_001, id="its run paid until it was gone"
        ),
        pytest.param(
            machine(faulty_gpus=1, micro_usd_per_hour=None), [], 2, 0, id="without a price"
        ),
    ],
)
def test_hours_of_gpus_that_are_not_well_are_faults(
    interval: CapacityInterval, attempts: list[Attempt], want_hours: float, want_micro_usd: float
) -> None:
    faults = cost([interval], attempts).faults
    assert faults.gpu_hours == want_hours
    assert faults.exact_micro_usd == want_micro_usd
    assert faults.is_unpriced is (interval.micro_usd_per_hour is None)


@given(
    spans=st.lists(
        st.tuples(moments, moments, st.none() | prices, st.integers(1, 8), st.integers(0, 8)),
        max_size=4,
    ),
    attempts=st.lists(st.tuples(moments, st.none() | moments, prices, sizes), max_size=6),
    rule=st.sampled_from(IdleRule),
)
def test_faults_are_a_part_of_what_is_idle(
    spans: list[Any], attempts: list[Any], rule: IdleRule
) -> None:
    """Exactly, for each machine; in a report to the micro-dollar, under each rule for idle time."""
    machines = [
        machine(
            interval_id=str(n),
            since=min(a, b),
            until=max(a, b),
            gpus=gpus,
            micro_usd_per_hour=price,
            faulty_gpus=min(faulty, gpus),
        )
        for n, (a, b, price, gpus, faulty) in enumerate(spans)
    ]
    runs = [
        held(n, size, admitted_at=start, released_at=end, price_micro_usd_per_gpu_hour=price)
        for n, (start, end, price, size) in enumerate(attempts)
        if end is None or end >= start
    ]
    found = cost(machines, runs, Window(at(-99), at(99)), now=99)
    for one in found.machines:
        rest = one.idle - one.faults
        assert min(rest.gpu_us, rest.gpu_micro_usd, rest.unpriced_gpu_us) >= 0
        assert one.attributed + one.faults + rest == one.attributed + one.idle
        if one.idle.gpu_us and one.interval.faulty_gpus == one.interval.gpus:
            assert one.faults == one.idle
        if not one.interval.faulty_gpus:
            assert one.faults == NO_USAGE
    shown = with_idle(report(5, 7), found.idle, rule, found.faults)
    of_idle = shown.idle_micro_usd + shown.total.idle_micro_usd
    assert 0 <= shown.faults_micro_usd <= of_idle
    assert abs(shown.faults_micro_usd - found.faults.exact_micro_usd) <= 1
