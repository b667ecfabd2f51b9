"""Attempts that another worker opened, or whose start got no answer: found again, taken over."""

import logging
from collections.abc import Collection, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from datetime import UTC, datetime
from typing import Any

import anyio
from prefect.client.orchestration import PrefectClient

from gpu_core.adapters.ledger import Ledger, UnknownAttempt
from gpu_core.adapters.prefect.flow_runs import read_flow_run
from gpu_core.decisions.attempts.phase import AttemptPhase, recorded_phase
from gpu_core.decisions.model.attempts import Attempt, RunRecord
from gpu_core.decisions.model.errors import InvalidInput
from gpu_core.decisions.model.workload import Shape, Workload
from gpu_core.decisions.policy.policy import Policy
from gpu_core.decisions.requests.runs.run_workload import RunLimits, run_limits
from gpu_core.decisions.requests.variables.job_variables import GpuRequest
from gpu_core.worker.attempts.registry import AttemptRegistry, with_start, write_start
from gpu_core.worker.attempts.run_log import run_fields
from gpu_core.worker.attempts.state import AttemptState
from gpu_core.worker.infrastructure import Infrastructure, Started
from gpu_core.worker.operations.threads import in_thread
from gpu_core.worker.operations.throttle import Throttle
from gpu_core.worker.pending.demand import DemandReader

_log = logging.getLogger("prefect.gpu.attempts")

# How often the ledger is read for attempts that another worker opened late.
_ADOPT_S = 60.0


