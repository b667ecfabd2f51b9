"""The cost of a strategy on a recorded spot trace, tick by tick, paid by the second.

The model is that of Wu et al., "Can't Be Late" (NSDI'24): on-demand can always be had, spot when
the trace says so; every start on other capacity loses the changeover, the first one too; what an
interruption loses beyond that is part of it. At a tick the strategy sees whether spot is up in this
tick, and nothing of the later ones.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import repeat

from gpu_core.decisions.model.errors import InvalidInput
from gpu_core.decisions.model.units import SECONDS_PER_HOUR
from gpu_core.decisions.model.workload import Changeover
from gpu_core.decisions.policy.capacity import CapacityPolicy
from gpu_core.decisions.spot.changeover import changeover
from gpu_core.decisions.spot.decide import decide
from gpu_core.decisions.spot.state import Capacity, CapacityDecision, CapacityState
from gpu_core.decisions.spot.survival import SpotRecord


@dataclass(frozen=True, slots=True, kw_only=True)
class Task:
    """One job with a deadline. Prices are of all its nodes together."""

    work_s: float
    deadline_s: float
    """From its start."""
    changeover_s: float
    spot_micro_usd_per_hour: int
    on_demand_micro_usd_per_hour: int

    def ticks(self, tick_s: int) -> int:
        """How many whole ticks are there until the deadline?

        Raises:
            InvalidInput: On-demand from the first of them would not meet it.
        """
        ticks = int(self.deadline_s / tick_s + 1e-9)
        if ticks * tick_s < self.work_s + self.changeover_s:
            least_h = (self.work_s + self.changeover_s) / SECONDS_PER_HOUR
            raise InvalidInput(
                "deadline-hours",
                "cannot be met even with on-demand capacity",
                got=round(self.deadline_s / SECONDS_PER_HOUR, 3),
                allowed=f"{least_h:.3f} (task and one changeover) or more, in whole ticks",
            )
        return ticks

    @property
    def on_demand_micro_usd(self) -> float:
        """The cost of the work alone on on-demand, with which costs are compared."""
        return self.work_s * self.on_demand_micro_usd_per_hour / SECONDS_PER_HOUR


@dataclass(frozen=True, slots=True, kw_only=True)
class Knowledge:
    """The strategy's knowledge of the changeover, where it does not know the task's."""

    policy_s: float
    """The changeover of the policy."""
    losses_s: tuple[float, ...] = ()
    """The losses of earlier starts of the same deployment."""
    is_learning: bool = True
    """The replay's own starts are measured, too. False: only `policy_s` is ever used."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Replay:
    """The replay of one run of the task."""

    cost_ratio: float
    """Its cost by what the work alone costs on on-demand."""
    on_demand_s: float
    """Of work done there; changeovers are not in it."""
    spot_s: float
    """Of work done there."""
    switches: int
    """Starts on other capacity, the first one too."""
    is_missed: bool
    decisions: tuple[CapacityDecision, ...] = ()
    """One for each tick, if they were asked for."""


def watched(is_up: Sequence[bool], tick_s: int) -> list[SpotRecord]:
    """The record of spot that a task has at each tick, if it watches from the first one on.

    Args:
        is_up: Whether spot is up in each tick; at least one.
    """
    records = [SpotRecord(is_up=is_up[0])]
    for is_up_now in is_up[1:]:
        records.append(records[-1].looked(tick_s, is_up=is_up_now))
    return records


def replay(
    records: Sequence[SpotRecord],
    tick_s: int,
    task: Task,
    policy: CapacityPolicy,
    *,
    knowledge: Knowledge | None = None,
    losses_s: Iterator[float] | None = None,
    keep_decisions: bool = False,
) -> Replay:
    """The outcome of this task on this trace.

    Args:
        records: What it knows of spot at each tick, from its start until its deadline.
        knowledge: What it knows of the changeover; None: the task's, for certain.
        losses_s: What its starts lose, one after the other; None: the task's changeover each.
    """
    run = ReplayedRun(task, tick_s, knowledge, losses_s)
    decisions = []
    for tick, spot in enumerate(records[: task.ticks(tick_s)]):
        if run.capacity is Capacity.SPOT and not spot.is_up:
            run.capacity = Capacity.IDLE
        decision = decide(run.state(tick, spot), policy)
        if decision.capacity is Capacity.SPOT and not spot.is_up:
            raise AssertionError(f"spot was chosen where there is none: {decision}")
        if keep_decisions:
            decisions.append(decision)
        run.go(decision.capacity)
        if run.left_s <= 0:
            break
    return run.result(tuple(decisions))


