"""The month's pieces, on a few hundred jobs of one made-up day."""

import random

import pytest

from benchmarks.month import (
    arrived_within,
    demand,
    market,
    pool_policy,
    run,
    spot_events,
    spot_up_share,
)
from benchmarks.month_results import MonthResults, _savings
from gpu_core.decisions.model.cluster import SPOT
from gpu_core.decisions.simulation.cluster.trace import TraceJob
from gpu_core.decisions.simulation.spot.trace import SpotTrace
from gpu_core.testing.builders.workloads import make_node

DAY_S = 86_400.0


def job(job_id: str, submit_s: float, duration_s: float, gpus: int = 1) -> TraceJob:
    return TraceJob(job_id=job_id, submit_s=submit_s, duration_s=duration_s, gpu_count=gpus)


def a_day() -> list[TraceJob]:
    """300 jobs, mostly short and of one GPU."""
    chance = random.Random(1)
    return [
        job(
            str(number),
            submit_s=chance.uniform(0, DAY_S),
            duration_s=chance.expovariate(1 / 3_000),
            gpus=chance.choice((1, 1, 1, 2, 4)),
        )
        for number in range(300)
    ]


def spot(*nodes_up: int) -> SpotTrace:
    return SpotTrace(name="spot", tick_s=600, nodes_up=nodes_up)


def goals(results: MonthResults) -> dict[str, float | None]:
    return {goal.name: goal.value for goal in results.goals}


def test_demand_is_what_runs_if_no_run_waits() -> None:
    jobs = [job("a", 0, 50, gpus=3), job("b", 40, 20, gpus=4), job("c", 60, 40)]
    asked = demand(jobs, 100)
    assert asked.mean_gpus == pytest.approx((150 + 80 + 40) / 100)
    # c comes as b ends: 3 + 4 at most.
    assert asked.peak_gpus == 7
    assert (asked.cap_gpus, asked.fixed_gpus) == (4, 8)


def test_who_came_while_the_cap_was_not_reached() -> None:
    jobs = [job("a", 0, 50, gpus=3), job("b", 40, 20, gpus=2), job("c", 50, 40, gpus=2)]
    assert arrived_within(jobs, 4) == {"a", "c"}
    assert arrived_within(jobs, 5) == {"a", "b", "c"}


def test_spot_is_up_while_it_is_in_any_zone() -> None:
    assert spot_up_share([spot(1, 1, 0, 0), spot(0, 1, 1, 0)], 2_400) == 0.75
    assert spot_up_share([spot(1, 0)], 1_800) == pytest.approx(2 / 3)
    assert spot_up_share([], 600) == 0


def test_spot_machines_follow_the_trace_and_begin_again_after_it() -> None:
    node = make_node("n", capacity_type=SPOT, is_planned=True)
    events = [
        (event.at_s, "gone" if event.node is None else len(event.node.taints))
        for event in spot_events([node], spot(1, 0, 1, 1), 3_600)
    ]
    assert events == [(480, 1), (600, "gone"), (1200, 0), (2880, 1), (3000, "gone")]


def test_a_trace_that_begins_without_spot_takes_it_away_at_once() -> None:
    (event,) = spot_events([make_node("n")], spot(0), 600)
    assert (event.at_s, event.node) == (0, None)


def test_prices_are_of_the_catalog_and_spot_is_planned_with_first() -> None:
    prices = market()
    assert 0 < max(prices.spot_micro_usd_per_hour.values()) < prices.on_demand_micro_usd_per_hour
    policy = pool_policy(prices, 40, ("b", "a"))
    kinds = policy.kubernetes.provisioned
    assert [kind.zone for kind in sorted(kinds, key=lambda kind: kind.name)] == ["a", "b", None]
    assert {kind.max_nodes for kind in kinds} == {10}


