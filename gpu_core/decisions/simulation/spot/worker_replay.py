"""The outcome of a run under a worker on a recorded spot trace, minute by minute.

`replay` is the model of the papers: one look for each tick, and a task that has watched spot from
its start. A worker looks every minute, knows of spot what the attempts of the run show, leaves
alone where the run was interrupted, and all spot after too many interruptions in a row. The
functions that decide are those that the worker calls. Simpler here: the pool has no other runs,
on-demand can always be had, a start loses all of its changeover at its beginning and saves right
after it, and the record of spot is never old (a worker renews it every ten minutes).
"""

from collections.abc import Sequence
from dataclasses import replace as with_fields
from datetime import UTC, datetime, timedelta

from gpu_core.decisions.model.attempts import Attempt, EndReason
from gpu_core.decisions.model.cluster import SPOT, ZONE_LABEL, Node
from gpu_core.decisions.policy.capacity import CapacityPolicy
from gpu_core.decisions.simulation.spot.replay import Knowledge, Replay, ReplayedRun, Task
from gpu_core.decisions.spot.availability_tracker import SpotAvailabilityTracker
from gpu_core.decisions.spot.capacity_view import LOOK_S
from gpu_core.decisions.spot.decide import decide
from gpu_core.decisions.spot.node_avoidance import avoided_nodes, spot_left_alone_until
from gpu_core.decisions.spot.observed_lifetimes import SpotPast, spot_pasts
from gpu_core.decisions.spot.state import Capacity, CapacityDecision
from gpu_core.decisions.spot.survival import SpotRecord

_BEGAN_AT = datetime(2000, 1, 1, tzinfo=UTC)
_RUN, _GPU_TYPE, _ZONE = "run", "gpu", "zone"
_SPOT_NODE = Node(
    name="spot",
    gpu_type=_GPU_TYPE,
    gpu_ids=("0",),
    capacity_type=SPOT,
    labels={ZONE_LABEL: _ZONE},
)


def minutes_up(is_up: Sequence[bool], tick_s: int, minutes: int) -> tuple[bool, ...]:
    """For each minute, whether spot was up from its first second to its last.

    Args:
        is_up: Whether spot is up in each tick; after the last one it is unavailable.
    """
    look_s = int(LOOK_S)
    looked = (
        is_up[at_s // tick_s : -(-(at_s + look_s) // tick_s)]
        for at_s in range(0, minutes * look_s, look_s)
    )
    return tuple(bool(ticks) and all(ticks) for ticks in looked)


def replay_worker(
    is_up: Sequence[bool],
    tick_s: int,
    task: Task,
    policy: CapacityPolicy,
    *,
    knowledge: Knowledge | None = None,
    keep_decisions: bool = False,
) -> Replay:
    """The outcome of this task if a worker runs it on this trace.

    Args:
        is_up: Whether spot is up in each tick, from the submission until the deadline.
        task: What there is to do. Its changeover is what each start loses.
        knowledge: What is known of the changeover; None: the task's is the policy's, and measured.
        keep_decisions: Return one decision for each minute in which one was taken.
    """
    minutes = task.ticks(int(LOOK_S))
    run = _WorkerRun(task, policy, knowledge or Knowledge(policy_s=task.changeover_s))
    for minute, is_up_now in enumerate(minutes_up(is_up, tick_s, minutes)):
        run.look(minute, is_up=is_up_now)
        if run.run.left_s <= 0:
            break
    return run.run.result(tuple(run.decisions) if keep_decisions else ())


class _WorkerRun:
    """The run, its attempts, and what the worker has seen of spot."""

    def __init__(self, task: Task, policy: CapacityPolicy, knowledge: Knowledge) -> None:
        self.run = ReplayedRun(task, int(LOOK_S), knowledge)
        self.decisions: list[CapacityDecision] = []
        self._policy = policy
        self._attempts: list[Attempt] = []
        self._starts = 0
        self._past = SpotPast()
        self._availability = SpotAvailabilityTracker()

    def look(self, minute: int, *, is_up: bool) -> None:
        """Decide, and continue for a minute."""
        now = _BEGAN_AT + timedelta(seconds=minute * LOOK_S)
        if self.run.capacity is Capacity.SPOT and not is_up:
            self._interrupted(now)
        # Prices do not change: who is on spot stays there.
        if self.run.capacity is not Capacity.SPOT:
            self._use(self._choice(minute, is_up, now), now)
        self.run.go(self.run.capacity)

    def _choice(self, minute: int, is_up: bool, now: datetime) -> Capacity:
        attempts, policy = self._attempts, self._policy
        changeover_s = self.run.changeover.loss_s
        if is_up and avoided_nodes(attempts, (_SPOT_NODE,), policy, now, changeover_s):
            is_up = False
        age_s = self._availability.age_s(_RUN, is_up=is_up, now=now)
        is_on_demand = self.run.capacity is Capacity.ON_DEMAND
        # An attempt that has saved nothing yet is not moved.
        if is_on_demand and (not is_up or self.run.changeover_left_s > 0):
            return Capacity.ON_DEMAND
        if spot_left_alone_until(attempts, policy, now, changeover_s) is not None:
            return Capacity.ON_DEMAND
        if is_on_demand:
            if self._decided(minute, is_up, age_s) is not Capacity.SPOT:
                return Capacity.ON_DEMAND
            # It saves and gives way; what it gets next is decided as for any that waits.
            self.run.capacity = Capacity.IDLE
        return self._decided(minute, is_up, age_s)

    def _decided(self, minute: int, is_up: bool, age_s: float) -> Capacity:
        spot = SpotRecord(
            is_up=is_up,
            age_s=age_s,
            observed_s=self._past.observed_s,
            up=self._past.up,
            away=self._past.away,
        )
        decision = decide(self.run.state(minute, spot), self._policy)
        self.decisions.append(decision)
        return decision.capacity

    def _use(self, capacity: Capacity, now: datetime) -> None:
        if capacity is self.run.capacity:
            return
        self.run.begin(capacity)
        if capacity is Capacity.IDLE:
            return
        self._starts += 1
        if capacity is Capacity.SPOT:
            self._availability.forget(_RUN)
            self._attempts.append(_attempt(self._starts, now))

    def _interrupted(self, now: datetime) -> None:
        self.run.capacity = Capacity.IDLE
        self._attempts[-1] = with_fields(
            self._attempts[-1], released_at=now, end_reason=EndReason.INTERRUPTED
        )
        self._past = spot_pasts(self._attempts, now).get(_GPU_TYPE, SpotPast())


def _attempt(number: int, now: datetime) -> Attempt:
    """On spot. Each machine is another one."""
    return Attempt(
        attempt_id=str(number),
        flow_run_id=_RUN,
        number=number,
        pool="pool",
        host="host",
        node=f"spot-{number}",
        gpu_type=_GPU_TYPE,
        gpu_ids=("0",),
        capacity_type=SPOT,
        price_micro_usd_per_gpu_hour=None,
        admitted_at=now,
        zone=_ZONE,
    )
