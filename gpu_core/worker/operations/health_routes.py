"""The worker's state on the health server that Prefect starts with `--with-healthcheck`."""

import threading
from collections.abc import Callable
from datetime import UTC, datetime

from fastapi import FastAPI
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from gpu_core.decisions.telemetry.metrics import WorkerFacts, worker_metrics
from gpu_core.worker.operations.health import Health, HealthMonitor

LIVE_PATH = "/health"
"""Prefect's own path, which it serves before the worker is there: for liveness probes."""

READY_PATH = "/ready"
"""As Prefect's API server calls it: for readiness probes; 404 until the worker is there."""

METRICS_PATH = "/metrics"
"""For Prometheus."""

_OK, _UNAVAILABLE = 200, 503

# Of Prefect 3.8.8, `prefect.workers.server._run_healthcheck_server`.
_THREAD = "healthcheck-server-thread"


def serve_health(monitor: HealthMonitor) -> bool:
    """Answer Prefect's health probes with the worker's state. False: its health server is off.

    Both paths answer with the same JSON object and with 200 or 503. Prefect keeps its server to
    itself, so that the thread that runs it is where it is found; without it `/health` still says
    200 or 503, because Prefect asks the worker.
    """
    app = _health_app()
    if app is None:
        return False
    routes = [
        _route(LIVE_PATH, monitor, lambda health: health.is_live),
        _route(READY_PATH, monitor, lambda health: health.is_ready),
    ]
    # Before Prefect's own; the first route that matches answers.
    app.router.routes[:0] = routes
    return True


def serve_metrics(read: Callable[[], WorkerFacts]) -> bool:
    """Answer Prometheus' scrapes on the same server. False: it is off.

    Args:
        read: What is known at the moment of a scrape; called in the server's threads.
    """
    app = _health_app()
    if app is None:
        return False

    def answer(_request: Request) -> Response:
        # Imported here: Prefect imports the worker for every command.
        from gpu_core.adapters.prometheus.exposition import CONTENT_TYPE, exposition

        return Response(exposition(worker_metrics(read())), media_type=CONTENT_TYPE)

    app.router.routes[:0] = [Route(METRICS_PATH, answer, methods=["GET"])]
    return True


def _route(path: str, monitor: HealthMonitor, is_well: Callable[[Health], bool]) -> Route:
    def answer(_request: Request) -> JSONResponse:
        health = monitor.health()
        status = _OK if is_well(health) else _UNAVAILABLE
        return JSONResponse(monitor.document(health, datetime.now(UTC)), status)

    return Route(path, answer, methods=["GET"])


def _health_app() -> FastAPI | None:
    for thread in threading.enumerate():
        if thread.name != _THREAD:
            continue
        server = getattr(getattr(thread, "_target", None), "__self__", None)
        app = getattr(getattr(server, "config", None), "app", None)
        if isinstance(app, FastAPI):
            return app
    return None
