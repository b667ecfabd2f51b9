"""Parts of GPUs add up: attributed and idle make what the GPU costs, to the micro-dollar."""

import os
from collections.abc import Sequence
from dataclasses import replace
from datetime import datetime, timedelta
from fractions import Fraction
from itertools import pairwise

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gpu_core.decisions.catalog.mig import MIG_PROFILES, MigProfile
from gpu_core.decisions.costs.usage.usage import Usage, apportioned, round_half_up, sum_usage
from gpu_core.decisions.costs.usage.usage_cost import Window, attempt_usage, run_cost
from gpu_core.decisions.model.attempts import Attempt, EndReason
from gpu_core.decisions.model.cluster import NodeShare
from gpu_core.decisions.model.prices import PriceChange, Rates
from gpu_core.decisions.model.workload import Shape
from gpu_core.decisions.placement.cluster_info import ClusterInfo
from gpu_core.decisions.policy.policy import parse_policy
from gpu_core.decisions.quota.usage_tracker import UsageTracker
from gpu_core.testing.builders.attempts import NOON, at, make_attempt, make_run
from gpu_core.testing.builders.workloads import make_node
from tests.support.examples import examples

PRICE = 3_670_001
HOUR_US = 3_600_000_000


def part(number: int, share: NodeShare, **fields: object) -> Attempt:
    """A run that held a share of a GPU from noon to one."""
    ordinary = {
        "released_at": at(1),
        "end_reason": EndReason.COMPLETED,
        "shares": (share,),
        "gpu_ids": share.gpu_ids,
        "price_source": "policy",
        "price_micro_usd_per_gpu_hour": PRICE,
    }
    return make_attempt(f"run-{number}", **(ordinary | fields))


def packed(shape: Shape, count: int, **node: object) -> list[Attempt]:
    """As many workloads of a shape on one GPU as asked for, placed as the scheduler does."""
    cluster = ClusterInfo([make_node(gpus=1, gpu_type="a100-80gb", **node)])
    attempts = []
    for number in range(count):
        placement = cluster.find(shape)
        assert placement is not None, f"part {number + 1} has no place"
        cluster.allocate(shape, placement)
        attempts.append(part(number, placement.shares[0]))
    return attempts


@pytest.mark.parametrize(
    "attempts",
    [
        pytest.param(packed(Shape(), 1), id="one run on the whole GPU"),
        pytest.param(packed(Shape(gpu_share_milli=250), 4, is_shareable=True), id="four quarters"),
        pytest.param(
            packed(Shape(gpu_share_milli=1), 3, is_shareable=True, shares_per_gpu=3),
            id="three of three replicas",
        ),
        pytest.param(
            packed(Shape(gpu_share_milli=1), 48, is_shareable=True, shares_per_gpu=48),
            id="48 of 48 replicas",
        ),
        pytest.param(packed(Shape(mig_profile="1g.10gb"), 7, is_mig=True), id="seven MIG 1g"),
    ],
)
def test_the_parts_of_a_gpu_cost_what_the_gpu_costs(attempts: Sequence[Attempt]) -> None:
    """In reports, in each run's own cost and in budgets of GPU-hours and of money."""
    costs = [run_cost(make_run(a.flow_run_id), (a,), at(2)) for a in attempts]
    together = sum_usage(cost.usage for cost in costs)
    assert (together.gpu_us, together.exact_micro_usd) == (HOUR_US, PRICE)
    assert sum(apportioned([cost.usage.exact_micro_usd for cost in costs])) == PRICE
    policy = parse_policy(
        {
            "version": 1,
            "ordering": {"keys": ["fair-share"]},
            "preemption": {"enabled": False},
            "budgets": [
                {"name": "hours", "scope": "pool", "period": "day", "gpu_hours": 10},
                {"name": "usd", "scope": "pool", "period": "day", "usd": 10},
            ],
        }
    )
    book = UsageTracker(policy, at(0))
    for attempt in attempts:
        run = make_run(attempt.flow_run_id)
        book.start(run, replace(attempt, released_at=None))
    for attempt in attempts:
        book.end(make_run(attempt.flow_run_id), attempt)
    used = book.usage(at(1))
    assert used.gpu_s_by_budget["hours"] == 3600
    assert used.micro_usd_by_budget["usd"] == PRICE
    # Usage for fair share decays; an hour of a whole GPU next to it decays in the same way.
    whole = UsageTracker(policy, at(0))
    one = make_attempt(released_at=at(1))
    whole.start(make_run(), replace(one, released_at=None))
    whole.end(make_run(), one)
    assert used.gpu_s_by_user == pytest.approx(whole.usage(at(1)).gpu_s_by_user)


def _layouts(profiles: dict[str, MigProfile]) -> st.SearchStrategy[list[str]]:
    return st.lists(st.sampled_from(sorted(profiles)), max_size=9)


@given(data=st.data(), gpu_type=st.sampled_from(sorted(MIG_PROFILES)))
def test_no_layout_of_mig_instances_costs_more_than_the_gpu(
    data: st.DataObject, gpu_type: str
) -> None:
    cluster = ClusterInfo([make_node(gpus=1, gpu_type=gpu_type, is_mig=True)])
    paid = Fraction(0)
    for profile in data.draw(_layouts(dict(MIG_PROFILES[gpu_type]))):
        placement = cluster.find(Shape(mig_profile=profile))
        if placement is not None:
            cluster.allocate(Shape(mig_profile=profile), placement)
            paid += placement.shares[0].part_of_gpu
    assert paid <= 1


