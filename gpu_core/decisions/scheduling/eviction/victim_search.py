"""Finds the cheapest set of victims by branch and bound, where a choice node by node is not exact.

That is so for gangs whose victims span nodes, for quotas, and for parts of GPUs, CPU and memory.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from math import ceil
from operator import attrgetter
from typing import NamedTuple

from gpu_core.decisions.model.bit_set import numbers_in
from gpu_core.decisions.scheduling.eviction.cost import Loss, PreemptionCandidate

EXACT_CANDIDATES = 12
"""With this many candidates that matter a search always ends, so that its result is exact: each
step decides about one of them."""

SEARCH_STEPS = 2 ** (EXACT_CANDIDATES + 1)
"""The work limit of one search. Steps are counted, not time, so that plans stay deterministic."""

CYCLE_STEPS = 4 * SEARCH_STEPS
"""The work limit of all searches of one cycle. A node that a search reads counts as a step."""


class NodeOption(NamedTuple):
    """A node that the shape could be placed on, and the candidates there."""

    group: int
    name: str
    candidates: int
    """The set of candidates that hold something of it, by position."""


@dataclass(frozen=True, slots=True, kw_only=True)
class VictimProblem:
    """The conditions on a set of victims. All questions are about sets of candidates, as bits."""

    candidates: Sequence[PreemptionCandidate]
    options: Sequence[NodeOption]
    """The nodes on which the shape fits without all candidates, or without any."""
    nodes: int
    """How many of them, all in one group, the shape needs."""
    fits: Callable[[NodeOption, int], bool]
    """Does the shape fit on the node without these? More victims never make it fit less."""
    missing_gpus: Callable[[NodeOption, int], int] | None
    """How many GPUs of the node are missing still? None: not only their number counts."""
    gpus: Callable[[NodeOption, int], int]
    """How many GPUs of the node does one candidate hold?"""
    open_groups: Callable[[int], frozenset[int]]
    """Which groups does quota leave open without these victims? More victims never close one."""
    quota_helpers: int
    """The candidates that free quota, wherever they run."""
    is_legal: Callable[[int], bool]
    """May all of these be preempted, in some order? A part of a legal set is legal."""


class VictimSearch:
    """One search.

    Args:
        problem: The candidates, and what they must achieve.
        best: A set that is known to be enough and legal; None: none is known.
        steps: How many steps it may take at most.
    """

    def __init__(self, problem: VictimProblem, best: int | None, steps: int) -> None:
        self._problem = problem
        self._losses = [candidate.loss for candidate in problem.candidates]
        self._cheapest_first = sorted(range(len(self._losses)), key=self._losses.__getitem__)
        self._steps_left = self._limit = steps
        self._best, self._best_loss = best, None if best is None else self.loss(best)
        self._bounds: list[dict[tuple[int, int], _Bound | None]] = [{} for _ in problem.options]
        # A victim that several chosen nodes share counts a part on each: the sum of the cheapest
        # nodes is then never more than what the best set loses.
        self._spans = [
            max(1, min(problem.nodes, sum(o.candidates >> i & 1 for o in problem.options)))
            for i in range(len(problem.candidates))
        ]

    @property
    def steps(self) -> int:
        """The number of steps that the search has taken."""
        return self._limit - max(0, self._steps_left)

    @property
    def is_complete(self) -> bool:
        """Did it end within its limit? Then its result is exact."""
        return self._steps_left >= 0

    def run(self) -> int | None:
        """The legal set that is enough and loses the least; None: none was found."""
        self._decide(0, (1 << len(self._losses)) - 1, Loss())
        return self._best

    def loss(self, victims: int) -> Loss:
        """The loss of a set."""
        total = Loss()
        for number in numbers_in(victims):
            total = total.plus(self._losses[number])
        return total

    def _decide(self, chosen: int, allowed: int, loss: Loss) -> None:
        """Decides about the candidates that are allowed and not chosen yet, one by one."""
        while True:
            self._steps_left -= 1
            if self._steps_left < 0:
                return
            bound = self._cheapest_nodes(chosen, allowed, loss)
            if bound is None:
                return
            if bound.branch is None:
                self._best, self._best_loss = chosen, loss
                return
            bit = 1 << bound.branch
            if self._problem.is_legal(chosen | bit):
                self._decide(chosen | bit, allowed, loss.plus(self._losses[bound.branch]))
            allowed &= ~bit

    def _cheapest_nodes(self, chosen: int, allowed: int, loss: Loss) -> "_Bound | None":
        """At least what must be lost beyond the chosen.

        Args:
            chosen: The victims so far.
            allowed: Those that are not ruled out, with the chosen.
            loss: What the chosen lose.

        Returns:
            None: the allowed are not enough, or lose no less than the best set that is known.
        """
        problem = self._problem
        best: _Bound | None = None
        for group, bounds in self._node_bounds(chosen, allowed).items():
            if len(bounds) < problem.nodes:
                continue
            bounds.sort(key=_by_loss)
            total = _sum(bounds[: problem.nodes])
            # Quota takes longest: it is asked about nodes that would be better than what is known.
            if not self._is_better(total, best, loss) or group not in problem.open_groups(allowed):
                continue
            if total.branch is None and group not in problem.open_groups(chosen):
                total = self._quota_bound(chosen, allowed)
                if not self._is_better(total, best, loss):
                    continue
            best = total
        return best

    def _is_better(self, bound: "_Bound", best: "_Bound | None", loss: Loss) -> bool:
        """Does it lose less than the best nodes, and with the chosen less than the best set?"""
        if best is not None and (bound.lost, bound.victims) >= (best.lost, best.victims):
            return False
        known = self._best_loss
        return known is None or (loss.lost + bound.lost, loss.victims + bound.victims) < (
            known.lost,
            known.victims,
        )

    def _node_bounds(self, chosen: int, allowed: int) -> dict[int, list["_Bound"]]:
        """The bounds of the nodes for which the allowed are enough, by group."""
        by_group: dict[int, list[_Bound]] = {}
        for option, known in zip(self._problem.options, self._bounds, strict=True):
            # One decision changes the bounds of few nodes.
            own = chosen & option.candidates, allowed & option.candidates
            if own not in known:
                known[own] = self._bound(option, *own)
            bound = known[own]
            if bound is not None:
                by_group.setdefault(option.group, []).append(bound)
        return by_group

    def _quota_bound(self, chosen: int, allowed: int) -> "_Bound":
        """Quota is missing: at least one more helper."""
        helpers = self._problem.quota_helpers & allowed & ~chosen
        cheapest = next(i for i in self._cheapest_first if helpers >> i & 1)
        return _Bound(self._losses[cheapest].lost, 1, cheapest)

    def _bound(self, option: NodeOption, chosen: int, allowed: int) -> "_Bound | None":
        """At least what the node's share of the victims loses, beyond the chosen.

        Args:
            chosen: Those of the node's candidates that are chosen.
            allowed: Those of them that are not ruled out.

        Returns:
            None: the allowed are not enough.
        """
        problem = self._problem
        if not problem.fits(option, allowed):
            return None
        if problem.fits(option, chosen):
            return _NOTHING
        undecided = list(numbers_in(allowed & ~chosen))
        if problem.missing_gpus is None:
            # Each of them may be the only one that is needed.
            cheapest = min(undecided, key=lambda i: self._losses[i])
            lost = min(self._losses[i].lost // self._spans[i] for i in undecided)
            return _Bound(lost, 1 / max(self._spans[i] for i in undecided), cheapest)
        missing = problem.missing_gpus(option, chosen)
        held = {i: gpus for i in undecided if (gpus := problem.gpus(option, i))}
        by_rate = sorted(held, key=lambda i: (self._losses[i].lost / self._spans[i] / held[i], i))
        lost, left = 0, missing
        for i in by_rate:
            used = min(left, held[i])
            lost += self._losses[i].lost * used // (self._spans[i] * held[i])
            left -= used
            if not left:
                break
        victims, left = 0, missing
        for gpus in sorted(held.values(), reverse=True):
            victims += 1
            left -= gpus
            if left <= 0:
                break
        return _Bound(lost, victims / max(self._spans[i] for i in held), by_rate[0])


class _Bound(NamedTuple):
    """At least what must be lost still."""

    lost: int
    victims: float
    branch: int | None
    """The candidate to decide about next; None: nothing is missing."""


_NOTHING = _Bound(0, 0.0, None)
_by_loss = attrgetter("lost", "victims")


def _sum(bounds: Sequence[_Bound]) -> _Bound:
    branch = next((b.branch for b in bounds if b.branch is not None), None)
    # Victims are whole; thirds of them may add up to a little more.
    return _Bound(sum(b.lost for b in bounds), ceil(sum(b.victims for b in bounds) - 1e-6), branch)
