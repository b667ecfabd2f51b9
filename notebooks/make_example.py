"""Generated data for the notebook where you have none yet: the same each time, and named so."""

import math
import random
from collections.abc import Iterator
from dataclasses import replace
from datetime import UTC, date, datetime, timedelta
from pathlib import Path

from mlflow import MlflowClient

from gpu_core.adapters.ledger import Ledger
from gpu_core.adapters.mlflow.cost import cost_status, log_run_cost
from gpu_core.decisions.costs.reports.demo_history import Record, generated_history
from gpu_core.decisions.costs.usage.usage_cost import run_cost

LAST_DAY = date(2026, 3, 29)
_DAYS = 28
_RUNS = 9
# Accuracy that an experiment approaches, and the hours after which it has most of it.
_EXPERIMENTS = {
    "generated-detector": ("generated-train-detector", 0.91, 2.0),
    "generated-ranking": ("generated-train-ranker", 0.84, 1.0),
    "generated-assistant": ("generated-finetune-7b", 0.95, 1.5),
}


def make_example(folder: Path) -> tuple[str, str]:
    """Where are an MLflow and a ledger with generated runs? Both are SQLite files in `folder`."""
    tracking_uri, ledger_url = f"sqlite:///{folder}/mlflow.db", f"sqlite:///{folder}/ledger.db"
    history = generated_history(_DAYS, LAST_DAY)
    with Ledger.open(ledger_url) as ledger:
        ledger.import_records(history)
    client = MlflowClient(tracking_uri)
    now = datetime.combine(LAST_DAY, datetime.max.time(), UTC)
    for (run, attempts), accuracy in _trainings(history):
        cost = run_cost(run, attempts, now)
        mlflow_run = log_run_cost(
            client, run, cost, status=cost_status(cost), price_book="generated"
        )
        client.log_metric(mlflow_run, "accuracy", accuracy)
    return tracking_uri, ledger_url


def _trainings(history: tuple[Record, ...]) -> Iterator[tuple[Record, float]]:
    """Some runs of each experiment, from short to long, with the accuracy that they reach."""
    chance = random.Random(1)  # noqa: S311 - no secret depends on it
    for experiment, (flow, ceiling, most_hours) in _EXPERIMENTS.items():
        of_flow = [record for record in history if record[0].flow_name == flow][:_RUNS]
        for number, record in enumerate(of_flow, start=1):
            hours = 0.4 * 1.45**number
            accuracy = ceiling - 0.3 * math.exp(-hours / most_hours) - chance.uniform(0, 0.02)
            yield _stretched(record, hours, f"{experiment}-{number}"), accuracy


def _stretched(record: Record, hours: float, name: str) -> Record:
    """The record with attempts of this length together."""
    run, attempts = record
    length_s = hours * 3600 / len(attempts)
    ends = [attempt.admitted_at + timedelta(seconds=length_s) for attempt in attempts]
    return replace(run, name=name), tuple(
        replace(
            attempt,
            released_at=end,
            last_seen_at=end,
            checkpointed_at=attempt.checkpointed_at and end - timedelta(seconds=length_s / 5),
        )
        for attempt, end in zip(attempts, ends, strict=True)
    )
