"""Remaining quota of teams and users, as it changes within a cycle."""

from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from typing import NamedTuple

from gpu_core.decisions.model.cluster import Flavor
from gpu_core.decisions.model.workload import WHOLE_GPU_MILLI, Shape, Workload
from gpu_core.decisions.quota.cohort_borrowing_and_lending import QuotaTree, QuotaUsage
from gpu_core.decisions.scheduling.state.allocations import Account, Holding


class Owner(NamedTuple):
    """The team and user that a workload counts against."""

    team: str | None
    user: str | None


class OpenFlavors(NamedTuple):
    """The flavors that quotas leave open to a workload now."""

    own: frozenset[Flavor]
    """From its team's nominal quota."""
    borrowed: frozenset[Flavor]
    """Only by borrowing."""
    reclaimable: frozenset[Flavor]
    """Within its team's nominal quota, which others may have borrowed."""

    @property
    def open(self) -> frozenset[Flavor]:
        """Flavors that it may use without preemption."""
        return self.own | self.borrowed


class _Left(NamedTuple):
    """The rest that a team has of one flavor, in thousandths of GPUs."""

    flavor: Flavor
    bucket: str
    nominal_milli: int
    available_milli: int
    """With borrowing."""


class Entitlements:
    """Remaining quota and user limits.

    Args:
        tree: The quotas; None: there are none.
        flavors: The flavors of the cluster.
        user_limit: How many GPUs a user of this team may have at once; None: any number.
    """

    def __init__(
        self,
        tree: QuotaTree | None,
        flavors: Iterable[Flavor],
        user_limit: Callable[[str | None], int | None],
    ) -> None:
        self._tree = tree
        self._usage = None if tree is None else QuotaUsage(tree)
        self._flavors = tuple(sorted(flavors))
        self._everything = frozenset(self._flavors)
        self._user_limit = user_limit
        self._milli_by_user: dict[Owner, int] = {}
        self._allowances: dict[tuple[str | None, int], OpenFlavors] = {}
        self._lefts: dict[str | None, list[_Left]] = {}
        self._borrowing: dict[tuple[frozenset[str], tuple[str, ...]], frozenset[Account]] = {}
        self._borrowing_as_of = 0
        self._team_of: dict[tuple[str, ...], str | None] = {}
        self._buckets: dict[Flavor, str] = {}
        self._reserved: list[tuple[str | None, str, int]] = []
        self._reserved_buckets: set[str] = set()

    def copy(self) -> "Entitlements":
        """The same quota and usage, to be changed without changing this one."""
        other = Entitlements(self._tree, self._flavors, self._user_limit)
        other._usage = None if self._usage is None else self._usage.copy()
        other._milli_by_user = self._milli_by_user.copy()
        other._buckets = self._buckets
        other._reserved = self._reserved.copy()
        other._reserved_buckets = self._reserved_buckets.copy()
        return other

    @property
    def has_quotas(self) -> bool:
        """Does the policy have quotas?"""
        return self._usage is not None

    def _bucket(self, flavor: Flavor) -> str:
        """The quota bucket of the flavor; its last node may be gone."""
        if self._tree is None:
            raise ValueError("there are no quotas")
        bucket = self._buckets.get(flavor)
        if bucket is None:
            bucket = self._buckets[flavor] = self._tree.bucket(flavor)
        return bucket

    def allocate(self, owner: Owner, flavor: Flavor | None, milli: int) -> None:
        """Counts thousandths of GPUs for the owner."""
        self._milli_by_user[owner] = self._milli_by_user.get(owner, 0) + milli
        if self._usage is not None and self._tree is not None and flavor is not None:
            self._usage.allocate(owner.team, self._bucket(flavor), milli)
            self._forget()

    def release(self, owner: Owner, flavor: Flavor | None, milli: int) -> None:
        """Stops counting thousandths of GPUs for the owner."""
        self._milli_by_user[owner] -= milli
        if self._usage is not None and self._tree is not None and flavor is not None:
            self._usage.release(owner.team, self._bucket(flavor), milli)
            self._forget()

    @contextmanager
    def without(self, holdings: Iterable[Holding]) -> Iterator[None]:
        """Counts usage without these holdings while the context is open.

        Afterwards all is as before, also what is known about it.
        """
        gone, usage = tuple(holdings), self._usage
        known = self._allowances, self._lefts, self._borrowing, self._borrowing_as_of
        changes = 0 if usage is None else usage.borrowing_changes
        self._allowances, self._lefts, self._borrowing = {}, {}, {}
        for holding in gone:
            self.release_holding(holding)
        try:
            yield
        finally:
            for holding in gone:
                self.allocate_holding(holding)
            self._allowances, self._lefts, self._borrowing, self._borrowing_as_of = known
            if usage is not None:
                usage.borrowing_changes = changes

    def allocate_holding(self, holding: Holding) -> None:
        """Counts what the holding uses."""
        self.allocate(owner_of(holding.workload), holding.flavor, holding.gpu_milli)

    def release_holding(self, holding: Holding) -> None:
        """Stops counting what the holding uses."""
        self.release(owner_of(holding.workload), holding.flavor, holding.gpu_milli)

    def user_limit_left_milli(self, owner: Owner) -> int | None:
        """How many more thousandths of GPUs may this user have? None: any number."""
        limit = self._user_limit(owner.team)
        if limit is None:
            return None
        return limit * WHOLE_GPU_MILLI - self._milli_by_user.get(owner, 0)

    def allowance(self, team: str | None, shape: Shape) -> OpenFlavors:
        """The flavors that a workload of this team and shape may use now."""
        usage, tree, milli = self._usage, self._tree, shape.total_gpu_milli
        if usage is None or tree is None:
            return OpenFlavors(self._everything, frozenset(), frozenset())
        known = self._allowances.get((team, milli))
        if known is not None:
            return known
        own: set[Flavor] = set()
        borrowed: set[Flavor] = set()
        reclaimable: set[Flavor] = set()
        for flavor, bucket, nominal_left, available in self._left(team, usage):
            is_within_nominal = milli <= nominal_left
            if is_within_nominal:
                reclaimable.add(flavor)
            if milli > available:
                continue
            if self._delays_reserved(team, bucket, milli, is_own=is_within_nominal):
                continue
            (own if is_within_nominal else borrowed).add(flavor)
        found = OpenFlavors(frozenset(own), frozenset(borrowed), frozenset(reclaimable))
        self._allowances[team, milli] = found
        return found

    def is_within_nominal(self, team: str | None, shape: Shape) -> bool:
        """Is one of the flavors that it could use left to it of its team's nominal quota?"""
        usage, milli = self._usage, shape.total_gpu_milli
        return usage is not None and any(
            milli <= usage.nominal_left(team, self._bucket(flavor)) for flavor in self.wanted(shape)
        )

    def _left(self, team: str | None, usage: QuotaUsage) -> "list[_Left]":
        """The quota that is left to the team of each flavor now."""
        left = self._lefts.get(team)
        if left is None:
            left = self._lefts[team] = [
                _Left(
                    flavor,
                    bucket := self._bucket(flavor),
                    usage.nominal_left(team, bucket),
                    usage.available(team, bucket),
                )
                for flavor in self._flavors
            ]
        return left

    def _forget(self) -> None:
        """Usage has changed."""
        self._allowances.clear()
        self._lefts.clear()

    def reserve(self, team: str | None, shape: Shape) -> bool:
        """Keeps quota for a workload ahead that waits for it. False: that would not help.

        Until `clear_reservations` no other team borrows what it needs, and its own team takes
        nothing of it. It does not help where others use their nominal quota.
        """
        usage, milli = self._usage, shape.total_gpu_milli
        if usage is None:
            return False
        buckets = {self._bucket(flavor) for flavor in self.wanted(shape)}
        helped = sorted(b for b in buckets if milli <= usage.available_unborrowed(team, b))
        self._reserved += [(team, bucket, milli) for bucket in helped]
        self._reserved_buckets.update(helped)
        self._allowances.clear()
        return bool(helped)

    def is_reserved(self, shape: Shape) -> bool:
        """Is quota kept already in each bucket that the shape could use?"""
        return all(self._bucket(flavor) in self._reserved_buckets for flavor in self.wanted(shape))

    def has_unreserved(self, team: str | None, shape: Shape) -> bool:
        """Would its quota be enough if none were kept for workloads ahead?"""
        usage = self._usage
        return usage is not None and any(
            shape.total_gpu_milli <= usage.available(team, self._bucket(flavor))
            for flavor in self.wanted(shape)
        )

    def clear_reservations(self) -> None:
        """Ends all reservations of quota."""
        self._reserved.clear()
        self._reserved_buckets.clear()
        self._allowances.clear()

    def _delays_reserved(self, team: str | None, bucket: str, milli: int, *, is_own: bool) -> bool:
        """Would it take quota that is kept for a workload ahead?"""
        usage = self._usage
        if usage is None:
            return False
        for ahead, kept_in, kept_milli in self._reserved:
            if kept_in != bucket or (is_own and ahead != team):
                continue
            before = usage.available(ahead, bucket)
            changes = usage.borrowing_changes
            usage.allocate(team, bucket, milli)
            after = usage.available(ahead, bucket)
            usage.release(team, bucket, milli)
            # All is as before, and so is who borrows.
            usage.borrowing_changes = changes
            if after < min(before, kept_milli):
                return True
        return False

    def quota_numbers(self, team: str | None, shape: Shape) -> dict[str, int]:
        """How much could the team have at most, does it hold, and is left, in whole GPUs?

        Over all quota buckets that the shape could use.
        """
        usage, tree = self._usage, self._tree
        if usage is None or tree is None:
            return {}
        buckets = sorted({self._bucket(f) for f in self.wanted(shape)})
        return {
            "held_gpus": sum(usage.held(team, b) for b in buckets) // WHOLE_GPU_MILLI,
            "left_gpus": sum(usage.available(team, b) for b in buckets) // WHOLE_GPU_MILLI,
            "most_gpus": max((usage.most_ever(team, b) for b in buckets), default=0)
            // WHOLE_GPU_MILLI,
        }

    def could_ever(self, team: str | None, shape: Shape) -> bool:
        """Would the quotas let it run in an empty cluster?"""
        usage, tree = self._usage, self._tree
        if usage is None or tree is None or not shape.gpu_count:
            return True
        return tree.has_quota(team) and any(
            usage.most_ever(team, self._bucket(f)) >= shape.total_gpu_milli
            for f in self.wanted(shape)
        )

    def buckets(self, flavors: Iterable[Flavor]) -> frozenset[str]:
        """The quota buckets of these flavors."""
        tree = self._tree
        return frozenset() if tree is None else frozenset(self._bucket(f) for f in flavors)

    def cohorts(self, team: str | None) -> tuple[str, ...]:
        """The cohorts above the team. Teams with the same cohorts reclaim from the same teams."""
        if self._tree is None:
            return ()
        bucket = self._bucket(self._flavors[0])
        cohorts = tuple(node.name for node in self._tree.path(team, bucket)[1:])
        self._team_of.setdefault(cohorts, team)
        return cohorts

    def borrowing(self, buckets: frozenset[str], cohorts: tuple[str, ...]) -> frozenset[Account]:
        """The accounts that borrow what a team of these cohorts could reclaim in these buckets.

        The same object while the answer is the same.
        """
        usage = self._usage
        if usage is None:
            return frozenset()
        if self._borrowing_as_of != usage.borrowing_changes:
            self._borrowing_as_of = usage.borrowing_changes
            self._borrowing.clear()
        known = self._borrowing.get((buckets, cohorts))
        if known is None:
            known = self._borrowing[buckets, cohorts] = frozenset(
                Account(team, flavor)
                for flavor in self._flavors
                if (bucket := self._bucket(flavor)) in buckets
                for team in _borrowers(usage, self._team_of.get(cohorts), bucket)
            )
        return known

    def may_reclaim(self, team: str | None, account: Account) -> bool:
        """Does this account borrow what the team could reclaim?"""
        usage, flavor = self._usage, account.flavor
        if usage is None or flavor is None:
            return False
        return usage.may_reclaim(team, account.team, self._bucket(flavor))

    def held_by(self, team: str | None) -> frozenset[Flavor]:
        """The flavors of which the team holds GPUs."""
        usage, tree = self._usage, self._tree
        if usage is None or tree is None:
            return frozenset()
        return frozenset(f for f in self._flavors if usage.held(team, self._bucket(f)))

    def wanted(self, shape: Shape) -> list[Flavor]:
        """The flavors that the shape could use."""
        return [
            f
            for f in self._flavors
            if (not shape.gpu_types or f.gpu_type in shape.gpu_types)
            and shape.capacity_type in (None, f.capacity_type)
        ]


def owner_of(workload: Workload) -> Owner:
    """The team and user that it counts against."""
    return Owner(workload.team, workload.user)


def _borrowers(usage: QuotaUsage, team: str | None, bucket: str) -> Iterator[str | None]:
    """The teams from which a team of these cohorts could reclaim."""
    yield from usage.borrowers(team, bucket)
    if usage.borrowed(team, bucket):
        yield team
