"""What ran in a month, from whole records: what the ledger reads in few columns."""

from collections.abc import Iterable, Sequence

from gpu_core.decisions.costs.savings.gpu_type_choice import PaidAttempt, most_memory_mib
from gpu_core.decisions.costs.savings.month_savings import MonthWork
from gpu_core.decisions.costs.usage.time_use import Tariff
from gpu_core.decisions.costs.usage.usage_cost import Window, attempt_usage
from gpu_core.decisions.model.attempts import Attempt, EndReason, RunRecord
from gpu_core.decisions.model.cluster import SPOT
from gpu_core.decisions.model.units import epoch_us

Records = Iterable[tuple[RunRecord, Sequence[Attempt]]]


def paid_attempts(records: Records) -> list[PaidAttempt]:
    """All attempts, each with its whole cost in one part."""
    return [
        PaidAttempt(
            flow_run_id=run.flow_run_id,
            deployment=run.deployment,
            number=attempt.number,
            gpu_type=attempt.gpu_type,
            released_us=None if attempt.released_at is None else epoch_us(attempt.released_at),
            is_completed=attempt.end_reason is EndReason.COMPLETED,
            paid=()
            if attempt.released_at is None
            else ((Tariff(attempt_usage(attempt, attempt.released_at)), 1),),
            memory_mib=most_memory_mib(
                [
                    None if summary.is_simulated else summary.memory_used_max_bytes
                    for summary in attempt.gpu_summaries or ()
                ]
            ),
        )
        for run, attempts in records
        for attempt in attempts
        if attempt.has_run
    ]


def month_work(records: Records, window: Window) -> MonthWork:
    """The work of these runs in this time."""
    pairs = list(records)
    return MonthWork(
        attempts=paid_attempts(pairs),
        interrupted=[
            attempt
            for _, attempts in pairs
            for attempt in attempts
            if attempt.capacity_type == SPOT
            and attempt.lost_capacity
            and attempt.released_at is not None
            and attempt.released_at in window
        ],
    )
