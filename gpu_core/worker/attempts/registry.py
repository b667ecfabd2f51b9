"""The attempts that hold GPUs: written to the ledger first, then kept in memory."""

import logging
import shutil
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any
from uuid import uuid4

import anyio

from gpu_core.adapters.files.private_folder import make_private_folder
from gpu_core.adapters.ledger import Ledger
from gpu_core.decisions.attempts.phase import AttemptPhase
from gpu_core.decisions.costs.prices.price_book import price_fields, with_price_of_now
from gpu_core.decisions.kubernetes.variables.variables import PodRequest
from gpu_core.decisions.model.attempts import Attempt, RunRecord, held_gpus
from gpu_core.decisions.model.cluster import Placement
from gpu_core.decisions.model.pydantic_errors import known_names
from gpu_core.decisions.model.redaction import redact
from gpu_core.decisions.model.virtual_nodes import is_all_known
from gpu_core.decisions.policy.policy import Policy
from gpu_core.decisions.requests.variables.job_variables import GpuRequest
from gpu_core.decisions.spot.node_avoidance import zone_of
from gpu_core.worker.attempts.ending import HEARTBEAT_S
from gpu_core.worker.attempts.run_faults import RunFaults, by_run
from gpu_core.worker.attempts.run_log import run_fields
from gpu_core.worker.attempts.state import AttemptState
from gpu_core.worker.infrastructure import Binding, Started
from gpu_core.worker.operations.threads import in_thread
from gpu_core.worker.operations.throttle import Throttle
from gpu_core.worker.pending.demand import Demand
from gpu_core.worker.startup.state_folder import RUNS
from gpu_core.worker.watch.decision_log import DecisionLog
from gpu_core.worker.watch.prices import NOT_PLACED, SOURCES_OF_NOTHING_YET, Prices
from gpu_core.worker.watch.spooled_writes import SpooledWrites

_log = logging.getLogger("prefect.gpu.attempts")

# How long the output of a run stays on the machine after its last attempt: a week to read it.
_KEPT_S = 7 * 24 * 3600


