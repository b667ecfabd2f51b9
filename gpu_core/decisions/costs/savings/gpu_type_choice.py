"""Cheaper GPU types for the same work: by the cost of a deployment's other runs, or by memory.

The ledger knows what a run cost, not how much it did. So each completed run of a deployment is
taken to have done the same, and what runs on one type would have cost on the other is a projection.
"""

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from statistics import median

from gpu_core.decisions.catalog.gpu_types import GPU_TYPES
from gpu_core.decisions.costs.usage import US_PER_HOUR, Usage, round_half_up, sum_usage
from gpu_core.decisions.costs.usage_cost import Window, attempt_usage
from gpu_core.decisions.model.attempts import Attempt, EndReason, RunRecord

_FEWEST_RUNS = 3
"""On each of both types: the median of fewer says nothing."""

_MIB = 2**20


@dataclass(frozen=True, slots=True, kw_only=True)
class CheaperType:
    """A GPU type on which the runs of a deployment cost less, or could."""

    deployment: str
    gpu_type: str
    """What they ran on."""
    runs: int
    """Completed runs on it that ended in the window."""
    cheaper: str
    """The other type."""
    micro_usd: int | None
    """What these runs would have cost less there, by the median of the deployment's runs on both.
    None: it has too few runs there, and only memory and price speak for it."""
    pays_below: float
    """How many times as long a run may take on the other type until it costs as much."""

    @property
    def is_measured(self) -> bool:
        """Has the deployment run on both types?"""
        return self.micro_usd is not None


@dataclass(frozen=True, slots=True)
class _Done:
    """A completed run on one GPU type."""

    deployment: str
    gpu_type: str
    micro_usd: Fraction
    memory_mib: int | None


def cheaper_types(
    records: Iterable[tuple[RunRecord, Sequence[Attempt]]], window: Window
) -> tuple[CheaperType, ...]:
    """On which GPU types would the completed runs of the window have cost less?

    Args:
        records: Runs with an attempt in the window, with all attempts.
        window: Runs count whose last attempt ended in it.

    Returns:
        The measured ones by what they save, then those that memory and price speak for.
    """
    pairs = list(records)
    used = {
        attempt.attempt_id: attempt_usage(attempt, attempt.released_at)
        for _, attempts in pairs
        for attempt in attempts
        if attempt.released_at is not None
    }
    hourly = _hourly((attempt for _, attempts in pairs for attempt in attempts), used)
    by_deployment: dict[str, dict[str, list[_Done]]] = defaultdict(lambda: defaultdict(list))
    for run, attempts in pairs:
        done = _done(run, attempts, used, window)
        if done is not None:
            by_deployment[done.deployment][done.gpu_type].append(done)
    found = []
    for by_type in by_deployment.values():
        costs = {
            name: median(d.micro_usd for d in runs)
            for name, runs in by_type.items()
            if len(runs) >= _FEWEST_RUNS
        }
        for runs in by_type.values():
            choice = _measured(runs, costs, hourly) or _by_memory(runs, set(by_type), hourly)
            found += [] if choice is None else [choice]
    return tuple(sorted(found, key=lambda c: (-(c.micro_usd or 0), c.deployment, c.gpu_type)))


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
    run: RunRecord, attempts: Sequence[Attempt], used: Mapping[str, Usage], window: Window
) -> _Done | None:
    """The run, if it completed in the window on one known GPU type at known prices."""
    taken = [attempt for attempt in attempts if attempt.has_run]
    if run.deployment is None or not taken:
        return None
    last = max(taken, key=lambda attempt: attempt.number)
    types = {attempt.gpu_type for attempt in taken}
    end = last.released_at
    if end is None or end not in window or last.end_reason is not EndReason.COMPLETED:
        return None
    if len(types) > 1 or last.gpu_type is None:
        return None
    usage = sum_usage(used[attempt.attempt_id] for attempt in taken if attempt.released_at)
    if usage.is_unpriced or not usage.exact_micro_usd:
        return None
    return _Done(run.deployment, last.gpu_type, Fraction(usage.exact_micro_usd), _memory(taken))


def _memory(attempts: Iterable[Attempt]) -> int | None:
    """The most memory of a GPU that was used, in MiB; None: an attempt does not say."""
    most = 0
    for attempt in attempts:
        summaries = attempt.gpu_summaries or ()
        used = [s.memory_used_max_bytes for s in summaries if not s.is_simulated]
        known = [each for each in used if each is not None]
        if not known or len(known) < len(summaries):
            return None
        most = max(most, *(-(-each // _MIB) for each in known))
    return most


def _memory_mib(gpu_type: str) -> int | None:
    found = GPU_TYPES.get(gpu_type)
    if found is None:
        return None
    return found.reported_memory_mib or found.memory_gib * 1024


def _hourly(attempts: Iterable[Attempt], used: Mapping[str, Usage]) -> Mapping[str, Fraction]:
    """What an hour of a GPU of each type cost on average, where all of it has a price."""
    by_type = defaultdict(list)
    for attempt in attempts:
        if attempt.gpu_type is not None and attempt.attempt_id in used:
            by_type[attempt.gpu_type].append(used[attempt.attempt_id])
    whole = {gpu_type: sum_usage(parts) for gpu_type, parts in by_type.items()}
    return {
        gpu_type: Fraction(usage.exact_micro_usd) * US_PER_HOUR / Fraction(usage.gpu_us)
        for gpu_type, usage in whole.items()
        if usage.gpu_us and usage.exact_micro_usd and not usage.is_unpriced
    }