def test_a_record_of_an_older_version_costs_what_it_cost_then() -> None:
    """It kept the price of the part, and the part in thousandths."""
    share = NodeShare(node="n", gpu_ids=("0",), share_milli=250)
    old = part(1, share, price_source=None, price_micro_usd_per_gpu_hour=917_500)
    usage = attempt_usage(old, at(2))
    assert (usage.exact_micro_usd, usage.gpu_hours) == (917_500, 0.25)


def test_a_price_that_changes_splits_the_cost_at_that_moment() -> None:
    dearer = PriceChange(since=at(0.25), rates=Rates(gpu_micro_usd_per_hour=8, source="catalog"))
    free = PriceChange(since=at(0.75), rates=Rates(source="nothing known"))
    attempt = make_attempt(
        released_at=at(1), price_micro_usd_per_gpu_hour=4, later_prices=(dearer, free)
    )
    usage = attempt_usage(attempt, at(2))
    assert usage.exact_micro_usd == 4 * Fraction(1, 4) + 8 * Fraction(1, 2)
    assert usage.unpriced_gpu_us == HOUR_US / 4
    before = attempt_usage(attempt, at(2), Window(NOON, at(0.5)))
    assert before.exact_micro_usd == 4 * Fraction(1, 4) + 8 * Fraction(1, 4)


# Random timelines of one GPU: slots of the GPU that runs come to and leave, crash in, share.

seconds = st.integers(0, 7200 * 10**6).map(lambda us: NOON + timedelta(microseconds=us))
slots = st.sampled_from([Fraction(1)] + [Fraction(1, n) for n in (2, 3, 4, 7, 16, 48)])


@st.composite
def timelines(draw: st.DrawFn) -> tuple[list[Attempt], Usage, Fraction]:
    """Runs on one GPU over two hours, its idle time, and what its owner pays for it."""
    price = st.integers(0, 50_000_000)
    changes = sorted(draw(st.lists(seconds, max_size=3, unique=True)))
    prices = [draw(price) for _ in range(len(changes) + 1)]
    size = draw(slots)
    attempts, idle = [], []
    for slot in range(size.denominator if size != 1 else 1):
        if slot >= 4:  # the rest of a finely divided GPU is idle
            rest = size * (size.denominator - slot)
            idle.append(_cost_of(NOON, at(2), rest, changes, prices))
            break
        cuts = sorted({NOON, at(2), *draw(st.lists(seconds, max_size=5))})
        for number, (start, end) in enumerate(pairwise(cuts)):
            if draw(st.booleans()):
                attempts.append(
                    _attempt(f"{slot}-{number}", start, end, size, changes, prices, draw)
                )
            else:
                idle.append(_cost_of(start, end, size, changes, prices))
    edges = [NOON, *changes, at(2)]
    paid = sum(
        price * Fraction((end - start) // timedelta(microseconds=1), HOUR_US)
        for price, (start, end) in zip(prices, pairwise(edges), strict=True)
    )
    return attempts, sum_usage(idle), Fraction(paid)


def _attempt(
    name: str,
    start: datetime,
    end: datetime,
    gpus: Fraction,
    changes: Sequence[datetime],
    prices: Sequence[int],
    draw: st.DrawFn | None,
) -> Attempt:
    passed = sum(change <= start for change in changes)
    later = tuple(
        PriceChange(since=since, rates=Rates(gpu_micro_usd_per_hour=price, source="catalog"))
        for since, price in zip(changes[passed:], prices[passed + 1 :], strict=True)
        if since < end
    )
    ends = (EndReason.COMPLETED, EndReason.CRASHED, EndReason.PREEMPTED)
    return make_attempt(
        name,
        gpu_quantity=gpus,
        price_source="catalog",
        price_micro_usd_per_gpu_hour=prices[passed],
        later_prices=later or None,
        admitted_at=start,
        released_at=end,
        end_reason=EndReason.COMPLETED if draw is None else draw(st.sampled_from(ends)),
    )


def _cost_of(
    start: datetime,
    end: datetime,
    gpus: Fraction,
    changes: Sequence[datetime],
    prices: Sequence[int],
) -> Usage:
    return attempt_usage(_attempt("idle", start, end, gpus, changes, prices, None), at(9))


@settings(max_examples=examples(int(os.environ.get("PREFECT_GPU_EXAMPLES", "100"))))
@given(timeline=timelines(), cut=seconds)
def test_attributed_and_idle_make_the_cost_of_the_capacity(
    timeline: tuple[list[Attempt], Usage, Fraction], cut: datetime
) -> None:
    attempts, idle, want_micro_usd = timeline
    of_runs = [run_cost(make_run(a.flow_run_id), (a,), at(9)) for a in attempts]
    together = sum_usage([*(cost.usage for cost in of_runs), idle])
    assert (together.gpu_us, together.exact_micro_usd) == (2 * HOUR_US, want_micro_usd)
    # In whole micro-dollars, as a table has them, too.
    amounts = [*(cost.usage.exact_micro_usd for cost in of_runs), idle.exact_micro_usd]
    assert sum(apportioned(amounts)) == round_half_up(want_micro_usd)
    # And whatever the window: what was before and after any moment makes the whole.
    for cost in of_runs:
        before, after = (
            run_cost(cost.run, cost.attempts, at(9), window).usage
            for window in (Window(NOON, cut), Window(cut, at(9)))
        )
        assert before + after == cost.usage


@given(st.lists(st.fractions(0, 10**9), max_size=40))
def test_rounded_rows_add_up_and_are_off_by_less_than_one(amounts: list[Fraction]) -> None:
    rows = apportioned(amounts)
    assert sum(rows) == round_half_up(sum(amounts))
    assert all(abs(row - amount) < 1 for row, amount in zip(rows, amounts, strict=True))
