"""What the scheduler did with a run: in the log on its page, and as fields of log lines."""

import logging
from datetime import datetime, timedelta

from prefect.logging.loggers import PrefectLogAdapter, get_logger

from gpu_core.worker.attempts.state import AttemptState

_LOGGER = "prefect.flow_runs.gpu"
# The finest that Prefect's log has.
_MICROSECOND = timedelta(microseconds=1)


def run_log(
    running: AttemptState, reason: str | None = None
) -> "logging.LoggerAdapter[logging.Logger]":
    """A logger whose lines appear on the page of this attempt's flow run.

    Args:
        running: Whose run.
        reason: The reason code that the lines tell of, if they tell of one.
    """
    extra = {"flow_name": running.record.flow_name, **run_fields(running, reason)}
    return PrefectLogAdapter(get_logger(_LOGGER), extra=extra)


def log_of_run(
    flow_run_id: str, name: str, flow_name: str | None = None, *, reason: str | None = None
) -> "logging.LoggerAdapter[logging.Logger]":
    """The same where less is known of the run."""
    extra = {"flow_run_name": name, "flow_run_id": flow_run_id, "flow_name": flow_name}
    if reason is not None:
        extra["reason"] = reason
    return PrefectLogAdapter(get_logger(_LOGGER), extra=extra)


def output_log_name(pod: str) -> str:
    """The name of the logger that the lines of this pod's output have on the run's page."""
    return f"{_LOGGER}.{pod}"


class OutputLog:
    """What a pod prints, in the log of its run, each line with the time at which it was printed.

    These times are what a later follower knows the lines by, and the order that Prefect shows them
    in: of two lines of the same microsecond the second gets a later one.

    Args:
        running: Whose run.
        pod: The pod's name.
    """

    def __init__(self, running: AttemptState, pod: str) -> None:
        self._logger = logging.getLogger(_LOGGER)
        self._name = output_log_name(pod)
        self._extra = {"flow_name": running.record.flow_name, **run_fields(running)}
        self._newest: datetime | None = None

    def continue_after(self, newest: datetime | None) -> None:
        """The log has its lines up to this time; None: it has none."""
        self._newest = newest

    def write(self, at: datetime, text: str) -> None:
        """One more line."""
        if not self._logger.isEnabledFor(logging.INFO):
            return
        if self._newest is not None:
            at = max(at, self._newest + _MICROSECOND)
        self._newest = at
        # A logger of this name would be kept for ever, as each has a place in a table.
        record = self._logger.makeRecord(
            self._name, logging.INFO, __file__, 0, "%s", (text,), None, extra=self._extra
        )
        record.created, record.msecs = at.timestamp(), at.microsecond / 1000
        self._logger.handle(record)


def run_fields(running: AttemptState, reason: str | None = None) -> dict[str, object]:
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
