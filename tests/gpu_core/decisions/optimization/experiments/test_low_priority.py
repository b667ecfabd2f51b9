"""Policies for a backlog next to interactive requests: costs, limits, no winner within noise."""

from dataclasses import replace

import pytest

from gpu_core.decisions.catalog.gpu_types import Precision
from gpu_core.decisions.model.errors import InvalidInput
from gpu_core.decisions.optimization.experiments.low_priority import (
    InteractiveDemand,
    compare_policies,
)
from gpu_core.decisions.optimization.experiments.low_priority_page import policies_page
from gpu_core.decisions.optimization.experiments.mlflow_runs import children_of_policies
from gpu_core.decisions.optimization.experiments.trial import (
    Measured,
    Setting,
    Timed,
    Trial,
    repeat_of,
)

BASE = Setting(device="cpu", batch_size=1, precision=Precision.FP32)
SLOWNESS = (1.0, 1.001, 0.999)
NOISY = (1.0, 20.0, 0.05)
DEMAND = InteractiveDemand(requests=500)


def trial(batch_size: int, batch_s: float, slowness: tuple[float, ...] = SLOWNESS) -> Trial:
    timed = [
        Timed(batch_size=batch_size, batches_s=(batch_s * factor,), took_s=batch_s * factor)
        for factor in slowness
    ]
    return Trial(
        setting=replace(BASE, batch_size=batch_size),
        micro_usd_per_hour=3_600_000,
        repeats=tuple(repeat_of([each]) for each in timed),
    )


def measured(*trials: Trial) -> Measured:
    return Measured(device="cpu", what="a test", trials=trials, not_run=())


# A larger batch takes longer, and less for each request.
DEVICE = measured(trial(1, 0.010), trial(4, 0.020), trial(8, 0.030), trial(32, 0.090))


def test_a_larger_batch_is_cheaper_and_keeps_interactive_requests_waiting() -> None:
    found = compare_policies(DEVICE, DEMAND)
    assert [str(policy) for policy in found.policies] == [
        "none",
        "one by one",
        "batches of 4",
        "batches of 8",
        "batches of 32",
    ]
    assert found.cheapest == ("batches of 32",)
    assert found.front == ("one by one", "batches of 4", "batches of 8", "batches of 32")
    waits = [sum(policy.p99_s) for policy in found.policies]
    assert waits == sorted(waits)
    assert found.requests_per_s == pytest.approx(0.3 * 100 / 1.001)


def test_the_time_used_costs_what_the_batch_alone_costs() -> None:
    """$3.60 an hour is 0.1 cent a second: 1,000 requests in batches of 4 take 5 s."""
    found = compare_policies(DEVICE, DEMAND)
    of_4 = found.policies[2]
    assert of_4.marginal_usd_per_1k is not None
    assert of_4.usd_per_1k is not None
    assert of_4.marginal_usd_per_1k[0] == pytest.approx(0.005)
    # The whole device: interactive requests use 30% of it.
    assert of_4.usd_per_1k[0] == pytest.approx(0.005 / 0.7, rel=0.1)
    assert found.policies[0].usd_per_1k is None


@pytest.mark.parametrize(
    ("limit_ms", "want"),
    [
        pytest.param(1.0, None, id="too strict for any batch"),
        pytest.param(10_000.0, 32, id="so loose that all stay within"),
    ],
)
def test_the_answer_is_the_largest_batch_within_the_limit(
    limit_ms: float, want: int | None
) -> None:
    found = compare_policies(DEVICE, replace(DEMAND, p99_limit_ms=limit_ms))
    largest = found.largest_within
    assert (None if largest is None else largest.batch_size) == want
    assert ("All batch sizes exceed" in found.sentence) == (want is None)


def test_the_limit_is_for_the_interval_and_not_for_its_mean() -> None:
    of_32 = compare_policies(DEVICE, DEMAND).policies[-1]
    mean_ms = 1000 * sum(of_32.p99_s) / len(of_32.p99_s)
    assert min(of_32.p99_s) < max(of_32.p99_s)
    found = compare_policies(DEVICE, replace(DEMAND, p99_limit_ms=mean_ms)).largest_within
    assert found is not None
    assert found.batch_size == 8


def test_within_noise_no_batch_size_wins() -> None:
    found = compare_policies(
        measured(trial(1, 0.010, NOISY), trial(4, 0.020, NOISY), trial(8, 0.030, NOISY)), DEMAND
    )
    assert len(found.cheapest) == len(found.front) == 3
    assert "No statistically significant difference in cost" in found.sentence


@pytest.mark.parametrize(
    ("fields", "want_field"),
    [
        pytest.param({"requests_per_s": 0.0}, "requests_per_s", id="no requests"),
        pytest.param({"requests_per_s": float("nan")}, "requests_per_s", id="no number"),
        pytest.param({"p99_limit_ms": -1.0}, "p99_limit_ms", id="a limit below nothing"),
        pytest.param({"interactive_batch": 3}, "interactive_batch", id="a size not measured"),
        pytest.param({"requests": 99}, "requests", id="too few for a p99"),
        pytest.param({"requests": 1_000_001}, "requests", id="too many to simulate"),
    ],
)
def test_what_no_device_can_be_asked_is_refused(fields: dict[str, float], want_field: str) -> None:
    with pytest.raises(InvalidInput, match=want_field):
        InteractiveDemand(**fields)


def test_more_requests_than_the_device_answers_are_refused_with_what_it_answers() -> None:
    with pytest.raises(InvalidInput, match=r"requests_per_s.*less than 99\.9"):
        compare_policies(DEVICE, replace(DEMAND, requests_per_s=100.0))
    found = compare_policies(DEVICE, replace(DEMAND, requests_per_s=100.0, interactive_batch=4))
    assert found.requests_per_s == 100.0


def test_a_device_without_batches_of_one_is_refused() -> None:
    with pytest.raises(InvalidInput, match="batches of 1"):
        compare_policies(measured(trial(4, 0.02)), DEMAND)


def test_the_page_says_what_was_measured_and_what_is_computed() -> None:
    found = compare_policies(DEVICE, DEMAND)
    page = policies_page(found)
    assert page == policies_page(compare_policies(DEVICE, DEMAND))
    rows = [line for line in page.splitlines() if line.startswith("|")]
    assert sum("| measured |" in row for row in rows) == 4
    assert sum("| computed |" in row for row in rows) == 5
    assert "Without a backlog, the device is busy for 30% of the time." in page


def test_each_policy_is_a_child_run_with_its_repeats() -> None:
    children = children_of_policies(compare_policies(DEVICE, DEMAND))
    assert [child.params["low_priority_batch"] for child in children] == ["0", "1", "4", "8", "32"]
    assert {child.tags["experiment.origin"] for child in children} == {"computed"}
    none, *others = children
    assert "serving/usd_per_1k" not in none.metrics
    assert none.metrics["serving/p99_s"] > 0
    for child in others:
        assert len(child.repeats["repeat/usd_per_1k"]) == len(SLOWNESS)
        assert child.metrics["serving/usd_per_1k"] > child.metrics["serving/marginal_usd_per_1k"]
    assert others[-1].tags["experiment.cheapest"] == "true"
