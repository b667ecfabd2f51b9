"""The event loop: a virtual clock that drives the same planner as the worker."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from heapq import heappop, heappush
from itertools import count
from typing import Protocol

from gpu_core.decisions.model.attempts import EndReason
from gpu_core.decisions.model.cluster import ON_DEMAND, Allocation, Node, PastUsage, Placement
from gpu_core.decisions.model.errors import InvalidInput
from gpu_core.decisions.model.workload import RunTime, Shape, Workload
from gpu_core.decisions.policy.policy import Policy
from gpu_core.decisions.quota.fair_share import UsageMeter
from gpu_core.decisions.scheduling.plan.plan import Admit, Plan, Preempt
from gpu_core.decisions.simulation.cluster.attempts import attempt_record
from gpu_core.decisions.simulation.cluster.life import JobLife, SpentTime
from gpu_core.decisions.simulation.cluster.nodes import Nodes
from gpu_core.decisions.simulation.cluster.outcomes import Simulation
from gpu_core.decisions.simulation.cluster.run_time_oracle import RunTimeOracle
from gpu_core.decisions.simulation.cluster.trace import NodeEvent, Trace, TraceJob
from gpu_core.decisions.spot.availability_tracker import SpotAvailabilityTracker
from gpu_core.decisions.spot.capacity_view import LOOK_S, CapacityView
from gpu_core.decisions.spot.migration import capacity_change
from gpu_core.decisions.spot.next_attempt import NextAttempts

_BEGINNING = datetime(2000, 1, 1, tzinfo=UTC)
"""The moment of second 0 of a trace; only differences matter."""

_NEVER_S = float("inf")


class Scheduler(Protocol):
    """The scheduler that the engine drives: `scheduling.planner.Planner`, or a simpler one in
    tests."""

    def set_nodes(self, nodes: Sequence[Node]) -> None:
        """As `Planner.set_nodes`."""

    def submit(self, workload: Workload) -> None:
        """As `Planner.submit`."""

    def withdraw(self, workload_id: str) -> None:
        """As `Planner.withdraw`."""

    def allocate(self, allocation: Allocation) -> None:
        """As `Planner.allocate`."""

    def release(self, workload_id: str) -> None:
        """As `Planner.release`."""

    def plan(
        self,
        now: datetime,
        *,
        usage: PastUsage | None = None,
        preemptors: frozenset[str] = frozenset(),
        explain: bool = True,
    ) -> Plan:
        """As `Planner.plan`."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SimulationOptions:
    """The cost of interruptions, and the times at which the planner is asked without an event."""

    restart_s: float = 0.0
    """The time that each attempt after the first loses before it works again."""
    grace_s: float = 0.0
    """How long a preempted job keeps its GPUs after the notice, without getting further."""
    min_runtime_s: int = 0
    """How long an attempt is left alone; the planner is asked again when that ends."""
    max_protection_s: float = 0.0
    """How long an attempt is left alone at most until it has worked as long as its preemptions have
    cost its job."""
    tick_s: float | None = None
    """Ask at least this often while jobs wait; None: at events only. For orders that change
    with time alone, such as least attained service."""
    usage_half_life_s: float | None = None
    """Half-life of the usage that fair shares use; None: the policy needs none."""
    node_start_s: float = 0.0
    """How long a planned node takes to come once something is placed on it."""
    node_idle_s: float | None = None
    """How long a node that came so stays without work; None: it stays."""
    max_gpus: int | None = None
    """Planned nodes come as long as there are no more GPUs than these; None: no cap."""
    capacity_policy: Policy | None = None
    """Which capacity a job asks for follows from it, each time the planner is asked; None: from the
    trace."""


def simulate(
    trace: Trace,
    scheduler: Scheduler,
    run_times: RunTimeOracle,
    options: SimulationOptions | None = None,
) -> Simulation:
    """The outcome of these jobs under this scheduler.

    At one moment jobs finish first, then nodes change, then jobs arrive in the order of the file;
    then the planner is asked, again for as long as it frees GPUs at that very moment.

    Args:
        run_times: What the scheduler knows of run times; it learns while the trace is replayed.
        options: What interruptions cost; None: nothing.
    """
    return _Replay(trace, scheduler, run_times, options or SimulationOptions()).run()


# What happens at one moment, in this order. Arrivals and node events have lists of their own.
_FINISH, _DRAINED, _WAKE, _NODE_COMES, _NODE_GOES = range(5)


