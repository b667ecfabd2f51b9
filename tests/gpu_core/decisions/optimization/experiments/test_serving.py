"""One device with interactive requests and a backlog: nothing is lost, and the order is kept."""

from collections.abc import Sequence
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpu_core.decisions.optimization.experiments.serving import (
    Served,
    poisson_arrivals,
    simulate_serving,
)

TIME_S = st.integers(1, 500).map(lambda ms: ms / 1000)
SERVICE_S = st.fixed_dictionaries(
    {size: st.lists(TIME_S, min_size=1, max_size=3) for size in (1, 4, 8)}
)
ARRIVALS_S = st.lists(st.integers(0, 3000), min_size=1, max_size=40).map(
    lambda all_ms: sorted(ms / 1000 for ms in all_ms)
)
ONE_S = {1: [1.0], 4: [2.0], 8: [3.0]}


def served(
    arrivals_s: Sequence[float],
    low_priority_batch: int | None,
    interactive_batch: int = 1,
    service_s: dict[int, list[float]] = ONE_S,
) -> Served:
    return simulate_serving(
        arrivals_s,
        service_s,
        interactive_batch=interactive_batch,
        low_priority_batch=low_priority_batch,
    )


@pytest.mark.parametrize(
    ("low_priority_batch", "interactive_batch", "want_latencies_s", "want_low_priority"),
    [
        pytest.param(None, 1, (1, 1.5, 2.5, 2.5, 3.5), 0, id="the backlog waits"),
        pytest.param(None, 4, (1, 1.5, 2.5, 2.5, 3.5), 0, id="three do not fill a batch of 4"),
        pytest.param(1, 1, (1, 1.5, 2.5, 2.5, 3.5), 5, id="one by one, and none is in the way"),
        pytest.param(4, 1, (2, 2.5, 3.5, 3.5, 4.5), 12, id="a batch is not interrupted"),
        pytest.param(8, 1, (2, 2.5, 3.5, 3.5, 4.5), 16, id="a longer one, as long in the way"),
    ],
)
def test_a_batch_of_the_backlog_is_in_the_way_of_those_that_come_meanwhile(
    low_priority_batch: int | None,
    interactive_batch: int,
    want_latencies_s: tuple[float, ...],
    want_low_priority: int,
) -> None:
    arrivals_s = (5.0, 5.5, 5.5, 6.5, 6.5)
    found = served(arrivals_s, low_priority_batch, interactive_batch)
    assert found.latencies_s == want_latencies_s
    assert found.low_priority == want_low_priority


def test_requests_that_fill_a_batch_are_answered_together() -> None:
    found = served([0.0] * 6, None, interactive_batch=4)
    assert found.latencies_s == (2.0, 2.0, 2.0, 2.0, 3.0, 4.0)
    assert found.interactive_busy_s == found.makespan_s == 4.0


def test_the_times_of_a_size_are_used_in_their_order_and_again() -> None:
    found = served([0.0, 10.0, 20.0], None, service_s={1: [1.0, 3.0]})
    assert found.latencies_s == (1.0, 3.0, 1.0)


@given(ARRIVALS_S, SERVICE_S, st.sampled_from([None, 1, 4, 8]), st.sampled_from([1, 4, 8]))
def test_no_request_is_lost_and_the_order_is_kept(
    arrivals_s: list[float],
    service_s: dict[int, list[float]],
    low_priority_batch: int | None,
    interactive_batch: int,
) -> None:
    found = served(arrivals_s, low_priority_batch, interactive_batch, service_s)
    assert len(found.latencies_s) == len(arrivals_s)
    assert min(found.latencies_s) >= min(map(min, service_s.values())) - 1e-9
    ends_s = [arrival + wait for arrival, wait in zip(arrivals_s, found.latencies_s, strict=True)]
    assert all(first <= second + 1e-9 for first, second in pairwise(ends_s))
    assert found.makespan_s == pytest.approx(ends_s[-1])
    busy_s = found.interactive_busy_s + found.low_priority_busy_s
    assert busy_s <= found.makespan_s + 1e-9
    if low_priority_batch is None:
        assert found.low_priority == found.low_priority_busy_s == 0
    else:
        # It is never idle before the last arrival, and nothing of the backlog begins after it.
        assert busy_s == pytest.approx(found.makespan_s)
        assert found.low_priority % low_priority_batch == 0


@given(ARRIVALS_S, SERVICE_S, st.sampled_from([1, 4, 8]))
def test_a_backlog_costs_each_interactive_request_at_most_one_batch(
    arrivals_s: list[float], service_s: dict[int, list[float]], low_priority_batch: int
) -> None:
    alone = served(arrivals_s, None, service_s=service_s)
    beside = served(arrivals_s, low_priority_batch, service_s=service_s)
    longest_s = max(service_s[low_priority_batch])
    for before, after in zip(alone.latencies_s, beside.latencies_s, strict=True):
        assert before - 1e-9 <= after <= before + longest_s + 1e-9
    assert alone.p99_s - 1e-9 <= beside.p99_s <= alone.p99_s + longest_s + 1e-9


@given(ARRIVALS_S, SERVICE_S, st.floats(1.0, 10.0))
def test_a_slower_device_answers_no_request_sooner(
    arrivals_s: list[float], service_s: dict[int, list[float]], factor: float
) -> None:
    slower = {size: [time * factor for time in times] for size, times in service_s.items()}
    quick, slow = (served(arrivals_s, None, service_s=times) for times in (service_s, slower))
    pairs = zip(quick.latencies_s, slow.latencies_s, strict=True)
    assert all(before <= after + 1e-9 for before, after in pairs)


def test_arrivals_have_the_rate_and_their_seed() -> None:
    arrivals_s = poisson_arrivals(50.0, 20_000, seed=1)
    assert arrivals_s == poisson_arrivals(50.0, 20_000, seed=1)
    assert arrivals_s != poisson_arrivals(50.0, 20_000, seed=2)
    assert list(arrivals_s) == sorted(arrivals_s)
    # 20,000 gaps: the standard error of their mean is 0.7%.
    assert arrivals_s[-1] / 20_000 == pytest.approx(1 / 50, rel=0.03)


def test_the_wait_is_that_of_queueing_theory() -> None:
    """M/D/1: the mean wait is load / (2 (1 - load)) of a service (Pollaczek and Khinchine)."""
    load, arrivals_s = 0.5, poisson_arrivals(0.5, 100_000, seed=3)
    found = served(arrivals_s, None)
    waits_s = [latency - 1 for latency in found.latencies_s]
    assert sum(waits_s) / len(waits_s) == pytest.approx(load / (2 * (1 - load)), rel=0.05)
    assert found.busy_part == pytest.approx(load, rel=0.02)
