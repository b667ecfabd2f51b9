"""Messages about a run's attempts for its page, its log and Kubernetes Events."""

import logging
from datetime import datetime, timedelta

from prefect.logging.loggers import PrefectLogAdapter, get_logger

from gpu_core.decisions.costs.usage.usage import round_half_up
from gpu_core.decisions.model.units import format_usd
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
        reason: The reason code that the lines are about; None: about none.
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
    """Writes the output of a pod to the log of its run, each line with its original time.

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
    """Fields about this attempt for structured log lines, as `extra` of the line.

    Args:
        running: Which attempt. Its `node` is missing until it is certain; a gang has several.
        reason: The reason code that the line is about; None: about none.
    """
    known = {
        "flow_run_id": running.record.flow_run_id,
        "flow_run_name": running.record.name,
        "attempt": running.attempt.number,
        "node": _nodes(running) if running.attempt.bound_at is not None else None,
        "reason": reason,
    }
    return {name: value for name, value in known.items() if value not in (None, "")}


def describe_placement(running: AttemptState, verb: str) -> str:
    """The GPUs that the attempt holds, or waits for.

    Args:
        running: It has its GPUs.
        verb: What it does there: "started", "starts".
    """
    attempt = running.attempt
    if attempt.gpu_type is None:
        return f"{verb} without GPUs because no GPUs were requested"
    gpus = f"{attempt.gpu_count} × {attempt.gpu_type}"
    kinds = ", ".join(running.awaited_kinds)
    if kinds:
        return f"is waiting for a new node ({kinds}) with {gpus}, {attempt.capacity_type}"
    if running.is_to_be_placed:
        return f"is waiting to be placed by another scheduler (planned with {gpus})"
    return f"{verb} on {gpus} of {_nodes(running, ', ')}: {', '.join(attempt.gpu_ids)}"


def _nodes(running: AttemptState, separator: str = ",") -> str:
    return separator.join(share.node for share in running.attempt.held)


def reasons_of_choice(running: AttemptState) -> dict[str, str]:
    """The reasons for its placement, by what was chosen. What its owner chose has no reason."""
    workload = running.workload
    known = {
        "GPU types": workload.gpu_type_reason,
        "Capacity": workload.capacity_reason,
        "Zone": workload.zone_reason,
        "Memory": workload.memory_reason,
        "Micro-batch": workload.micro_batch_reason,
    }
    return {what: why for what, why in known.items() if why is not None}


def start_note(running: AttemptState) -> str:
    """The note of a start for a Kubernetes Event: place, price and reasons."""
    attempt = running.attempt
    price = attempt.price_micro_usd_per_gpu_hour
    sentences = [f"Attempt {attempt.number} {describe_placement(running, 'starts')}."]
    if price is not None and attempt.gpu_count and attempt.bound_at is not None:
        an_hour = format_usd(round_half_up(price * attempt.priced_gpus))
        sentences.append(f"Cost: {an_hour} per hour ({attempt.capacity_type}).")
    reasons = reasons_of_choice(running).items()
    sentences += [f"{what}: {why.rstrip('.')}." for what, why in reasons]
    return " ".join(sentences)
