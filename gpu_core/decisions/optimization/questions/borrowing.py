"""The GPUs that teams held beyond their nominal quota over time, by the ledger and a policy."""

from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime
from fractions import Fraction
from typing import NamedTuple

from gpu_core.decisions.costs.capacity.capacity_intervals import CapacityInterval
from gpu_core.decisions.costs.usage.usage import US_PER_HOUR
from gpu_core.decisions.costs.usage.usage_cost import Window
from gpu_core.decisions.model.attempts import Attempt
from gpu_core.decisions.model.cluster import Flavor
from gpu_core.decisions.model.errors import InvalidInput
from gpu_core.decisions.model.units import epoch_us
from gpu_core.decisions.model.workload import WHOLE_GPU_MILLI
from gpu_core.decisions.policy.flavor_keys import bucket_of
from gpu_core.decisions.policy.quotas import QuotaPolicy
from gpu_core.decisions.quota.entitlement import nominal_quota_of_teams

Team = str | None


class Quotas(NamedTuple):
    """The quotas to compare with: the ledger has none."""

    policy: QuotaPolicy
    capacity: Sequence[CapacityInterval]
    """Machines of the time in question: quotas that the policy does not state are parts of them."""


class _Change(NamedTuple):
    at_us: int
    bucket: str
    team: Team
    is_capacity: bool
    milli: Fraction


def quotas_required(quotas: Quotas | None) -> Quotas:
    """The quotas.

    Raises:
        InvalidInput: There are none, and without quotas no team borrows.
    """
    if quotas is None or not quotas.policy.teams:
        raise InvalidInput(
            "policy", "has no quotas of teams, and without quotas no team borrows",
            remedy="please specify a different policy with --policy",
        )  # fmt: skip
    return quotas


def borrowed_gpu_hours(
    held: Iterable[tuple[Team, Attempt]], quotas: Quotas, window: Window, now: datetime
) -> dict[Team, Fraction]:
    """How many GPU-hours beyond its nominal quota had each team? Without those that had none.

    Each flavor that the policy names counts by itself, as for the scheduler. A team that is not in
    the policy has no quota, so that it borrows all that it holds.

    Args:
        held: Attempts, each with the team of its run.
        quotas: The policy's, with the machines of the time.
        window: The time that counts.
        now: What is held or there still counts up to here.
    """
    changes = sorted(_changes(held, quotas, window, now), key=lambda change: change.at_us)
    used: dict[str, dict[Team, Fraction]] = {}
    capacity: dict[str, Fraction] = {}
    borrowed: dict[Team, Fraction] = {}
    nominal = _Nominal(quotas.policy)
    before_us = 0
    for change in changes:
        for bucket, teams in used.items():
            own = nominal.of(bucket, int(capacity.get(bucket, Fraction(0))))
            for team, milli in teams.items():
                over = milli - (0 if team is None else own.get(team, 0))
                if over > 0:
                    added = over * (change.at_us - before_us)
                    borrowed[team] = borrowed.get(team, Fraction(0)) + added
        before_us = change.at_us
        if change.is_capacity:
            capacity[change.bucket] = capacity.get(change.bucket, Fraction(0)) + change.milli
            continue
        of_bucket = used.setdefault(change.bucket, {})
        of_bucket[change.team] = of_bucket.get(change.team, Fraction(0)) + change.milli
    whole = WHOLE_GPU_MILLI * US_PER_HOUR
    return {team: amount / whole for team, amount in borrowed.items() if amount}


class _Nominal:
    """The nominal quotas at each size of the cluster, each worked out once."""

    def __init__(self, policy: QuotaPolicy) -> None:
        self._policy = policy
        self._known: dict[tuple[str, int], Mapping[str, int]] = {}

    def of(self, bucket: str, capacity_milli: int) -> Mapping[str, int]:
        key = bucket, capacity_milli
        if key not in self._known:
            self._known[key] = nominal_quota_of_teams(self._policy, bucket, capacity_milli)
        return self._known[key]


def _changes(
    held: Iterable[tuple[Team, Attempt]], quotas: Quotas, window: Window, now: datetime
) -> Iterable[_Change]:
    """The held and the existing GPUs, each with its beginning and its end within the window."""
    buckets, end = quotas.policy.buckets(), min(window.end, now)
    for team, attempt in held:
        if attempt.gpu_type is None or not attempt.gpus:
            continue
        bucket = bucket_of(Flavor(attempt.gpu_type, attempt.capacity_type), buckets)
        milli = attempt.gpus * WHOLE_GPU_MILLI
        times = (attempt.admitted_at, attempt.freed_at or now)
        yield from _both(times, window.start, end, bucket, team, milli, is_capacity=False)
    for machine in quotas.capacity:
        bucket = bucket_of(Flavor(machine.gpu_type, machine.capacity_type), buckets)
        milli = Fraction(machine.gpus * WHOLE_GPU_MILLI)
        times = (machine.since, machine.counted_until(now))
        yield from _both(times, window.start, end, bucket, None, milli, is_capacity=True)


def _both(
    times: tuple[datetime, datetime],
    start: datetime,
    end: datetime,
    bucket: str,
    team: Team,
    milli: Fraction,
    *,
    is_capacity: bool,
) -> Iterable[_Change]:
    first, last = max(times[0], start), min(times[1], end)
    if first < last:
        yield _Change(epoch_us(first), bucket, team, is_capacity, milli)
        yield _Change(epoch_us(last), bucket, team, is_capacity, -milli)
