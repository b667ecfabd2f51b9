"""Reports the cost of GPU runs for one day to Prefect and MLflow."""

from collections.abc import Mapping, Sequence
from datetime import UTC, date, datetime, timedelta
from pathlib import Path
from uuid import UUID

from prefect import flow, get_run_logger, task
from prefect.artifacts import create_markdown_artifact, create_table_artifact
from prefect.cache_policies import NO_CACHE
from prefect.client.orchestration import get_client
from prefect.runtime import flow_run
from prefect.utilities.asyncutils import run_coro_as_sync

from gpu_core.adapters.ledger import Ledger
from gpu_core.adapters.ledger.budget_use import read_budget_uses
from gpu_core.adapters.ledger.cost_slices import CostQuestion
from gpu_core.adapters.ledger.daily_costs import RunFilter, read_daily_costs, read_histories
from gpu_core.adapters.ledger.policy_in_force import policy_in_file, policy_in_force
from gpu_core.adapters.ledger.proposals import read_proposals
from gpu_core.adapters.ledger.savings import SavingsQuestion, read_savings
from gpu_core.adapters.ledger.source import open_to_read
from gpu_core.adapters.mlflow.client import mlflow_client
from gpu_core.adapters.mlflow.cost import cost_status, log_run_cost
from gpu_core.adapters.mlflow.pages import pages_of
from gpu_core.adapters.prefect.pool_blocks import read_ledger_url, read_mlflow_access
from gpu_core.adapters.prefect.pool_ledger import pool_of_run
from gpu_core.decisions.checks.prefect.pool_blocks import (
    LEDGER_BLOCK,
    MLFLOW_BLOCK,
    pool_block_names,
)
from gpu_core.decisions.costs.anomalies.detection.judgment import ComparisonRule
from gpu_core.decisions.costs.anomalies.detection.known import Known
from gpu_core.decisions.costs.anomalies.detection.planned import PlannedActivity
from gpu_core.decisions.costs.anomalies.report.daily_report import (
    DayReport,
    artifact_keys,
    day_before,
    report_day,
)
from gpu_core.decisions.costs.anomalies.report.daily_report_markdown import team_rows, to_markdown
from gpu_core.decisions.costs.billing.run_bills import RunBill
from gpu_core.decisions.costs.mlflow.mlflow_access import MlflowAccess
from gpu_core.decisions.costs.reports.run_durations import ARTIFACT_KEY as DURATIONS_KEY
from gpu_core.decisions.costs.reports.run_durations import PERIOD as DURATIONS_PERIOD
from gpu_core.decisions.costs.reports.run_durations import (
    DeploymentDurations,
    deployment_durations,
    durations_markdown,
)
from gpu_core.decisions.costs.usage.usage_cost import RunCost, Window, price_book, run_cost
from gpu_core.decisions.model.attempts import Provenance
from gpu_core.decisions.model.errors import InvalidInput
from gpu_core.decisions.model.markdown import escaped
from gpu_core.decisions.optimization.proposals.savings_report import record_section
from gpu_core.decisions.policy.policy import Policy

# The last moment of a day is in the period that ends with it.
_LAST = timedelta(microseconds=1)

Addresses = tuple[str, MlflowAccess | None, tuple[str, ...]]


@flow(name="report-cost")
def report_cost(
    day: date | None = None,
    with_generated: bool = False,
    pool: str | None = None,
    rule: ComparisonRule = ComparisonRule.SEASONAL,
    planned: Sequence[PlannedActivity] = (),
    policy: Path | None = None,
) -> None:
    """Reports the cost of GPU runs for one day, with the causes.

    If you run the flow again for the same day, the report is the same, and nothing is logged twice.

    Args:
        day: A UTC day. Defaults to the day before the one for which this run was scheduled.
        with_generated: Whether to include generated runs, for example to see what a report looks
            like. The report is then marked and published separately. Generated runs are never
            logged to MLflow.
        pool: The work pool from which the ledger is read. Defaults to the work pool of this run.
        rule: The rule with which the day is compared. Can be `seasonal`, or `rolling-mean`, which
            is the mean of 7 days.
        planned: Announced activity such as holidays. These days are not checked, and are not used
            as history. Not used with `rolling-mean`.
        policy: The path to a policy file. Defaults to the policy that was in force on the workers
            of the pool at the end of the day. Planned days in the calendar are not checked, and
            teams without a history are checked against their budgets. Prices and `scale.max_gpus`
            are used for savings, and budgets are listed.

    Raises:
        InvalidInput: The pool does not have a ledger, the ledger is not on this machine, or the
            policy cannot be used.
        LedgerError: The ledger cannot be read, or is of another version.
    """
    day = day or day_before(flow_run.scheduled_start_time)
    now = datetime.now(UTC)
    given = policy_in_file(policy)
    # In a synchronous flow no event loop runs, but a flow that calls this one may have its own.
    found: Addresses = run_coro_as_sync(read_addresses(pool))
    ledger_url, access, names = found
    own_pool = run_coro_as_sync(pool_of_run(pool, flow_run.id))
    with open_to_read(ledger_url) as ledger:
        in_force = policy_in_force(given, ledger, own_pool, min(now, Window.of_day(day).end))
        get_run_logger().info("Using the calendar, budgets and prices from %s", in_force.origin)
        known = Known.by(in_force.policy, planned)
        wanted = RunFilter(now=now, with_generated=with_generated)
        report = read_and_decide(ledger, day, wanted, rule, known, in_force.policy, own_pool)
        proposals = proposals_of(ledger, day, with_generated)
        publish_report(report, with_generated, proposals)
        publish_durations(read_durations(ledger, now))
        if access is None:
            get_run_logger().warning(
                "Costs are not logged, because no block named %s was found",
                _either(MLFLOW_BLOCK, names),
            )
            return
        costs = whole_costs(ledger, day, now)
        bills = ledger.run_bills(cost.run.flow_run_id for cost in costs)
        log_costs_to_mlflow(costs, access, bills)


