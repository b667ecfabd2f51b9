"""The distinct states of nodes, each with its score, computed once."""

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from gpu_core.decisions.model.workload import WHOLE_GPU_MILLI
from gpu_core.decisions.placement.fragmentation_score import FragmentationScore, Milli

_NO_ROOM = -np.inf

_State = tuple[int, Milli]
"""The class of a node, and the free part of its GPUs."""


class NodeStates:
    """Numbers the states of nodes and caches their scores.

    Tables have a row for each state and a column for each bucket of CPU. Rows never change.

    Args:
        worth: Scores GPUs.
        columns: The number of buckets of CPU.
    """

    def __init__(self, worth: FragmentationScore, columns: int) -> None:
        self._worth = worth
        self._columns = columns
        self._numbers: dict[_State, int] = {}
        self._states: list[_State] = []
        self._rows: dict[_State, int] = {}
        """The row of each state in `_now`: of numbered states and of their successors."""
        self._now = np.empty((0, columns))
        self._after: dict[tuple[int, int], _After] = {}

    def enter(self, node_class: int, free: Milli) -> int:
        """The number of a node's current state. A new state gets one."""
        state = (node_class, free)
        number = self._numbers.setdefault(state, len(self._states))
        if number == len(self._states):
            self._states.append(state)
            self._rows_of([state])
        return number

    def now(self, number: int, column: int) -> float:
        """The score of a state."""
        return float(self._now[self._rows[self._states[number]], column])

    def after(self, gpu_count: int, milli: int) -> NDArray[np.float64]:
        """The score of each state once a request has the best GPUs of it.

        Returns:
            The rows of the states by number, flattened. Minus infinity where the request does not
            fit.
        """
        after = self._after.setdefault((gpu_count, milli), _After(self._columns))
        if after.done < len(self._states):
            self._fill(after, gpu_count, milli)
        return after.table.reshape(-1)

    def best(self, node_class: int, free: Milli, ask: tuple[int, int], column: int) -> Milli:
        """How much is free on the GPUs that a request should use?

        Args:
            node_class: The class of the node.
            free: The free part of its GPUs; enough for the request.
            ask: The number of GPUs, and thousandths of each.
            column: The bucket of CPU that is left afterwards.
        """
        choices = _choices(free, *ask)
        if len(choices) == 1:
            return choices[0]
        rests = self._rows_of([(node_class, _rest(free, used, ask[1])) for used in choices])
        return choices[int(rests[:, column].argmax())]

    def _fill(self, after: "_After", gpu_count: int, milli: int) -> None:
        """Adds the states that are new since the last call."""
        first, after.done = after.done, len(self._states)
        numbers: list[int] = []
        starts: list[int] = []
        rests: list[_State] = []
        for number, (node_class, free) in enumerate(self._states[first:], first):
            choices = _choices(free, gpu_count, milli)
            if choices:
                numbers.append(number)
                starts.append(len(rests))
                rests += [(node_class, _rest(free, used, milli)) for used in choices]
        after.table = _grown(after.table, after.done)
        if numbers:
            after.table[numbers] = np.maximum.reduceat(self._rows_of(rests), starts)
            after.table[numbers, 0] = _NO_ROOM

    def _rows_of(self, states: Sequence[_State]) -> NDArray[np.float64]:
        """The scores of these states, a row for each."""
        new = list(dict.fromkeys(state for state in states if state not in self._rows))
        if new:
            first = len(self._rows)
            self._rows.update((state, first + i) for i, state in enumerate(new))
            self._now = _grown(self._now, len(self._rows))
            classes, free = zip(*new, strict=True)
            self._now[first : len(self._rows)] = self._worth.rows(classes, free)
        return self._now[[self._rows[state] for state in states]]


class _After:
    """The scores of states after one request."""

    def __init__(self, columns: int) -> None:
        self.table = np.empty((0, columns))
        self.done = 0
        """The number of states with a row."""


def _grown(table: NDArray[np.float64], rows: int) -> NDArray[np.float64]:
    """The table with at least this many rows; in new rows nothing fits."""
    if rows <= len(table):
        return table
    more = np.full((max(64, 2 * rows - len(table)), table.shape[1]), _NO_ROOM)
    return np.concatenate([table, more])


def _choices(free: Milli, gpu_count: int, milli: int) -> list[Milli]:
    """The GPUs that a request may use, by their free part, the fullest first.

    None if it does not fit.

    A single GPU may be any with enough free. Several are the fullest with enough free: all
    combinations are many and differ little.
    """
    fitting = [left for left in free if left >= milli]
    if len(fitting) < gpu_count:
        return []
    if gpu_count == 1 and milli < WHOLE_GPU_MILLI:
        return [(left,) for left in dict.fromkeys(fitting)]
    return [tuple(fitting[:gpu_count])]


def _rest(free: Milli, used: Milli, milli: int) -> Milli:
    """The parts that are free afterwards."""
    rest = list(free)
    for left in used:
        rest.remove(left)
        rest.append(left - milli)
    return tuple(sorted(rest))
