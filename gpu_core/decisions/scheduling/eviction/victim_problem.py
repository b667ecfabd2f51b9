"""The conditions on the victims of one preemptor: nodes, quota, and permitted victims."""

from collections.abc import Callable, Iterable, Sequence
from functools import cache

from gpu_core.decisions.model.bit_set import bits_of, numbers_in
from gpu_core.decisions.model.cluster import Flavor
from gpu_core.decisions.model.workload import Shape
from gpu_core.decisions.placement.topology_groups import Group
from gpu_core.decisions.scheduling.eviction.candidates import PreemptionIndex, PreemptionScope
from gpu_core.decisions.scheduling.eviction.cost import PreemptionCandidate
from gpu_core.decisions.scheduling.eviction.victim_search import (
    EXACT_CANDIDATES,
    NodeOption,
    VictimProblem,
)
from gpu_core.decisions.scheduling.eviction.victims import counts_only_gpus, release_holding
from gpu_core.decisions.scheduling.state.allocations import Account, Holding
from gpu_core.decisions.scheduling.state.quota_usage import Entitlements


class QuotaCheck:
    """Quota of one preemptor without some holdings, and whether these may be preempted for it.

    Args:
        entitlements: Quota once draining workloads have ended.
        team: The preemptor's team.
        shape: Its shape.
        scope: Which workloads it may preempt.
    """

    def __init__(
        self, entitlements: Entitlements, team: str | None, shape: Shape, scope: PreemptionScope
    ) -> None:
        self._entitlements = entitlements
        self._team = team
        self._shape = shape
        self._scope = scope

    def open_flavors(self, victims: Iterable[Holding]) -> frozenset[Flavor]:
        """The flavors that quota leaves open without these."""
        if not self._entitlements.has_quotas:
            return self._entitlements.allowance(self._team, self._shape).open
        with self._entitlements.without(victims):
            return self._entitlements.allowance(self._team, self._shape).open

    def open_flavors_of_sets(
        self, holdings: Sequence[Holding]
    ) -> Callable[[int], frozenset[Flavor]]:
        """The flavors that quota leaves open without a set of these, for many sets, as bits.

        Sets that free as much quota of each account have one answer. A new one costs as much as the
        set differs from the nearer of two that were asked about.
        """
        if not self._entitlements.has_quotas:
            always = self._entitlements.allowance(self._team, self._shape).open
            return lambda _victims: always
        few, many = (_Without(self._entitlements, holdings) for _ in range(2))
        alike: dict[tuple[Account, int], int] = {}
        for number, holding in enumerate(holdings):
            frees = holding.account, holding.gpu_milli
            alike[frees] = alike.get(frees, 0) | 1 << number
        sets_alike = tuple(alike.values())
        known: dict[tuple[int, ...], frozenset[Flavor]] = {}

        def open_flavors(victims: int) -> frozenset[Flavor]:
            freed = tuple([(victims & these).bit_count() for these in sets_alike])
            found = known.get(freed)
            if found is None:
                near = min(few, many, key=lambda without: without.distance(victims))
                left = near.move_to(victims)
                found = known[freed] = left.allowance(self._team, self._shape).open
            return found

        return open_flavors

    def counts(self) -> Callable[[Holding], bool]:
        """Returns whether a holding uses quota of a bucket that the preemptor could use."""
        if not self._entitlements.has_quotas:
            return lambda _holding: False
        wanted = self._entitlements.buckets(self._entitlements.wanted(self._shape))

        @cache
        def is_wanted(flavor: Flavor | None) -> bool:
            return flavor is not None and not wanted.isdisjoint(
                self._entitlements.buckets([flavor])
            )

        return lambda holding: is_wanted(holding.flavor)

    def are_legal(self, victims: Iterable[Holding]) -> bool:
        """May all of these be preempted, in some order?

        A victim of another team must use borrowed quota, counted after the victims before it. The
        order by size is tried first: the victim that may exceed what is borrowed comes last.
        """
        reclaimed = sorted(
            (v for v in victims if not self._scope.includes_by_priority(v)),
            key=lambda v: (v.gpu_milli, v.workload_id),
        )
        if not reclaimed or self._are_legal_in_turn(reclaimed):
            return True
        if not 1 < len(reclaimed) <= EXACT_CANDIDATES:
            return False
        return self._are_legal_in_some_order(reclaimed)

    def _are_legal_in_turn(self, victims: Sequence[Holding]) -> bool:
        gone: list[Holding] = []
        for victim in victims:
            with self._entitlements.without(gone):
                if not self._entitlements.may_reclaim(self._team, victim.account):
                    return False
            gone.append(victim)
        return True

    def _are_legal_in_some_order(self, victims: Sequence[Holding]) -> bool:
        @cache
        def is_legal(bits: int) -> bool:
            """Is there one of them that may be last?"""
            for number in numbers_in(bits):
                before = bits & ~(1 << number)
                with self._entitlements.without(victims[i] for i in numbers_in(before)):
                    may_be_last = self._entitlements.may_reclaim(
                        self._team, victims[number].account
                    )
                if may_be_last and is_legal(before):
                    return True
            return not bits

        return is_legal((1 << len(victims)) - 1)


