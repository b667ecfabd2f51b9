"""A real MLflow server is stopped and the worker killed meanwhile: each cost is logged, once."""

import logging
from collections.abc import Iterator
from datetime import datetime
from pathlib import Path
from typing import Any

import anyio
import pytest
from mlflow import MlflowClient
from mlflow.entities import Run

from gpu_core.adapters.ledger import Ledger
from gpu_core.adapters.ledger.database import UnloggedEnd
from gpu_core.decisions.costs.billing.run_bills import AttemptBill
from gpu_core.decisions.costs.mlflow.mlflow_access import MlflowAccess
from gpu_core.decisions.costs.mlflow.mlflow_views import MlflowPages
from gpu_core.decisions.costs.usage.usage_cost import Window
from gpu_core.decisions.model.attempts import EndReason
from gpu_core.testing.builders.attempts import NOON, admit, at, make_attempt, make_run
from gpu_core.worker.watch.run_costs import RunCosts
from tests.support.mlflow_databases import new_mlflow_database
from tests.support.mlflow_server import MlflowServer, mlflow_server
from tests.support.waiting import wait_for

LATER = at(5)


@pytest.fixture(scope="module")
def mlflow_process(tmp_path_factory: pytest.TempPathFactory) -> Iterator[MlflowServer]:
    """A server that the tests stop, and start again."""
    with mlflow_server(tmp_path_factory.mktemp("mlflow")) as running:
        yield running


@pytest.fixture
def ledger(tmp_path: Path) -> Iterator[Ledger]:
    with Ledger.open(f"sqlite:///{tmp_path / 'ledger.db'}") as opened:
        yield opened


class Worker:
    """What a worker logs to MLflow; another one with the same ledger goes on after a kill."""

    def __init__(self, ledger: Ledger, uri: str, host: str = "host-1") -> None:
        self._ledger, self._uri, self._host = ledger, uri, host
        self.shown: dict[str, MlflowPages | None] = {}

    def look(self, *, rounds: int = 1, now: datetime = LATER) -> None:
        """Log what waits."""
        anyio.run(self._look, rounds, now)

    async def _look(self, rounds: int, now: datetime) -> None:
        access = MlflowAccess.of(self._uri)
        costs = RunCosts(self._ledger, access, "gpus", self._host, self._show)
        for _ in range(rounds):
            await costs.log_waiting(now)

    async def _show(
        self, flow_run_id: str, _attempts: Any, *, mlflow: MlflowPages | None = None
    ) -> None:
        self.shown[flow_run_id] = mlflow


def end(
    ledger: Ledger,
    flow_run_id: str,
    hours: float,
    *,
    host: str = "host-1",
    parent: str | None = None,
    price: int | None = 1_000_000,
) -> None:
    """A run of an A10G at $1 an hour from noon on, which is over."""
    attempt = make_attempt(flow_run_id, price_micro_usd_per_gpu_hour=price)
    admit(ledger, attempt, make_run(flow_run_id))
    ledger.close_attempt(
        f"{flow_run_id}/1",
        released_at=at(hours),
        end_reason=EndReason.COMPLETED,
        end_message=None,
        exit_code=0,
        is_charged_failure=False,
        parent_flow_run_id=parent,
        unlogged=UnloggedEnd(host, at(hours)),
    )
    ledger.finish_run(flow_run_id, "Completed", unlogged=UnloggedEnd(host, at(hours)))


def waiting(ledger: Ledger, host: str = "host-1", now: datetime = LATER) -> list[str]:
    return [cost.flow_run_id for cost in ledger.unlogged_costs("gpus", host, now)]


def log_all(worker: Worker, ledger: Ledger) -> None:
    """Log what waits: a server that answers too late on a busy machine is asked again."""

    def is_logged() -> bool:
        worker.look()
        return not waiting(ledger)

    wait_for(is_logged, lambda: f"the costs of {waiting(ledger)} are in MLflow")


def logged(client: MlflowClient, *flow_run_ids: str) -> list[tuple[float, str, int]]:
    """Of each run in MLflow: its cost, how far it is final, and how often it was written."""
    runs: list[Run] = [
        run
        for name in flow_run_ids
        for run in client.search_runs(
            [each.experiment_id for each in client.search_experiments()],
            f"tags.`prefect.flow_run_id` = '{name}'",
        )
    ]
    return [
        (
            run.data.metrics["cost/total_usd"],
            run.data.tags["cost.status"],
            len(client.get_metric_history(run.info.run_id, "cost/total_usd")),
        )
        for run in runs
    ]


@pytest.mark.timeout(1800)
def test_costs_of_an_outage_are_logged_in_order_and_once(
    mlflow_process: MlflowServer, ledger: Ledger, caplog: pytest.LogCaptureFixture
) -> None:
    server = mlflow_process
    client = MlflowClient(server.address)
    end(ledger, "before", 1)
    worker = Worker(ledger, server.address)
    log_all(worker, ledger)
    server.stop()
    caplog.clear()
    end(ledger, "first", 2)
    end(ledger, "second", 3)
    with caplog.at_level(logging.WARNING, "prefect.gpu.mlflow"):
        worker.look(rounds=3)
    assert [r.getMessage() for r in caplog.records if r.name == "prefect.gpu.mlflow"] == [
        "Failed to log the cost of 2 runs to MLflow: MlflowUnreachable. Retrying within 60 seconds."
    ]
    assert waiting(ledger) == ["first", "second"]
    server.start()
    second = Worker(ledger, server.address)  # the first one was killed
    log_all(second, ledger)
    assert list(second.shown) == ["first", "second"]
    want = [(1.0, "final", 1), (2.0, "final", 1), (3.0, "final", 1)]
    assert logged(client, "before", "first", "second") == want