@pytest.mark.parametrize(
    ("traces", "want_spot_share"),
    [
        pytest.param({}, 0, id="no spot"),
        pytest.param({"a": spot(1)}, 1, id="always spot"),
    ],
)
def test_what_is_paid_is_the_time_of_the_machines(
    traces: dict[str, SpotTrace], want_spot_share: float
) -> None:
    results = run(a_day(), 1, traces)
    found, facts, prices = goals(results), results.facts, market()
    price = prices.spot_micro_usd_per_hour["a"] if traces else prices.on_demand_micro_usd_per_hour
    assert found["spot_share"] == want_spot_share
    assert facts["cost_usd"] == pytest.approx((facts["paid_gpu_h"] or 0) / 4 * price / 1e6)
    fixed_usd = (facts["fixed_gpus"] or 0) / 4 * 24 * prices.on_demand_micro_usd_per_hour / 1e6
    assert found["cost_saved_share"] == pytest.approx(1 - (facts["cost_usd"] or 0) / fixed_usd)
    assert facts["fixed_cost_usd"] == pytest.approx(fixed_usd)
    assert found["failed_share"] == 0
    # No job is interrupted: there is nothing to recover from.
    assert found["recovered_share"] is None


@pytest.mark.parametrize(
    ("cost", "all_on_demand", "want"),
    [
        pytest.param(60, 60, (40, 40, 0, 25, 25, 0), id="no spot: all of it is elasticity"),
        pytest.param(25, 100, (75, 0, 75, 68.75, -25, 93.75), id="spot only"),
        pytest.param(30, 60, (70, 40, 30, 62.5, 25, 37.5), id="both"),
    ],
)
def test_what_is_saved_is_split_into_elasticity_and_spot(
    cost: float, all_on_demand: float, want: tuple[float, ...]
) -> None:
    # The peak costs 100, the cap 80.
    assert tuple(_savings(cost, all_on_demand, 100, 80).values()) == pytest.approx(want)


def test_the_split_is_of_what_is_paid_in_the_month() -> None:
    facts = run(a_day(), 1, {"a": spot(1, 1, 1, 0)}).facts
    parts = (facts["saved_by_elasticity_percent"] or 0) + (facts["saved_by_spot_percent"] or 0)
    assert facts["saved_percent"] == pytest.approx(parts)
    assert (facts["saved_by_spot_percent"] or 0) > 0
    usd_per_gpu_hour = market().on_demand_micro_usd_per_hour / 4 / 1e6
    paid_gpu_h = facts["paid_gpu_h"] or 0
    assert facts["all_on_demand_cost_usd"] == pytest.approx(paid_gpu_h * usd_per_gpu_hour)
    cap_gpu_h = (facts["cap_gpus"] or 0) * 24
    assert facts["fixed_at_cap_cost_usd"] == pytest.approx(cap_gpu_h * usd_per_gpu_hour)


def test_interrupted_jobs_are_counted_and_all_of_them_end() -> None:
    results = run(a_day(), 1, {"a": spot(1, 1, 1, 0), "b": spot(0, 1)})
    found, facts = goals(results), results.facts
    assert (facts["interruptions"] or 0) > 10
    assert (found["recovered_share"], found["failed_share"]) == (1, 0)
    assert 0 < (found["spot_share"] or 0) < 1
    assert (facts["kept_work_gpu_h"] or 0) < (facts["held_gpu_h"] or 0)
    assert (facts["held_gpu_h"] or 0) <= (facts["paid_gpu_h"] or 0)
    assert (facts["jobs_within_cap"] or 0) <= (facts["jobs"] or 0)
    assert (facts["queue_wait_within_cap_p95_s"] or 0) <= (facts["queue_wait_p95_s"] or 0)
    # A machine takes four minutes to come, so a job waits as long for a GPU.
    assert (facts["time_to_gpu_p99_s"] or 0) >= 240


def test_a_goal_says_whether_it_is_reached() -> None:
    document = run(a_day(), 1, {}).document()
    assert isinstance(document["goals"], dict)
    saved = document["goals"]["cost_saved_share"]
    assert (saved["target"], saved["wanted"]) == (0.4, "at least")
    assert saved["reached"] is (saved["value"] >= 0.4)
    assert document["goals"]["spot_share"]["reached"] is False