class _Without:
    """Quota without some of these holdings.

    Args:
        entitlements: Quota with all of them; not changed.
    """

    def __init__(self, entitlements: Entitlements, holdings: Sequence[Holding]) -> None:
        self._left = entitlements.copy()
        self._holdings = holdings
        self._gone = 0

    def distance(self, victims: int) -> int:
        """How many holdings have to be released or allocated for this set?"""
        return (self._gone ^ victims).bit_count()

    def move_to(self, victims: int) -> Entitlements:
        """Releases this set, and no other."""
        for number in numbers_in(self._gone & ~victims):
            self._left.allocate_holding(self._holdings[number])
        for number in numbers_in(victims & ~self._gone):
            self._left.release_holding(self._holdings[number])
        self._gone = victims
        return self._left


def victim_problem(
    shape: Shape,
    groups: Sequence[Group],
    nodes: Sequence[tuple[int, str]],
    candidates: Sequence[PreemptionCandidate],
    index: PreemptionIndex,
    quota: QuotaCheck,
) -> VictimProblem:
    """The problem of placing a shape on some of these nodes.

    Args:
        shape: The shape to place.
        groups: The nodes of each group.
        nodes: The nodes to choose among, with the number of their group.
        candidates: The workloads that may be preempted, one by one.
        index: The nodes after draining.
        quota: Quota without some holdings.
    """
    holdings = [candidate.holding for candidate in candidates]
    on_node: dict[str, int] = {}
    for number, holding in enumerate(holdings):
        for share in holding.allocation.placement.shares:
            on_node[share.node] = on_node.get(share.node, 0) | 1 << number
    options = [NodeOption(group, node, on_node.get(node, 0)) for group, node in nodes]

    @cache
    def fits(option: NodeOption, victims: int) -> bool:
        node_info = index.after_draining[option.name]
        if not victims:
            return node_info.has_left(shape)
        node_info = node_info.copy()
        for number in numbers_in(victims):
            release_holding(node_info, holdings[number])
        return node_info.has_left(shape)

    @cache
    def gpus(option: NodeOption, number: int) -> int:
        return index.gpus_on(option.name, holdings[number])

    def missing_gpus(option: NodeOption, victims: int) -> int:
        freed = sum(gpus(option, number) for number in numbers_in(victims))
        # A GPU that two of them hold counts twice: while it does not fit, one is missing.
        return max(1, shape.gpu_count - index.after_draining[option.name].free_gpus - freed)

    are_counted = counts_only_gpus(shape) and all(holding.shape.is_whole for holding in holdings)
    everything = (1 << len(holdings)) - 1
    return VictimProblem(
        candidates=candidates,
        options=options,
        nodes=shape.nodes,
        fits=fits,
        missing_gpus=missing_gpus if are_counted else None,
        gpus=gpus,
        open_groups=_open_groups(groups, holdings, quota, everything),
        quota_helpers=everything,
        is_legal=cache(lambda victims: quota.are_legal(holdings[i] for i in numbers_in(victims))),
    )


def _open_groups(
    groups: Sequence[Group], holdings: Sequence[Holding], quota: QuotaCheck, everything: int
) -> Callable[[int], frozenset[int]]:
    open_flavors = quota.open_flavors_of_sets(holdings)

    def open_groups(victims: int) -> frozenset[int]:
        flavors = open_flavors(victims)
        return frozenset(n for n, group in enumerate(groups) if group.flavor in flavors)

    at_most = open_groups(everything)
    # More victims never close a group: what lies between two sets with the same groups has them.
    return (lambda _victims: at_most) if open_groups(0) == at_most else cache(open_groups)


def bits_of_victims(
    candidates: Sequence[PreemptionCandidate], victims: Iterable[PreemptionCandidate]
) -> int | None:
    """The set of these victims; None: not all of them are candidates."""
    position_of = {c.workload_id: number for number, c in enumerate(candidates)}
    ids = [victim.workload_id for victim in victims]
    if any(workload_id not in position_of for workload_id in ids):
        return None
    return bits_of(position_of[workload_id] for workload_id in ids)
