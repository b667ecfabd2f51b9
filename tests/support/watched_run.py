"""A run on one GPU that a watch of the worker judges, and the artifacts on its page."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from prefect.settings import PREFECT_LOGGING_TO_API_ENABLED, temporary_settings

from gpu_core.adapters.ledger import Ledger
from gpu_core.decisions.requests.runs.run_workload import RunLimits
from gpu_core.decisions.requests.variables.job_variables import GpuRequest
from gpu_core.testing.builders.attempts import NOON, make_attempt, make_run
from gpu_core.testing.builders.workloads import make_workload
from gpu_core.worker.attempts.registry import AttemptRegistry
from gpu_core.worker.attempts.state import AttemptState

RUN = "11111111-1111-1111-1111-111111111111"


@contextmanager
def watched_run(folder: Path, **fields: Any) -> Iterator[AttemptRegistry]:
    """A registry with one attempt that began at noon; no log line leaves this process.

    Args:
        folder: Where its ledger is.
        fields: Of the attempt, where they are not the usual ones.
    """
    running = AttemptState(
        attempt=make_attempt(RUN, **({"started_at": NOON} | fields)),
        record=make_run(RUN),
        workload=make_workload(RUN),
        request=GpuRequest(),
        limits=RunLimits(max_duration_s=None, max_failures=3, max_interruptions=None),
        run_dir=folder,
    )
    with (
        Ledger.open(f"sqlite:///{folder / 'ledger.db'}") as ledger,
        temporary_settings({PREFECT_LOGGING_TO_API_ENABLED: False}),
    ):
        attempts = AttemptRegistry("gpus", "host-1", folder, ledger)
        attempts.add(running)
        yield attempts


def collect_artifacts(monkeypatch: pytest.MonkeyPatch, watch: str) -> list[str]:
    """The texts of the artifacts that this module of the watch writes, which has no server.

    Args:
        watch: The module's path.
    """
    shown: list[str] = []

    async def write(_client: object, artifact: Any, _artifact_id: object) -> None:
        shown.append(artifact.data)

    async def find(*_arguments: object) -> None:
        return None

    monkeypatch.setattr(f"{watch}.write_artifact", write)
    monkeypatch.setattr(f"{watch}.find_artifact", find)
    return shown
