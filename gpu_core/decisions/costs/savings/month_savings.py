"""A month against the same on demand, the best in hindsight and fixed clusters, in whole micro-USD.

Each sum is rounded once, and parts are differences of rounded sums: they add up.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum
from fractions import Fraction

from gpu_core.decisions.costs.capacity.capacity_intervals import CapacityInterval
from gpu_core.decisions.costs.prices.price_book import PriceBook
from gpu_core.decisions.costs.savings.duration_curve import worth_committing
from gpu_core.decisions.costs.savings.gpu_type_choice import (
    CheaperType,
    PaidAttempt,
    cheaper_types,
)
from gpu_core.decisions.costs.savings.kind_costs import KindCost, kind_costs
from gpu_core.decisions.costs.savings.price_steps import MachineKind, duration_us
from gpu_core.decisions.costs.usage.usage import US_PER_HOUR, round_half_up
from gpu_core.decisions.costs.usage.usage_cost import Window, lost_usage
from gpu_core.decisions.model.attempts import Attempt
from gpu_core.decisions.model.cluster import SPOT


@dataclass(frozen=True, slots=True, kw_only=True)
class MonthWork:
    """The work of a month, as far as savings depend on it."""

    attempts: Sequence[PaidAttempt] = ()
    """All attempts of each run that has one in the month."""
    interrupted: Sequence[Attempt] = ()
    """The attempts on spot that the provider or the machine ended in the month."""


class Cluster(StrEnum):
    """A cluster of a fixed size, for the whole time."""

    PEAK = "peak"
    """As many machines of each kind as were there at once."""
    CAP = "cap"
    """As many GPUs as `scale.max_gpus` allows, in the proportions of the peak."""
    COMMITTED = "committed"
    """That of the peak, committed for a year."""


@dataclass(frozen=True, slots=True, kw_only=True)
class FixedCluster:
    """The cost of a fixed cluster, in parts: that of the month, and the reasons why it is lower.

    `micro_usd` is the month's cost, `elasticity`, `spot` and `reserved`, less `commitment`.
    """

    cluster: Cluster
    gpus: int
    micro_usd: int
    elasticity_micro_usd: int
    """The amount that is not paid because machines go when they are not needed, at on-demand
    prices."""
    spot_micro_usd: int
    """The amount by which the machines on spot cost less than on demand."""
    reserved_micro_usd: int
    """The same for machines on other terms, such as `reserved`."""
    commitment_micro_usd: int
    """The amount that the commitment takes off the fixed cluster's on-demand price."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SpotSavings:
    """Spot against the same machine-hours on demand."""

    gpu_us: int
    """GPU-microseconds on spot."""
    micro_usd: int
    """The saving: less paid per hour."""
    interruptions_micro_usd: int | None
    """The cost of work that interruptions lost, at on-demand prices; None: unknown."""

    @property
    def net_micro_usd(self) -> int | None:
        """The saving that is left after the interruptions."""
        lost = self.interruptions_micro_usd
        return None if lost is None else self.micro_usd - lost


@dataclass(frozen=True, slots=True, kw_only=True)
class Commitment:
    """The saving of a commitment for machines of one kind that were there on demand."""

    kind: MachineKind
    held_ratios: tuple[float, ...]
    """For the first, second, … machine: the part of the time in which at least that number was
    there. A commitment for it pays off where its price is under that part of on-demand."""
    price_ratio: float | None
    """The price of a commitment by the on-demand price; None: it is unknown."""
    machines: int | None
    """How many to commit; None: the price is unknown."""
    micro_usd: int | None
    """The saving in the window."""


@dataclass(frozen=True, slots=True, kw_only=True)
class MonthSavings:
    """The savings made and the savings possible. Sums are over the kinds whose prices are known."""

    window: Window
    micro_usd: int | None
    """The cost of the machines; None: too little is known of the machines or the time."""
    on_demand_micro_usd: int | None
    """The same machine-hours on demand."""
    best_micro_usd: int | None
    """The same at the lowest price of each time; None: of a kind no price of spot is known."""
    spot: SpotSavings | None
    clusters: tuple[FixedCluster, ...]
    unknown_clusters: tuple[Cluster, ...]
    """Those that cannot be compared: a price or the cap is unknown."""
    commitments: tuple[Commitment, ...]
    cheaper_types: tuple[CheaperType, ...]
    unpriced: tuple[tuple[MachineKind, float], ...]
    """Kinds that are in no sum, as a price of theirs is unknown, with their GPU-hours."""


