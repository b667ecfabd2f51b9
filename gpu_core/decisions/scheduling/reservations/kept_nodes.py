"""Nodes kept for a gang, and for a workload whose start is unknown as run times are."""

from bisect import bisect_left
from collections.abc import Callable, Iterable, Sequence
from heapq import nsmallest
from typing import NamedTuple

from gpu_core.decisions.model.workload import Shape
from gpu_core.decisions.scheduling.state.allocations import Holding

KEPT_PER_NODE = 5
"""Nodes kept for each node of a gang, within a part of the pool: a single node is as slow as its
longest run. Fitted on 1 to 15 October 2017 of the Philly trace, on 80 nodes of 8 GPUs without run
times (`DESIGN.md`)."""
KEPT_PART = 4
"""The part of the nodes left to it that a gang keeps at most so: a fourth. The largest gang where
the five were fitted, of four nodes, keeps as much of all 80; a pool of 20 nodes they keep idle."""

_LEAST_WAIT_S = 1.0
"""What a run holds is not free yet, also where it has just begun: free nodes come first."""


class Rest(NamedTuple):
    """The time for which a holding likely keeps its GPUs of a node."""

    rest_s: float
    gpus: int


def likely_nodes(
    shape: Shape,
    groups: Iterable[Sequence[str]],
    likely_wait_s: Callable[[str, int], float],
) -> list[str]:
    """The nodes that are kept for a workload that cannot start.

    Those that are likely to be free first: as many as it needs, and further ones as long as each
    is more likely free than not by the time at which enough of them are. That is one for a workload
    on one node, and fewer than twice the nodes of a gang. In large pools a gang keeps more, up to
    `KEPT_PER_NODE` for each that it needs, also where ends are estimated. Others may use the rest.

    Args:
        shape: The resources that it needs.
        groups: The nodes of each group that a gang may choose among.
        likely_wait_s: The likely time until a node has a number of free GPUs.

    Returns:
        Nodes of the one group in which it is likely to start first; empty if no group is large
        enough.
    """
    is_gang = shape.nodes > 1
    best: tuple[float, list[str]] | None = None
    for nodes in groups:
        if len(nodes) < shape.nodes:
            continue
        waits = [(likely_wait_s(node, shape.gpu_count), node) for node in nodes]
        cheap = min(shape.nodes * KEPT_PER_NODE, len(nodes) // KEPT_PART) if is_gang else 0
        by_wait = nsmallest(max(2 * shape.nodes - 1, cheap), waits)
        count = max(cheap, _kept_count([wait_s for wait_s, _ in by_wait], shape.nodes))
        likely = (by_wait[shape.nodes - 1][0], [node for _, node in by_wait[:count]])
        best = likely if best is None else min(best, likely)
    return [] if best is None else best[1]


def _kept_count(waits_s: Sequence[float], wanted: int) -> int:
    """How many of these nodes, the one that is likely free first coming first, are kept?

    A further one is kept while fewer than wanted of those kept are expected to be free by the time
    at which it is itself as likely free as not.
    """

    def are_enough(index: int) -> bool:
        shares = (_free_share(waits_s[index], wait_s) for wait_s in waits_s[: index + 1])
        return sum(shares) >= wanted

    return bisect_left(range(len(waits_s)), True, lo=wanted, key=are_enough)


def _free_share(after_s: float, likely_wait_s: float) -> float:
    """The probability that a node is free after this time, if the median of its wait is known.

    As `likely_rests`: P(rest > t) = e / (e + t), with the median e.
    """
    return 0.5 if after_s == likely_wait_s else after_s / (after_s + likely_wait_s)


def likely_rests(node: str, holdings: Iterable[Holding], now_s: float) -> list[Rest]:
    """The times until each holding likely releases its GPUs of the node, the first one first.

    A run of unknown length is expected to run as long again as it has run: where run times have
    P(D > x | D > e) = e / x, that is the median of the rest (Harchol-Balter & Downey, ACM TOCS
    15(3), 1997).
    """
    return sorted(Rest(_likely_rest_s(h, now_s), _gpus_on(h, node)) for h in holdings)


def likely_wait_s(missing_gpus: int, rests: Sequence[Rest]) -> float:
    """The time until this number of further GPUs, one or more, is likely free."""
    wait_s = _LEAST_WAIT_S
    for rest_s, gpus in rests:
        if missing_gpus <= 0:
            break
        missing_gpus -= gpus
        wait_s = max(wait_s, rest_s)
    return wait_s


def _likely_rest_s(holding: Holding, now_s: float) -> float:
    end_s = holding.expected_end_s(now_s)
    return now_s - holding.admitted_s if end_s is None else end_s - now_s


def _gpus_on(holding: Holding, node: str) -> int:
    shares = holding.allocation.placement.shares
    return sum(len(share.gpu_ids) for share in shares if share.node == node)
