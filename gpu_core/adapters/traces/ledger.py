"""One's own past: the usage ledger's runs as jobs that can be replayed under another policy."""

from collections.abc import Sequence
from datetime import UTC, datetime

from gpu_core.adapters.ledger.source import open_to_read
from gpu_core.decisions.attempts.resumption import ResumptionHistory
from gpu_core.decisions.model.attempts import Attempt, RunRecord
from gpu_core.decisions.model.errors import InvalidInput
from gpu_core.decisions.model.work_done import has_ended, work_s
from gpu_core.decisions.simulation.cluster.trace import MOST_S, TraceJob

_ALWAYS = (datetime(1970, 1, 1, tzinfo=UTC), datetime(9999, 1, 1, tzinfo=UTC))


def read_ledger(source: str) -> tuple[TraceJob, ...]:
    """The finished runs of a ledger, from the first submission on.

    A run that still holds GPUs, or was stopped and waits to resume, has no known length and is
    left out. The ledger lacks which other GPU types a run would accept: it accepts any. A run of a
    deployment that has not shown that its runs resume loses all its work when it is preempted.

    Args:
        source: A SQLite file's path, or the ledger's address (`postgresql+psycopg://…`).

    Raises:
        InvalidInput: There is no such file, or no finished run in it.
        LedgerError: The database cannot be read, or is of another version.
    """
    records = read_records(source)
    ended = [(run, attempts) for run, attempts in records if has_ended(attempts)]
    if not ended:
        raise InvalidInput("workload", "has no finished run", got=source)
    began_at = min(run.submitted_at for run, _ in ended)
    resumptions = ResumptionHistory()
    for run, attempts in records:
        resumptions.observe(run.deployment, attempts)
    return tuple(_job(run, attempts, began_at, resumptions) for run, attempts in ended)


def read_records(source: str) -> tuple[tuple[RunRecord, tuple[Attempt, ...]], ...]:
    """All runs of a ledger that held GPUs, in the order of submission, with their attempts.

    Raises:
        InvalidInput: There is no such file.
        LedgerError: The database cannot be read, or is of another version.
    """
    with open_to_read(source) as ledger:
        return ledger.usage(*_ALWAYS)


def _job(
    run: RunRecord,
    attempts: Sequence[Attempt],
    began_at: datetime,
    resumptions: ResumptionHistory,
) -> TraceJob:
    has_resumed, held = resumptions.has_resumed(run.deployment), attempts[-1].held
    return TraceJob(
        job_id=run.flow_run_id,
        submit_s=(run.submitted_at - began_at).total_seconds(),
        duration_s=work_s(attempts),
        gpu_count=len(held[0].gpu_ids) if held else 0,
        nodes=max(1, len(held)),
        team=run.team,
        user=run.user,
        deployment=run.deployment,
        priority=run.priority,
        has_resumed=has_resumed,
        restart_s=resumptions.restart_s(run.deployment) if has_resumed else None,
        # Nothing is saved before the end, not even at a notice.
        checkpoint_interval_s=None if has_resumed else MOST_S,
        checkpoint_stall_s=0 if has_resumed else MOST_S,
    )
