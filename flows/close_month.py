"""Report what a month's GPU runs cost once it is over: read the ledger, decide, publish."""

from datetime import UTC, date, datetime

from prefect import flow, task
from prefect.artifacts import create_markdown_artifact
from prefect.cache_policies import NO_CACHE
from prefect.runtime import flow_run
from prefect.utilities.asyncutils import run_coro_as_sync

from gpu_core.adapters.ledger import Ledger
from gpu_core.adapters.ledger.cost_slices import CostQuestion
from gpu_core.adapters.ledger.source import open_to_read
from gpu_core.adapters.prefect.pool_ledger import pool_ledger_url
from gpu_core.decisions.costs.cost_report import CostReport, cost_report
from gpu_core.decisions.costs.idle import IdleRule, with_idle
from gpu_core.decisions.costs.month_report import (
    KEYS,
    MonthReport,
    month_before,
    month_markdown,
    month_windows,
)
from gpu_core.decisions.costs.usage_cost import Window
from gpu_core.decisions.model.attempts import Provenance


@flow(name="close-month")
def close_month(
    month: date | None = None, with_generated: bool = False, pool: str | None = None
) -> None:
    """Report what the GPU runs of one month cost, by team, project, deployment and capacity.

    Each month has an artifact of its own. Running it again for the same month gives the same
    report.

    Args:
        month: Any UTC day of the month; by default the month before the one that this run was
            scheduled in.
        with_generated: Count generated runs too; the report says so and is published apart.
        pool: The work pool whose ledger is read; by default the one that this run runs in.

    Raises:
        InvalidInput: The month has not started, or the pool has no ledger on this machine.
        LedgerError: The ledger cannot be read, or is of another version.
    """
    now = datetime.now(UTC)
    window, before = month_windows(month or month_before(flow_run.scheduled_start_time), now)
    ledger_url: str = run_coro_as_sync(pool_ledger_url(pool, flow_run.id))
    with open_to_read(ledger_url) as ledger:
        publish_month(read_month(ledger, window, before, with_generated, now))


def read_month(
    ledger: Ledger, window: Window, before: Window, with_generated: bool, now: datetime
) -> MonthReport:
    """The month's report, from the ledger's sums."""
    return MonthReport(
        first_day=window.start.date(),
        is_over=window.end <= now,
        reports={key: _report(ledger, window, key, with_generated, now) for key in KEYS},
        before=_report(ledger, before, KEYS[0], with_generated, now),
        with_generated=with_generated,
    )


def _report(
    ledger: Ledger, window: Window, key: str, with_generated: bool, now: datetime
) -> CostReport:
    asked = CostQuestion(
        window=window,
        keys=(key,),
        now=now,
        provenance=None if with_generated else Provenance.MEASURED,
    )
    report = cost_report(window, asked.keys, *ledger.cost_slices(asked))
    capacity = ledger.capacity_cost(asked)
    return with_idle(report, capacity.idle, IdleRule.NONE, capacity.faults)


@task(cache_policy=NO_CACHE)
def publish_month(report: MonthReport) -> None:
    """Publish the report where people look: as an artifact in the Prefect UI."""
    create_markdown_artifact(
        month_markdown(report),
        key=report.artifact_key,
        description=f"GPU cost in {report.first_day:%B %Y}",
    )