class AttemptRegistry:
    """The open attempts of one pool that this worker answers for.

    Args:
        pool: The pool's name.
        host: Whose attempts they are: this machine's, or this cluster's.
        state_dir: Where run folders live.
        ledger: The truth about attempts.
        faults: What goes wrong for single runs.
        prices: What attempts pay; None: what the policy alone says.
        decisions: The log of decisions; None: a new one.
    """

    def __init__(
        self,
        pool: str,
        host: str,
        state_dir: Path,
        ledger: Ledger,
        faults: RunFaults | None = None,
        prices: Prices | None = None,
        decisions: DecisionLog | None = None,
    ) -> None:
        self._decisions = decisions or DecisionLog(
            ledger, pool, host, SpooledWrites(ledger, state_dir / "ledger.spool")
        )
        self._prices = prices or Prices(ledger)
        self._pool = pool
        self._host = host
        self._state_dir = state_dir
        self._ledger = ledger
        self.faults = faults or RunFaults()
        """The faults of single runs: all who handle attempts one by one note them here."""
        self._open: dict[str, AttemptState] = {}
        self._beats = Throttle(HEARTBEAT_S)

    def __iter__(self) -> Iterator[AttemptState]:
        return iter(list(self._open.values()))

    def of_run(self, flow_run_id: str) -> AttemptState | None:
        """The open attempt of this run, if it has one; it never has two."""
        return next((r for r in self._open.values() if r.attempt.flow_run_id == flow_run_id), None)

    def holding(self) -> list[AttemptState]:
        """Those that hold GPUs, or would if they had asked for any."""
        return [running for running in self._open.values() if running.phase.holds_gpus]

    def add(self, running: AttemptState) -> None:
        """Answer for an attempt that the ledger has."""
        self._open[running.attempt.attempt_id] = running

    async def read_open(self) -> tuple[Attempt, ...]:
        """The open attempts of the ledger, of this worker and of others that wrote for its host."""
        return await in_thread(self._ledger.open_attempts, self._pool, self._host)

    def remove(self, running: AttemptState) -> None:
        """Forget an attempt: it is settled."""
        running.move_to(AttemptPhase.SETTLED, datetime.now(UTC))
        self._open.pop(running.attempt.attempt_id, None)

    async def open(
        self,
        placements: Mapping[str, Placement],
        demands: Mapping[str, Demand],
        zones: Mapping[str, str | None],
        policy: Policy,
        now: datetime,
        *,
        is_placed_as_planned: bool = True,
    ) -> list[str]:
        """Write down new attempts and hold their GPUs. Returns the runs that got one.

        The ledger comes first: the next worker finds the attempt if this process ends then.

        Args:
            zones: In which zone each node is, by name.
            is_placed_as_planned: Whether they get these nodes or none; False: another scheduler
                places them.
        """
        if not placements:
            return []
        earlier = await in_thread(self._ledger.attempts_of, list(placements))
        begun = []
        for flow_run_id, placement in placements.items():
            demand = demands[flow_run_id]
            with self.faults.contained(flow_run_id, demand.workload.name, "admitted", now):
                number = 1 + max((a.number for a in earlier.get(flow_run_id, ())), default=0)
                running = self._new(
                    *(demand, placement, number, zones, policy, now),
                    is_placed_as_planned=is_placed_as_planned,
                )
                # Kept in mind first: a ledger that fails may have written it down all the same.
                self._open[running.attempt.attempt_id] = running
                begun.append(running)
        written: set[str] = set()

        async def record(these: Sequence[AttemptState]) -> None:
            admitted = await in_thread(self._record, these)
            written.update(admitted)
            for running in these:
                if running.attempt.attempt_id not in admitted:
                    run_id, fields = running.attempt.flow_run_id, run_fields(running)
                    _log.error(
                        "Skipping flow run %s because it already has an open attempt",
                        run_id,
                        extra=fields,
                    )

        # All in one transaction; where one of them cannot be written down, each in its own.
        await self.faults.one_by_one(begun, by_run, record, "written down in the ledger")
        for running in begun:
            if running.attempt.attempt_id not in written:
                self.remove(running)
        return [r.attempt.flow_run_id for r in begun if r.attempt.attempt_id in written]

    async def bind(self, running: AttemptState, binding: Binding, policy: Policy) -> None:
        """Write down to which nodes an attempt was bound that waited for them.

        It holds GPUs, and costs something, only from then on.
        """
        changes: dict[str, Any] = {
            "admitted_at": max(binding.since, running.attempt.admitted_at),
            "bound_at": binding.since if is_all_known(binding.placement) else None,
        }
        is_elsewhere = binding.placement != running.allocation().placement
        if is_elsewhere or running.attempt.price_source in SOURCES_OF_NOTHING_YET:
            changes |= self._place_fields(binding, policy)
        await in_thread(self._ledger.move_attempt, replace(running.attempt, **changes))
        # Its end may have been judged meanwhile, concurrently with this cycle.
        running.attempt = replace(running.attempt, **changes)

    def _place_fields(self, binding: Binding, policy: Policy) -> dict[str, Any]:
        placement, node = binding.placement, binding.node
        rates = self._prices.rates(placement, policy, datetime.now(UTC), node)
        return {
            "node": placement.shares[0].node,
            "gpu_type": placement.gpu_type,
            "gpu_ids": placement.gpu_ids,
            "capacity_type": placement.capacity_type,
            "gpu_quantity": held_gpus(placement.shares),
            **price_fields(rates),
            "shares": placement.shares,
            "zone": None if node is None else zone_of(node),
        }

    async def reprice(self, policy: Policy, now: datetime) -> None:
        """Write down the prices that have changed for attempts that run.

        An attempt keeps its price while its node is not seen: its machine is unknown then.
        """
        if not self._prices.are_new(policy):
            return
        missing = False
        for running in list(self._open.values()):
            if running.phase.has_ended or running.attempt.bound_at is None:
                continue
            if not all(self._prices.knows(share.node) for share in running.attempt.held):
                missing = True
                continue
            with self.faults.of_run(running, "given a new price", now):
                await self._reprice(running, policy, now)
        if not missing:
            self._prices.note_applied(policy)

    async def _reprice(self, running: AttemptState, policy: Policy, now: datetime) -> None:
        attempt = running.attempt
        placement = Placement(
            gpu_type=attempt.gpu_type, capacity_type=attempt.capacity_type, shares=attempt.held
        )
        repriced = with_price_of_now(attempt, self._prices.rates(placement, policy, now), now)
        if repriced is not attempt:
            await in_thread(self._ledger.add_price, repriced)
            running.attempt = replace(running.attempt, later_prices=repriced.later_prices)

    async def beat(self) -> None:
        """Record what is alive, so that even the end of the machine has a time."""
        alive = self.holding()
        if not alive or not self._beats.allows(anyio.current_time()):
            return
        seen_at = datetime.now(UTC)

        async def record(these: Sequence[AttemptState]) -> None:
            reports = {running.attempt.attempt_id: running.report for running in these}
            await in_thread(self._ledger.heartbeat, seen_at, reports)

        await self.faults.one_by_one(alive, by_run, record, "recorded in the ledger as alive")
        for running in alive:
            running.attempt = replace(running.attempt, last_seen_at=seen_at)

    def _new(
        self,
        demand: Demand,
        placement: Placement,
        number: int,
        zones: Mapping[str, str | None],
        policy: Policy,
        now: datetime,
        *,
        is_placed_as_planned: bool,
    ) -> AttemptState:
        gpu_type = placement.gpu_type
        node = placement.shares[0].node if placement.shares else self._host
        is_bound = is_placed_as_planned or not placement.shares
        rates = self._prices.rates(placement, policy, now) if is_bound else NOT_PLACED
        attempt = Attempt(
            attempt_id=str(uuid4()),
            flow_run_id=demand.workload.workload_id,
            number=number,
            pool=self._pool,
            host=self._host,
            node=node,
            gpu_type=gpu_type,
            gpu_ids=placement.gpu_ids,
            capacity_type=placement.capacity_type,
            gpu_quantity=held_gpus(placement.shares),
            **price_fields(rates),
            cpu_milli=demand.workload.shape.cpu_milli * demand.workload.shape.nodes or None,
            memory_mib=demand.workload.shape.memory_mib * demand.workload.shape.nodes or None,
            micro_batch_divisor=(
                demand.workload.micro_batch_divisor
                if demand.workload.micro_batch_divisor > 1
                else None
            ),
            admitted_at=now,
            shares=placement.shares,
            zone=zones.get(node) if is_bound else None,
            bound_at=now if is_bound and is_all_known(placement) else None,
            job_variables=_remembered(demand.variables),
        )
        return AttemptState(
            attempt=attempt,
            record=_record(demand, self._pool),
            workload=demand.workload,
            request=demand.request,
            limits=demand.limits,
            run_dir=self.run_dir(attempt),
            phase_at_first=AttemptPhase.ADMITTED,
            deployment=demand.source,
            variables=demand.variables,
        )

    def prune_folders(self) -> None:
        """Delete the folders of runs whose last attempt ended long ago."""
        runs_with_attempts = {running.attempt.flow_run_id for running in self._open.values()}
        for folder in (self._state_dir / RUNS).glob("*"):
            with suppress(OSError):  # another worker on this machine may prune too
                age_s = time.time() - folder.stat().st_mtime
                if folder.name not in runs_with_attempts and age_s > _KEPT_S:
                    shutil.rmtree(folder, ignore_errors=True)

    def _record(self, begun: Sequence[AttemptState]) -> frozenset[str]:
        for running in begun:
            # Without a disk the start fails, and says so on the page of its run alone.
            with suppress(OSError):
                make_private_folder(running.run_dir)
        return self._ledger.admit(
            [(running.record, running.attempt) for running in begun],
            self._decisions.admissions([(r.attempt, r.workload) for r in begun]),
        )

    def run_dir(self, attempt: Attempt) -> Path:
        """The folder with the files of this attempt."""
        name = f"attempt-{attempt.number}-{attempt.attempt_id[:8]}"
        return self._state_dir / RUNS / attempt.flow_run_id / name


