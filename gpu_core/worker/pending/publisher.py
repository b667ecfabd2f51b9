"""Telling people why their runs wait, without drowning Prefect's API in it.

The API process is the bottleneck of a Prefect server, so a run is written to only when its
reason or its place in coarse steps has changed, the head of the line first, and only so many in
one cycle. The whole line is one artifact of the pool.
"""

import json
import logging
from collections.abc import Callable, Mapping, Sequence
from datetime import datetime, timedelta
from typing import Any, NamedTuple
from uuid import UUID

import anyio
from prefect.client.orchestration import PrefectClient
from prefect.client.schemas.actions import ArtifactCreate, ArtifactUpdate
from prefect.client.schemas.filters import (
    ArtifactFilter,
    ArtifactFilterFlowRunId,
    ArtifactFilterKey,
)
from prefect.client.schemas.objects import FlowRun, State
from prefect.client.schemas.responses import SetStateStatus
from prefect.states import AwaitingConcurrencySlot, Scheduled

from gpu_core.decisions.attempts.history_markdown import attempts_markdown
from gpu_core.decisions.model.attempts import Attempt
from gpu_core.decisions.model.reasons import Explanation, Reason
from gpu_core.decisions.scheduling.queue_table import (
    NOTICES,
    artifact_key,
    table_entries,
    to_row,
    without_texts,
)
from gpu_core.worker.attempts.overwritten_states import restore_overwritten
from gpu_core.worker.attempts.run_faults import RunFaults, is_outage
from gpu_core.worker.attempts.run_log import log_of_run
from gpu_core.worker.pending.demand import Demand

_log = logging.getLogger("prefect.gpu.publisher")

# Pausing a deployment, and removing one of its schedules, deletes what its schedules have submitted
# and what has not run yet, unless its state has this name (Prefect 3.8, `_delete_scheduled_runs`).
_KEPT_BY_PREFECT = str(AwaitingConcurrencySlot().name)

ATTEMPTS_KEY = "gpu-attempts"
"""The key of the artifact that shows a run its attempts and their cost."""

# Expected starts and places in line move in every cycle: by themselves they are not worth more
# writes than these. Each one of a run's is a line in its history, too.
_REFRESH = timedelta(seconds=30)


class Shown(NamedTuple):
    """What a run's page said last of why it waits."""

    reason: Reason
    step: int
    at: datetime


def is_news(explanation: Explanation, shown: Shown | None, now: datetime) -> bool:
    """Should the run's page be written once more?

    A new reason at once, a new place in the queue now and then.

    Args:
        explanation: Why it waits now.
        shown: What it says; None: nothing.
        now: Aware.
    """
    if shown is None or explanation.reason is not shown.reason:
        return True
    return step(explanation.position) != shown.step and now - shown.at >= _REFRESH


