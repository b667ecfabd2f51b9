"""What the scheduler did with a run, in the run's own log on its page."""

import logging

from prefect.logging.loggers import PrefectLogAdapter, get_logger

from gpu_core.decisions.accounting import RunRecord


def run_log(record: RunRecord) -> "logging.LoggerAdapter[logging.Logger]":
    """A logger whose lines appear on the page of this flow run."""
    return PrefectLogAdapter(
        get_logger("prefect.flow_runs.gpu"),
        extra={
            "flow_run_name": record.name,
            "flow_run_id": record.flow_run_id,
            "flow_name": record.flow_name,
        },
    )
