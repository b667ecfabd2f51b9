"""Nodes kept for a gang, and for a workload whose start is unknown as run times are."""

from collections.abc import Callable, Iterable, Sequence
from heapq import nsmallest
from typing import NamedTuple

from gpu_core.decisions.model.workload import Shape
from gpu_core.decisions.scheduling.state.allocations import Holding

KEPT_PER_NODE = 5
"""Nodes kept for each node of a gang: a single node is as slow as its longest run. Fitted on 1 to
15 October 2017 of the Philly trace, on 80 nodes of 8 GPUs without run times (`DESIGN.md`)."""


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

    Those that are likely to be free first: one, or `KEPT_PER_NODE` for each that a gang needs.
    Others may use the rest.

    Args:
        shape: The resources that it needs.
        groups: The nodes of each group that a gang may choose among.
        likely_wait_s: The likely time until a node has a number of free GPUs.

    Returns:
        Nodes of the one group in which it is likely to start first; empty if no group is large
        enough.
    """
    wanted = shape.nodes * KEPT_PER_NODE if shape.nodes > 1 else 1
    best: tuple[float, list[str]] | None = None
    for nodes in groups:
        if len(nodes) < shape.nodes:
            continue
        by_wait = nsmallest(
            wanted, [(likely_wait_s(node, shape.gpu_count), node) for node in nodes]
        )
        likely = (by_wait[shape.nodes - 1][0], [node for _, node in by_wait])
        best = likely if best is None else min(best, likely)
    return [] if best is None else best[1]


def likely_rests(node: str, holdings: Iterable[Holding], now_s: float) -> list[Rest]:
    """The times until each holding likely releases its GPUs of the node, the first one first.

    A run of unknown length is expected to run as long again as it has run: where run times have
    P(D > x | D > e) = e / x, that is the median of the rest (Harchol-Balter & Downey, ACM TOCS
    15(3), 1997).
    """
    return sorted(Rest(_likely_rest_s(h, now_s), _gpus_on(h, node)) for h in holdings)


def likely_wait_s(missing_gpus: int, rests: Sequence[Rest]) -> float:
    """The time until this number of further GPUs is likely free."""
    wait_s = 0.0
    for rest_s, gpus in rests:
        if missing_gpus <= 0:
            break
        missing_gpus -= gpus
        wait_s = rest_s
    return wait_s


def _likely_rest_s(holding: Holding, now_s: float) -> float:
    end_s = holding.expected_end_s(now_s)
    return now_s - holding.admitted_s if end_s is None else end_s - now_s


def _gpus_on(holding: Holding, node: str) -> int:
    shares = holding.allocation.placement.shares
    return sum(len(share.gpu_ids) for share in shares if share.node == node)