class _Replay:
    """The state of one replay. `_timers` holds what will happen by itself, earliest first."""

    def __init__(
        self,
        trace: Trace,
        scheduler: Scheduler,
        run_times: RunTimeOracle,
        options: SimulationOptions,
    ) -> None:
        self._trace = trace
        self._scheduler = scheduler
        self._run_times = run_times
        self._options = options
        self._arrivals = sorted(trace.jobs, key=lambda job: job.submit_s)
        self._node_events = sorted(trace.events, key=lambda event: event.at_s)
        self._next_arrival = 0
        self._next_node_event = 0
        self._availability = SpotAvailabilityTracker()
        self._looked_s = -LOOK_S
        self._nodes = Nodes(
            trace.nodes,
            start_s=options.node_start_s,
            idle_s=options.node_idle_s,
            max_gpus=options.max_gpus,
        )
        self._lives: dict[str, JobLife] = {}
        self._running: dict[str, JobLife] = {}
        self._waiting: set[str] = set()
        self._preemptors: set[str] = set()
        self._timers: list[tuple[float, int, int, str, int]] = []
        self._sequence = count()
        self._tick_at_s = -_NEVER_S
        self._cycles = 0
        half_life_s = options.usage_half_life_s
        self._meter: UsageMeter[tuple[str | None, str | None]] | None = (
            None if half_life_s is None else UsageMeter(half_life_s)
        )

    def run(self) -> Simulation:
        last_s = 0.0
        while (now_s := self._next_moment_s()) < _NEVER_S:
            last_s = now_s
            self._fire_timers(now_s)
            self._change_nodes(now_s)
            self._admit_arrivals(now_s)
            self._plan(now_s)
        outcomes = {life.job.job_id: life.outcome for life in self._lives.values()}
        return Simulation(
            outcomes=tuple(outcomes[job.job_id] for job in self._trace.jobs),
            cycles=self._cycles,
            node_stays=self._nodes.stays(last_s),
        )

    def _next_moment_s(self) -> float:
        moment_s = self._timers[0][0] if self._timers else _NEVER_S
        if self._next_arrival < len(self._arrivals):
            moment_s = min(moment_s, self._arrivals[self._next_arrival].submit_s)
        if self._next_node_event < len(self._node_events):
            moment_s = min(moment_s, self._node_events[self._next_node_event].at_s)
        return moment_s

    def _set_timer(self, at_s: float, kind: int, about: str = "", attempt: int = 0) -> None:
        heappush(self._timers, (at_s, kind, next(self._sequence), about, attempt))

    def _fire_timers(self, now_s: float) -> None:
        timers = self._timers
        while timers and timers[0][0] <= now_s:
            _, kind, _, about, attempt = heappop(timers)
            if kind == _NODE_COMES:
                self._nodes.arrive(about, now_s)
            elif kind == _NODE_GOES:
                self._nodes.let_go(about, now_s)
            elif kind != _WAKE:
                self._end_attempt(self._lives[about], kind, attempt, now_s)

    def _end_attempt(self, life: JobLife, kind: int, attempt: int, now_s: float) -> None:
        if life.attempt != attempt or life.allocation is None:
            return
        if kind == _DRAINED:
            self._leave(life, now_s, life.stop(now_s))
            self._wait(life)
        elif life.spent is None:
            self._finish(life, now_s)

    def _finish(self, life: JobLife, now_s: float) -> None:
        job = life.job
        stalled_s = life.works_s - life.left_s
        self._leave(life, now_s, SpentTime(life.begins_s - life.started_s, stalled_s, now_s))
        life.left_s = 0.0
        life.finished_s = now_s
        self._run_times.observe(job, job.duration_s)

    def _change_nodes(self, now_s: float) -> None:
        events: list[NodeEvent] = []
        while (
            self._next_node_event < len(self._node_events)
            and self._node_events[self._next_node_event].at_s <= now_s
        ):
            events.append(self._node_events[self._next_node_event])
            self._next_node_event += 1
        if not events:
            return
        gone = {event.name: event.notice_s for event in events if event.node is None}
        self._nodes.change(events, now_s)
        interrupted = [
            (life, notice_s)
            for life in self._running.values()
            if (notice_s := life.notice_s(gone)) is not None
        ]
        for life, notice_s in interrupted:
            life.interruptions += 1
            spent = life.stop(now_s, notice_s)
            self._leave(life, now_s, spent, was_interrupted=True)
        for life, _ in interrupted:
            self._wait(life)

    def _capacity_view(self, policy: Policy, now_s: float) -> CapacityView:
        held = (life.allocation for life in self._running.values())
        return CapacityView(
            self._nodes.to_plan_with(),
            policy,
            _moment(now_s),
            allocations=[allocation for allocation in held if allocation is not None],
            availability=self._availability,
        )

    def _change_capacity(self, now_s: float) -> None:
        """Let who runs where the policy would not have it any more give way, as every minute."""
        policy = self._options.capacity_policy
        if policy is None or now_s < self._looked_s + LOOK_S:
            return
        self._looked_s = now_s
        view = self._capacity_view(policy, now_s)
        if not view.is_mixed:
            return
        self._availability.keep(self._running.keys() | self._waiting)
        for _, life in sorted(self._running.items()):
            job, allocation = life.job, life.allocation
            is_open = job.capacity_type is None and job.checkpoint_interval_s is not None
            if not is_open or allocation is None:
                continue
            # The notice lets it save what it has.
            saved_at = _moment(now_s) if now_s > life.begins_s else None
            saved = replace(allocation, checkpointed_at=saved_at)
            if capacity_change(saved, life.earlier, view) is not None:
                self._give_way(life, None, now_s)

    def _choose_capacity(self, now_s: float) -> None:
        """Let each who waits ask for what the policy now says, the first one first."""
        policy = self._options.capacity_policy
        if policy is None:
            return
        asking = NextAttempts(self._capacity_view(policy, now_s))
        for workload_id in sorted(self._waiting):
            life = self._lives[workload_id]
            plain = replace(
                life.workload,
                shape=life.workload.shape._replace(
                    avoided_nodes=frozenset(),
                    preferred_nodes=frozenset(),
                    capacity_type=life.job.capacity_type,
                ),
                capacity_reason=None,
                hold=None,
            )
            chosen = asking.of(plain, life.earlier)
            if chosen.shape.capacity_type == ON_DEMAND != life.workload.shape.capacity_type:
                # If it gets none by then, it may take spot.
                self._set_timer(now_s + LOOK_S, _WAKE)
            if chosen.shape != life.workload.shape or chosen.hold != life.workload.hold:
                self._scheduler.withdraw(workload_id)
                self._scheduler.submit(chosen)
            life.workload = chosen

    def _admit_arrivals(self, now_s: float) -> None:
        arrivals = self._arrivals
        while self._next_arrival < len(arrivals):
            job = arrivals[self._next_arrival]
            if job.submit_s > now_s:
                return
            self._next_arrival += 1
            run_time = self._run_times.run_time(job)
            # The planner's last resort is the id: numbered so, the order of the file decides.
            workload_id = f"{self._next_arrival:09}"
            workload = _workload(workload_id, job, run_time, self._options)
            life = JobLife(job, workload, job.duration_s, run_time)
            self._lives[workload_id] = life
            self._wait(life)

    def _wait(self, life: JobLife) -> None:
        # What the last attempt was placed on is no choice for the next one.
        shape = life.workload.shape._replace(capacity_type=life.job.capacity_type)
        life.workload = replace(life.workload, shape=shape)
        self._waiting.add(life.workload.workload_id)
        self._scheduler.submit(life.workload)

    def _plan(self, now_s: float) -> None:
        now = _moment(now_s)
        self._change_capacity(now_s)
        while self._waiting:
            if self._nodes.take_changed():
                self._scheduler.set_nodes(self._nodes.to_plan_with())
            self._choose_capacity(now_s)
            usage = None
            if self._meter is not None:
                usage = PastUsage(gpu_s_by_user=self._meter.usage(now_s))
            plan = self._scheduler.plan(
                now, usage=usage, preemptors=frozenset(self._preemptors), explain=False
            )
            self._cycles += 1
            freed = False
            for command in plan.commands:
                if isinstance(command, Admit):
                    self._start(command.workload_id, command.placement, now_s, now)
                elif isinstance(command, Preempt):
                    self._preemptors.add(command.for_workload_id)
                    life = self._lives[command.workload_id]
                    life.preemptions += 1
                    self._give_way(life, command.for_workload_id, now_s)
                    freed = freed or self._options.grace_s == 0
            # Where nodes were asked for, some more may be.
            if not freed and not self._nodes.has_changed:
                break
        self._keep_ticking(now_s)

    def _keep_ticking(self, now_s: float) -> None:
        # A job that waits for spot moves to on-demand when its deadline demands it, without event.
        waits_for_spot = self._options.capacity_policy is not None and any(
            self._lives[workload_id].workload.hold for workload_id in self._waiting
        )
        tick_s = LOOK_S if waits_for_spot else self._options.tick_s
        # For all others time alone changes nothing while no job runs or arrives.
        is_over = not waits_for_spot and self._next_moment_s() == _NEVER_S
        if tick_s is None or not self._waiting or is_over:
            return
        if self._tick_at_s <= now_s:
            self._tick_at_s = now_s + tick_s
            self._set_timer(self._tick_at_s, _WAKE)

    def _start(self, workload_id: str, placement: Placement, now_s: float, now: datetime) -> None:
        life = self._lives[workload_id]
        job = life.job
        ready_s = self._nodes.hold(placement, now_s)
        if ready_s is None:
            return
        self._waiting.remove(workload_id)
        self._preemptors.discard(workload_id)
        life.attempt += 1
        life.started_s = now_s
        restart_s = self._options.restart_s if job.restart_s is None else job.restart_s
        life.begins_s = ready_s + (restart_s if life.attempt > 1 else 0.0)
        life.nodes_came_s = ready_s
        life.zone = self._nodes.zone(placement)
        life.allocation = Allocation(
            workload=life.workload,
            attempt=life.attempt,
            placement=placement,
            admitted_at=now,
            works_since=_moment(life.begins_s) if life.attempt > 1 else None,
            # Progress that is safe at any moment is that of a run which has just saved.
            checkpointed_at=now if job.checkpoint_interval_s is None and job.has_resumed else None,
            save_s=0.0 if job.checkpoint_interval_s is None else None,
            restart_s=restart_s,
        )
        self._running[workload_id] = life
        self._scheduler.withdraw(workload_id)
        self._scheduler.allocate(life.allocation)
        if self._meter is not None:
            self._meter.start((job.team, job.user), job.total_gpus, now_s)
        self._set_timer(life.begins_s + life.works_s, _FINISH, workload_id, life.attempt)
        if ready_s > now_s:
            for share in placement.shares:
                self._set_timer(ready_s, _NODE_COMES, share.node)
        protected_s = max(life.workload.min_runtime_s, life.allocation.repays_within_s)
        if protected_s and job.is_preemptible:
            self._set_timer(now_s + protected_s, _WAKE)

    def _give_way(self, life: JobLife, for_id: str | None, now_s: float) -> None:
        """Give notice; the job waits again when its grace is over."""
        spent = life.stop(now_s)
        grace_s = self._options.grace_s
        if not grace_s:
            self._leave(life, now_s, spent)
            self._wait(life)
            return
        assert life.allocation is not None  # noqa: S101 - only who holds GPUs is preempted
        life.spent = spent
        life.allocation = replace(
            life.allocation,
            is_draining=True,
            drain_deadline_at=_moment(now_s) + timedelta(seconds=grace_s),
            draining_for=for_id,
        )
        self._scheduler.allocate(life.allocation)
        self._set_timer(now_s + grace_s, _DRAINED, life.workload.workload_id, life.attempt)

    def _leave(
        self, life: JobLife, now_s: float, spent: SpentTime, *, was_interrupted: bool = False
    ) -> None:
        """Release an attempt's GPUs."""
        job = life.job
        assert life.allocation is not None  # noqa: S101 - only who holds GPUs leaves
        placement = life.allocation.placement
        life.end_attempt(now_s, spent, was_interrupted=was_interrupted)
        if self._options.capacity_policy is not None:
            reason = EndReason.INTERRUPTED if was_interrupted else EndReason.PREEMPTED
            attempt = attempt_record(life.allocation, life.zone, _moment(now_s), reason)
            life.earlier.append(attempt)
        for name, goes_s in self._nodes.release(placement, now_s):
            self._set_timer(goes_s, _NODE_GOES, name)
        del self._running[life.workload.workload_id]
        life.allocation = None
        life.spent = None
        self._scheduler.release(life.workload.workload_id)
        if self._meter is not None:
            self._meter.stop((job.team, job.user), job.total_gpus, now_s)


