"""A real Prometheus with our rules, in a temporary folder."""

import shutil
import signal
import subprocess
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

import httpx
import yaml

from gpu_core.cli.quickstart.services import free_port
from tests.support.tools import require

RULES = Path(__file__).parents[2] / "infra" / "monitoring" / "rules.yaml"


class Prometheus(NamedTuple):
    """One that runs."""

    url: str

    def result(self, query: str) -> list[dict[str, Any]]:
        """What the query has at this moment; empty: nothing, or it does not answer yet."""
        try:
            answer = httpx.get(f"{self.url}/api/v1/query", params={"query": query}, timeout=240)
        except httpx.TransportError:
            return []
        found: list[dict[str, Any]] = answer.json()["data"]["result"] if answer.is_success else []
        return found


def backfill(folder: Path, openmetrics: str) -> None:
    """Give the Prometheus that will run in this folder a past.

    Args:
        openmetrics: Samples with their moments in seconds, in the OpenMetrics format.
    """
    program = require(shutil.which("promtool"), "promtool (prometheus)")
    (folder / "past.txt").write_text(openmetrics)
    command = [program, "tsdb", "create-blocks-from", "openmetrics", "past.txt", "data"]
    subprocess.run(command, cwd=folder, check=True, capture_output=True)


@contextmanager
def run_prometheus(folder: Path, scrape_configs: Sequence[dict[str, Any]]) -> Iterator[Prometheus]:
    """It scrapes and evaluates the rules every second."""
    program = require(shutil.which("prometheus"), "prometheus")
    shutil.copy(RULES, folder)
    config = {
        "global": {"scrape_interval": "1s", "evaluation_interval": "1s"},
        "rule_files": [RULES.name],
        "scrape_configs": [*scrape_configs],
    }
    (folder / "prometheus.yml").write_text(yaml.safe_dump(config))
    address = f"127.0.0.1:{free_port()}"
    with (folder / "prometheus.log").open("w") as log:
        process = subprocess.Popen(
            [
                *(program, "--config.file=prometheus.yml", "--storage.tsdb.path=data"),
                f"--web.listen-address={address}",
            ],
            cwd=folder,
            stdout=log,
            stderr=log,
        )
    try:
        yield Prometheus(f"http://{address}")
    finally:
        process.send_signal(signal.SIGTERM)
        process.wait()
