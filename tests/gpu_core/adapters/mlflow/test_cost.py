"""A run's cost stands in its own MLflow run, once, and can be sorted and summed there."""

from dataclasses import replace

import pytest
from mlflow import MlflowClient
from mlflow.entities import Run
from prefect.settings import PREFECT_UI_URL, temporary_settings

from gpu_core.adapters.mlflow.cost import CostStatus, cost_status, log_run_cost
from gpu_core.decisions.costs.billing.run_bills import RunBill
from gpu_core.decisions.costs.usage.usage_cost import RunCost, run_cost
from gpu_core.decisions.model.attempts import EndReason, RunRecord
from gpu_core.decisions.model.gpu_summary import GpuSummary
from gpu_core.testing.builders.attempts import at, make_attempt, make_run
from tests.support.mlflow_databases import new_mlflow_database

RUN = make_run(final_state="Completed")
PREEMPTED = make_attempt(
    released_at=at(2), end_reason=EndReason.PREEMPTED, checkpoint="c1", checkpointed_at=at(1.5)
)
RESUMED = make_attempt(
    number=2, admitted_at=at(3), released_at=at(4), end_reason=EndReason.COMPLETED,
    restored_from="c1", capacity_type="spot",
)  # fmt: skip
UNPRICED = make_attempt(
    released_at=at(1), end_reason=EndReason.COMPLETED, price_micro_usd_per_gpu_hour=None
)
COST = run_cost(RUN, (PREEMPTED, RESUMED), at(9))


@pytest.fixture(scope="module")
def tracking_uri(tmp_path_factory: pytest.TempPathFactory) -> str:
    """A real MLflow on SQLite: every test has flow runs of its own in it."""
    return new_mlflow_database(tmp_path_factory.mktemp("mlflow"))


@pytest.fixture
def client(tracking_uri: str) -> MlflowClient:
    """A client of that MLflow."""
    return MlflowClient(tracking_uri)


def log(client: MlflowClient, record: RunRecord, cost: RunCost = COST) -> Run:
    """Log the cost, and read the MLflow run that it went to."""
    run_id = log_run_cost(client, record, cost, status=cost_status(cost), price_book="book-1")
    return client.get_run(run_id)


def own_run(client: MlflowClient, flow_run_id: str, start_time: int, **tags: str) -> str:
    """An MLflow run that a training made for itself, finished."""
    experiment = client.get_experiment_by_name("own") or client.get_experiment(
        client.create_experiment("own")
    )
    run = client.create_run(
        experiment.experiment_id, start_time, {"prefect.flow_run_id": flow_run_id} | tags
    )
    client.log_metric(run.info.run_id, "accuracy", 0.9)
    client.set_terminated(run.info.run_id)
    return str(run.info.run_id)


def test_a_run_without_an_mlflow_run_gets_one_in_its_experiment(
    client: MlflowClient, tracking_uri: str
) -> None:
    record = make_run("created", experiment="digits", final_state="Completed")
    run_id = log_run_cost(tracking_uri, record, COST, status=CostStatus.FINAL, price_book="book-1")
    run = client.get_run(run_id)
    assert client.get_experiment(run.info.experiment_id).name == "digits"
    assert (run.info.run_name, run.info.status) == (record.name, "FINISHED")
    assert log(client, record).info.run_id == run_id


def test_the_description_links_to_the_flow_run_unless_it_has_one(client: MlflowClient) -> None:
    with temporary_settings({PREFECT_UI_URL: "http://prefect.example:4200"}):
        linked = log(client, make_run("linked", name="a [b]"))
        own_run(client, "described", 1, **{"mlflow.note.content": "My run."})
        described = log(client, make_run("described"))
    assert linked.data.tags["mlflow.note.content"] == (
        r"Prefect flow run [a \[b\]](http://prefect.example:4200/runs/flow-run/linked)"
    )
    assert described.data.tags["mlflow.note.content"] == "My run."


