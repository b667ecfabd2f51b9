"""Reports the cost of GPU runs for a month that is over."""

import os
from datetime import UTC, date, datetime, timedelta
from pathlib import Path

from prefect import flow, get_run_logger, task
from prefect.artifacts import create_markdown_artifact
from prefect.cache_policies import NO_CACHE
from prefect.runtime import flow_run
from prefect.utilities.asyncutils import run_coro_as_sync

from gpu_core.adapters.ledger import Ledger, LedgerError
from gpu_core.adapters.ledger.cost_slices import CostQuestion
from gpu_core.adapters.ledger.policy_in_force import policy_in_file, policy_in_force
from gpu_core.adapters.ledger.retention import Purge, purge_before
from gpu_core.adapters.ledger.source import open_to_read
from gpu_core.adapters.prefect.pool_ledger import pool_ledger_url, pool_of_run
from gpu_core.decisions.costs.capacity.idle import IdleRule, with_idle
from gpu_core.decisions.costs.reports.cost_report import CostReport, cost_report
from gpu_core.decisions.costs.reports.month_report import (
    KEYS,
    MonthReport,
    month_before,
    month_markdown,
    month_windows,
)
from gpu_core.decisions.costs.usage.usage_cost import Window
from gpu_core.decisions.model.attempts import Provenance
from gpu_core.decisions.model.decision_anchor import anchor_key
from gpu_core.decisions.model.errors import InvalidInput
from gpu_core.decisions.model.units import count

_KEY_VARIABLE = "PREFECT_GPU_ANCHOR_KEY"


@flow(name="close-month")
def close_month(
    month: date | None = None,
    with_generated: bool = False,
    pool: str | None = None,
    policy: Path | None = None,
) -> None:
    """Reports the cost of GPU runs for one month by team, project, deployment and capacity.

    The report of each month is published as a separate artifact. If you run the flow again for the
    same month, the report is the same. Records of the decision log are deleted if they are older,
    at the end of that month, than the retention period in the policy. Anchors are kept, and are
    signed with the key in `PREFECT_GPU_ANCHOR_KEY`.

    Args:
        month: Any UTC day of the month. Defaults to the month before the one in which this run was
            scheduled.
        with_generated: Whether to include generated runs. The report is then marked and published
            separately.
        pool: The work pool from which the ledger is read. Defaults to the work pool of this run.
        policy: The path to a policy file that contains `retention`. Defaults to the policy that was
            in force on the workers of the pool at the end of the month.

    Raises:
        InvalidInput: The month has not started, the pool does not have a ledger on this machine, or
            the policy deletes records and no key is set.
        LedgerError: The ledger cannot be read, is of another version, or contains an invalid chain
            of decisions, which would be hidden if its beginning was deleted.
    """
    now = datetime.now(UTC)
    given = policy_in_file(policy)
    window, before = month_windows(month or month_before(flow_run.scheduled_start_time), now)
    own_pool = run_coro_as_sync(pool_of_run(pool, flow_run.id))
    ledger_url: str = run_coro_as_sync(pool_ledger_url(own_pool, flow_run.id))
    with open_to_read(ledger_url) as ledger:
        found = policy_in_force(given, ledger, own_pool, min(now, window.end))
        get_run_logger().info("Using the retention period from %s", found.origin)
        retention = found.policy.retention
        key = None if retention.decisions_s is None else _anchor_key()
        publish_month(read_month(ledger, window, before, with_generated, now))
        if retention.decisions_s is not None and key is not None and window.end <= now:
            oldest = window.end - timedelta(seconds=retention.decisions_s)
            log_purge(purge_before(ledger, oldest, key, now), oldest)


def _anchor_key() -> bytes:
    text = os.environ.get(_KEY_VARIABLE)
    if not text:
        raise InvalidInput(
            _KEY_VARIABLE,
            "is required, because the policy specifies a retention period for decisions and "
            "purged logs must be signed",
            remedy="please provide the key to this deployment as an environment variable, for "
            "example from a Kubernetes Secret",
        )
    try:
        return anchor_key(text)
    except InvalidInput as error:
        raise error.at(_KEY_VARIABLE) from None


def log_purge(purge: Purge, oldest: datetime) -> None:
    """Say in the run's log what was deleted.

    Raises:
        LedgerError: A chain has a problem; nothing was deleted.
    """
    if purge.problems:
        found = "; ".join(f"{check.writer}: {check.problem}" for check in purge.problems)
        raise LedgerError(
            f"No decisions were deleted, because a purge would hide these problems: {found}"
        )
    records = count(sum(purge.deleted.values()), "record")
    get_run_logger().info("Deleted %s of decisions before %s", records, f"{oldest:%Y-%m-%d}")


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