def _moment(at_s: float) -> datetime:
    try:
        return _BEGINNING + timedelta(seconds=at_s)
    except OverflowError:
        raise InvalidInput(
            "workload",
            "is too long to be simulated",
            got=at_s,
            allowed="times in seconds from the first job, ending before the year 9999",
            remedy="please ensure that all times are specified in seconds",
        ) from None


def _workload(
    workload_id: str, job: TraceJob, run_time: RunTime | None, options: SimulationOptions
) -> Workload:
    return Workload(
        workload_id=workload_id,
        name=job.job_id,
        priority=job.priority,
        submitted_at=_moment(job.submit_s),
        shape=Shape(
            gpu_count=job.gpu_count,
            nodes=job.nodes,
            gpu_types=job.gpu_types,
            capacity_type=job.capacity_type,
            gpu_share_milli=job.gpu_share_milli,
            cpu_milli=job.cpu_milli,
            memory_mib=job.memory_mib,
        ),
        is_preemptible=job.is_preemptible,
        min_runtime_s=options.min_runtime_s,
        max_protection_s=options.max_protection_s,
        run_time=run_time,
        has_resumed=job.has_resumed,
        deadline_at=None if job.deadline_s is None else _moment(job.deadline_s),
        team=job.team,
        user=job.user,
    )
