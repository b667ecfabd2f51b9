"""How many samples at once? Fewer, after the run has run out of its GPU's memory."""

import logging
import os
import threading
from pathlib import Path
from typing import NamedTuple

from gpu_core.adapters.files.micro_batch_report import write_micro_batch_report
from gpu_core.decisions.model.errors import InvalidInput
from gpu_core.decisions.requests.runs.run_context import MICRO_BATCH_LABEL, RunContext
from gpu_core.runtime.prefect_report import send_labels

_log = logging.getLogger(__name__)

# A busy server answers within seconds, and no training waits for longer.
_LONGEST_WAIT_S = 5.0

# Of torchrun and others; the labels that several ranks send at once could undo each other.
_RANK = "RANK"


class MicroBatch(NamedTuple):
    """A micro-batch, and how often its gradients are added up for the same step."""

    size: int
    accumulation_steps: int


def micro_batch(size: int) -> MicroBatch:
    """How many samples does this attempt put on its GPU at once?

        batch = micro_batch(64)
        loader = DataLoader(data, batch_size=batch.size)
        ...
        (loss / batch.accumulation_steps).backward()

    Asking declares that the run can work with less: the policy `memory.action: shrink` halves it
    after each attempt that ran out of its GPU's memory. `accumulation_steps` micro-batches have at
    least as many samples as were asked for.

    Args:
        size: What the run uses with enough memory, 1 or more.

    Raises:
        InvalidInput: The size is under 1.
    """
    if size < 1:
        raise InvalidInput("size", "is out of range", got=size, allowed="1 or more")
    run = RunContext.from_environment(os.environ)
    divisor = 1 if run is None else run.micro_batch_divisor
    if run is not None and os.environ.get(_RANK, "0") == "0":
        _report(run)
    smaller = max(1, size // divisor)
    steps = -(-size // smaller)
    if smaller < size:
        _log.info("Using a micro-batch of %d instead of %d, in %d steps", smaller, size, steps)
    return MicroBatch(smaller, steps)


def _report(run: RunContext) -> None:
    """Let the worker know that this run can work with less.

    The run may be out of memory a moment later, so that this waits a little for an answer.
    """
    if not run.reports_to_prefect:
        _write(run)
        return
    sending = threading.Thread(target=_send, args=(run,), name="prefect-gpu-report", daemon=True)
    sending.start()
    sending.join(_LONGEST_WAIT_S)


def _write(run: RunContext) -> None:
    try:
        if run.run_dir is not None:
            write_micro_batch_report(Path(run.run_dir), run.attempt_id)
    except OSError as error:
        _log.warning("Failed to report the use of micro_batch() to the worker: %s", error)


def _send(run: RunContext) -> None:
    try:
        send_labels(run.flow_run_id, {MICRO_BATCH_LABEL: run.attempt_id})
    except Exception as error:
        _log.warning("Failed to report the use of micro_batch() to the worker: %s", error)
