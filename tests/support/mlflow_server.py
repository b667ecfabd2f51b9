"""A real MLflow server on the loopback interface, which a test can stop and start again."""

import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from gpu_core.cli.quickstart.services import Service, Services, free_port
from tests.support.mlflow_databases import new_mlflow_database

_START_S = 600


class MlflowServer:
    """The server, with its data in a folder that outlives a stop."""

    def __init__(self, folder: Path, services: Services) -> None:
        self._folder = folder
        self._services = services
        self._port = free_port()
        self._service: Service | None = None

    @property
    def address(self) -> str:
        """Where it listens, or would."""
        return f"http://127.0.0.1:{self._port}"

    def start(self) -> None:
        """Start it, and wait until it answers."""
        self._service = self._services.start(
            "mlflow",
            [
                *(sys.executable, "-m", "mlflow", "server", "--workers", "1"),
                *("--backend-store-uri", new_mlflow_database(self._folder)),
                *("--artifacts-destination", str(self._folder / "artifacts")),
                *("--host", "127.0.0.1", "--port", str(self._port)),
            ],
        )
        self._services.wait_until_up(self._service, f"{self.address}/health", _START_S)

    def stop(self) -> None:
        """Stop it: connections are refused."""
        if self._service is not None:
            self._services.stop(self._service)


@contextmanager
def mlflow_server(folder: Path) -> Iterator[MlflowServer]:
    """A server that is up while the context lasts."""
    environment = {
        **os.environ,
        "MLFLOW_SERVER_ENABLE_JOB_EXECUTION": "false",
        "MLFLOW_DISABLE_TELEMETRY": "true",
    }
    with Services(folder, environment) as services:
        server = MlflowServer(folder, services)
        server.start()
        yield server
