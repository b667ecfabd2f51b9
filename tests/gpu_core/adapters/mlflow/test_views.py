"""The saved views in the pinned MLflow's own UI, in a real browser."""

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest
from mlflow import MlflowClient

from gpu_core.adapters.mlflow.cost import CostStatus, log_run_cost
from gpu_core.decisions.costs.mlflow.mlflow_views import INTERRUPTIONS, view_link
from gpu_core.decisions.costs.usage.usage_cost import run_cost
from gpu_core.decisions.model.attempts import EndReason
from gpu_core.testing.builders.attempts import at, make_attempt, make_run
from tests.support.browser import Page, browser
from tests.support.mlflow_server import mlflow_server

pytestmark = [pytest.mark.browser, pytest.mark.timeout(1800)]


@pytest.fixture(scope="module")
def mlflow(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """An MLflow server; its address."""
    with mlflow_server(tmp_path_factory.mktemp("mlflow")) as server:
        yield server.address


@pytest.fixture(scope="module")
def page(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Page]:
    """A browser."""
    with browser(tmp_path_factory.mktemp("browser") / "profile") as opened:
        yield opened


def train(client: MlflowClient, name: str, accuracy: float, hours: float, **tags: str) -> str:
    """A training with its cost in MLflow; the MLflow run's id."""
    record = make_run(name, name=name, experiment="digits", final_state="Completed")
    attempt = make_attempt(name, released_at=at(hours), end_reason=EndReason.COMPLETED)
    cost = run_cost(record, (replace(attempt, gpu_type="a10g"),), at(9))
    run_id = log_run_cost(client, record, cost, status=CostStatus.FINAL, price_book="book")
    client.log_metric(run_id, "accuracy", accuracy)
    for key, value in tags.items():
        client.set_tag(run_id, f"cost.{key}", value)
    log_run_cost(client, record, cost, status=CostStatus.FINAL, price_book="book")
    return run_id


def test_the_views_show_cost_and_return_next_to_quality(
    mlflow: str, page: Page, tmp_path: Path
) -> None:
    client = MlflowClient(mlflow)
    baseline = train(client, "small", 0.5, 1)
    run_id = train(client, "large", 0.75, 2, baseline_run_id=baseline, quality_metric="accuracy")
    run = client.get_run(run_id)
    assert run.data.metrics["cost/improvement_per_usd"] == 0.125
    assert run.data.metrics["cost/gpu_usd"] == run.data.metrics["cost/total_usd"] == 2.0
    experiment = client.get_experiment(run.info.experiment_id)
    assert experiment.tags["mlflow.experimentKind"] == "custom_model_development"

    page.open(view_link(mlflow, experiment.experiment_id), 1440)
    page.wait_for("large", "small", "accuracy", "cost/total_usd", "cost/improvement_per_usd")
    page.wait_for("0.125")
    page.screenshot(tmp_path / "cost-and-quality.png")
    text = page.text()
    assert "Error loading shared view state" not in text
    assert "cost/wait_s" not in text

    page.open(view_link(mlflow, experiment.experiment_id, INTERRUPTIONS), 1440)
    page.wait_for("cost/attempts", "cost/gpu_hours_lost", "cost/wait_s")
    page.screenshot(tmp_path / "interruptions.png")
    assert "cost/improvement_per_usd" not in page.text()
