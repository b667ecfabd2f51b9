"""Cheaper GPU types for the same work: by the cost of a deployment's other runs, or by memory.

The ledger knows what a run cost, not how much it did. So each completed run of a deployment is
taken to have done the same, and what runs on one type would have cost on the other is a projection.
"""

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import NamedTuple

from gpu_core.decisions.catalog.gpu_types import GPU_TYPES
from gpu_core.decisions.costs.usage.scale import Scale
from gpu_core.decisions.costs.usage.time_use import Tariff
from gpu_core.decisions.costs.usage.usage import US_PER_HOUR, round_half_up
from gpu_core.decisions.costs.usage.usage_cost import Window
from gpu_core.decisions.model.units import epoch_us

_FEWEST_RUNS = 3
"""On each of both types: the median of fewer says nothing."""

_MIB = 2**20


class PaidAttempt(NamedTuple):
    """The facts that are read of an attempt: few, as a month has 100,000 attempts."""

    flow_run_id: str
    deployment: str | None
    number: int
    gpu_type: str | None
    released_us: int | None
    """The moment of its end, in microseconds since 1970; None: it is not over."""
    is_completed: bool
    paid: Sequence[tuple[Tariff, int]]
    """Its prices, each with the microseconds for which it was paid; empty while it is not over."""
    memory_mib: int | None
    """See `most_memory_mib`."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CheaperType:
    """A GPU type on which the runs of a deployment cost less, or could."""

    deployment: str
    gpu_type: str
    """The GPU type that they ran on."""
    runs: int
    """Completed runs on it that ended in the window."""
    cheaper: str
    """The other type."""
    micro_usd: int | None
    """The saving of these runs there, by the median of the deployment's runs on both. None: it has
    too few runs there, and only memory and price speak for it."""
    pays_below: float
    """How many times as long a run may take on the other type until it costs as much."""

    @property
    def is_measured(self) -> bool:
        """Has the deployment run on both types?"""
        return self.micro_usd is not None


class _Done(NamedTuple):
    """A completed run on one GPU type."""

    deployment: str
    gpu_type: str
    scaled_cost: int
    """In `cost_denominator`-ths of a micro-dollar: a month's runs are ranked in whole numbers."""
    memory_mib: int | None


def cheaper_types(attempts: Iterable[PaidAttempt], window: Window) -> tuple[CheaperType, ...]:
    """The GPU types on which the completed runs of the window would have cost less.

    Args:
        attempts: All attempts of each run that has one in the window.
        window: Runs count whose last attempt ended in it.

    Returns:
        The measured ones by what they save, then those that memory and price speak for.
    """
    by_run: dict[str, list[PaidAttempt]] = defaultdict(list)
    for attempt in attempts:
        by_run[attempt.flow_run_id].append(attempt)
    held = _held(attempt for of_run in by_run.values() for attempt in of_run)
    scale = Scale(tariff for of_type in held.values() for tariff in of_type)
    hourly = dict(_hourly(held, scale))
    span_us = epoch_us(window.start), epoch_us(window.end)
    by_deployment: dict[str, dict[str, list[_Done]]] = defaultdict(lambda: defaultdict(list))
    for of_run in by_run.values():
        done = _done(of_run, *span_us, scale)
        if done is not None:
            by_deployment[done.deployment][done.gpu_type].append(done)
    found = []
    for by_type in by_deployment.values():
        costs = {
            name: _median(runs) / scale.cost_denominator
            for name, runs in by_type.items()
            if len(runs) >= _FEWEST_RUNS
        }
        for runs in by_type.values():
            choice = _measured(runs, costs, hourly) or _by_memory(runs, set(by_type), hourly)
            found += [] if choice is None else [choice]
    return tuple(sorted(found, key=lambda c: (-(c.micro_usd or 0), c.deployment, c.gpu_type)))


def _median(runs: Sequence[_Done]) -> Fraction:
    """The cost of the run in the middle, or the mean of the two there."""
    ranked, middle = sorted(run.scaled_cost for run in runs), len(runs) // 2
    return Fraction(ranked[middle] + ranked[-1 - middle], 2)


