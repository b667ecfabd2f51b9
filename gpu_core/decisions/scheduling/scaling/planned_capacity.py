"""The nodes to come that a plan uses, so that the pool never has more than `scale.max_gpus`."""

from collections.abc import Collection, Iterable, Iterator
from dataclasses import dataclass

from gpu_core.decisions.model.cluster import Node
from gpu_core.decisions.scheduling.plan.plan import Admit, Command, Preempt


@dataclass(frozen=True, slots=True)
class PlannedCapacity:
    """The nodes of a pool, and how many of its planned nodes may come at once."""

    nodes: tuple[Node, ...]
    held: Collection[str]
    """Names of the nodes that allocations are on; a planned one among them is on its way."""
    max_gpus: int | None
    """GPUs that the pool has at most; None: no limit."""

    @property
    def open(self) -> tuple[Node, ...]:
        """The nodes that are there, on their way, or could come each by itself."""
        if self.max_gpus is None:
            return self.nodes
        left_gpus = self._left_gpus
        return tuple(n for n in self.nodes if not self._may_come(n) or _gpus(n) <= left_gpus)

    @property
    def possible(self) -> tuple[Node, ...]:
        """The nodes that could be there some day."""
        most = self.max_gpus
        return tuple(
            n for n in self.nodes if most is None or not self._may_come(n) or _gpus(n) <= most
        )

    def granted(self, commands: Iterable[Command]) -> tuple[Node, ...] | None:
        """The nodes to plan with again, where these commands need more than may come.

        In the order of the commands each workload gets all of its planned nodes or none; what is
        left goes to other planned nodes, by name. Together they are never over the limit.

        Returns:
            None: the commands are within the limit.
        """
        coming = {node.name: node for node in self.open if self._may_come(node)}
        wanted = [names & coming.keys() for names in _nodes_used(commands)]
        left_gpus = self._left_gpus
        if sum(_gpus(coming[name]) for name in set().union(*wanted)) <= left_gpus:
            return None
        kept: set[str] = set()
        for names in (*wanted, *({name} for name in sorted(coming))):
            gpus = sum(_gpus(coming[name]) for name in names - kept)
            if gpus <= left_gpus:
                left_gpus -= gpus
                kept |= names
        return tuple(n for n in self.open if n.name not in coming or n.name in kept)

    @property
    def _left_gpus(self) -> float:
        if self.max_gpus is None:
            return float("inf")
        there_gpus = sum(_gpus(node) for node in self.nodes if not self._may_come(node))
        return max(0, self.max_gpus - there_gpus)

    def _may_come(self, node: Node) -> bool:
        return node.is_planned and node.name not in self.held


def _nodes_used(commands: Iterable[Command]) -> Iterator[set[str]]:
    for command in commands:
        if isinstance(command, Admit):
            yield {share.node for share in command.placement.shares}
        elif isinstance(command, Preempt) and command.moves_to is not None:
            yield {share.node for share in command.moves_to.shares}


def _gpus(node: Node) -> int:
    return len(node.gpu_ids)