def month_savings(
    intervals: Iterable[CapacityInterval],
    work: MonthWork,
    book: PriceBook,
    window: Window,
    now: datetime,
    committed_ratio: Fraction | None = None,
) -> MonthSavings:
    """The savings of spot, elasticity and commitments in this month, and those that were possible.

    Args:
        intervals: Machines with a time in the window.
        work: What ran in the window.
        book: Your rates, the catalog and the policy, whose `scale.max_gpus` is the cap.
        window: The time for which the ledger has machines, at most a month. It is empty where the
            ledger has none: all is unknown then.
        now: Machines that are there are counted up to here.
        committed_ratio: See `kind_costs`.
    """
    all_kinds = kind_costs(intervals, book, window, now, committed_ratio)
    known = [
        kind for kind in all_kinds if kind.on_demand is not None and kind.peak_on_demand is not None
    ]
    unpriced = tuple((k.kind, _gpu_hours(k)) for k in all_kinds if k not in known)
    is_unrecorded = window.start >= window.end
    is_nothing_known = is_unrecorded or (bool(all_kinds) and not known)
    fixed, unknown = _clusters(known, book.policy.scale.max_gpus)
    best = _sum(kind.best for kind in known)
    return MonthSavings(
        window=window,
        micro_usd=None if is_nothing_known else _whole(k.actual for k in known),
        on_demand_micro_usd=None if is_nothing_known else _whole(k.on_demand for k in known),
        best_micro_usd=None if is_nothing_known or best is None else round_half_up(best),
        spot=None if is_nothing_known else _spot(known, work.interrupted),
        clusters=() if is_nothing_known else fixed,
        unknown_clusters=tuple(Cluster) if is_nothing_known else unknown,
        commitments=tuple(
            _commitment(k, duration_us(window)) for k in known if k.on_demand_curve_us
        ),
        cheaper_types=cheaper_types(work.attempts, window),
        unpriced=unpriced,
    )


def _clusters(
    kinds: Sequence[KindCost], cap: int | None
) -> tuple[tuple[FixedCluster, ...], tuple[Cluster, ...]]:
    gpus = sum(kind.peak_machines * kind.kind.gpus for kind in kinds)
    peak = _sum(kind.peak_on_demand for kind in kinds)
    committed = _sum(kind.peak_committed for kind in kinds)
    of_cap = None if cap is None or peak is None or not gpus else peak * cap / gpus
    sizes = (
        (Cluster.PEAK, gpus, peak, peak),
        (Cluster.CAP, cap or 0, of_cap, of_cap),
        (Cluster.COMMITTED, gpus, peak, committed),
    )
    paid = _whole(kind.actual for kind in kinds)
    with_spot = _whole(_and_saved(kind, (SPOT,)) for kind in kinds)
    on_demand = _whole(kind.on_demand for kind in kinds)
    found = [
        FixedCluster(
            cluster=cluster,
            gpus=count,
            micro_usd=round_half_up(cost),
            elasticity_micro_usd=round_half_up(without) - on_demand,
            spot_micro_usd=with_spot - paid,
            reserved_micro_usd=on_demand - with_spot,
            commitment_micro_usd=round_half_up(without) - round_half_up(cost),
        )
        for cluster, count, without, cost in sizes
        if without is not None and cost is not None
    ]
    there = {each.cluster for each in found}
    return tuple(found), tuple(each for each in Cluster if each not in there)


def _spot(kinds: Sequence[KindCost], interrupted: Iterable[Attempt]) -> SpotSavings:
    paid = _whole(kind.actual for kind in kinds)
    lost = [_lost_on_demand(attempt, kinds) for attempt in interrupted]
    return SpotSavings(
        gpu_us=sum(kind.spot_us * kind.kind.gpus for kind in kinds),
        micro_usd=_whole(_and_saved(kind, (SPOT,)) for kind in kinds) - paid,
        interruptions_micro_usd=None if None in lost else _whole(lost),
    )


def _lost_on_demand(attempt: Attempt, kinds: Iterable[KindCost]) -> Fraction | None:
    """The cost of the lost work on demand, by the month's mean price of its GPU type."""
    lost = lost_usage(attempt)
    if not lost.gpu_us:
        return Fraction(0)
    same = [k for k in kinds if k.kind.gpu_type == attempt.gpu_type and k.spot_us]
    gpu_us = sum(k.spot_us * k.kind.gpus for k in same)
    on_demand = sum((k.spot_on_demand or Fraction(0) for k in same), Fraction(0))
    return Fraction(lost.gpu_us) * on_demand / gpu_us if gpu_us else None


def _commitment(kind: KindCost, window_us: int) -> Commitment:
    whole, committed = kind.on_demand_price, kind.committed_price
    machines = saved = None
    if whole is not None and committed is not None:
        machines, exact = worth_committing(kind.on_demand_curve_us, window_us, whole, committed)
        saved = round_half_up(exact)
    return Commitment(
        kind=kind.kind,
        held_ratios=tuple(held_us / window_us for held_us in kind.on_demand_curve_us),
        price_ratio=float(committed / whole) if committed is not None and whole else None,
        machines=machines,
        micro_usd=saved,
    )


def _and_saved(kind: KindCost, terms: Iterable[str]) -> Fraction | None:
    return _sum((kind.actual, *(kind.saved_by.get(each, Fraction(0)) for each in terms)))


def _sum(parts: Iterable[Fraction | None]) -> Fraction | None:
    """All parts together; None: one is unknown."""
    found = list(parts)
    known = [part for part in found if part is not None]
    return sum(known, Fraction(0)) if len(known) == len(found) else None


def _whole(parts: Iterable[Fraction | None]) -> int:
    """The same in whole micro-USD, of parts that are known."""
    return round_half_up(_sum(parts) or Fraction(0))


def _gpu_hours(kind: KindCost) -> float:
    return float(Fraction(kind.machine_us * kind.kind.gpus, US_PER_HOUR))