async def read_addresses(pool: str | None) -> Addresses:
    """The addresses of the pool's ledger and of its MLflow, and the names of blocks looked for.

    Raises:
        InvalidInput: No block says where the ledger is.
    """
    async with get_client() as client:
        if pool is None and flow_run.id is not None:
            pool = (await client.read_flow_run(UUID(flow_run.id))).work_pool_name
        ledger_url = await read_ledger_url(client, pool)
        access = await read_mlflow_access(client, pool)
    names = pool_block_names(pool)
    if ledger_url is None:
        raise InvalidInput(
            "pool",
            f"does not have a ledger. No block found named {_either(LEDGER_BLOCK, names)}",
            got=pool,
            remedy=f"run `prefect-gpu setup --pool {pool or 'POOL'} --ledger-url URL`",
        )
    return ledger_url, access, names


def _either(slug: str, names: tuple[str, ...]) -> str:
    return " or ".join(f"{slug}/{name}" for name in names)


def read_and_decide(
    ledger: Ledger,
    day: date,
    wanted: RunFilter,
    rule: ComparisonRule,
    known: Known,
    policy: Policy,
    pool: str | None = None,
) -> DayReport:
    """The day's report, from the ledger's records of that day and the days before it.

    Args:
        pool: Whose policy it is; its runs count in the budgets. None: the runs of all pools.
    """
    is_seasonal = rule is ComparisonRule.SEASONAL
    history = read_histories(ledger, day, day, wanted)[day] if is_seasonal else None
    of_day = Window.of_day(day)
    asked = CostQuestion(window=of_day, keys=(), now=wanted.now)
    saved = SavingsQuestion(
        month=Window(Window.of_day(day.replace(day=1)).start, of_day.end),
        now=wanted.now,
        policy=policy,
        provenance=wanted.provenance,
    )
    return report_day(
        day,
        read_daily_costs(ledger, day, day, wanted),
        wanted.now,
        history=history,
        known=known,
        capacity=ledger.capacity_cost(asked),
        savings=read_savings(ledger, saved),
        budgets=read_budget_uses(
            ledger, policy, min(wanted.now, of_day.end - _LAST), wanted.provenance, pool
        ),
    )


def proposals_of(ledger: Ledger, day: date, with_generated: bool) -> list[str]:
    """The section on proposals as they were at the end of this day; none if there are none.

    Records that cannot be read are named there: the costs are reported all the same.
    """
    try:
        known = read_proposals(ledger, before=Window.of_day(day).end)
    except InvalidInput as error:
        return [f"## Proposals\n\n{escaped(str(error))}"]
    shown = [
        record for record in known.values() if with_generated or not record.proposal.has_generated
    ]
    return [record_section(shown)] if shown else []


def whole_costs(ledger: Ledger, day: date, now: datetime) -> list[RunCost]:
    """The cost of the whole life of each measured run that held GPUs on this day."""
    window = Window.of_day(day)
    usage = ledger.usage(window.start, window.end, provenance=Provenance.MEASURED)
    costs = [run_cost(run, attempts, now) for run, attempts in usage]
    return [cost for cost in costs if cost.held_gpus]


def read_durations(ledger: Ledger, now: datetime) -> tuple[DeploymentDurations, ...]:
    """Run time and lateness of the measured runs of the last 30 days, by deployment."""
    records = ledger.usage(now - DURATIONS_PERIOD, now, provenance=Provenance.MEASURED)
    return deployment_durations(records, now)


@task(cache_policy=NO_CACHE)
def publish_durations(found: tuple[DeploymentDurations, ...]) -> None:
    """Publish how long runs take and how late they start, as one artifact."""
    create_markdown_artifact(
        durations_markdown(found),
        key=DURATIONS_KEY,
        description="Run time and lateness by deployment, p50 to p99",
    )


@task(cache_policy=NO_CACHE)
def publish_report(report: DayReport, with_generated: bool, more: Sequence[str]) -> None:
    """Publish the report where people look: as artifacts in the Prefect UI."""
    keys = artifact_keys(with_generated=with_generated)
    description = f"GPU cost on {report.day.isoformat()}"
    page = to_markdown(report, *more)
    create_markdown_artifact(page, key=keys.report, description=description)
    create_table_artifact(team_rows(report), key=keys.teams, description=description)


@task(cache_policy=NO_CACHE, retries=2, retry_delay_seconds=30)
def log_costs_to_mlflow(
    costs: list[RunCost], access: MlflowAccess, bills: Mapping[str, RunBill]
) -> None:
    """Log each run's cost to its MLflow run."""
    client = mlflow_client(access)
    logger, views = get_run_logger(), {}
    for cost in costs:
        run_id = log_run_cost(
            client,
            cost.run,
            cost,
            status=cost_status(cost),
            price_book=price_book(cost.attempts),
            bill=bills.get(cost.run.flow_run_id),
        )
        if cost.run.experiment not in views:
            views[cost.run.experiment] = pages_of(client, access, run_id)
    logger.info("Logged the cost of %s runs to MLflow", len(costs))
    for experiment, pages in views.items():
        if pages is not None:
            logger.info("Cost and quality of %s: %s", experiment or "other runs", pages.view)