@pytest.mark.parametrize(
    ("is_simulated", "want"),
    [pytest.param(False, "measured", id="real"), pytest.param(True, "simulated", id="virtual")],
)
def test_what_the_gpus_did_stands_next_to_the_cost(
    client: MlflowClient, is_simulated: bool, want: str
) -> None:
    def used(utilization: float, energy_j: float) -> tuple[GpuSummary, ...]:
        return (
            GpuSummary(
                gpu_id="GPU-0",
                samples=10,
                is_simulated=is_simulated,
                utilization_mean_ratio=utilization,
                energy_j=energy_j,
            ),
        )

    attempts = (
        replace(PREEMPTED, gpu_summaries=used(0.5, 1_800_000.0)),
        replace(RESUMED, gpu_summaries=used(0.75, 5_400_000.0)),
    )
    run = log(client, make_run(f"use-{want}"), run_cost(RUN, attempts, at(9)))
    assert run.data.metrics["cost/gpu_util_avg"] == 0.625
    assert run.data.metrics["cost/energy_kwh"] == 2.0
    assert "cost/sm_active_avg" not in run.data.metrics
    assert run.data.tags["cost.gpu_use"] == want


def test_metrics_and_tags_say_what_it_cost_and_on_what_basis(client: MlflowClient) -> None:
    run = log(client, make_run("metrics", experiment=None))
    want_metrics = {
        "cost/total_usd": 3.0,
        "cost/gpu_usd": 3.0,
        "cost/retry_waste_usd": 0.5,
        "cost/checkpoint_saved_usd": 1.5,
        "cost/gpu_hours": 3.0,
        "cost/gpu_hours_lost": 0.5,
        "cost/gpu_hours_unpriced": 0.0,
        "cost/attempts": 2.0,
        "cost/wait_s": 3600.0,
    }
    want_tags = {
        "cost.basis": "allocated",
        "cost.currency": "USD",
        "cost.status": "final",
        "cost.provenance": "measured",
        "prefect_gpu.tracked_run": "true",
        "cost.gpu_type": "a10g",
        "cost.gpu_count": "1",
        "cost.capacity_type": "on-demand,spot",
        "cost.price_book": "book-1",
        "prefect.flow_run_id": "metrics",
        "prefect.deployment": "train/gpu",
        "prefect.attempt": "2",
        "finops.team": "vision",
        "finops.project": "detector",
    }
    assert run.data.metrics == want_metrics
    assert {k: v for k, v in run.data.tags.items() if not k.startswith("mlflow.")} == want_tags
    assert client.get_experiment(run.info.experiment_id).name == "prefect-gpu"


def test_the_cost_joins_the_metrics_of_the_newest_own_run_even_if_it_is_finished(
    client: MlflowClient,
) -> None:
    own_run(client, "joined", start_time=1_000)
    newest = own_run(client, "joined", start_time=2_000)
    own_run(client, "joined", 3_000, **{"mlflow.parentRunId": newest})
    run = log(client, make_run("joined"))
    assert run.info.run_id == newest
    assert (run.data.metrics["accuracy"], run.data.metrics["cost/total_usd"]) == (0.9, 3.0)


def test_a_child_of_a_sweeps_parent_gets_the_cost_of_its_flow_run(client: MlflowClient) -> None:
    sweep = own_run(client, "sweep", start_time=1_000)
    trial = own_run(client, "trial", 2_000, **{"mlflow.parentRunId": sweep})
    own_run(client, "trial", 3_000, **{"mlflow.parentRunId": trial})
    assert log(client, make_run("trial")).info.run_id == trial
    assert log(client, make_run("sweep")).info.run_id == sweep


def test_a_run_without_a_parent_comes_before_a_newer_child_of_a_sweep(client: MlflowClient) -> None:
    sweep = client.create_run("0").info.run_id
    whole = own_run(client, "whole", 1_000)
    own_run(client, "whole", 2_000, **{"mlflow.parentRunId": sweep})
    assert log(client, make_run("whole")).info.run_id == whole


def test_a_child_of_a_deleted_run_of_the_same_flow_run_gets_no_cost(client: MlflowClient) -> None:
    deleted = own_run(client, "deleted", 1_000)
    child = own_run(client, "deleted", 2_000, **{"mlflow.parentRunId": deleted})
    client.delete_run(deleted)
    assert log(client, make_run("deleted")).info.run_id not in {deleted, child}


