"""One explanation for each waiting workload, in the order of the line."""

from collections.abc import Iterator
from functools import partial
from typing import NamedTuple

from gpu_core.decisions.plan import Explanation
from gpu_core.decisions.scheduling import explain
from gpu_core.decisions.scheduling.cycle import Outcome
from gpu_core.decisions.scheduling.facts import Facts
from gpu_core.decisions.scheduling.line import Entry
from gpu_core.decisions.scheduling.ordering import Key
from gpu_core.decisions.scheduling.verdict import Tell
from gpu_core.decisions.workload import Shape

_NAMES_KEPT = 3


def explanations(facts: Facts, outcome: Outcome) -> tuple[Explanation, ...]:
    """Why does everybody wait, and at which position?

    Args:
        facts: Who waits.
        outcome: What the cycle said of those it looked at; all others wait behind them.
    """
    ahead = _Ahead(facts)
    told = []
    position = 0
    for _, key, shape, entry in sorted(_keyed(facts, outcome), key=_first_two):
        workload_id = entry.workload.workload_id
        tell = outcome.told.get(workload_id)
        if tell is None and workload_id in facts.holdings:
            told.append(explain.previous_attempt_ending(entry.workload))
            continue
        if tell is not None and workload_id in outcome.not_in_line:
            told.append(tell(0))
            continue
        position += 1
        told.append((tell or ahead.tell(shape, key, entry))(position))
        ahead.join(shape, position, key, entry)
    return tuple(told)


def _keyed(facts: Facts, outcome: Outcome) -> Iterator[tuple[bool, Key, Shape, Entry]]:
    """Everybody with what they stand in line by, kind by kind: sorted runs, which sort fast."""
    for queue in facts.line.queues:
        # As it was when they were considered: whoever was passed over for somebody ahead must not
        # find itself in front of them because they have used more since.
        of_kind = outcome.shares.get(queue.kind)
        for entry in queue.entries:
            workload_id = entry.workload.workload_id
            share = outcome.shares_of.get(workload_id, of_kind)
            key = entry.key if share is None else facts.order.with_share(entry.key, share)
            yield workload_id not in outcome.preemptors, key, queue.kind.shape, entry


def _first_two(keyed: tuple[bool, Key, Shape, Entry]) -> tuple[bool, Key]:
    return keyed[:2]


class _Ahead:
    """Who of those told so far waits for GPUs of the same nodes.

    By shape rather than by workload: a thousand waiting runs have few shapes.
    """

    def __init__(self, facts: Facts) -> None:
        self._facts = facts
        self._counts: dict[Shape, int] = {}
        self._first: dict[Shape, list[_Named]] = {}
        # What was found for a shape stays true until somebody joins whose name is shown.
        self._same: dict[Shape, tuple[Shape, ...]] = {}
        self._shown: dict[Shape, list[_Named]] = {}

    def join(self, shape: Shape, position: int, key: Key, entry: Entry) -> None:
        """One more waits."""
        self._counts[shape] = self._counts.get(shape, 0) + 1
        first = self._first.setdefault(shape, [])
        if not first:
            self._same.clear()
        if len(first) < _NAMES_KEPT:
            first.append(_Named(position, entry.workload.name, key))
            self._shown.clear()

    def tell(self, shape: Shape, key: Key, entry: Entry) -> Tell:
        """What does somebody hear who waits behind them?"""
        shown = self._shown_to(shape)
        return partial(
            explain.behind_others,
            entry.workload,
            [named.name for named in shown],
            sum([self._counts[other] for other in self._same[shape]]),
            self._facts.order.deciding_key(shown[0].key, key),
        )

    def _shown_to(self, shape: Shape) -> list["_Named"]:
        shown = self._shown.get(shape)
        if shown is None:
            if shape not in self._same:
                room = self._facts.now.room
                self._same[shape] = tuple(o for o in self._counts if room.overlaps(shape, o))
            first = sorted(named for other in self._same[shape] for named in self._first[other])
            shown = self._shown[shape] = first[:_NAMES_KEPT]
        return shown


class _Named(NamedTuple):
    """Somebody whose name is shown to those behind."""

    position: int
    name: str
    key: Key
