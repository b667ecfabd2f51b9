"""Reads the history that planning needs from the ledger: usage, run times and earlier attempts."""

from collections.abc import Iterable, Mapping, Sequence
from contextlib import AbstractContextManager, suppress
from dataclasses import replace
from datetime import datetime, timedelta
from typing import NamedTuple

from gpu_core.adapters.ledger import Ledger
from gpu_core.decisions.attempts.ledger_changes import LedgerChanges, LedgerFollower, Record
from gpu_core.decisions.attempts.progress import (
    attained_gpu_s,
    completed_s,
    preemption_cost_s,
    saved_s,
)
from gpu_core.decisions.attempts.resumption import ResumptionHistory
from gpu_core.decisions.model.attempts import Attempt, Provenance, RunRecord
from gpu_core.decisions.model.capacity_life import CapacityLife
from gpu_core.decisions.model.cluster import SPOT, Allocation, Node, PastUsage
from gpu_core.decisions.model.interruption_hazard import SPOT_PRIOR
from gpu_core.decisions.model.workload import Changeover, RunTime, Workload
from gpu_core.decisions.offerings.pool_gpu_types import with_gpu_types
from gpu_core.decisions.policy.policy import Policy
from gpu_core.decisions.quota.usage_tracker import UsageTracker
from gpu_core.decisions.requests.out_of_memory.healing import with_enough_memory
from gpu_core.decisions.requests.out_of_memory.lessons import MemoryLessons
from gpu_core.decisions.requests.runs.run_workload import RunLimits
from gpu_core.decisions.scheduling.forecasting.run_times import (
    RunKind,
    RunTimeHistory,
    estimate_of,
)
from gpu_core.decisions.spot.availability_tracker import SpotAvailabilityTracker
from gpu_core.decisions.spot.capacity_view import CapacityView
from gpu_core.decisions.spot.changeover import ChangeoverHistory
from gpu_core.decisions.spot.next_attempt import NextAttempts
from gpu_core.decisions.spot.observed_lifetimes import (
    SpotPast,
    learned_spot_lives,
    spot_pasts,
    spot_stays,
)
from gpu_core.decisions.spot.retry_backoff import is_postponed
from gpu_core.decisions.spot.zones import Stay
from gpu_core.worker.attempts.run_faults import RunFaults
from gpu_core.worker.attempts.state import AttemptState
from gpu_core.worker.operations.threads import in_thread
from gpu_core.worker.pending.demand import Demand, held_demand

# Run times and wants of memory from before this time say little about today's code.
_LEARNED_FROM = timedelta(days=30)

# Lifetimes are of hours: what ended since does not change them much.
_LIVES_AGE = timedelta(minutes=10)

# How late another machine's worker may write down what it did, or how far its clock may be off.
_OVERLAP = timedelta(minutes=10)


class _Past(NamedTuple):
    """The fields of a workload that earlier attempts and earlier runs decide."""

    run_time: RunTime | None
    remaining_s: float | None
    attained_gpu_s: float
    preemption_cost_s: float | None
    max_protection_s: float
    changeover: Changeover
    has_resumed: bool


class _Known(NamedTuple):
    """A workload with its past, and what it was made of."""

    asked: Workload
    past: _Past
    workload: Workload


