"""Replicas over a day: what is paid, which plan wins, and what is refused."""

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpu_core.decisions.catalog.gpu_types import Precision
from gpu_core.decisions.model.errors import InvalidInput
from gpu_core.decisions.optimization.experiments.mlflow_runs import children_of_scaling
from gpu_core.decisions.optimization.experiments.scaling import (
    HOURS,
    USUAL_DAY,
    DayDemand,
    ReplicaPlan,
    compare_plans,
)
from gpu_core.decisions.optimization.experiments.scaling_page import scaling_page
from gpu_core.decisions.optimization.experiments.trial import (
    Measured,
    Setting,
    Timed,
    Trial,
    repeat_of,
)


def measured(*times_s: float) -> Measured:
    setting = Setting(device="cpu", batch_size=1, precision=Precision.FP32)
    repeats = tuple(
        repeat_of([Timed(batch_size=1, batches_s=(time_s,), took_s=time_s)]) for time_s in times_s
    )
    trial = Trial(setting=setting, micro_usd_per_hour=3_600_000, repeats=repeats)
    return Measured(device="cpu", what="a test", trials=(trial,), not_run=())


# A quarter of a second, and few requests: quick to simulate.
STEEP = DayDemand(day=(0.2,) * 12 + (1.0,) * 12, sampled=1_000)
DEVICE = measured(0.25, 0.251, 0.249)


def test_an_hour_has_the_replicas_that_it_needs() -> None:
    demand = DayDemand(peak_load=2.8, day=(1.0,) * 12 + (0.25,) * 11 + (0.26,))
    assert demand.replicas == (4,) * 12 + (1,) * 11 + (2,)


@pytest.mark.parametrize(
    ("replicas", "starts_ahead", "want_hours"),
    [
        pytest.param((2,) * 24, False, 48.0, id="fixed"),
        pytest.param((1,) * 12 + (3,) * 12, False, 48.0, id="two that start at the hour"),
        pytest.param((1,) * 12 + (3,) * 12, True, 49.0, id="two that start half an hour ahead"),
        pytest.param((3,) * 12 + (1,) * 12, True, 49.0, id="two that start the evening before"),
    ],
)
def test_a_replica_is_paid_from_the_decision_to_start_it(
    replicas: tuple[int, ...], starts_ahead: bool, want_hours: float
) -> None:
    plan = ReplicaPlan(name="a plan", replicas=replicas, starts_ahead=starts_ahead)
    assert plan.replica_hours(1800.0) == pytest.approx(want_hours)


def test_following_the_demand_is_cheaper_and_a_late_start_is_seen_in_the_p99() -> None:
    found = compare_plans(DEVICE, STEEP)
    names = [day.plan.name for day in found.days]
    assert names == ["3 fixed", "4 fixed", "scaled at the hour", "scaled ahead"]
    assert found.too_few == (1, 2)
    three, four, at_the_hour, ahead = found.days
    # 12 hours with 1 replica and 12 with 4.
    assert (four.replica_hours, at_the_hour.replica_hours) == (96, 60)
    assert at_the_hour.usd_per_1k[0] == pytest.approx(four.usd_per_1k[0] * 60 / 96)
    # 24 hours at 0.6 of 2.8 replicas, each with 4 requests a second for $3.60 an hour.
    assert four.usd_per_1k[0] == pytest.approx(0.25 * 4 / (0.6 * 2.8))
    assert found.cheapest == ("scaled at the hour",)
    assert found.fastest == ("4 fixed",)
    # With 1 replica until 120 s the work grows by 1.8 s a second. What comes at 43 s waits longest,
    # 77 s: one after it is still answered by 4.
    assert 60 < at_the_hour.p99_s[0] < 78
    assert ahead.p99_s[0] < 5
    assert four.p99_s[0] < three.p99_s[0]
    assert "scaled at the hour" in found.sentence


def test_no_winner_within_noise() -> None:
    found = compare_plans(measured(0.25, 1.0, 0.06), STEEP)
    assert len(found.fastest) > 1
    assert "No statistically significant difference in p99" in found.sentence
    # The time of a request is in all costs of a repeat alike.
    assert found.cheapest == ("scaled at the hour",)


@pytest.mark.parametrize(
    ("fields", "want_field"),
    [
        pytest.param({"peak_load": 0.0}, "peak_load", id="no requests"),
        pytest.param({"peak_load": float("nan")}, "peak_load", id="no number"),
        pytest.param({"peak_load": 45.0}, "peak_load", id="over 64 replicas"),
        pytest.param({"target_load": 1.0}, "target_load", id="replicas without reserve"),
        pytest.param({"startup_s": -1.0}, "startup_s", id="a start before its decision"),
        pytest.param({"startup_s": 3600.0}, "startup_s", id="a start as long as the hour"),
        pytest.param({"day": (1.0,) * 23}, "day", id="a day of 23 hours"),
        pytest.param({"day": (0.0,) * 24}, "day", id="hours without requests"),
    ],
)
def test_what_is_no_day_is_refused(fields: dict[str, object], want_field: str) -> None:
    with pytest.raises(InvalidInput, match=want_field):
        replace(DayDemand(), **fields)


def test_a_queue_that_stays_is_refused_before_anything_is_measured() -> None:
    with pytest.raises(InvalidInput, match="is not empty again within the hour"):
        replace(STEEP, startup_s=1800.0)


def test_too_many_requests_to_simulate_are_refused() -> None:
    with pytest.raises(InvalidInput, match="20,000,000 requests"):
        compare_plans(measured(1e-6), STEEP)


def test_equal_replica_hours_are_called_equal() -> None:
    found = compare_plans(DEVICE, DayDemand(peak_load=1.3, day=(1.0,) * HOURS, sampled=1_000))
    assert found.sentence.startswith(
        "Lowest cost: 2 fixed; scaled at the hour; scaled ahead, with 48 replica-hours each."
    )


@given(
    st.lists(st.floats(0.001, 1), min_size=HOURS, max_size=HOURS),
    st.floats(0.1, 40),
    st.floats(0.1, 0.95),
)
def test_no_hour_has_more_load_than_its_replicas_may_have(
    day: list[float], peak_load: float, target_load: float
) -> None:
    peak_load = min(peak_load, 64 * target_load)
    demand = DayDemand(peak_load=peak_load, target_load=target_load, day=tuple(day), startup_s=0.0)
    for load, replicas in zip(demand.loads, demand.replicas, strict=True):
        assert load <= replicas * target_load * (1 + 1e-8)
        assert replicas == 1 or load > (replicas - 1) * target_load


def test_the_page_and_the_children_say_that_they_are_computed() -> None:
    found = compare_plans(DEVICE, replace(STEEP, day=USUAL_DAY))
    page = scaling_page(found)
    rows = [line for line in page.splitlines() if line.startswith("|")]
    assert sum("| computed |" in row for row in rows) == len(found.days)
    assert "Insufficient for the peak demand: 2 fixed." in page
    children = children_of_scaling(found)
    assert [child.name for child in children] == [day.plan.name for day in found.days]
    assert {child.tags["experiment.origin"] for child in children} == {"computed"}
    assert children[0].params["replicas"] == " ".join(["3"] * 24)
    assert children[-1].metrics["scaling/replica_hours"] == found.days[-1].replica_hours
