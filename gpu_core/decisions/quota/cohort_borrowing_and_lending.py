"""The tree of quotas: who can have how many GPUs now, by borrowing or alone.

The model is Kueue's (pkg/cache/scheduler/resource_node.go): a part of each node's quota is never
lent; what a node uses beyond that part counts at its parent too, and so on to the root.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from itertools import count

from gpu_core.decisions.model.cluster import Flavor
from gpu_core.decisions.policy.flavor_keys import bucket_of
from gpu_core.decisions.policy.quotas import Quota, QuotaPolicy
from gpu_core.decisions.quota.entitlement import nominal_quota_of_teams

_ROOT = "root"


@dataclass(frozen=True, slots=True, kw_only=True)
class QuotaNode:
    """The quota of a team, a cohort or the root in one bucket, in thousandths of GPUs."""

    name: str
    number: int
    """Its own in the tree: usage is counted by it."""
    quota_milli: int
    """Its nominal quota, and for a cohort what its members may lend it."""
    unlent_milli: int = 0
    """The part of that which only it and those below it may use."""
    borrowing_limit_milli: int | None = None
    """How much it may have beyond its quota; None: as much as is idle."""

    @property
    def lendable_milli(self) -> int:
        """The part that its parent may hand to others while it is idle."""
        return self.quota_milli - self.unlent_milli

    @property
    def most_milli(self) -> int | None:
        """The most that it may use, its own quota and what it borrows; None means no limit."""
        if self.borrowing_limit_milli is None:
            return None
        return self.quota_milli + self.borrowing_limit_milli


Path = tuple[QuotaNode, ...]
"""From a team to the root."""


class QuotaTree:
    """The quota of each team, by bucket. No answer changes: a tree for a policy and a cluster.

    The root has what the cluster has beyond all nominal quotas. Where quotas promise
    more than there is, because a node is gone, the promises stay and the root has nothing.

    Args:
        policy: The quotas, without contradictions.
        capacity_milli: What the cluster has of each flavor, in thousandths of GPUs.
    """

    def __init__(self, policy: QuotaPolicy, capacity_milli: Mapping[Flavor, int]) -> None:
        self._policy = policy
        self._buckets = policy.buckets()
        capacity = dict.fromkeys(sorted(self._buckets), 0)
        for flavor, milli in capacity_milli.items():
            capacity[self.bucket(flavor)] += milli
        self._roots: dict[str, QuotaNode] = {}
        self._paths: dict[tuple[str | None, str], Path] = {}
        self._most_ever: dict[tuple[str | None, str], int] = {}
        self._numbers = count()
        for bucket, milli in capacity.items():
            nodes = _nodes(policy, bucket, milli, self._numbers)
            self._roots[bucket] = nodes[_ROOT]
            for name, team in policy.teams.items():
                names = [_team(name), *_above(team.cohort, policy)]
                self._paths[name, bucket] = tuple(nodes[n] for n in names)

    def bucket(self, flavor: Flavor) -> str:
        """The key under which a GPU of this flavor is counted."""
        return bucket_of(flavor, self._buckets)

    def has_quota(self, team: str | None) -> bool:
        """May runs of this team start at all, now or later?"""
        return team in self._policy.teams or self._policy.unlisted == "shared"

    def path(self, team: str | None, bucket: str) -> Path:
        """The nodes whose quota this team uses: itself, its cohorts, the root."""
        known = self._paths.get((team, bucket))
        if known is None:
            unlisted = QuotaNode(name=_team(team), number=next(self._numbers), quota_milli=0)
            known = self._paths[team, bucket] = (unlisted, self._roots[bucket])
        return known

    def most_ever(self, team: str | None, bucket: str) -> int:
        """How much could the team have if no other had any, in thousandths of GPUs?"""
        known = self._most_ever.get((team, bucket))
        if known is None:
            known = self._most_ever[team, bucket] = QuotaUsage(self).available(team, bucket)
        return known


class QuotaUsage:
    """The GPUs that each team holds, and with them those that each could still take.

    It records what is so, also what is more than a quota allows: a policy may change while runs
    run. Every question and every change costs O(depth of the tree).

    Args:
        tree: The quotas.
    """

    def __init__(self, tree: QuotaTree) -> None:
        self._tree = tree
        # What counts at each node, by its number: of its own usage, and of its members' beyond
        # their unlent parts.
        self._used: dict[int, int] = {}
        self._holders: dict[tuple[str | None, str], int] = {}
        # What the teams would hold if none borrowed: filled by the first question, after which the
        # holdings that have changed since are recorded.
        self._nominal_usage: QuotaUsage | None = None
        self._outdated: set[tuple[str | None, str]] = set()
        self.borrowing_changes = 0
        """The number of times that a team or cohort started or ceased to use more than its quota.
        While it stands still, so does what `borrowers` answers."""

    def copy(self) -> "QuotaUsage":
        """The same usage, to be changed without changing this one."""
        other = QuotaUsage(self._tree)
        other._used = self._used.copy()
        other._holders = self._holders.copy()
        other.borrowing_changes = self.borrowing_changes
        return other

    def allocate(self, team: str | None, bucket: str, milli: int) -> None:
        """The team holds this many thousandths of GPUs more."""
        self._change_holding(team, bucket, milli)
        used_by = self._used
        for node in self._tree.path(team, bucket):
            used = used_by.get(node.number, 0)
            self._set_used(node, used, used + milli)
            unlent_left = node.unlent_milli - used
            if unlent_left > 0:
                if milli <= unlent_left:
                    return
                milli -= unlent_left

    def release(self, team: str | None, bucket: str, milli: int) -> None:
        """The team holds this many thousandths of GPUs less: the inverse of `allocate`."""
        self._change_holding(team, bucket, -milli)
        used_by = self._used
        for node in self._tree.path(team, bucket):
            used = used_by.get(node.number, 0)
            self._set_used(node, used, used - milli)
            lent = used - node.unlent_milli
            if lent <= 0:
                return
            if milli > lent:
                milli = lent

    def held(self, team: str | None, bucket: str) -> int:
        """How much does the team hold, in thousandths of GPUs?"""
        return self._holders.get((team, bucket), 0)

    def available(self, team: str | None, bucket: str) -> int:
        """How much more could the team take now, with borrowing, in thousandths of GPUs?"""
        if not self._tree.has_quota(team):
            return 0
        used_by = self._used
        *below, root = self._tree.path(team, bucket)
        available = root.quota_milli - used_by.get(root.number, 0)
        for node in reversed(below):
            used, unlent_milli = used_by.get(node.number, 0), node.unlent_milli
            most_milli = node.most_milli
            if most_milli is not None:
                available = min(available, most_milli - max(used, unlent_milli))
            if used < unlent_milli:
                available += unlent_milli - used
        return max(0, available)

    def available_unborrowed(self, team: str | None, bucket: str) -> int:
        """How much could the team allocate if no other team borrowed, in thousandths of GPUs?"""
        usage, own_borrowed = self._without_borrowing(), self.borrowed(team, bucket)
        usage.allocate(team, bucket, own_borrowed)
        available = usage.available(team, bucket)
        usage.release(team, bucket, own_borrowed)
        return available

    def _without_borrowing(self) -> "QuotaUsage":
        """The usage if no team borrowed; what has changed since the last question is followed."""
        usage = self._nominal_usage
        if usage is None:
            usage = self._nominal_usage = QuotaUsage(self._tree)
            self._outdated.update(self._holders)
        for team, bucket in self._outdated:
            held = self.held(team, bucket)
            change = held - self.borrowed(team, bucket) - usage.held(team, bucket)
            if change > 0:
                usage.allocate(team, bucket, change)
            elif change < 0:
                usage.release(team, bucket, -change)
        self._outdated.clear()
        return usage

    def nominal_left(self, team: str | None, bucket: str) -> int:
        """How much of its nominal quota does the team not use, in thousandths of GPUs?"""
        return max(0, self._nominal(team, bucket) - self.held(team, bucket))

    def borrowed(self, team: str | None, bucket: str) -> int:
        """How much does the team hold beyond its nominal quota, in thousandths of GPUs?"""
        return max(0, self.held(team, bucket) - self._nominal(team, bucket))

    def most_ever(self, team: str | None, bucket: str) -> int:
        """How much could the team have if no other had any, in thousandths of GPUs?"""
        return self._tree.most_ever(team, bucket)

    def borrowers(self, team: str | None, bucket: str) -> tuple[str | None, ...]:
        """The teams from which the team could reclaim its nominal quota, sorted by name.

        From teams that borrow, if their cohorts below the one that they have in common with the
        team borrow too: a cohort within its quota holds nothing that another owns.
        """
        ours = self._names_above(team, bucket)
        found = [
            other
            for (other, held_in), held in self._holders.items()
            if held_in == bucket and held and other != team and self._holds_of(other, bucket, ours)
        ]
        return tuple(sorted(found, key=lambda name: name or ""))

    def may_reclaim(self, team: str | None, other: str | None, bucket: str) -> bool:
        """Could the team reclaim its nominal quota from this other one? As `borrowers`."""
        ours = self._names_above(team, bucket)
        return other != team and self._holds_of(other, bucket, ours)

    def _names_above(self, team: str | None, bucket: str) -> set[str]:
        return {node.name for node in self._tree.path(team, bucket)}

    def _holds_of(self, other: str | None, bucket: str, ours: set[str]) -> bool:
        for node in self._tree.path(other, bucket):
            if node.name in ours:
                break  # from here on the paths are one
            if self._used.get(node.number, 0) <= node.quota_milli:
                return False
        return True

    def _set_used(self, node: QuotaNode, before: int, after: int) -> None:
        self._used[node.number] = after
        if (before > node.quota_milli) != (after > node.quota_milli):
            self.borrowing_changes += 1

    def _nominal(self, team: str | None, bucket: str) -> int:
        return self._tree.path(team, bucket)[0].quota_milli

    def _change_holding(self, team: str | None, bucket: str, milli: int) -> None:
        self._holders[team, bucket] = self._holders.get((team, bucket), 0) + milli
        if self._nominal_usage is not None:
            self._outdated.add((team, bucket))


def _nodes(
    policy: QuotaPolicy, bucket: str, capacity_milli: int, numbers: Iterator[int]
) -> dict[str, QuotaNode]:
    """All nodes by name, folded from the teams to the root."""
    teams_milli = nominal_quota_of_teams(policy, bucket, capacity_milli)
    nodes: dict[str, QuotaNode] = {}
    lent_to: dict[str, int] = {}

    def add(name: str, parent: str, quota: Quota, nominal_milli: int) -> None:
        quota_milli = nominal_milli + lent_to.get(name, 0)
        node = _node(name, next(numbers), quota, policy.strategy, bucket, quota_milli)
        nodes[name] = node
        lent_to[parent] = lent_to.get(parent, 0) + node.lendable_milli

    promised_milli = 0
    for name, team in policy.teams.items():
        promised_milli += teams_milli[name]
        add(_team(name), _cohort(team.cohort), team, teams_milli[name])
    for name in sorted(policy.cohorts, key=lambda name: -len(_above(name, policy))):
        cohort = policy.cohorts[name]
        nominal_milli = (cohort.nominal_quota_milli or {}).get(bucket, 0)
        promised_milli += nominal_milli
        add(_cohort(name), _cohort(cohort.parent), cohort, nominal_milli)
    shared_milli = max(0, capacity_milli - promised_milli)
    nodes[_ROOT] = QuotaNode(
        name=_ROOT, number=next(numbers), quota_milli=shared_milli + lent_to.get(_ROOT, 0)
    )
    return nodes


def _node(
    name: str, number: int, quota: Quota, strategy: str, bucket: str, quota_milli: int
) -> QuotaNode:
    if strategy == "static":
        return QuotaNode(
            name=name,
            number=number,
            quota_milli=quota_milli,
            unlent_milli=quota_milli,
            borrowing_limit_milli=0,
        )
    lending_limit_milli = quota.lending_limit_milli.get(bucket, quota_milli)
    return QuotaNode(
        name=name,
        number=number,
        quota_milli=quota_milli,
        unlent_milli=max(0, quota_milli - lending_limit_milli),
        borrowing_limit_milli=quota.borrowing_limit_milli.get(bucket),
    )


def _team(name: str | None) -> str:
    return f"team/{name or ''}"


def _cohort(name: str | None) -> str:
    return _ROOT if name is None else f"cohort/{name}"


def _above(cohort: str | None, policy: QuotaPolicy) -> list[str]:
    """The node names from this cohort to the root."""
    names = [_cohort(cohort)]
    while cohort is not None:
        cohort = policy.cohorts[cohort].parent
        names.append(_cohort(cohort))
    return names
