"""How a worker is judged, and what its health server answers."""

import socket
from contextlib import contextmanager
from dataclasses import replace
from datetime import UTC, datetime

import httpx
import pytest
from hypothesis import given
from hypothesis import strategies as st
from prefect.settings import (
    PREFECT_WORKER_WEBSERVER_HOST,
    PREFECT_WORKER_WEBSERVER_PORT,
    temporary_settings,
)
from prefect.workers.server import _run_healthcheck_server

from gpu_core.decisions.model.attempts import EndReason
from gpu_core.decisions.model.reasons import Reason
from gpu_core.testing.builders.attempts import make_attempt, make_run
from gpu_core.worker.operations.cycle_log import CycleCounts
from gpu_core.worker.operations.health import (
    STUCK_AFTER_INTERVALS,
    HealthMonitor,
    ObservedWorker,
    WorkerState,
    judge,
)
from gpu_core.worker.operations.health_routes import (
    LIVE_PATH,
    METRICS_PATH,
    READY_PATH,
    serve_health,
    serve_metrics,
)
from gpu_core.worker.operations.metrics import WorkerMetrics

HOURLY_COST = "prefect_gpu_hourly_cost_usd{"
LIMIT_S = 150.0
ACTING = ObservedWorker(
    state=WorkerState.ACTING,
    since_s=100.0,
    started_at_s=90.0,
    cycle_ended_at_s=1_000.0,
    loop_ran_at_s=1_000.0,
)


@pytest.mark.parametrize(
    ("observed", "now_s", "want_state", "want_since_s"),
    [
        pytest.param(ACTING, 1_001, "acting", 100, id="a cycle has just ended"),
        pytest.param(replace(ACTING, loop_ran_at_s=1_149), 1_150, "acting", 100, id="at the limit"),
        pytest.param(
            replace(ACTING, loop_ran_at_s=1_151), 1_151, "stuck", 1_000, id="a cycle that hangs"
        ),
        pytest.param(ACTING, 1_151, "stuck", 1_000, id="an event loop that is blocked"),
        pytest.param(
            replace(ACTING, loop_ran_at_s=9_000, away_since_s=1_010),
            9_000,
            "waiting",
            1_010,
            id="a cycle that waits for Prefect's API",
        ),
        pytest.param(
            replace(ACTING, away_since_s=1_010),
            9_000,
            "stuck",
            1_000,
            id="an event loop that was blocked in an outage",
        ),
        pytest.param(
            replace(ACTING, loop_ran_at_s=9_000, back_at_s=8_900),
            9_000,
            "acting",
            100,
            id="the first cycle after an outage",
        ),
        pytest.param(
            replace(ACTING, loop_ran_at_s=9_100, back_at_s=8_900),
            9_100,
            "stuck",
            8_900,
            id="a cycle that hangs after an outage",
        ),
        pytest.param(
            replace(ACTING, state=WorkerState.STARTING, cycle_ended_at_s=None, loop_ran_at_s=90),
            241,
            "stuck",
            90,
            id="a start that hangs",
        ),
        pytest.param(
            replace(ACTING, state=WorkerState.STANDBY), 1_002, "standby", 100, id="standby"
        ),
    ],
)
def test_how_a_worker_is_judged(observed, now_s, want_state, want_since_s):
    health = judge(observed, stuck_after_s=LIMIT_S, now_s=now_s)

    assert (health.state, health.since_s) == (want_state, want_since_s)
    assert health.is_live == (want_state != "stuck")
    assert health.is_ready == (want_state in ("acting", "standby"))


def test_every_state_but_acting_says_what_helps():
    for state in WorkerState:
        health = judge(replace(ACTING, state=state), stuck_after_s=LIMIT_S, now_s=1_001)
        assert (health.remedy is None) == (state is WorkerState.ACTING)


def test_a_worker_that_starts_or_stops_says_so():
    monitor = HealthMonitor(5.0, Clock())
    assert monitor.health().reason == "No scheduling cycle has finished yet."
    monitor.note_stop()
    assert monitor.health().reason == ("The worker is shutting down and does not start any runs.")


class Clock:
    """A clock that its test sets."""

    def __init__(self) -> None:
        self.now_s = 50.0

    def __call__(self) -> float:
        return self.now_s


@given(st.lists(st.sampled_from(["cycle", "outage", "loop"]), max_size=30), st.data())
def test_an_outage_alone_never_restarts_a_worker_whose_loop_runs(events, data):
    """Whatever its cycles do: the kubelet must not restart it for another system's absence."""
    clock = Clock()
    monitor = HealthMonitor(5.0, clock)
    is_away = False
    for event in events:
        clock.now_s += data.draw(st.floats(0, 5 * STUCK_AFTER_INTERVALS), label="pause")
        if event == "cycle":
            monitor.note_cycle(WorkerState.WAITING, "away")
        else:
            is_away = event == "outage"
        monitor.note_loop(is_api_away=is_away)
        if is_away:
            assert monitor.health().is_live
            assert not monitor.health().is_ready


def test_a_state_lasts_since_it_began_and_stopping_is_the_last_one():
    clock = Clock()
    monitor = HealthMonitor(5.0, clock)
    for now_s, state in ((51, "acting"), (60, "acting"), (70, "failing"), (80, "failing")):
        clock.now_s = now_s
        monitor.note_cycle(WorkerState(state), f"at {now_s}\nand more")
    health = monitor.health()
    assert (health.state, health.since_s, health.reason) == ("failing", 70, "at 80\\nand more")

    monitor.note_stop()
    monitor.note_cycle(WorkerState.ACTING)
    clock.now_s = 9_000.0
    health = monitor.health()
    assert (health.state, health.since_s, health.is_live) == ("stopping", 80, True)
    assert not health.is_ready