def _measured(
    runs: Sequence[_Done], costs: Mapping[str, Fraction], hourly: Mapping[str, Fraction]
) -> CheaperType | None:
    gpu_type = runs[0].gpu_type
    if gpu_type not in costs:
        return None
    cheapest = min(costs, key=lambda name: (costs[name], name))
    saved = costs[gpu_type] - costs[cheapest]
    if saved <= 0:
        return None
    return _choice(runs, cheapest, round_half_up(len(runs) * saved), hourly)


def _by_memory(
    runs: Sequence[_Done], tried: set[str], hourly: Mapping[str, Fraction]
) -> CheaperType | None:
    """The cheapest type of this ledger whose memory holds what the runs used at most."""
    gpu_type = runs[0].gpu_type
    used = [run.memory_mib for run in runs]
    if None in used or gpu_type not in hourly:
        return None
    needed = max(mib for mib in used if mib is not None)
    fits = [
        name
        for name, price in hourly.items()
        if name not in tried and price < hourly[gpu_type] and (_memory_mib(name) or 0) >= needed
    ]
    if not fits:
        return None
    return _choice(runs, min(fits, key=lambda name: (hourly[name], name)), None, hourly)


def _choice(
    runs: Sequence[_Done], cheaper: str, micro_usd: int | None, hourly: Mapping[str, Fraction]
) -> CheaperType:
    return CheaperType(
        deployment=runs[0].deployment,
        gpu_type=runs[0].gpu_type,
        runs=len(runs),
        cheaper=cheaper,
        micro_usd=micro_usd,
        pays_below=float(hourly[runs[0].gpu_type] / hourly[cheaper]),
    )


def _done(
    attempts: Sequence[PaidAttempt], start_us: int, end_us: int, scale: Scale
) -> _Done | None:
    """The run, if it completed in the window on one known GPU type at known prices."""
    last = max(attempts, key=_number) if len(attempts) > 1 else attempts[0]
    if last.deployment is None or last.gpu_type is None or not last.is_completed:
        return None
    if last.released_us is None or not start_us <= last.released_us < end_us:
        return None
    if any(attempt.gpu_type != last.gpu_type for attempt in attempts):
        return None
    parts = [part for attempt in attempts for part in attempt.paid if part[1]]
    if any(tariff.unit.is_unpriced for tariff, _ in parts):
        return None
    scaled_cost = scale.cost(parts)
    if not scaled_cost:
        return None
    known = [attempt.memory_mib for attempt in attempts if attempt.memory_mib is not None]
    memory = max(known) if len(known) == len(attempts) else None
    return _Done(last.deployment, last.gpu_type, scaled_cost, memory)


def _number(attempt: PaidAttempt) -> int:
    return attempt.number


def most_memory_mib(used_bytes: Sequence[int | None]) -> int | None:
    """The most memory of a GPU that was used, in MiB, rounded up; None: of one it is unknown.

    Args:
        used_bytes: Of each GPU of an attempt; None: unknown, as of a virtual GPU.
    """
    known = [each for each in used_bytes if each is not None]
    if not known or len(known) < len(used_bytes):
        return None
    return -(-max(known) // _MIB)


def _memory_mib(gpu_type: str) -> int | None:
    found = GPU_TYPES.get(gpu_type)
    if found is None:
        return None
    return found.reported_memory_mib or found.memory_gib * 1024


def _held(attempts: Iterable[PaidAttempt]) -> dict[str | None, dict[Tariff, int]]:
    """The microseconds of each tariff on each GPU type."""
    held: dict[str | None, dict[Tariff, int]] = defaultdict(lambda: defaultdict(int))
    for attempt in attempts:
        for tariff, held_us in attempt.paid:
            held[attempt.gpu_type][tariff] += held_us
    return held


def _hourly(
    held: Mapping[str | None, Mapping[Tariff, int]], scale: Scale
) -> Iterator[tuple[str, Fraction]]:
    """The mean cost of an hour of a GPU of each type, by what of it has a price."""
    for gpu_type, of_type in held.items():
        priced = ((tariff, us) for tariff, us in of_type.items() if not tariff.unit.is_unpriced)
        usage = scale.usage(priced)
        if gpu_type is not None and usage.gpu_us and usage.exact_micro_usd:
            yield gpu_type, usage.exact_micro_usd * US_PER_HOUR / Fraction(usage.gpu_us)