class Recovery:
    """Takes over attempts that this worker did not open, alive or not.

    Args:
        attempts: Those that this worker answers for.
        ledger: The truth about attempts.
        client: Prefect's client.
        reader: Reads what their runs asked for.
        infrastructure: Finds what runs them.
    """

    def __init__(
        self,
        attempts: AttemptRegistry,
        ledger: Ledger,
        client: PrefectClient,
        reader: DemandReader,
        infrastructure: Infrastructure,
    ) -> None:
        self._attempts = attempts
        self._ledger = ledger
        self._client = client
        self._reader = reader
        self._infrastructure = infrastructure
        self._adoptions = Throttle(_ADOPT_S)
        self._unknown: frozenset[str] = frozenset()

    async def recover(self, policy: Policy, template: Mapping[str, Any]) -> None:
        """Take over what an earlier worker left: its attempts, alive or not."""
        attempts = await self._attempts.read_open()
        await self._take_over(attempts, policy, template)
        await in_thread(self._attempts.prune_folders)
        if attempts:
            _log.info("Recovered %d attempts from a previous worker", len(attempts))

    async def adopt(self, policy: Policy, template: Mapping[str, Any]) -> list[AttemptState]:
        """Take over what another worker opened after this one had started to act.

        It had started a cycle before it lost its lease, and would not answer for what it opened.
        Reads once a minute, and takes what was there a minute before: an attempt of our own may
        be closed between the two reads.
        """
        if not self._adoptions.allows(anyio.current_time()):
            return []
        own = {running.attempt.attempt_id for running in self._attempts}
        unknown = [a for a in await self._attempts.read_open() if a.attempt_id not in own]
        foreign = [attempt for attempt in unknown if attempt.attempt_id in self._unknown]
        self._unknown = frozenset(attempt.attempt_id for attempt in unknown)
        adopted = [a for a in foreign if self._attempts.of_run(a.flow_run_id) is None]
        for attempt in foreign:
            if attempt not in adopted and attempt.started_at is None:
                await self._withdraw(attempt)
        taken = await self._take_over(adopted, policy, template)
        if adopted:
            _log.warning("Recovered %d attempts that a previous worker started late", len(adopted))
        return taken

    async def find_unnoted(self, submitting: Collection[str]) -> None:
        """Note the start of what runs although its creation got no answer.

        Args:
            submitting: Runs that are being started at this moment.
        """
        for running in [r for r in self._attempts if r.has_unwritten_start]:
            with self._attempts.faults.of_run(running, "noted as started"):
                await self._write_start(running)
        unnoted = [
            running
            for running in self._attempts
            if running.attempt.started_at is None
            and not running.phase.has_ended
            and running.attempt.flow_run_id not in submitting
        ]
        if not unnoted:
            return
        found = await self._infrastructure.find([running.attempt for running in unnoted])
        for running in unnoted:
            with self._attempts.faults.of_run(running, "noted as started"):
                started = found.get(running.attempt.attempt_id)
                await self._note_found(running, started)
                if started is not None:
                    self._infrastructure.watch(running)

    async def _withdraw(self, attempt: Attempt) -> None:
        """Its run has gone on in ours; what the other worker may still create must not run too."""
        ours = self._attempts.of_run(attempt.flow_run_id)
        theirs = self._stand_in(attempt)
        theirs.variables = {} if ours is None else ours.variables
        with self._attempts.faults.contained(attempt.flow_run_id, theirs.record.name, "withdrawn"):
            if await self._infrastructure.kill(theirs):
                self._infrastructure.settled(theirs)
                await in_thread(self._ledger.withdraw_attempt, attempt.attempt_id)

    async def _take_over(
        self, attempts: Sequence[Attempt], policy: Policy, template: Mapping[str, Any]
    ) -> list[AttemptState]:
        found = await self._infrastructure.find(attempts)
        taken = []
        for attempt in attempts:
            running = self._stand_in(attempt)
            self._attempts.add(running)
            taken.append(running)
            try:
                with self._attempts.faults.contained(
                    attempt.flow_run_id, attempt.flow_run_id, "taken over"
                ):
                    await self._note_found(running, found.get(attempt.attempt_id))
                    await self._read_run(running, policy, template)
            finally:
                # Where its run could not be read, the attempt is settled with what is known.
                running.move_to(recorded_phase(running.attempt), datetime.now(UTC))
        return taken

    async def _write_start(self, running: AttemptState) -> None:
        """Write down a start that the ledger was unavailable for."""
        try:
            await in_thread(write_start, self._ledger, running.attempt)
        except UnknownAttempt:
            # Another worker withdrew it meanwhile, and its run continues in another attempt.
            name, fields = running.record.name, run_fields(running)
            _log.warning(
                "Stopping flow run %r because its attempt was withdrawn", name, extra=fields
            )
            if not running.phase.has_ended:
                running.move_to(AttemptPhase.ENDING, datetime.now(UTC))
            is_gone = await self._infrastructure.kill(running)
            if is_gone and running.phase is not AttemptPhase.SETTLED:
                if running.phase.holds_gpus:
                    running.move_to(AttemptPhase.RELEASED, datetime.now(UTC))
                self._attempts.remove(running)
                self._infrastructure.settled(running)
            return
        running.has_unwritten_start = False

    async def _note_found(self, running: AttemptState, found: Started | None) -> None:
        """Note what runs the attempt, also where the last worker died before it could."""
        if running.attempt.started_at is not None or found is None:
            return
        started = with_start(running.attempt, found)
        await in_thread(write_start, self._ledger, started)
        running.start(started, datetime.now(UTC))

    async def _read_run(
        self, running: AttemptState, policy: Policy, template: Mapping[str, Any]
    ) -> None:
        """Replace what stands in for the run by what the ledger and Prefect know of it."""
        attempt = running.attempt
        record = await in_thread(self._ledger.run, attempt.flow_run_id)
        if record is None:
            raise LookupError(
                f"the run of attempt {attempt.attempt_id} was not found in the ledger"
            )
        running.record = record
        # It runs already: what cannot be read any more must not make it a victim.
        running.workload = _untouchable(attempt, record)
        running.limits = run_limits(GpuRequest(), policy)
        with (
            suppress(InvalidInput),
            self._attempts.faults.contained(
                record.flow_run_id, record.name, "read", but=(InvalidInput,)
            ),
        ):
            run = await read_flow_run(self._client, attempt.flow_run_id)
            if run is None:
                return
            if attempt.job_variables is None:  # a version before started it
                variables = await self._reader.variables(run, template)
                running.variables = variables
            demand = await self._reader.read(
                run, record.queue, policy, template, attempt.admitted_at, running.variables
            )
            running.request, running.limits = demand.request, demand.limits
            running.workload = _as_admitted(demand.workload, attempt)

    def _stand_in(self, attempt: Attempt) -> AttemptState:
        """An attempt of whose run nothing is known: it keeps its GPUs, and ends as it ends."""
        record = RunRecord(
            flow_run_id=attempt.flow_run_id,
            name=attempt.flow_run_id,
            flow_name="unknown",
            deployment=None,
            pool=attempt.pool,
            queue=None,
            team=None,
            user=None,
            project=None,
            experiment=None,
            model=None,
            workload_type=None,
            priority=0,
            submitted_at=attempt.admitted_at,
        )
        return AttemptState(
            attempt=attempt,
            record=record,
            workload=_untouchable(attempt, record),
            request=GpuRequest(),
            limits=RunLimits(max_duration_s=None, max_failures=3, max_interruptions=None),
            run_dir=self._attempts.run_dir(attempt),
            phase_at_first=AttemptPhase.RECOVERING,
            variables=attempt.job_variables or {},
        )


def _as_admitted(workload: Workload, attempt: Attempt) -> Workload:
    """With the memory that it holds, which may be more than it asks for."""
    if attempt.memory_mib is None:
        return workload
    memory_mib = attempt.memory_mib // workload.shape.nodes
    return replace(workload, shape=workload.shape._replace(memory_mib=memory_mib))


def _untouchable(attempt: Attempt, record: RunRecord) -> Workload:
    nodes = max(1, len(attempt.held))
    return Workload(
        workload_id=attempt.flow_run_id,
        name=record.name,
        priority=record.priority,
        submitted_at=record.submitted_at,
        shape=Shape(gpu_count=attempt.gpu_count // nodes, nodes=nodes),
        is_preemptible=False,
        team=record.team,
        user=record.user,
        project=record.project,
        deployment=record.deployment,
        queue=record.queue,
    )