def test_a_worker_killed_after_logging_logs_it_again_and_changes_nothing(
    ledger: Ledger, tmp_path: Path
) -> None:
    uri = new_mlflow_database(tmp_path)
    end(ledger, "run-1", 2)
    (cost,) = ledger.unlogged_costs("gpus", "host-1", LATER)
    Worker(ledger, uri).look()
    ledger.finish_run("run-1", "Completed", unlogged=UnloggedEnd("host-1", at(2)))
    ledger.note_logged(cost)  # of the end before: the later one stays listed
    assert waiting(ledger) == ["run-1"]
    Worker(ledger, uri).look()
    assert waiting(ledger) == []
    assert logged(MlflowClient(uri), "run-1") == [(2.0, "final", 1)]


def test_what_a_bill_says_of_a_run_is_logged_after_the_costs_of_ends(
    ledger: Ledger, tmp_path: Path
) -> None:
    uri = new_mlflow_database(tmp_path)
    end(ledger, "billed", 1)
    Worker(ledger, uri).look()
    part = AttemptBill(
        flow_run_id="billed",
        attempt_id="billed/1",
        instance="i-1",
        bill_start=at(0),
        bill_end=at(1),
        charged_micro_usd=1_000_000,
        billed_micro_usd=1_250_000,
    )
    assert ledger.note_bills(["i-1"], Window(at(0), at(1)), [part], at(1)) == {"billed"}
    end(ledger, "ended-later", 2)
    assert waiting(ledger) == ["ended-later", "billed"]
    Worker(ledger, uri).look()
    (run,) = MlflowClient(uri).search_runs(
        [each.experiment_id for each in MlflowClient(uri).search_experiments()],
        "tags.`cost.reconciled` = 'all'",
    )
    assert (run.data.metrics["cost/total_usd"], run.data.metrics["cost/billed_usd"]) == (1.0, 1.25)


def test_a_run_that_starts_others_has_their_sum_under_names_of_its_own(
    ledger: Ledger, tmp_path: Path
) -> None:
    """One for an hour, one that a child started for two: in the sum of all runs each is once."""
    uri = new_mlflow_database(tmp_path)
    end(ledger, "top", 4)
    end(ledger, "child", 1, parent="top")
    Worker(ledger, uri).look()
    end(ledger, "grandchild", 2, parent="child")
    assert waiting(ledger) == ["child", "grandchild", "top"]
    Worker(ledger, uri).look()
    client = MlflowClient(uri)
    runs = client.search_runs([each.experiment_id for each in client.search_experiments()])
    names = ("total", "children", "total_with_children")
    found = {
        run.data.tags["prefect.flow_run_id"]: [
            run.data.metrics.get(f"cost/{name}_usd") for name in names
        ]
        for run in runs
    }
    assert found == {"top": [4, 3, 7], "child": [1, 2, 3], "grandchild": [2, None, None]}


def test_a_sum_from_before_a_started_run_lost_its_price_is_marked(
    ledger: Ledger, tmp_path: Path
) -> None:
    """MLflow keeps the sum that it has; a tag says that it is out of date."""
    uri = new_mlflow_database(tmp_path)
    client = MlflowClient(uri)

    def logged() -> tuple[float, str]:
        Worker(ledger, uri).look()
        experiments = [each.experiment_id for each in client.search_experiments()]
        (run,) = client.search_runs(experiments, "tags.`prefect.flow_run_id` = 'top'")
        return run.data.metrics["cost/children_usd"], run.data.tags["cost.children_priced"]

    end(ledger, "top", 4)
    end(ledger, "priced", 1, parent="top")
    assert logged() == (1.0, "all")
    end(ledger, "unpriced", 1, parent="top", price=None)
    assert logged() == (1.0, "part")


def test_a_run_that_mlflow_does_not_take_keeps_no_other_waiting(
    ledger: Ledger, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """The experiment of one run was deleted; once it is restored, its cost is logged, too."""
    uri = new_mlflow_database(tmp_path)
    client = MlflowClient(uri)
    deleted = client.create_experiment("detector")
    client.delete_experiment(deleted)
    end(ledger, "refused", 1)
    admit(ledger, make_attempt("taken"), make_run("taken", experiment="other"))
    ledger.finish_run("taken", "Crashed", unlogged=UnloggedEnd("host-1", at(2)))
    with caplog.at_level(logging.WARNING, "prefect.gpu.mlflow"):
        Worker(ledger, uri).look(rounds=3)
    start = "Failed to log the cost of flow run refused to MLflow: "
    (said,) = (message for message in caplog.messages if message.startswith(start))
    assert said.endswith("Retrying every 10 minutes.")
    assert waiting(ledger) == ["refused"]
    client.restore_experiment(deleted)
    Worker(ledger, uri).look()
    assert waiting(ledger) == []


def test_the_machine_of_the_last_attempt_logs_it_and_after_a_day_any_other(ledger: Ledger) -> None:
    end(ledger, "run-1", 0, host="gone")
    assert waiting(ledger, "host-1", at(23)) == []
    assert waiting(ledger, "gone", at(23)) == ["run-1"]
    assert waiting(ledger, "host-1", at(25)) == ["run-1"]


def test_without_mlflow_nothing_is_listed(ledger: Ledger) -> None:
    admit(ledger, make_attempt())
    ledger.finish_run("run-1", "Completed")
    assert ledger.unlogged_costs("gpus", "host-1", NOON) == ()
