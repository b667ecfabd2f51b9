"""What the scheduler did with a run: in the log on its page, and as fields of log lines."""

import logging

from prefect.logging.loggers import PrefectLogAdapter, get_logger

from gpu_core.worker.running import RunningAttempt


def run_log(
    running: RunningAttempt, reason: str | None = None
) -> "logging.LoggerAdapter[logging.Logger]":
    """A logger whose lines appear on the page of this attempt's flow run.

    Args:
        running: Whose run.
        reason: The reason code that the lines tell of, if they tell of one.
    """
    extra = {"flow_name": running.record.flow_name, **run_fields(running, reason)}
    return PrefectLogAdapter(get_logger("prefect.flow_runs.gpu"), extra=extra)


def log_of_run(
    flow_run_id: str, name: str, flow_name: str | None = None, *, reason: str | None = None
) -> "logging.LoggerAdapter[logging.Logger]":
    """The same where less is known of the run."""
    extra = {"flow_run_name": name, "flow_run_id": flow_run_id, "flow_name": flow_name}
    if reason is not None:
        extra["reason"] = reason
    return PrefectLogAdapter(get_logger("prefect.flow_runs.gpu"), extra=extra)


def run_fields(running: RunningAttempt, reason: str | None = None) -> dict[str, object]:
    """What a structured log line about this attempt has, as `extra` of the line.

    Args:
        running: Which attempt. Its `node` is missing while it waits for one; a gang has several.
        reason: The reason code that the line tells of, if it tells of one.
    """
    known = {
        "flow_run_id": running.record.flow_run_id,
        "flow_run_name": running.record.name,
        "attempt": running.attempt.number,
        "node": None if running.awaited_kinds else ",".join(s.node for s in running.attempt.held),
        "reason": reason,
    }
    return {name: value for name, value in known.items() if value not in (None, "")}
