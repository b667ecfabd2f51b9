"""Publishes why runs wait, and who holds GPUs, with few requests to Prefect's API.

The API process is the bottleneck of a Prefect server. A run is written to only when its reason or
its place in coarse steps has changed, or its expected start is new: the head of the queue first,
and a bounded number in one cycle. The whole queue and the holders of GPUs are two artifacts of the
pool.
"""

import logging
from collections.abc import Callable, Mapping, Sequence
from datetime import datetime, timedelta
from typing import Any, NamedTuple
from uuid import UUID

import anyio
from prefect.client.orchestration import PrefectClient
from prefect.client.schemas.actions import ArtifactCreate
from prefect.client.schemas.objects import FlowRun, State
from prefect.client.schemas.responses import SetStateStatus
from prefect.states import AwaitingConcurrencySlot, Scheduled

from gpu_core.adapters.prefect.artifacts import find_artifact, write_artifact
from gpu_core.adapters.prefect.states import restore_overwritten
from gpu_core.decisions.costs.mlflow.mlflow_views import MlflowPages
from gpu_core.decisions.costs.reports.holders_table import (
    HoldersTableEntry,
    holders_key,
    holders_markdown,
    to_holder_row,
    without_holder_texts,
)
from gpu_core.decisions.costs.reports.run_history_markdown import (
    attempts_markdown,
    attempts_summary,
)
from gpu_core.decisions.model.attempts import Attempt
from gpu_core.decisions.model.reasons import Explanation, Reason
from gpu_core.decisions.model.table_cells import Row
from gpu_core.decisions.scheduling.queue.queue_table import (
    QueueTableEntry,
    artifact_key,
    notices_metadata,
    queue_markdown,
    table_entries,
    to_row,
    without_texts,
)
from gpu_core.worker.attempts.run_faults import RunFaults
from gpu_core.worker.attempts.run_log import log_of_run
from gpu_core.worker.pending.demand import Demand
from gpu_core.worker.pending.pool_artifact import PoolTable

_log = logging.getLogger("prefect.gpu.publisher")

# Pausing a deployment, and removing one of its schedules, deletes what its schedules have submitted
# and what has not run yet, unless its state has this name (Prefect 3.8, `_delete_scheduled_runs`).
_KEPT_BY_PREFECT = str(AwaitingConcurrencySlot().name)

ATTEMPTS_KEY = "gpu-attempts"
"""The key of the artifact that shows a run its attempts and their cost."""

# Expected starts and places in the queue move in every cycle: by themselves they are not worth
# more writes than these. Each one of a run's is a line in its history, too.
_REFRESH = timedelta(seconds=30)

# The cost of what runs grows all the time; `prefect-gpu queue` adds what has accrued since.
_COST_REFRESH = timedelta(minutes=5)


class Shown(NamedTuple):
    """The waiting reason that was last published on a run's page."""

    reason: Reason
    step: int
    at: datetime
    starts_at: datetime | None = None


def is_news(
    explanation: Explanation, shown: Shown | None, state: State[Any] | None, now: datetime
) -> bool:
    """Should the run's page be written again?

    A new reason at once; a new place in the queue now and then, and so a state that Prefect has
    written over ours: its service for late runs reads a run, and may write `Late` after us. An
    expected start is written again when it becomes known, and when the one shown has passed.

    Args:
        explanation: Why it waits now.
        shown: What was written; None: nothing.
        state: The run's state when the queue was read; None: unknown.
        now: Aware.
    """
    if shown is None or explanation.reason is not shown.reason:
        return True
    is_overwritten = state is not None and not is_shown(state, explanation.reason)
    has_moved = step(explanation.position) != shown.step
    has_start = _has_new_start(explanation, shown, now)
    return (has_moved or is_overwritten or has_start) and now - shown.at >= _REFRESH


def _has_new_start(explanation: Explanation, shown: Shown, now: datetime) -> bool:
    """Is there a later expected start in place of none, or of one that has passed?"""
    starts_at = explanation.expected_start_at
    if starts_at is None or starts_at < now + _REFRESH:
        return False
    return shown.starts_at is None or shown.starts_at <= now


