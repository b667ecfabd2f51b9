"""Replicas that answer one queue: as a simulation of single events has it."""

import heapq

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpu_core.decisions.optimization.experiments.replicas import (
    HourLatencies,
    answered_s,
    hour_latencies,
    settled_after_s,
    weighted_p99_s,
    with_starting_replicas,
)

ARRIVALS_S = st.lists(st.integers(0, 3000), min_size=1, max_size=60).map(
    lambda all_ms: np.array(sorted(all_ms)) / 1000
)
SERVICE_S = st.integers(1, 400).map(lambda ms: ms / 1000)
REPLICAS = st.integers(1, 5)


def by_events(arrivals_s: np.ndarray, service_s: float, free_s: list[float]) -> list[float]:
    """Each request goes to the replica that is free first."""
    free, ends = sorted(free_s), []
    for arrival in arrivals_s:
        ends.append(max(arrival, heapq.heappop(free)) + service_s)
        heapq.heappush(free, ends[-1])
    return ends


@given(ARRIVALS_S, SERVICE_S, st.lists(st.floats(0, 2), min_size=1, max_size=5))
def test_the_sums_over_arrays_are_the_simulation_of_events(
    arrivals_s: np.ndarray, service_s: float, free_s: list[float]
) -> None:
    free_s = [min(free, min(free_s) + service_s) for free in free_s]
    found = answered_s(arrivals_s, service_s, free_s)
    assert found == pytest.approx(by_events(arrivals_s, service_s, free_s))


@given(ARRIVALS_S, SERVICE_S, REPLICAS, REPLICAS, st.floats(0, 3))
def test_no_request_is_lost_and_starting_replicas_make_none_later(
    arrivals_s: np.ndarray, service_s: float, before: int, more: int, startup_s: float
) -> None:
    after = before + more
    found = with_starting_replicas(
        arrivals_s, service_s, before=before, after=after, startup_s=startup_s
    )
    assert len(found) == len(arrivals_s)
    assert (np.diff(found) >= -1e-9).all()
    assert (found - arrivals_s >= service_s - 1e-9).all()
    assert (found <= np.array(by_events(arrivals_s, service_s, [0.0] * before)) + 1e-9).all()
    free_s = [0.0] * before + [startup_s] * more
    assert found == pytest.approx(by_events(arrivals_s, service_s, free_s))


@given(ARRIVALS_S, SERVICE_S, REPLICAS)
def test_one_more_replica_answers_no_request_later(
    arrivals_s: np.ndarray, service_s: float, replicas: int
) -> None:
    fewer, more = (answered_s(arrivals_s, service_s, [0.0] * n) for n in (replicas, replicas + 1))
    assert (more <= fewer + 1e-9).all()


def test_the_queue_of_a_start_is_gone_when_it_is_said_to_be() -> None:
    """From 1 to 3 replicas at a load of 2: after 60 s a queue of 60 s of work, gone 60 s later."""
    settled_s = settled_after_s(2.0, before=1, after=3, startup_s=60.0)
    assert settled_s == 60 + 2 * 60
    assert settled_after_s(2.0, before=3, after=3, startup_s=60.0) == 0.0
    found = hour_latencies(2.0, 0.1, before=1, after=3, startup_s=60.0, sampled=5_000, seed=(1, 2))
    assert found.latencies_s.max() == pytest.approx(30.0, rel=0.15)
    assert found.latencies_s[found.weights > 1].max() < 1.0
    assert found.weights.sum() == pytest.approx(2.0 / 0.1 * 3600, rel=0.02)


def test_the_wait_of_one_replica_is_that_of_queueing_theory() -> None:
    """M/D/1: the mean wait is load / (2 (1 - load)) of a service (Pollaczek and Khinchine)."""
    hours = [
        hour_latencies(0.5, 0.1, before=1, after=1, startup_s=0.0, sampled=10**6, seed=(0, hour))
        for hour in range(6)
    ]
    waits = [float(np.average(hour.latencies_s, weights=hour.weights)) / 0.1 - 1 for hour in hours]
    assert np.mean(waits) == pytest.approx(0.5, rel=0.05)


def test_the_percentile_counts_what_a_request_stands_for() -> None:
    latencies_s = np.array([9.0, 1.0, 2.0])
    assert weighted_p99_s(HourLatencies(latencies_s, np.array([1.0, 98.0, 1.0]))) == 2.0
    assert weighted_p99_s(HourLatencies(latencies_s, np.array([2.0, 98.0, 1.0]))) == 9.0
