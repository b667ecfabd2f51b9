"""Prices over time, and for how long so many machines were there."""

from fractions import Fraction
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpu_core.decisions.costs.prices.price_book import PriceBook
from gpu_core.decisions.costs.savings.duration_curve import (
    machines_at_once,
    time_with_at_least,
    worth_committing,
)
from gpu_core.decisions.costs.savings.price_steps import (
    PriceStep,
    PriceSteps,
    duration_us,
    known_steps,
    lowest_steps,
)
from gpu_core.decisions.costs.usage.usage_cost import Window
from gpu_core.testing.builders.attempts import at
from gpu_core.testing.builders.catalog import make_catalog, make_row
from gpu_core.testing.builders.workloads import make_policy
from tests.gpu_core.adapters.ledger.test_capacity import make_interval

HOUR_US = 3_600_000_000
STEPS = PriceSteps((PriceStep(at(0), 1), PriceStep(at(2), 10), PriceStep(at(4), 100)))


@pytest.mark.parametrize(
    ("start", "end", "want"),
    [
        pytest.param(0, 1, 1, id="within a step"),
        pytest.param(1, 5, 1 + 20 + 100, id="over all steps"),
        pytest.param(-2, 1, 3, id="the first price counts before it, too"),
        pytest.param(2, 2, 0, id="no time"),
        pytest.param(9, 10, 100, id="the last price lasts"),
    ],
)
def test_a_machine_costs_the_price_of_each_time(start: float, end: float, want: int) -> None:
    assert STEPS.cost(Window(at(start), at(end))) == want


@given(st.lists(st.integers(0, 90), min_size=2, max_size=8, unique=True))
def test_parts_of_a_window_add_up(edges: list[int]) -> None:
    moments = [at(edge / 10) for edge in sorted(edges)]
    parts = [STEPS.cost(Window(a, b)) for a, b in pairwise(moments)]
    assert sum(parts) == STEPS.cost(Window(moments[0], moments[-1]))


def test_prices_of_the_catalog_change_with_time_and_zone() -> None:
    """Spot was cheaper in the one zone on 1 September, and in the other from noon on the 4th."""
    spot = [
        {"region": "us-east-1", "zone": zone, "capacity_type": "spot", "usd_per_hour": usd} | dates
        for zone, usd, dates in (
            ("use1-az1", 3.0, {}),
            ("use1-az2", 4.0, {"as_of": "2026-09-01"}),
            ("use1-az2", 2.0, {"as_of": "2026-09-04"}),
        )
    ]
    row = make_row(10.0)
    row["prices"] += spot
    book = PriceBook(policy=make_policy(prices={}), catalog=make_catalog(p4de_24xlarge=row))
    machine = make_interval(instance_type="p4de.24xlarge", region="us-east-1")
    start = at(24 * 182)
    window = Window(start, at(24 * 190))
    lowest = lowest_steps([machine], ("on-demand", "spot"), book, window)
    assert [step.micro_usd_per_hour for step in lowest.steps] == [3_000_000, 2_000_000]
    on_demand = known_steps([make_interval(capacity_type="spot", instance_type="p4de.24xlarge",
                             region="us-east-1")], "on-demand", book, window)  # fmt: skip
    assert on_demand is not None
    assert {step.micro_usd_per_hour for step in on_demand.steps} == {10_000_000}
    elsewhere = make_interval(instance_type="p4de.24xlarge", region="eu-west-1")
    assert known_steps([elsewhere], "spot", book, window) is None


def test_the_duration_curve_of_three_machines() -> None:
    stays = [Window(at(0), at(10)), Window(at(2), at(4)), Window(at(3), at(6))]
    assert time_with_at_least(stays) == (10 * HOUR_US, 4 * HOUR_US, 1 * HOUR_US)
    assert max(machines_at_once(stays)) == 3


def test_one_machine_after_another_is_one() -> None:
    stays = [Window(at(0), at(1)), Window(at(1), at(2)), Window(at(5), at(5))]
    assert time_with_at_least(stays) == (2 * HOUR_US,)


@given(st.lists(st.tuples(st.integers(0, 50), st.integers(0, 50)), max_size=8))
def test_the_curve_falls_and_holds_all_time(edges: list[tuple[int, int]]) -> None:
    stays = [Window(at(min(pair)), at(max(pair))) for pair in edges]
    curve = time_with_at_least(stays)
    assert list(curve) == sorted(curve, reverse=True)
    assert sum(curve) == sum(map(duration_us, stays))


@pytest.mark.parametrize(
    ("curve", "want"),
    [
        pytest.param((100, 70, 60, 10), (2, Fraction(40 + 10)), id="over 60% of the time"),
        pytest.param((60,), (0, Fraction(0)), id="exactly the break-even saves nothing"),
        pytest.param((), (0, Fraction(0)), id="no machine"),
    ],
)
def test_a_commitment_pays_off_over_its_price(
    curve: tuple[int, ...], want: tuple[int, Fraction]
) -> None:
    assert worth_committing(curve, 100, Fraction(100), Fraction(60)) == want