def test_moments_are_of_the_calendar():
    clock = Clock()
    monitor = HealthMonitor(5.0, clock)
    monitor.note_cycle(WorkerState.STANDBY, "another one acts")
    clock.now_s += 90
    monitor.note_loop(is_api_away=False)

    assert monitor.document(monitor.health(), datetime(2026, 3, 1, 12, 0, tzinfo=UTC)) == {
        "state": "standby",
        "since": "2026-03-01T11:58:30.000+00:00",
        "last_cycle_at": "2026-03-01T11:58:30.000+00:00",
        "reason": "another one acts",
        "remedy": "No action is needed: this worker takes over when the active worker stops.",
    }


@contextmanager
def prefects_health_server(is_healthy):
    """Prefect's own, as `prefect worker start --with-healthcheck` runs it; its address."""
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        port = listener.getsockname()[1]
    settings = {PREFECT_WORKER_WEBSERVER_HOST: "127.0.0.1", PREFECT_WORKER_WEBSERVER_PORT: port}
    with temporary_settings(settings), _run_healthcheck_server(is_healthy):
        yield httpx.Client(
            base_url=f"http://127.0.0.1:{port}", transport=httpx.HTTPTransport(retries=10)
        )


def test_prefects_server_answers_with_the_state_of_the_worker():
    clock = Clock()
    monitor = HealthMonitor(5.0, clock)

    def answers():
        found = (client.get(path) for path in (LIVE_PATH, READY_PATH))
        return [(answer.status_code, answer.json().get("state")) for answer in found]

    with prefects_health_server(lambda: True) as client:
        assert answers() == [(200, None), (404, None)]  # no worker yet
        assert serve_health(monitor)
        assert answers() == [(200, "starting"), (503, "starting")]
        monitor.note_cycle(WorkerState.ACTING)
        assert answers() == [(200, "acting"), (200, "acting")]
        clock.now_s += 5.0 * STUCK_AFTER_INTERVALS + 1
        assert answers() == [(503, "stuck"), (503, "stuck")]
        answer = client.get(LIVE_PATH).json()
        assert answer["reason"] == "The event loop has been blocked for 151 s."
        assert answer["remedy"] == "Restart the worker. Its runs continue."
        client.close()


def test_prefects_server_answers_scrapes_with_what_is_known_then():
    metrics = WorkerMetrics("gpu", clock_s=lambda: 1000.0)
    counts = CycleCounts(
        pending=3, held=1, started=2, preempted=1, running=4, gpus_used=5, gpus_free=3
    )
    with prefects_health_server(lambda: True) as client:
        assert serve_metrics(metrics.facts)
        assert 'prefect_gpu_cycles_total{pool="gpu"} 0.0' in client.get(METRICS_PATH).text
        attempt = make_attempt(price_micro_usd_per_gpu_hour=2_500_000)
        metrics.note_cycle(counts, {"plan": 0.5}, {}, ["GPU-a"], [(make_run(), attempt)])
        metrics.note_waiting([Reason.WAITING_FOR_GPUS, Reason.WAITING_FOR_GPUS], 60.0)
        metrics.note_end(EndReason.COMPLETED)
        found = client.get(METRICS_PATH).text
        assert 'prefect_gpu_starts_total{pool="gpu"} 2.0' in found
        assert 'prefect_gpu_runs_waiting{pool="gpu",reason="WaitingForGpus"} 2.0' in found
        assert 'prefect_gpu_attempts_ended_total{pool="gpu",reason="Completed"} 1.0' in found
        assert 'prefect_gpu_last_cycle_timestamp_seconds{pool="gpu"} 1000.0' in found
        (cost,) = [line for line in found.splitlines() if line.startswith(HOURLY_COST)]
        assert cost.endswith(" 2.5")
        metrics.note_waiting([], 0.0)
        found = client.get(METRICS_PATH).text
        assert 'prefect_gpu_runs_waiting{pool="gpu",reason="WaitingForGpus"} 0.0' in found
        metrics.forget()
        found = client.get(METRICS_PATH).text
        assert 'prefect_gpu_starts_total{pool="gpu"} 0.0' in found
        assert HOURLY_COST not in found
        client.close()


def test_without_prefects_server_nothing_is_served():
    assert not serve_health(HealthMonitor(5.0))
    assert not serve_metrics(WorkerMetrics("gpu").facts)


@pytest.mark.parametrize(
    "address",
    [
        pytest.param("https://admin:hunter2-hunter2@10.0.0.1:6443", id="a password"),
        pytest.param("https://hunter2-hunter2@api.example.com", id="a token"),
        pytest.param("https://api.example.com?token=hunter2-hunter2", id="a query"),
        pytest.param(f"https://admin:hunter2-hunter2{'x' * 400}@api.example.com", id="a long one"),
    ],
)
def test_an_answer_shows_no_password_of_an_address(address):
    """The port has no authentication. A standby says why the cluster refuses its lease."""
    monitor = HealthMonitor(5)
    monitor.note_cycle(
        WorkerState.STANDBY, f"the lease cannot be acquired: {address} does not answer"
    )
    document = monitor.document(monitor.health(), datetime.now(UTC))
    assert "the lease cannot be acquired" in document["reason"]
    assert "hunter2" not in str(document)
