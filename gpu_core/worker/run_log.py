"""What the scheduler did with a run, in the run's own log on its page."""

import logging

from prefect.logging.loggers import PrefectLogAdapter, get_logger

from gpu_core.decisions.accounting import RunRecord


def run_log(record: RunRecord) -> "logging.LoggerAdapter[logging.Logger]":
    """A logger whose lines appear on the page of this flow run."""
    return log_of_run(record.flow_run_id, record.name, record.flow_name)


def log_of_run(
    flow_run_id: str, name: str, flow_name: str | None = None
) -> "logging.LoggerAdapter[logging.Logger]":
    """The same where less is known of the run."""
    return PrefectLogAdapter(
        get_logger("prefect.flow_runs.gpu"),
        extra={"flow_run_name": name, "flow_run_id": flow_run_id, "flow_name": flow_name},
    )
