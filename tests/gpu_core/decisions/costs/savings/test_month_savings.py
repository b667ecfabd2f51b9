"""What a month saved: parts add up, and what is unknown is in no sum."""

from collections.abc import Sequence
from datetime import timedelta
from fractions import Fraction
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpu_core.decisions.costs.capacity.capacity_intervals import CapacityInterval
from gpu_core.decisions.costs.prices.price_book import PriceBook
from gpu_core.decisions.costs.savings.markdown import savings_section
from gpu_core.decisions.costs.savings.month_savings import (
    Cluster,
    FixedCluster,
    MonthSavings,
    month_savings,
)
from gpu_core.decisions.costs.usage.usage_cost import Window
from gpu_core.decisions.model.attempts import EndReason
from gpu_core.testing.builders.attempts import at, make_attempt, make_run
from gpu_core.testing.builders.workloads import make_policy
from tests.gpu_core.adapters.ledger.test_capacity import make_interval
from tests.gpu_core.decisions.costs.savings.work import Records, month_work

DAY = Window(at(0), at(24))
LATER = at(48)


def machine(
    name: str, since: float, until: float, usd: float | None, terms: str = "on-demand", **more: Any
) -> CapacityInterval:
    """A machine with 8 A100, from and until these hours, at dollars an hour."""
    price = None if usd is None else round(usd * 10**6)
    return make_interval(
        name,
        node=name,
        since=at(since),
        until=at(until),
        capacity_type=terms,
        micro_usd_per_hour=price,
        **more,
    )


def savings(
    machines: Sequence[CapacityInterval],
    records: Records = (),
    committed_ratio: Fraction | None = None,
    **policy: Any,
) -> MonthSavings:
    """Of this day."""
    book = PriceBook(policy=make_policy(**({"prices": {}} | policy)))
    return month_savings(machines, month_work(records, DAY), book, DAY, LATER, committed_ratio)


def by_name(found: MonthSavings) -> dict[Cluster, FixedCluster]:
    return {each.cluster: each for each in found.clusters}


TWO_AND_SPOT = [
    machine("a", 0, 24, 16),
    machine("b", 6, 12, 16),
    machine("c", 6, 16, 5, "spot"),
]
"""24 and 6 hours at $16 on demand; 10 hours of spot at $5. At the peak there are three."""


