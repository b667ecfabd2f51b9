"""Nodes kept for a gang, and for a workload whose start is unknown as run times are."""

from collections.abc import Callable, Iterable, Sequence

from gpu_core.decisions.model.workload import Shape
from gpu_core.decisions.scheduling.allocations import Holding

KEPT_PER_NODE = 5
"""Nodes kept for each node of a gang: a single node is as slow as its longest run. Fitted on 1 to
15 October 2017 of the Philly trace, on 80 nodes of 8 GPUs without run times (`DESIGN.md`)."""


def likely_nodes(
    shape: Shape,
    groups: Iterable[Sequence[str]],
    free_gpus: Callable[[str], int],
    holdings_on: Callable[[str], Iterable[Holding]],
    now_s: float,
) -> list[str]:
    """Which nodes are kept for a workload that cannot start?

    Those that are likely to be free first: one, or `KEPT_PER_NODE` for each that a gang needs.
    Others may use the rest.

    Args:
        shape: The resources that it needs.
        groups: The nodes of each group that a gang may choose among.
        free_gpus: GPUs of a node that are free once draining workloads have ended.
        holdings_on: The holdings on a node.
        now_s: The time of the plan.

    Returns:
        Nodes of the one group in which it is likely to start first; empty if no group is large
        enough.
    """
    wanted = shape.nodes * KEPT_PER_NODE if shape.nodes > 1 else 1
    best: tuple[float, list[str]] | None = None
    for nodes in groups:
        if len(nodes) < shape.nodes:
            continue
        by_wait = sorted(
            (
                _likely_wait_s(node, shape.gpu_count - free_gpus(node), holdings_on(node), now_s),
                node,
            )
            for node in nodes
        )
        likely = (by_wait[shape.nodes - 1][0], [node for _, node in by_wait[:wanted]])
        best = likely if best is None else min(best, likely)
    return [] if best is None else best[1]


def _likely_wait_s(
    node: str, missing_gpus: int, holdings: Iterable[Holding], now_s: float
) -> float:
    """When has the node likely released so many more GPUs?

    A run of unknown length is expected to run as long again as it has run: where run times have
    P(D > x | D > e) = e / x, that is the median of the rest (Harchol-Balter & Downey, ACM TOCS
    15(3), 1997).
    """
    rests = sorted((_likely_rest_s(h, now_s), _gpus_on(h, node)) for h in holdings)
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
