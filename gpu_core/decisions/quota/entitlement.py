"""From the policy and the cluster to numbers: the nominal quota of each team and cohort."""

from collections.abc import Mapping
from fractions import Fraction

from gpu_core.decisions.model.workload import WHOLE_GPU_MILLI
from gpu_core.decisions.policy.quotas import QuotaPolicy

_RESERVES_ALL, _RESERVES_NOTHING = Fraction(1), Fraction(0)


def nominal_quota_of_teams(policy: QuotaPolicy, bucket: str, capacity_milli: int) -> dict[str, int]:
    """The nominal quota of each team.

    A team that states its quota has that. Those that state none divide, by weight and in whole
    GPUs, the part that the strategy reserves of what others left.

    Args:
        policy: The quotas.
        bucket: The flavor key.
        capacity_milli: What the cluster has of it, in thousandths of GPUs.

    Returns:
        Thousandths of GPUs by team.
    """
    stated = {
        name: team.nominal_quota_milli.get(bucket, 0)
        for name, team in policy.teams.items()
        if team.nominal_quota_milli is not None
    }
    left_milli = capacity_milli - sum(stated.values()) - sum(_of_cohorts(policy, bucket))
    shares = {name: share for name, share in shares_by_weight(policy).items() if name not in stated}
    reserved_gpus = int(_reserved_ratio(policy) * max(0, left_milli) / WHOLE_GPU_MILLI)
    divided = divide(reserved_gpus, shares)
    return stated | {name: gpus * WHOLE_GPU_MILLI for name, gpus in divided.items()}


def shares_by_weight(policy: QuotaPolicy) -> dict[str, Fraction]:
    """The share of each team in all capacity, by its weight and those of its cohorts.

    Siblings divide their parent's share in proportion to their weights. The shares add up to 1,
    unless a cohort is empty: no team has its share.
    """
    members: dict[str | None, list[tuple[str, Fraction, bool]]] = {}
    for name, team in policy.teams.items():
        members.setdefault(team.cohort, []).append((name, Fraction(team.weight), True))
    for name, cohort in policy.cohorts.items():
        members.setdefault(cohort.parent, []).append((name, Fraction(cohort.weight), False))

    shares: dict[str, Fraction] = {}
    open_cohorts: list[tuple[str | None, Fraction]] = [(None, Fraction(1))]
    while open_cohorts:
        parent, parent_share = open_cohorts.pop()
        siblings = members.get(parent, [])
        total_weight = sum(weight for _, weight, _ in siblings)
        for name, weight, is_team in siblings:
            share = parent_share * weight / total_weight
            if is_team:
                shares[name] = share
            else:
                open_cohorts.append((name, share))
    return shares


def divide(total: int, shares: Mapping[str, Fraction]) -> dict[str, int]:
    """How many of `total` whole things does each get, as near to its share as can be?

    Largest remainder (Hamilton's method): each share is rounded down, and what is left
    goes one by one to the largest fractions; equal ones by name.
    """
    whole = sum(shares.values())
    if not whole:
        return {}
    exact = {name: total * share / whole for name, share in shares.items()}
    parts = {name: int(part) for name, part in exact.items()}
    by_remainder = sorted(exact, key=lambda name: (parts[name] - exact[name], name))
    for name in by_remainder[: total - sum(parts.values())]:
        parts[name] += 1
    return parts


def _of_cohorts(policy: QuotaPolicy, bucket: str) -> list[int]:
    return [(c.nominal_quota_milli or {}).get(bucket, 0) for c in policy.cohorts.values()]


def _reserved_ratio(policy: QuotaPolicy) -> Fraction:
    match policy.strategy:
        case "static":
            return _RESERVES_ALL
        case "dynamic":
            return _RESERVES_NOTHING
        case "hybrid":
            # By its text: 0.3 as a float is a little less than three tenths.
            return Fraction(str(policy.reserved_ratio))
