"""The few states that many nodes are in, and what each is worth, worked out once."""

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from gpu_core.decisions.model.workload import WHOLE_GPU_MILLI
from gpu_core.decisions.placement.fragmentation_score import FragmentationScore, Milli

_NO_ROOM = -np.inf

_State = tuple[int, Milli]
"""The class of a node, and what is free of its GPUs."""


class NodeStates:
    """Numbers for the states that nodes are or were in, and what they are worth.

    Tables have a row for each state, in which each column is a level of CPU. What is in a table
    never changes.

    Args:
        worth: What GPUs are worth.
        columns: The number of levels of CPU.
    """

    def __init__(self, worth: FragmentationScore, columns: int) -> None:
        self._worth = worth
        self._columns = columns
        self._numbers: dict[_State, int] = {}
        self._states: list[_State] = []
        self._rows: dict[_State, int] = {}
        """Where each state is in `_now`: those that have a number and those that may follow."""
        self._now = np.empty((0, columns))
        self._after: dict[tuple[int, int], _After] = {}

    def enter(self, node_class: int, free: Milli) -> int:
        """Which number has this state, in which a node is now?"""
        state = (node_class, free)
        number = self._numbers.setdefault(state, len(self._states))
        if number == len(self._states):
            self._states.append(state)
            self._rows_of([state])
        return number

    def now(self, number: int, column: int) -> float:
        """What is a state worth?"""
        return float(self._now[self._rows[self._states[number]], column])

    def after(self, gpu_count: int, milli: int) -> NDArray[np.float64]:
        """What is each state worth once a request has the GPUs that are best for it?

        Returns:
            One row after the other, flat, by the numbers of the states. Minus infinity where the
            request does not fit.
        """
        after = self._after.setdefault((gpu_count, milli), _After(self._columns))
        if after.done < len(self._states):
            self._fill(after, gpu_count, milli)
        return after.table.reshape(-1)

    def best(self, node_class: int, free: Milli, ask: tuple[int, int], column: int) -> Milli:
        """From GPUs with how much free should a request be served?

        Args:
            node_class: The node's.
            free: What is free of its GPUs; enough for the request.
            ask: How many GPUs, and how many thousandths of each.
            column: The level of CPU that is left afterwards.
        """
        choices = _choices(free, *ask)
        if len(choices) == 1:
            return choices[0]
        rests = self._rows_of([(node_class, _rest(free, used, ask[1])) for used in choices])
        return choices[int(rests[:, column].argmax())]

    def _fill(self, after: "_After", gpu_count: int, milli: int) -> None:
        """Add the states that came since the last time."""
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
        """What are these states worth? A row for each."""
        new = list(dict.fromkeys(state for state in states if state not in self._rows))
        if new:
            first = len(self._rows)
            self._rows.update((state, first + i) for i, state in enumerate(new))
            self._now = _grown(self._now, len(self._rows))
            classes, free = zip(*new, strict=True)
            self._now[first : len(self._rows)] = self._worth.rows(classes, free)
        return self._now[[self._rows[state] for state in states]]


class _After:
    """What states are worth after one kind of request."""

    def __init__(self, columns: int) -> None:
        self.table = np.empty((0, columns))
        self.done = 0
        """How many states have their row."""


def _grown(table: NDArray[np.float64], rows: int) -> NDArray[np.float64]:
    """The table with at least as many rows; the new ones say that there is no room."""
    if rows <= len(table):
        return table
    more = np.full((max(64, 2 * rows - len(table)), table.shape[1]), _NO_ROOM)
    return np.concatenate([table, more])


def _choices(free: Milli, gpu_count: int, milli: int) -> list[Milli]:
    """What may the GPUs that a request gets have free? The fullest first; none if it fits not.

    One GPU may be any that is free enough. Several are the fullest that are free enough: all
    their combinations would be many, and what is left of them differs little.
    """
    fitting = [left for left in free if left >= milli]
    if len(fitting) < gpu_count:
        return []
    if gpu_count == 1 and milli < WHOLE_GPU_MILLI:
        return [(left,) for left in dict.fromkeys(fitting)]
    return [tuple(fitting[:gpu_count])]


def _rest(free: Milli, used: Milli, milli: int) -> Milli:
    """What is free afterwards?"""
    rest = list(free)
    for left in used:
        rest.remove(left)
        rest.append(left - milli)
    return tuple(sorted(rest))