def test_a_day_worked_out_by_hand() -> None:
    found = savings(TWO_AND_SPOT, scale={"max_gpus": 32}, committed_ratio=Fraction(60, 100))
    assert found.micro_usd == (24 + 6) * 16_000_000 + 10 * 5_000_000 == 530_000_000
    assert found.on_demand_micro_usd == 40 * 16_000_000 == 640_000_000
    assert found.best_micro_usd == 40 * 5_000_000
    assert found.spot is not None
    assert (found.spot.micro_usd, found.spot.net_micro_usd) == (110_000_000, 110_000_000)
    clusters = by_name(found)
    peak = clusters[Cluster.PEAK]
    assert (peak.gpus, peak.micro_usd) == (24, 3 * 24 * 16_000_000)
    assert peak.elasticity_micro_usd == (72 - 40) * 16_000_000
    assert peak.spot_micro_usd == 110_000_000
    assert clusters[Cluster.CAP].micro_usd == 4 * 24 * 16_000_000
    committed = clusters[Cluster.COMMITTED]
    assert committed.micro_usd == peak.micro_usd * 60 // 100
    assert committed.commitment_micro_usd == peak.micro_usd * 40 // 100
    (commitment,) = found.commitments
    assert commitment.held_ratios == (1.0, 0.25)
    assert (commitment.machines, commitment.micro_usd) == (1, 24 * 16_000_000 * 40 // 100)


def test_interruptions_are_taken_off_what_spot_saved() -> None:
    """Two of 80 GPU-hours on spot were lost, which cost $2 each on demand."""
    lost = make_attempt(
        "run-1",
        gpu_type="a100-80gb",
        gpu_ids=("0", "1"),
        capacity_type="spot",
        admitted_at=at(6),
        released_at=at(8),
        checkpointed_at=at(7),
        end_reason=EndReason.INTERRUPTED,
    )
    found = savings(TWO_AND_SPOT, [(make_run("run-1"), (lost,))])
    assert found.spot is not None
    assert found.spot.interruptions_micro_usd == 4_000_000
    assert found.spot.net_micro_usd == 106_000_000


def test_a_month_without_spot_saved_nothing_by_it() -> None:
    found = savings([machine("a", 0, 24, 16)])
    assert found.spot is not None
    assert (found.spot.gpu_us, found.spot.micro_usd, found.spot.net_micro_usd) == (0, 0, 0)
    assert by_name(found)[Cluster.PEAK].spot_micro_usd == 0
    assert found.best_micro_usd is None, "no price of spot is known, and unknown is not 0"


def test_a_month_without_machines_cost_and_saved_nothing() -> None:
    found = savings([])
    assert (found.micro_usd, found.on_demand_micro_usd) == (0, 0)
    assert found.spot is not None
    assert found.spot.micro_usd == 0


@pytest.mark.parametrize(
    "machines",
    [
        pytest.param([machine("a", 0, 24, None)], id="a machine without a price"),
        pytest.param([machine("a", 0, 24, 5, "spot")], id="spot, and no on-demand price"),
    ],
)
def test_what_is_unknown_is_named_and_in_no_sum(machines: list[CapacityInterval]) -> None:
    alone = savings(machines)
    assert (alone.micro_usd, alone.on_demand_micro_usd, alone.spot) == (None, None, None)
    assert alone.clusters == ()
    ((kind, hours),) = alone.unpriced
    assert (kind.gpu_type, hours) == ("a100-80gb", 24 * 8.0)
    other = machine("b", 0, 24, 1, gpu_type="a10g", gpus=1)
    with_other = savings([*machines, other])
    assert with_other.micro_usd == 24_000_000
    assert with_other.unpriced == alone.unpriced


def test_the_policy_has_the_prices_that_the_ledger_does_not_have() -> None:
    prices = {"a100-80gb": {"on-demand": 2, "spot": 0.5, "reserved": 1}}
    on_spot = savings([machine("a", 0, 10, 5, "spot")], prices=prices)
    assert on_spot.on_demand_micro_usd == 160_000_000
    assert Cluster.COMMITTED in by_name(on_spot)
    on_demand = savings([machine("a", 0, 10, 16)], prices=prices)
    assert on_demand.best_micro_usd == 40_000_000
    (commitment,) = on_demand.commitments
    assert (commitment.price_ratio, commitment.machines) == (0.5, 0), "10 of 24 hours are too few"


def test_machines_on_other_terms_are_shown_apart() -> None:
    machines = [machine("a", 0, 24, 16), machine("b", 0, 24, 10, "reserved")]
    peak = by_name(savings(machines))[Cluster.PEAK]
    assert (peak.elasticity_micro_usd, peak.spot_micro_usd) == (0, 0)
    assert peak.reserved_micro_usd == 24 * 6_000_000


@st.composite
def any_machines(draw: st.DrawFn) -> list[CapacityInterval]:
    """Machines of two kinds on all terms, with any price or none, from any second to another."""
    found = []
    for number in range(draw(st.integers(0, 6))):
        since, until = sorted(draw(st.tuples(st.integers(-(9**4), 10**5), st.integers(0, 10**5))))
        found.append(
            make_interval(
                f"m-{number}",
                node=f"m-{number}",
                gpus=draw(st.sampled_from([1, 7])),
                capacity_type=draw(st.sampled_from(["on-demand", "spot", "reserved"])),
                micro_usd_per_hour=draw(st.none() | st.integers(0, 10**8 + 1)),
                since=at(0) + timedelta(seconds=since),
                until=at(0) + timedelta(seconds=until),
            )
        )
    return found


@given(
    machines=any_machines(),
    ratio=st.none() | st.fractions(0, 1, max_denominator=97),
    cap=st.none() | st.integers(0, 100),
)
def test_parts_add_up_to_the_micro_dollar(
    machines: list[CapacityInterval], ratio: Fraction | None, cap: int | None
) -> None:
    found = savings(machines, committed_ratio=ratio, scale={"max_gpus": cap})
    assert {each.cluster for each in found.clusters} | set(found.unknown_clusters) == set(Cluster)
    for each in found.clusters:
        assert found.micro_usd is not None
        parts = each.elasticity_micro_usd + each.spot_micro_usd + each.reserved_micro_usd
        assert found.micro_usd + parts - each.commitment_micro_usd == each.micro_usd
    if found.micro_usd is None:
        assert found.spot is None
        return
    assert found.on_demand_micro_usd is not None
    assert found.spot is not None
    if not any(machine.capacity_type == "spot" for machine in machines):
        assert found.spot.micro_usd == 0
    if found.best_micro_usd is not None:
        assert found.best_micro_usd <= found.micro_usd
    sure = [m for m in machines if m.micro_usd_per_hour is None and m.since < m.until]
    named = {kind for kind, _ in found.unpriced}
    assert all(any(kind.gpus == m.gpus for kind in named) or m.until <= at(0) for m in sure)


def test_the_section_of_the_nightly_report_is_markdown_with_the_same_numbers() -> None:
    page = "\n\n".join(savings_section(savings(TWO_AND_SPOT)))
    assert page.startswith("## Savings this month\n\nFrom 2026-03-04 12:00 up to 2026-03-05 12:00")
    assert "| saved by spot | -$110.00 |" in page
    assert "| elasticity | -$512.00 |" in page
    assert (
        "To compare with a cluster of the maximum size, set `scale.max_gpus` in the policy." in page
    )


def test_the_page_cuts_no_label_and_shows_the_saving_in_a_narrow_window() -> None:
    """A page shortens cells of over 22 characters; 400 px show the first three columns."""
    terms = [*TWO_AND_SPOT, machine("r", 0, 24, 10, "reserved")]
    page = "\n\n".join(savings_section(savings(terms, committed_ratio=Fraction(60, 100))))
    assert "…" not in page
    for label in ("saved by other terms", "lost to interruptions", "lowest in hindsight"):
        assert f"| {label} | $" in page or f"| {label} | -$" in page
    assert "| Machine | Saves | Commit | Number | There for |" in page


@pytest.mark.parametrize("machines", [[], [machine("a", 0, 24, None)]])
def test_without_known_machines_there_is_no_section(machines: list[CapacityInterval]) -> None:
    assert savings_section(savings(machines)) == []