def waiting_state_name(run: FlowRun, reason: Reason, fixed_name: str | None) -> str:
    """The name of the state of a waiting run.

    Args:
        run: The run as Prefect has it.
        reason: Why it waits.
        fixed_name: The name that the operator has set for all waiting runs; None: none.
    """
    if fixed_name is not None:
        return fixed_name
    is_deleted_on_pause = run.auto_scheduled and not run.run_count
    return _KEPT_BY_PREFECT if is_deleted_on_pause else reason.value


def is_shown(state: State[Any], reason: Reason) -> bool:
    """Does this state of a waiting run say this reason? Then its log does, too."""
    return state.name == reason or f"{reason}: " in (state.message or "")


class Publisher:
    """Writes reasons and attempts to Prefect, for the owner of each run.

    Args:
        client: Prefect's client.
        pool: The pool's name, for its artifact.
        state_name: The name of the state of every waiting run; None: the reason why it waits.
        turn: Held while the state of one waiting run is written. A start waits for it once the run
            is held: no later write then makes the run wait again.
        faults: What goes wrong for single runs.
    """

    def __init__(
        self,
        client: PrefectClient,
        pool: str,
        state_name: str | None,
        turn: anyio.Lock,
        faults: RunFaults | None = None,
    ) -> None:
        self._faults = faults or RunFaults()
        self._client = client
        self._queue_table = PoolTable(client, artifact_key(pool), without_texts)
        self._holders_table = PoolTable(client, holders_key(pool), without_holder_texts)
        self._state_name = state_name
        self._shown: dict[str, Shown] = {}
        self._queue: object = None
        self._rows: object = None
        self._queue_written_at: datetime | None = None
        self._turn = turn

    async def waiting(
        self,
        explanations: Sequence[Explanation],
        demands: Mapping[str, Demand],
        last_ends: Mapping[str, str],
        now: datetime,
        *,
        limit: int,
        is_held: Callable[[str], bool],
    ) -> None:
        """Show each waiting run its reason, where that is new; at most `limit` runs at a time.

        Args:
            explanations: Of the runs that wait, the head of the queue first.
            demands: The runs, by flow run id.
            last_ends: Why the last attempt ended, of those that had one.
            now: Aware.
            limit: How many runs may be written to.
            is_held: Has this run an attempt by now? It waits no longer.
        """
        self._shown = {key: shown for key, shown in self._shown.items() if key in demands}
        written = 0
        for explanation in explanations:
            flow_run = demands[explanation.workload_id].flow_run
            shown = self._shown.get(explanation.workload_id)
            if not is_news(explanation, shown, flow_run.state, now):
                continue
            if written >= limit:
                return
            if is_held(explanation.workload_id):
                continue
            # Before it is written, as the next cycle may publish meanwhile; and also where that
            # fails: in the next cycle others have their turn.
            self._shown[explanation.workload_id] = Shown(
                *(explanation.reason, step(explanation.position), now),
                explanation.expected_start_at,
            )
            with self._faults.contained(
                explanation.workload_id, flow_run.name, "shown why it waits", now
            ):
                await self._write_state(
                    demands[explanation.workload_id], explanation, last_ends, is_held
                )
            written += 1

    async def queue(
        self,
        explanations: Sequence[Explanation],
        demands: Mapping[str, Demand],
        now: datetime,
        notices: Sequence[str] = (),
        holders: Sequence[HoldersTableEntry] = (),
    ) -> None:
        """Show who holds GPUs and who waits as two artifacts of the pool, if that changed.

        Args:
            explanations: Of the runs that wait, the head of the queue first.
            demands: The runs, by flow run id.
            now: Aware.
            notices: What people must know as well; the artifact's description has them too.
            holders: The runs that hold GPUs.
        """
        entries: list[QueueTableEntry] = []
        rows: list[dict[str, object]] = []
        for e in explanations:
            workload = demands[e.workload_id].workload
            with self._faults.contained(e.workload_id, workload.name, "shown in the queue", now):
                (entry,) = table_entries([e], {e.workload_id: workload})
                rows.append(to_row(entry))
                entries.append(entry)
        essence = [
            *notices,
            *((e.workload_id, e.reason, e.position) for e in explanations),
            *((h.run_id, h.attempt, h.ending, h.nodes) for h in holders),
        ]
        written_at = self._queue_written_at
        age = timedelta.max if written_at is None else now - written_at
        have_moved = rows != self._rows and age >= _REFRESH
        if essence == self._queue and not have_moved and not (holders and age >= _COST_REFRESH):
            return
        page = "\n\n".join([*notices, holders_markdown(holders), queue_markdown(entries)])
        await self._write_queue(rows, page, notices, holders)
        self._queue, self._rows, self._queue_written_at = essence, rows, now

    async def _write_queue(
        self,
        rows: Sequence[Row],
        page: str,
        notices: Sequence[str],
        holders: Sequence[HoldersTableEntry],
    ) -> None:
        await self._holders_table.write(
            [to_holder_row(entry) for entry in holders], "Runs that are using GPUs of the pool."
        )
        await self._queue_table.write(
            rows,
            page,
            plain_description="\n\n".join([*notices, "Runs that are waiting for GPUs."]),
            metadata=notices_metadata(notices),
        )

    async def attempts(
        self,
        flow_run_id: str,
        attempts: Sequence[Attempt],
        *,
        mlflow: MlflowPages | None = None,
    ) -> None:
        """Show a run the history of its attempts.

        Args:
            flow_run_id: The run.
            attempts: All of them so far, by number.
            mlflow: The pages of its run in MLflow; None: there is none, or not yet.
        """
        artifact = ArtifactCreate(
            key=ATTEMPTS_KEY,
            flow_run_id=UUID(flow_run_id),
            type="markdown",
            data=attempts_markdown(attempts, mlflow),
            description=attempts_summary(attempts),
        )
        # The first attempt's end makes it; those of later ones and the link to MLflow edit it.
        found = None
        if len(attempts) > 1 or mlflow is not None:
            found = await find_artifact(self._client, ATTEMPTS_KEY, flow_run_id)
        await write_artifact(self._client, artifact, None if found is None else found.id)

    async def _write_state(
        self,
        demand: Demand,
        explanation: Explanation,
        last_ends: Mapping[str, str],
        is_held: Callable[[str], bool],
    ) -> None:
        flow_run = demand.flow_run
        # Read again: a new state would undo the cancellation of a cancelled run.
        current = await self._client.read_flow_run(flow_run.id)
        if current.state is None or not current.state.is_scheduled():
            return
        name = waiting_state_name(current, explanation.reason, self._state_name)
        why = f"{explanation.summary} {explanation.resolution}"
        shown = why if name == explanation.reason else f"{explanation.reason}: {why}"
        shown = " ".join(filter(None, (shown, outlook(explanation))))
        last_end = last_ends.get(explanation.workload_id)
        state: State[Any] = Scheduled(
            # With another time the run would lose its place in the queue.
            scheduled_time=flow_run.next_scheduled_start_time,
            name=name,
            message=f"{last_end} {shown}" if last_end else shown,
        )
        # The next cycle and every start wait for this turn: only what they depend on is in it.
        async with self._turn:
            if is_held(explanation.workload_id):
                return
            answer = await self._client.set_flow_run_state(flow_run.id, state)
        if answer.status is not SetStateStatus.ACCEPT or answer.state is None:
            return
        if await restore_overwritten(
            *(self._client, current, answer.state),
            lambda state: not state.is_scheduled(),
        ):
            return
        if not is_shown(current.state, explanation.reason):
            log = log_of_run(
                str(flow_run.id), flow_run.name, demand.flow_name, reason=explanation.reason
            )
            log.info("%s: %s", explanation.reason, why)


def outlook(explanation: Explanation) -> str:
    """The place in the queue and the expected start, as a sentence; empty: it has no place."""
    place, start = step(explanation.position), explanation.expected_start_at
    if not place:
        return ""
    about = "" if place == explanation.position else "about "
    when = "" if start is None else f"; expected start {start:%Y-%m-%d %H:%M} UTC"
    return f"Position {about}{place} in the queue{when}."


def step(position: int) -> int:
    """The position in steps: exact at the head, then by 5, then by 25."""
    if position <= 5:
        return position
    if position <= 25:
        return position - position % 5
    return position - position % 25
