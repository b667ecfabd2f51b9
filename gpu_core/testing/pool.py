"""A pool without a server: workloads, nodes and the real planner, in the memory of a test."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from gpu_core.decisions.model.cluster import Allocation, Node, Placement, Snapshot
from gpu_core.decisions.model.errors import InvalidInput, nearest_name
from gpu_core.decisions.model.reasons import Explanation
from gpu_core.decisions.model.workload import Workload
from gpu_core.decisions.policy.policy import Policy
from gpu_core.decisions.scheduling.cycle.planner import plan_cycle
from gpu_core.decisions.scheduling.plan.plan import Admit, Plan, Preempt
from gpu_core.testing.builders.workloads import make_node, make_policy, make_workload
from gpu_core.testing.clock import Clock


class MemoryPool:
    """A pool in memory, whose cycles say who starts, on which GPUs, and why the rest waits.

    A cycle is planned as the worker plans it; its commands take effect at once. A preempted
    workload has left its GPUs when `cycle` returns, and the next cycle starts the workload that
    they were taken for.

    Args:
        nodes: The cluster; one node of 8 GPUs by default.
        policy: As in `policy.yaml`, parsed; the default policy with prices by default.
        clock: The moment of each cycle; shared with the test, which moves it.
    """

    def __init__(
        self,
        nodes: Sequence[Node] | None = None,
        policy: Policy | None = None,
        clock: Clock | None = None,
    ) -> None:
        self.clock = clock or Clock()
        self.policy = policy or make_policy()
        self._nodes = tuple([make_node()] if nodes is None else nodes)
        self._pending: dict[str, Workload] = {}
        self._allocations: dict[str, Allocation] = {}
        self._attempts: dict[str, int] = {}
        self._preemptors: set[str] = set()
        self._explanations: dict[str, Explanation] = {}

    @property
    def snapshot(self) -> Snapshot:
        """Everything that the next cycle reads."""
        return Snapshot(
            nodes=self._nodes,
            allocations=tuple(self._allocations.values()),
            pending=tuple(self._pending.values()),
            preemptors=frozenset(self._preemptors & self._pending.keys()),
        )

    @property
    def placements(self) -> Mapping[str, Placement]:
        """The GPUs of each running workload, by its id."""
        return {name: held.placement for name, held in self._allocations.items()}

    @property
    def pending(self) -> tuple[str, ...]:
        """The ids of the workloads that wait, in the order in which they came."""
        return tuple(self._pending)

    def submit(self, workload: str | Workload, gpus: int = 1, **changes: Any) -> Workload:
        """A workload waits from now on.

        Args:
            workload: A workload, or the id of one that is made here.
            gpus: How many GPUs on each node, where it is made here.
            changes: Other fields of `Workload`, where it is made here.

        Raises:
            InvalidInput: A workload of this id waits or runs.
        """
        if isinstance(workload, str):
            workload = make_workload(workload, gpus, **{"submitted_at": self.clock.now} | changes)
        name = workload.workload_id
        if name in self._pending or name in self._allocations:
            raise InvalidInput("workload_id", "is in the pool already", got=name)
        self._pending[name] = workload
        return workload

    def plan(self) -> Plan:
        """The plan of the next cycle. Nothing changes.

        Raises:
            InvalidInput: The nodes contradict each other.
        """
        return plan_cycle(self.snapshot, self.policy, self.clock.now)

    def cycle(self) -> Plan:
        """Plan, and carry out what is planned.

        Raises:
            InvalidInput: The nodes contradict each other.
        """
        plan = self.plan()
        # Made before the commands take effect: each is made when it is read.
        self._explanations = {found.workload_id: found for found in plan.explanations}
        for command in plan.commands:
            match command:
                case Preempt(workload_id=victim, for_workload_id=preemptor):
                    self._preemptors.add(preemptor)
                    self._pending[victim] = self._running(victim).workload
                    del self._allocations[victim]
                case Admit(workload_id=name, placement=placement):
                    self._start(name, placement)
        return plan

    def explanation(self, workload_id: str) -> Explanation | None:
        """The explanation of its wait in the last cycle; None: that cycle did not see it wait."""
        return self._explanations.get(workload_id)

    def save(self, workload_id: str) -> None:
        """A running workload has saved a checkpoint now.

        Raises:
            InvalidInput: No workload of this id runs.
        """
        held = self._running(workload_id)
        self._allocations[workload_id] = replace(held, checkpointed_at=self.clock.now)

    def finish(self, workload_id: str) -> None:
        """A running workload has ended; its GPUs are free.

        Raises:
            InvalidInput: No workload of this id runs.
        """
        self._running(workload_id)
        del self._allocations[workload_id]

    def add_node(self, node: Node) -> None:
        """A node has come; one of the same name is replaced."""
        others = [known for known in self._nodes if known.name != node.name]
        self._nodes = (*others, node)

    def interrupt(self, node: str) -> tuple[str, ...]:
        """The provider takes a node back: its workloads wait again. Returns their ids.

        Raises:
            InvalidInput: There is no node of this name.
        """
        _require("node", node, [known.name for known in self._nodes])
        self._nodes = tuple(known for known in self._nodes if known.name != node)
        lost = [
            name
            for name, held in self._allocations.items()
            if node in {share.node for share in held.placement.shares}
        ]
        for name in lost:
            self._pending[name] = self._allocations.pop(name).workload
        return tuple(lost)

    def _start(self, workload_id: str, placement: Placement) -> None:
        self._preemptors.discard(workload_id)
        self._attempts[workload_id] = attempt = self._attempts.get(workload_id, 0) + 1
        self._allocations[workload_id] = Allocation(
            workload=self._pending.pop(workload_id),
            attempt=attempt,
            placement=placement,
            admitted_at=self.clock.now,
        )

    def _running(self, workload_id: str) -> Allocation:
        _require("workload_id", workload_id, list(self._allocations))
        return self._allocations[workload_id]


def _require(field: str, name: str, known: Sequence[str]) -> None:
    if name in known:
        return
    raise InvalidInput(
        field,
        "is not running in the pool" if field == "workload_id" else "is not in the pool",
        got=name,
        allowed=", ".join(known) or "nothing",
        nearest=nearest_name(name, known),
    )
