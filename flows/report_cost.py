"""Report what a day's GPU runs cost: read the ledger, decide, publish to Prefect and MLflow."""

from datetime import UTC, date, datetime

from prefect import flow, get_run_logger, task
from prefect.artifacts import create_markdown_artifact, create_table_artifact
from prefect.cache_policies import NO_CACHE
from prefect.exceptions import ObjectNotFound
from prefect.runtime import flow_run

from blocks.mlflow_tracking import MLflowTracking
from blocks.usage_ledger import UsageLedger
from gpu_core.adapters.ledger import Ledger
from gpu_core.adapters.mlflow_cost import cost_status, log_run_cost
from gpu_core.decisions.accounting import Provenance
from gpu_core.decisions.cost import RunCost, Window, daily_costs, price_book, run_cost
from gpu_core.decisions.report import (
    DayReport,
    artifact_keys,
    day_before,
    report_day,
    team_rows,
    to_markdown,
    window_to_read,
)


@flow(name="report-cost")
def report_cost(day: date | None = None, with_generated: bool = False) -> None:
    """Report what the GPU runs of one day cost, and why.

    Running it again for the same day gives the same report and logs nothing twice.

    Args:
        day: A UTC day; by default the one before the day this run was scheduled for.
        with_generated: Count generated runs too, to show what a report looks like. It says so and
            is published apart; generated runs are never logged to MLflow.
    """
    day = day or day_before(flow_run.scheduled_start_time)
    now = datetime.now(UTC)
    block = UsageLedger.load("default")
    # Prefect types a synchronous call as if it could need awaiting.
    with block.open() as ledger:  # type: ignore[union-attr]
        report = read_and_decide(ledger, day, with_generated, now)
        publish_report(report, with_generated)
        log_costs_to_mlflow(whole_costs(ledger, day, now))


def read_and_decide(ledger: Ledger, day: date, with_generated: bool, now: datetime) -> DayReport:
    """The day's report, from the ledger's records of that day and the days before it."""
    window = window_to_read(day)
    provenance = None if with_generated else Provenance.MEASURED
    usage = ledger.usage(window.start, window.end, provenance=provenance)
    return report_day(day, daily_costs(usage, window, now), now)


def whole_costs(ledger: Ledger, day: date, now: datetime) -> list[RunCost]:
    """The cost of the whole life of each measured run that held GPUs on this day."""
    window = Window.of_day(day)
    usage = ledger.usage(window.start, window.end, provenance=Provenance.MEASURED)
    costs = [run_cost(run, attempts, now) for run, attempts in usage]
    return [cost for cost in costs if cost.held_gpus]


@task(cache_policy=NO_CACHE)
def publish_report(report: DayReport, with_generated: bool) -> None:
    """Publish the report where people look: as artifacts in the Prefect UI."""
    keys = artifact_keys(with_generated=with_generated)
    description = f"GPU cost on {report.day.isoformat()}"
    create_markdown_artifact(to_markdown(report), key=keys.report, description=description)
    create_table_artifact(team_rows(report), key=keys.teams, description=description)


@task(cache_policy=NO_CACHE, retries=2, retry_delay_seconds=30)
def log_costs_to_mlflow(costs: list[RunCost]) -> None:
    """Log each run's cost to its MLflow run; where no MLflow is set up, say so."""
    logger = get_run_logger()
    try:
        block = MLflowTracking.load("default")
    except ValueError as error:
        if not isinstance(error.__cause__, ObjectNotFound):
            raise
        logger.warning("Costs are not logged: there is no block gpu-mlflow-tracking/default")
        return
    client = block.client()  # type: ignore[union-attr] # as above
    for cost in costs:
        log_run_cost(
            client,
            cost.run,
            cost,
            status=cost_status(cost),
            price_book=price_book(cost.attempts),
        )
    logger.info("Logged the cost of %s runs to MLflow", len(costs))