def waiting_state_name(run: FlowRun, reason: Reason, fixed_name: str | None) -> str:
    """Which name does the state of a waiting run get?

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
    """Writes reasons and attempts to where a run's owner looks.

    Args:
        client: Prefect's client.
        pool: The pool's name, for its artifact.
        state_name: The name of the state of every waiting run; None: the reason why it waits.
        turn: Held while one run is shown why it waits. Who starts a run lets it pass first: the run
            is held then, so that no later one makes it wait again.
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
        self._pool_key = artifact_key(pool)
        self._state_name = state_name
        self._shown: dict[str, Shown] = {}
        self._line_id: UUID | None = None
        self._line: object = None
        self._rows: object = None
        self._line_written_at: datetime | None = None
        self._turn = turn

    async def waiting(
        self,
        explanations: Sequence[Explanation],
        demands: Mapping[str, Demand],
        stories: Mapping[str, str],
        now: datetime,
        *,
        limit: int,
        is_held: Callable[[str], bool],
    ) -> None:
        """Show each waiting run its reason, where that is new; at most `limit` runs at a time.

        Args:
            explanations: Of the runs that wait, the head of the line first.
            demands: The runs, by flow run id.
            stories: Why the last attempt ended, of those that had one.
            now: Aware.
            limit: How many runs may be written to.
            is_held: Has this run an attempt by now? It waits no longer.
        """
        self._shown = {key: shown for key, shown in self._shown.items() if key in demands}
        written = 0
        for explanation in explanations:
            if not is_news(explanation, self._shown.get(explanation.workload_id), now):
                continue
            if written >= limit:
                return
            flow_run = demands[explanation.workload_id].flow_run
            async with self._turn:
                if is_held(explanation.workload_id):
                    continue
                with self._faults.contained(
                    explanation.workload_id, flow_run.name, "shown why it waits", now
                ):
                    await self._write_state(demands[explanation.workload_id], explanation, stories)
            # Also where that failed: in the next cycle others have their turn.
            self._shown[explanation.workload_id] = Shown(
                explanation.reason, step(explanation.position), now
            )
            written += 1

    async def queue(
        self,
        explanations: Sequence[Explanation],
        demands: Mapping[str, Demand],
        now: datetime,
        notices: Sequence[str] = (),
    ) -> None:
        """Show the whole line as one artifact of the pool, if it changed.

        Args:
            explanations: Of the runs that wait, the head of the line first.
            demands: The runs, by flow run id.
            now: Aware.
            notices: What people must know beside it; the artifact's description has them too.
        """
        rows: list[dict[str, object]] = []
        for e in explanations:
            workload = demands[e.workload_id].workload
            with self._faults.contained(e.workload_id, workload.name, "shown in the queue", now):
                rows.extend(map(to_row, table_entries([e], {e.workload_id: workload})))
        essence = [*notices, *((e.workload_id, e.reason, e.position) for e in explanations)]
        written_at = self._line_written_at
        is_stale = written_at is None or now - written_at >= _REFRESH
        if essence == self._line and (rows == self._rows or not is_stale):
            return
        await self._write_line(rows, notices)
        self._line, self._rows, self._line_written_at = essence, rows, now

    async def _write_line(
        self, rows: Sequence[Mapping[str, object]], notices: Sequence[str]
    ) -> None:
        """Write these rows; where the server refuses them, the same without anybody's texts."""
        description = "\n\n".join([*notices, "Runs that wait for GPUs, the next one first."])
        metadata = {NOTICES: json.dumps(list(notices))}
        try:
            await self._write_artifact(self._pool_key, None, "table", rows, description, metadata)
        except Exception as error:
            if is_outage(error):
                raise
            _log.warning("The queue is published without the texts of its runs: %s", error)
            plain = [without_texts(row) for row in rows]
            await self._write_artifact(self._pool_key, None, "table", plain, description, metadata)

    async def attempts(self, flow_run_id: str, attempts: Sequence[Attempt]) -> None:
        """Show a run the story of its attempts."""
        await self._write_artifact(
            ATTEMPTS_KEY,
            UUID(flow_run_id),
            "markdown",
            attempts_markdown(attempts),
            "The attempts of this run: GPUs, times, endings and cost.",
            may_be_there=len(attempts) > 1,
        )

    async def _write_state(
        self, demand: Demand, explanation: Explanation, stories: Mapping[str, str]
    ) -> None:
        flow_run = demand.flow_run
        # Looked at again: a cancelled run that is shown why it waits would come back to life.
        current = await self._client.read_flow_run(flow_run.id)
        if current.state is None or not current.state.is_scheduled():
            return
        name = waiting_state_name(current, explanation.reason, self._state_name)
        why = f"{explanation.summary} {explanation.resolution}"
        shown = why if name == explanation.reason else f"{explanation.reason}: {why}"
        story = stories.get(explanation.workload_id)
        state: State[Any] = Scheduled(
            # With another time the run would lose its place in the queue.
            scheduled_time=flow_run.next_scheduled_start_time,
            name=name,
            message=f"{story} {shown}" if story else shown,
        )
        answer = await self._client.set_flow_run_state(flow_run.id, state)
        if answer.status is not SetStateStatus.ACCEPT or answer.state is None:
            return
        if await restore_overwritten(
            *(self._client, flow_run.id, current.state, answer.state),
            lambda state: not state.is_scheduled(),
        ):
            return
        if not is_shown(current.state, explanation.reason):
            log = log_of_run(
                str(flow_run.id), flow_run.name, demand.flow_name, reason=explanation.reason
            )
            log.info("%s: %s", explanation.reason, why)

    async def _write_artifact(
        self,
        key: str,
        flow_run_id: UUID | None,
        kind: str,
        data: object,
        description: str,
        metadata: dict[str, str] | None = None,
        *,
        may_be_there: bool = True,
    ) -> None:
        artifact_id = await self._artifact_id(key, flow_run_id) if may_be_there else None
        if artifact_id is not None:
            update = ArtifactUpdate(data=data, description=description, metadata_=metadata)
            await self._client.update_artifact(artifact_id, update)
            return
        created = await self._client.create_artifact(
            ArtifactCreate(
                key=key,
                type=kind,
                data=data,
                description=description,
                metadata_=metadata,
                flow_run_id=flow_run_id,
            )
        )
        self._note_id(flow_run_id, created.id)

    async def _artifact_id(self, key: str, flow_run_id: UUID | None) -> UUID | None:
        """The artifact of this key and run, from before a restart too: it is edited in place."""
        if flow_run_id is None and self._line_id is not None:
            return self._line_id
        found = await self._client.read_artifacts(
            artifact_filter=ArtifactFilter(
                key=ArtifactFilterKey(any_=[key]),
                flow_run_id=ArtifactFilterFlowRunId(any_=[flow_run_id]) if flow_run_id else None,
            ),
            limit=1,
        )
        if not found:
            return None
        self._note_id(flow_run_id, found[0].id)
        return found[0].id

    def _note_id(self, flow_run_id: UUID | None, artifact_id: UUID) -> None:
        # The line is written again and again; the artifact of a run once for each attempt, and
        # there is no end of runs.
        if flow_run_id is None:
            self._line_id = artifact_id


def step(position: int) -> int:
    """The position in steps: exact at the head, then by 5, then by 25."""
    if position <= 5:
        return position
    if position <= 25:
        return position - position % 5
    return position - position % 25