# What decides how an attempt is judged. Environments are left out: they may hold secrets. So may
# addresses and commands, of which nothing is asked for again but their kind.
_REMEMBERED = (*known_names(GpuRequest), *known_names(PodRequest))


def _remembered(variables: Mapping[str, object]) -> dict[str, object]:
    return {
        name: _without_secrets(variables[name])
        for name in _REMEMBERED
        if variables.get(name) is not None
    }


def _without_secrets(value: object) -> object:
    if isinstance(value, str):
        return redact(value)
    if isinstance(value, Mapping):
        return {key: _without_secrets(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_without_secrets(item) for item in value]
    return value


def _record(demand: Demand, pool: str) -> RunRecord:
    request = demand.request
    return RunRecord(
        flow_run_id=demand.workload.workload_id,
        name=demand.workload.name,
        flow_name=demand.flow_name,
        deployment=demand.deployment,
        pool=pool,
        queue=demand.queue,
        team=request.team,
        user=demand.workload.user,
        project=request.project,
        experiment=request.project or demand.flow_name,
        model=request.model,
        workload_type=request.workload_type,
        priority=demand.workload.priority,
        submitted_at=demand.workload.submitted_at,
    )


def with_start(attempt: Attempt, started: Started) -> Attempt:
    """The same attempt, with what was created for it."""
    return replace(
        attempt,
        started_at=started.started_at,
        last_seen_at=started.started_at,
        pid=started.pid,
        pid_created_at=started.pid_created_at,
        infrastructure=started.infrastructure,
    )


def write_start(ledger: Ledger, attempt: Attempt) -> None:
    """Write down what runs an attempt that has just been started, or found.

    Raises:
        UnknownAttempt: It was withdrawn meanwhile.
    """
    if attempt.started_at is None:
        raise ValueError(f"attempt {attempt.attempt_id} was not started")
    ledger.mark_started(
        attempt.attempt_id,
        started_at=attempt.started_at,
        pid=attempt.pid,
        pid_created_at=attempt.pid_created_at,
        infrastructure=attempt.infrastructure,
    )