def test_logging_the_same_cost_twice_adds_nothing(client: MlflowClient) -> None:
    first = log(client, make_run("twice"))
    second = log(client, make_run("twice"))
    assert second.data.to_dictionary() == first.data.to_dictionary()
    for name in first.data.metrics:
        assert len(client.get_metric_history(first.info.run_id, name)) == 1


def test_an_estimate_is_overwritten_by_the_final_cost(client: MlflowClient) -> None:
    running = make_run("estimated")
    log(client, running, run_cost(running, (PREEMPTED,), at(2)))
    run = log(client, make_run("estimated"))
    assert (run.data.metrics["cost/total_usd"], run.data.tags["cost.status"]) == (3.0, "final")


def test_an_unpriced_run_has_no_cost_metric_rather_than_zero(client: MlflowClient) -> None:
    run = log(client, make_run("unpriced"), run_cost(RUN, (UNPRICED,), at(9)))
    assert "cost/total_usd" not in run.data.metrics
    assert run.data.metrics["cost/gpu_hours_unpriced"] == 1.0
    assert run.data.tags["cost.status"] == "unpriced"


def test_a_cost_that_moves_to_a_newer_run_is_not_counted_twice(client: MlflowClient) -> None:
    """The second attempt opened an MLflow run of its own after the first had been costed."""
    older = own_run(client, "moved", start_time=1_000)
    log(client, make_run("moved"))
    newer = own_run(client, "moved", start_time=2_000)
    log(client, make_run("moved"))
    log(client, make_run("moved"))
    runs = {run_id: client.get_run(run_id) for run_id in (older, newer)}
    assert sum(run.data.metrics["cost/total_usd"] for run in runs.values()) == 3.0
    assert runs[older].data.tags["cost.status"] == "superseded"
    assert len(client.get_metric_history(older, "cost/total_usd")) == 2


def test_experiments_compare_by_cost_in_mlflows_own_search(client: MlflowClient) -> None:
    record = make_run("sorted", experiment="sorted")
    log(client, record)
    experiment = client.get_experiment_by_name("sorted")
    assert experiment is not None
    found = client.search_runs(
        [experiment.experiment_id],
        filter_string="metrics.`cost/total_usd` > 1",
        order_by=["metrics.`cost/total_usd` DESC"],
    )
    assert [run.data.tags["prefect.flow_run_id"] for run in found] == ["sorted"]


@pytest.mark.parametrize(
    ("cost", "want"),
    [
        pytest.param(COST, CostStatus.FINAL, id="over and priced"),
        pytest.param(
            run_cost(make_run(), (PREEMPTED,), at(9)), CostStatus.ESTIMATED, id="waits again"
        ),
        pytest.param(
            run_cost(RUN, (make_attempt(),), at(9)), CostStatus.ESTIMATED, id="GPUs still held"
        ),
        pytest.param(run_cost(RUN, (UNPRICED,), at(9)), CostStatus.UNPRICED, id="no price"),
    ],
)
def test_how_far_a_cost_can_be_relied_on(cost: RunCost, want: CostStatus) -> None:
    assert cost_status(cost) is want


@pytest.mark.parametrize(
    ("charged_usd", "want"),
    [pytest.param(3, "all", id="all of it"), pytest.param(1, "part", id="an hour of it")],
)
def test_what_a_bill_says_stands_next_to_the_cost(
    client: MlflowClient, charged_usd: int, want: str
) -> None:
    record = make_run(f"reconciled-{want}", final_state="Completed")
    assert "cost.reconciled" not in log(client, record).data.tags
    bill = RunBill(charged_micro_usd=charged_usd * 10**6, billed_micro_usd=4_500_000, parts=1)
    run_id = log_run_cost(
        client, record, COST, status=CostStatus.FINAL, price_book="book-1", bill=bill
    )
    data = client.get_run(run_id).data
    assert (data.tags["cost.reconciled"], data.tags["cost.status"]) == (want, "final")
    assert data.metrics["cost/reconciled_usd"] == charged_usd
    assert data.metrics["cost/billed_usd"] == 4.5
    assert data.metrics["cost/total_usd"] == 3.0
