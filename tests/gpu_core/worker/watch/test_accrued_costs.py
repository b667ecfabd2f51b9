"""What running runs have cost so far is in MLflow while they run, and nothing waits for it."""

from collections.abc import Iterator
from datetime import datetime
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import anyio
import pytest
from mlflow import MlflowClient
from mlflow.exceptions import MlflowException
from mlflow.protos.databricks_pb2 import PERMISSION_DENIED

from gpu_core.adapters.ledger import Ledger
from gpu_core.adapters.mlflow.cost import cost_status, log_run_cost
from gpu_core.decisions.costs.mlflow.mlflow_access import MlflowAccess
from gpu_core.decisions.costs.usage.usage_cost import RunCost, run_cost
from gpu_core.testing.builders.attempts import admit, at, make_attempt, make_run
from gpu_core.worker.watch.accrued_costs import AccruedCosts
from tests.support.mlflow_databases import new_mlflow_database

RUN, ATTEMPT = make_run("run-1"), make_attempt("run-1")


@pytest.fixture
def ledger(tmp_path: Path) -> Iterator[Ledger]:
    with Ledger.open(f"sqlite:///{tmp_path / 'ledger.db'}") as opened:
        admit(opened, ATTEMPT, RUN)
        admit(opened, make_attempt("run-2"), make_run("run-2"))
        yield opened


def running(*flow_run_ids: str) -> Any:
    return [SimpleNamespace(attempt=make_attempt(name)) for name in flow_run_ids]


def test_the_cost_so_far_is_logged_over_time_and_ends_as_the_runs_cost(
    ledger: Ledger, tmp_path: Path
) -> None:
    """An A10G at $1 an hour. A run that tracks nothing gets no MLflow run."""
    uri = new_mlflow_database(tmp_path)
    client = MlflowClient(uri)
    tracked = client.create_run("0", tags={"prefect.flow_run_id": "run-1"})

    async def story() -> None:
        for hours in (1, 2.5):
            async with anyio.create_task_group() as tasks:
                costs = AccruedCosts(ledger, MlflowAccess.of(uri), tasks)
                costs.check(running("run-1", "run-2"), at(hours))
                costs.check(running("run-1", "run-2"), at(hours + 1))

    anyio.run(story)
    history = client.get_metric_history(tracked.info.run_id, "cost/accrued_usd")
    want = [(1.0, int(at(1).timestamp()) * 1000), (2.5, int(at(2.5).timestamp()) * 1000)]
    assert [(metric.value, metric.timestamp) for metric in history] == want
    assert len(client.search_runs(["0"])) == 1
    cost = run_cost(RUN, [ATTEMPT], at(3))
    log_run_cost(client, RUN, cost, status=cost_status(cost), price_book="book")
    metrics = client.get_run(tracked.info.run_id).data.metrics
    assert metrics["cost/accrued_usd"] == metrics["cost/total_usd"] == 3.0


def test_a_failure_of_mlflow_is_said_once_and_stops_nothing(
    ledger: Ledger, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    (tmp_path / "no").write_text("in the way")

    async def story() -> None:
        async with anyio.create_task_group() as tasks:
            costs = AccruedCosts(ledger, MlflowAccess.of(f"sqlite:///{tmp_path}/no/m.db"), tasks)
            for _ in range(2):
                costs._throttle.reset()
                costs.check(running("run-1"), at(1))
                while costs._is_logging:
                    await anyio.lowlevel.checkpoint()

    anyio.run(story)
    reported = [
        r for r in caplog.records if "Failed to log the cost of active flow runs" in r.getMessage()
    ]
    assert len(reported) == 1


def test_a_run_that_mlflow_refuses_keeps_no_other_from_its_cost(
    ledger: Ledger, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The experiment of one run may be closed to the worker's user."""
    logged = []

    def log(_client: MlflowClient, cost: RunCost, _now: datetime) -> bool:
        if cost.run.flow_run_id == "run-1":
            raise MlflowException("Permission denied", PERMISSION_DENIED)
        logged.append(cost.run.flow_run_id)
        return True

    monkeypatch.setattr("gpu_core.adapters.mlflow.accrued.log_accrued_cost", log)

    async def story() -> None:
        async with anyio.create_task_group() as tasks:
            costs = AccruedCosts(ledger, MlflowAccess.of(f"sqlite:///{tmp_path}/m.db"), tasks)
            costs.check(running("run-1", "run-2"), at(1))

    anyio.run(story)
    assert logged == ["run-2"]


def test_without_mlflow_nothing_is_logged(ledger: Ledger) -> None:
    async def story() -> None:
        async with anyio.create_task_group() as tasks:
            AccruedCosts(ledger, None, tasks).check(running("run-1"), at(1))

    anyio.run(story)