class ReplayedRun:
    """The task on its way, one tick after the other.

    Args:
        knowledge: What is known of the changeover; None: the task's, for certain.
        losses_s: What its starts lose, one after the other; None: the task's changeover each.
    """

    __slots__ = (
        "capacity", "changeover", "changeover_left_s", "cost", "deadline_s", "done_s", "knowledge",
        "left_s", "loss_s", "losses_s", "measured_s", "switches", "task", "tick_s",
    )  # fmt: skip

    def __init__(
        self,
        task: Task,
        tick_s: int,
        knowledge: Knowledge | None,
        losses_s: Iterator[float] | None = None,
    ) -> None:
        self.task = task
        self.knowledge = knowledge
        self.losses_s = losses_s or repeat(task.changeover_s)
        self.loss_s = 0.0
        """Of the start that is under way."""
        self.measured_s = list(knowledge.losses_s) if knowledge is not None else []
        self.changeover = self._known_changeover()
        self.tick_s = tick_s
        self.deadline_s = float(task.ticks(tick_s) * tick_s)
        self.capacity = Capacity.IDLE
        self.left_s = float(task.work_s)
        self.changeover_left_s = 0.0
        self.switches = 0
        self.cost = 0.0
        """In micro-USD per hour times seconds."""
        self.done_s = {Capacity.SPOT: 0.0, Capacity.ON_DEMAND: 0.0}

    def state(self, tick: int, spot: SpotRecord) -> CapacityState:
        """The input of the choice of capacity in this tick."""
        elapsed_s = float(tick * self.tick_s)
        return CapacityState(
            work_s=self.task.work_s,
            remaining_work_s=self.left_s,
            elapsed_s=elapsed_s,
            time_left_s=self.deadline_s - elapsed_s,
            changeover_s=self.changeover.loss_s,
            look_s=self.tick_s,
            current=self.capacity,
            spot=spot,
            spot_micro_usd_per_hour=self.task.spot_micro_usd_per_hour,
            on_demand_micro_usd_per_hour=self.task.on_demand_micro_usd_per_hour,
        )

    def begin(self, capacity: Capacity) -> None:
        """Change to it; a start loses the changeover from now on."""
        self.capacity = capacity
        if capacity is not Capacity.IDLE:
            self.loss_s = self.changeover_left_s = next(self.losses_s)
            self.switches += 1

    def go(self, capacity: Capacity) -> None:
        """Use it for one tick."""
        if capacity is not self.capacity:
            self.begin(capacity)
        if capacity is Capacity.IDLE:
            return
        changeover_s = min(self.changeover_left_s, self.tick_s)
        work_s = min(self.left_s, self.tick_s - changeover_s)
        self.changeover_left_s -= changeover_s
        if changeover_s > 0 and self.changeover_left_s <= 0:
            self._learn()
        self.left_s -= work_s
        self.done_s[capacity] += work_s
        is_spot = capacity is Capacity.SPOT
        self.cost += (changeover_s + work_s) * (
            self.task.spot_micro_usd_per_hour if is_spot else self.task.on_demand_micro_usd_per_hour
        )

    def _learn(self) -> None:
        """A start is over: what it lost is known."""
        self.measured_s.append(self.loss_s)
        self.changeover = self._known_changeover()

    def _known_changeover(self) -> Changeover:
        if self.knowledge is None:
            return Changeover(self.task.changeover_s)
        if not self.knowledge.is_learning:
            return Changeover(self.knowledge.policy_s)
        return changeover(self.measured_s, self.knowledge.policy_s)

    def result(self, decisions: tuple[CapacityDecision, ...]) -> Replay:
        """The result of the replay."""
        return Replay(
            cost_ratio=self.cost / SECONDS_PER_HOUR / self.task.on_demand_micro_usd,
            on_demand_s=self.done_s[Capacity.ON_DEMAND],
            spot_s=self.done_s[Capacity.SPOT],
            switches=self.switches,
            is_missed=self.left_s > 0,
            decisions=decisions,
        )
