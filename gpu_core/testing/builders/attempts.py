"""Runs and attempts, and a ledger that has them."""

from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any

from gpu_core.adapters.ledger import Ledger
from gpu_core.decisions.model.attempts import Attempt, RunRecord

NOON = datetime(2026, 3, 4, 12, 0, tzinfo=UTC)


def at(hours: float) -> datetime:
    """Noon of the test day, `hours` later."""
    return NOON + timedelta(hours=hours)


def make_run(flow_run_id: str = "run-1", **fields: Any) -> RunRecord:
    """A run of team vision that was submitted at noon."""
    ordinary: dict[str, Any] = {
        "flow_run_id": flow_run_id,
        "name": f"name-of-{flow_run_id}",
        "flow_name": "train",
        "deployment": "train/gpu",
        "pool": "gpus",
        "queue": "medium",
        "team": "vision",
        "user": "ada",
        "project": "detector",
        "experiment": "detector",
        "model": None,
        "workload_type": "training",
        "priority": 1_000,
        "submitted_at": NOON,
    }
    return RunRecord(**(ordinary | fields))


def make_attempt(flow_run_id: str = "run-1", number: int = 1, **fields: Any) -> Attempt:
    """An attempt on one A10G at 1 USD an hour, admitted at noon and still running."""
    ordinary: dict[str, Any] = {
        "attempt_id": f"{flow_run_id}/{number}",
        "flow_run_id": flow_run_id,
        "number": number,
        "pool": "gpus",
        "host": "host-1",
        "node": "node-1",
        "gpu_type": "a10g",
        "gpu_ids": ("GPU-0",),
        "capacity_type": "on-demand",
        "price_micro_usd_per_gpu_hour": 1_000_000,
        "admitted_at": NOON,
        "bound_at": fields.get("admitted_at", NOON),
    }
    return Attempt(**(ordinary | fields))


def admit(ledger: Ledger, attempt: Attempt, run: RunRecord | None = None) -> None:
    """Write down an attempt that begins, with its run."""
    if not ledger.admit([(run or make_run(attempt.flow_run_id), attempt)]):
        raise ValueError(f"the ledger did not admit attempt {attempt.attempt_id}")


def record_ended(ledger: Ledger, attempt: Attempt) -> None:
    """Write down an attempt that is over, with its run."""
    if attempt.released_at is None or attempt.end_reason is None:
        raise ValueError("this attempt is not over")
    admit(ledger, replace(attempt, released_at=None, end_reason=None))
    ledger.close_attempt(
        attempt.attempt_id,
        released_at=attempt.released_at,
        end_reason=attempt.end_reason,
        end_message=attempt.end_message,
        exit_code=attempt.exit_code,
        is_charged_failure=attempt.is_charged_failure,
    )