class History:
    """The past of one pool, over all its machines. Reads the ledger; nothing is kept elsewhere.

    Args:
        ledger: Who held which GPUs.
        pool: The pool's name; a ledger may serve several.
        faults: Holds runs back whose past cannot be used.
    """

    def __init__(self, ledger: Ledger, pool: str, faults: RunFaults | None = None) -> None:
        self._faults = faults or RunFaults()
        self._ledger = ledger
        self._pool = pool
        self._follower = LedgerFollower()
        self._newest: dict[str, tuple[object, Record]] = {}
        self._run_times = RunTimeHistory()
        self._memory = MemoryLessons()
        self._book: UsageTracker | None = None
        self._refreshed_at: datetime | None = None
        self._on_spot: dict[str, Attempt] = {}
        self._spot_lives: Mapping[str, CapacityLife] = {}
        self._spot_pasts: Mapping[str, SpotPast] = {}
        self._spot_stays: Mapping[str, Sequence[Stay]] = {}
        self._availability = SpotAvailabilityTracker()
        self._postponed: set[str] = set()
        self._known: dict[str, _Known] = {}
        self._planned: dict[str, tuple[Demand, Demand]] = {}
        """Demands as they were read, and with the workload that was planned with last."""
        self._changeovers = ChangeoverHistory()
        self._resumptions = ResumptionHistory()
        self._lives_at: datetime | None = None

    async def refresh(self, policy: Policy, now: datetime) -> None:
        """Learn what was started and what ended since the last read, on any machine."""
        book = self._book
        if book is None or not book.serves(policy, now):
            book = UsageTracker(policy, now)
        refreshed_at = self._refreshed_at
        since = now - _LEARNED_FROM if refreshed_at is None else refreshed_at - _OVERLAP
        reach = since
        if book is not self._book:
            reach = min(since, book.since)
            self._newest.clear()  # a version leaves out what is counted from the start
        records, changed = await in_thread(self._read, reach, now)
        news = self._follower.observe(records, since)
        if book is self._book:
            for run, attempt in news.started:
                with self._counted(run):
                    book.start(run, attempt)
            for run, attempt in news.ended:
                with self._counted(run):
                    book.end(run, attempt)
            for attempt_id in news.withdrawn:
                with suppress(KeyError):  # it could not be counted when it started
                    book.withdraw(attempt_id)
            for run, attempts in changed:
                with self._counted(run):
                    for attempt in attempts:
                        book.update(run, attempt)
        else:
            self._fill(book, records)
        for run, attempts in sorted(changed, key=lambda record: record[1][-1].admitted_at):
            with self._counted(run):
                self._changeovers.observe(run.deployment, attempts)
                self._resumptions.observe(run.deployment, attempts)
        for record in news.touched:
            with self._counted(record[0]):
                self._learn(record)
        self._learn_lives(news, now)
        self._book, self._refreshed_at = book, now

    def moved(self, running: AttemptState) -> None:
        """An attempt that waited for its nodes holds other GPUs, and only from now on."""
        book, attempt = self._book, running.attempt
        if book is not None and attempt.attempt_id in self._follower.open_attempts:
            book.withdraw(attempt.attempt_id)
            book.start(running.record, attempt)

    def capacity_life(self, gpu_type: str | None, capacity_type: str) -> CapacityLife | None:
        """How long does such capacity live? None: it is never reclaimed."""
        if gpu_type is None or capacity_type != SPOT:
            return None
        return self._spot_lives.get(gpu_type, SPOT_PRIOR)

    def usage(self, now: datetime) -> PastUsage:
        """The usage that shares and budgets count, up to now."""
        return PastUsage() if self._book is None else self._book.usage(now)

    async def of_pending(
        self,
        demands: Mapping[str, Demand],
        nodes: Sequence[Node],
        allocations: Sequence[Allocation],
        policy: Policy,
        now: datetime,
    ) -> dict[str, Demand]:
        """The same demands, with what their run times and earlier attempts say about the next."""
        # Prefect counts the starts of a run: one without any has no attempt to ask for, unless it
        # was postponed.
        resumed = [
            key
            for key, demand in demands.items()
            if demand.flow_run.run_count > 0 or key in self._postponed
        ]
        earlier = await in_thread(self._ledger.attempts_of, resumed) if resumed else {}
        self._availability.keep(
            demands.keys() | {held.workload.workload_id for held in allocations}
        )
        self._known = {key: self._known[key] for key in demands if key in self._known}
        self._planned = {key: self._planned[key] for key in demands if key in self._planned}
        known = {}
        flavors = {node.flavor for node in nodes}
        asking = NextAttempts(self.capacity_view(nodes, allocations, policy, now))
        for key in sorted(demands, key=lambda key: _place_in_line(demands[key].workload)):
            demand, attempts = demands[key], earlier.get(key, ())
            with self._faults.contained(key, demand.workload.name, "planned", now):
                workload = self._with_known_past(demand, attempts, policy)
                request = demand.request
                workload = with_gpu_types(
                    workload, request.work, flavors, policy, named=request.gpu_type
                )
                learned = self._memory_lessons(demand, policy, now)
                workload = with_enough_memory(workload, attempts, nodes, policy, learned=learned)
                known[key] = self._with_workload(demand, asking.of(workload, attempts))
        return {
            key: known.get(key) or held_demand(demand, self._faults.hold(key, now))
            for key, demand in demands.items()
        }

    def capacity_view(
        self,
        nodes: Sequence[Node],
        allocations: Sequence[Allocation],
        policy: Policy,
        now: datetime,
    ) -> CapacityView:
        """The spot and on-demand capacity, with data from the ledger and earlier cycles."""
        return CapacityView(
            nodes,
            policy,
            now,
            allocations=allocations,
            pasts=self._spot_pasts,
            availability=self._availability,
            stays=self._spot_stays,
        )

    def learn_restarts(self, attempts: Iterable[AttemptState], policy: Policy) -> None:
        """Let running attempts have what is known now of their deployments' restarts.

        What a start loses, and whether runs resume.
        """
        for running in attempts:
            with self._faults.of_run(running, "given its deployment's restarts"):
                deployment = running.record.deployment
                changeover = self._changeover(deployment, policy)
                running.workload = replace(
                    running.workload,
                    changeover=changeover,
                    has_resumed=self._resumptions.has_resumed(deployment),
                )

    async def of_running(self, attempts: Iterable[AttemptState], policy: Policy) -> None:
        """Let attempts that were taken over have the run times they would have been given."""
        running = list(attempts)
        earlier = await in_thread(
            self._ledger.attempts_of, [taken.attempt.flow_run_id for taken in running]
        )
        for taken in running:
            with self._faults.of_run(taken, "taken over"):
                past = self._past(
                    taken.workload,
                    earlier[taken.attempt.flow_run_id],
                    taken.record.deployment,
                    taken.limits,
                    policy,
                )
                taken.workload = replace(taken.workload, **past._asdict())

    def _counted(self, run: RunRecord) -> AbstractContextManager[None]:
        return self._faults.contained(run.flow_run_id, run.name, "counted for shares and budgets")

    def _fill(self, book: UsageTracker, records: Iterable[Record]) -> None:
        for run, attempts in records:
            with self._counted(run):
                for attempt in attempts:
                    if attempt.released_at is None:
                        book.start(run, attempt)
                    elif attempt.released_at > book.since:
                        book.start(run, attempt)
                        book.end(run, attempt)

    def _with_known_past(
        self, demand: Demand, earlier: Sequence[Attempt], policy: Policy
    ) -> Workload:
        """The workload with its past: the one of the last cycle, where nothing of it has changed.

        A workload has many fields: to make those of all that wait anew took a tenth of a cycle.
        """
        asked = demand.workload
        past = self._past(asked, earlier, demand.deployment, demand.limits, policy)
        known = self._known.get(asked.workload_id)
        if known is None or known.asked is not asked or known.past != past:
            known = _Known(asked, past, replace(asked, **past._asdict()))
            self._known[asked.workload_id] = known
        return known.workload

    def _with_workload(self, demand: Demand, workload: Workload) -> Demand:
        """The demand with this workload: the one of the last cycle, where both are the same."""
        key = demand.workload.workload_id
        read, planned = self._planned.get(key, (None, None))
        if planned is None or read is not demand or planned.workload is not workload:
            planned = replace(demand, workload=workload)
            self._planned[key] = demand, planned
        return planned

    def _past(
        self,
        workload: Workload,
        attempts: Sequence[Attempt],
        deployment: str | None,
        limits: RunLimits,
        policy: Policy,
    ) -> _Past:
        estimate = estimate_of(
            workload,
            saved_s(attempts),
            deployment=deployment,
            limit_s=limits.max_duration_s,
            history=self._run_times,
            policy=policy.run_times,
        )
        return _Past(
            run_time=estimate.run_time,
            remaining_s=estimate.remaining_s,
            attained_gpu_s=attained_gpu_s(attempts),
            preemption_cost_s=preemption_cost_s(attempts),
            max_protection_s=policy.preemption.max_protection_s,
            changeover=self._changeover(deployment, policy),
            has_resumed=self._resumptions.has_resumed(deployment),
        )

    def _changeover(self, deployment: str | None, policy: Policy) -> Changeover:
        return self._changeovers.changeover(deployment, policy.capacity.changeover_s)

    def _memory_lessons(self, demand: Demand, policy: Policy, now: datetime) -> Sequence[Attempt]:
        if not policy.memory.remember:
            return ()
        return self._memory.of(demand.deployment, now - _LEARNED_FROM)

    def _read(self, since: datetime, now: datetime) -> tuple[Sequence[Record], Sequence[Record]]:
        """The records of GPU usage, and those that have changed since the last read.

        Only these are read.
        """
        versions = self._ledger.run_versions(
            since, now + _OVERLAP, provenance=Provenance.MEASURED, pool=self._pool
        )
        known = {
            run_id: self._newest[run_id]
            for run_id, version in versions.items()
            if run_id in self._newest and self._newest[run_id][0] == version
        }
        missing = self._follower.open_runs - versions.keys()
        asked = [run_id for run_id in (*versions, *sorted(missing)) if run_id not in known]
        changed = self._ledger.records_of(asked)
        for run, attempts in changed:
            known[run.flow_run_id] = versions.get(run.flow_run_id), (run, attempts)
        self._newest = {
            run_id: known[run_id] for run_id in (*versions, *missing) if run_id in known
        }
        return [record for _version, record in self._newest.values()], changed

    def _learn_lives(self, news: LedgerChanges, now: datetime) -> None:
        on_spot = {
            attempt.attempt_id: attempt
            for _, attempt in (*news.started, *news.ended)
            if attempt.capacity_type == SPOT
        }
        self._on_spot.update(on_spot)
        for attempt_id in news.withdrawn:
            self._on_spot.pop(attempt_id, None)
        if on_spot:
            # A zone that has just failed is left at once.
            self._spot_stays = spot_stays(self._on_spot.values(), now)
        if self._lives_at is not None and now - self._lives_at < _LIVES_AGE:
            return
        self._on_spot = {
            key: attempt
            for key, attempt in self._on_spot.items()
            if attempt.released_at is None or attempt.released_at > now - _LEARNED_FROM
        }
        self._spot_lives = learned_spot_lives(self._on_spot.values(), now)
        self._spot_pasts = spot_pasts(self._on_spot.values(), now)
        self._spot_stays = spot_stays(self._on_spot.values(), now)
        self._lives_at = now

    def _learn(self, record: Record) -> None:
        run, attempts = record
        if is_postponed(attempts[-1]):
            self._postponed.add(run.flow_run_id)
        else:
            self._postponed.discard(run.flow_run_id)
        self._memory.observe(run.deployment, attempts)
        duration_s = completed_s(attempts)
        if duration_s is not None:
            kind = RunKind(deployment=run.deployment, team=run.team, gpus=attempts[-1].gpu_count)
            self._run_times.observe(kind, duration_s)


def _place_in_line(workload: Workload) -> tuple[int, datetime, str]:
    """The order in which runs choose spot or on-demand, under any ordering policy."""
    return -workload.priority, workload.submitted_at, workload.workload_id
