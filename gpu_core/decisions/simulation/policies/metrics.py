"""The metrics of a replay: waiting, slowdown, use of the GPUs, fairness, work lost, money."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import NamedTuple

from gpu_core.decisions.model.cluster import Flavor
from gpu_core.decisions.model.units import SECONDS_PER_HOUR
from gpu_core.decisions.simulation.cluster.outcomes import JobOutcome, SimulatedAttempt, Simulation

SLOWDOWN_FLOOR_S = 600.0
"""Shorter jobs count as this long, so that a few seconds of waiting are no slowdown of 10."""
GANG_OVER_GPUS = 8
"""Jobs of more GPUs than one usual node has are reported by themselves: backfill and shortest job
first starve them, and a mean over all jobs hides it."""
LONG_OVER_GPU_H = 255.0
"""Longer jobs are in the last of nine levels of attained service: they wait for all others there,
and a mean over all jobs hides it."""
JAIN_MIN_JOBS = 50
"""Teams with fewer jobs say little about fairness."""
JAIN_FLOOR_S = 60.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Spread:
    """A distribution in four numbers."""

    mean: float
    p50: float
    p95: float
    p99: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Metrics:
    """The numbers of one replay. Waits are over finished jobs; None: there is no such job."""

    jobs: int
    finished: int
    wait_s: Spread | None
    gang_wait_s: Spread | None
    """The waits of jobs over `GANG_OVER_GPUS` GPUs."""
    long_wait_s: Spread | None
    """The waits of jobs over `LONG_OVER_GPU_H` GPU-hours."""
    mean_completion_s: float | None
    """From submission to the end (JCT)."""
    mean_bounded_slowdown: float | None
    makespan_s: float
    """From the first submission to the last end."""
    utilization: float | None
    """Share of the GPU-seconds that did work that was kept; checkpoints are no work."""
    allocated: float | None
    """Share of the GPU-seconds that were allocated."""
    preemptions: int
    interruptions: int
    recoveries: int
    """The number of times that an interrupted job got GPUs again."""
    mean_recovery_s: float | None
    """From an interruption until then; None: there was none."""
    lost_gpu_h: float
    """Held for nothing: restarting, work done again, leaving."""
    checkpoint_gpu_h: float
    """Held while standing still for checkpoints."""
    jain: float | None
    """Jain's index over teams of their mean slowdown: 1 is even, 1/teams is the worst."""
    share_error_gpu_h: float | None
    """As `ShareError`; None: no entitlements."""
    shortfall_gpu_h: float | None
    """As `ShareError`; None: no entitlements."""
    cost_micro_usd: int | None
    """The cost. None: GPUs were used that have no price."""
    deadlines: int
    deadlines_met: int


def metrics(
    simulation: Simulation,
    *,
    gpus: int,
    horizon_s: float | None = None,
    entitlements: Mapping[str, float] | None = None,
    micro_usd_per_gpu_hour: Mapping[Flavor, int] | None = None,
) -> Metrics:
    """The metrics of this replay.

    A job's wait is completion − submission − duration: without interruptions its time in line, and
    with them also what they cost it.

    Args:
        horizon_s: Utilization is over [0, horizon]; None: over [0, the last end].
        entitlements: Weights by team, for the share error; None: no share error.
        micro_usd_per_gpu_hour: Prices; None: none.
    """
    outcomes = simulation.outcomes
    done = [o for o in outcomes if o.finished_s is not None]
    end_s = max((held.end_s for o in outcomes for held in o.attempts), default=0.0)
    window_s = end_s if horizon_s is None else horizon_s
    capacity_gpu_s = gpus * window_s
    with_deadline = [o for o in outcomes if o.job.deadline_s is not None]
    error = None if entitlements is None else share_error(outcomes, entitlements, gpus)
    recoveries_s = [seconds for o in outcomes for seconds in _recoveries_s(o)]
    return Metrics(
        jobs=len(outcomes),
        finished=len(done),
        wait_s=spread(wait_s(o) for o in done),
        gang_wait_s=spread(wait_s(o) for o in done if o.job.total_gpus > GANG_OVER_GPUS),
        long_wait_s=spread(wait_s(o) for o in done if _gpu_hours(o) > LONG_OVER_GPU_H),
        mean_completion_s=_mean([completion_s(o) for o in done]),
        mean_bounded_slowdown=_mean([bounded_slowdown(o) for o in done]),
        makespan_s=end_s - min((o.job.submit_s for o in outcomes), default=0.0),
        utilization=_share(_busy_gpu_s(outcomes, window_s, useful=True), capacity_gpu_s),
        allocated=_share(_busy_gpu_s(outcomes, window_s, useful=False), capacity_gpu_s),
        preemptions=sum(o.preemptions for o in outcomes),
        interruptions=sum(o.interruptions for o in outcomes),
        recoveries=len(recoveries_s),
        mean_recovery_s=_mean(recoveries_s),
        lost_gpu_h=_gpu_h(outcomes, lambda held: held.lost_s),
        checkpoint_gpu_h=_gpu_h(outcomes, lambda held: held.stalled_s),
        jain=jain(_team_slowdowns(done)),
        share_error_gpu_h=None if error is None else error.net_gpu_s / SECONDS_PER_HOUR,
        shortfall_gpu_h=None if error is None else error.shortfall_gpu_s / SECONDS_PER_HOUR,
        cost_micro_usd=cost_micro_usd(outcomes, micro_usd_per_gpu_hour or {}),
        deadlines=len(with_deadline),
        deadlines_met=sum(
            o.finished_s is not None and o.finished_s <= (o.job.deadline_s or 0.0)
            for o in with_deadline
        ),
    )


def completion_s(outcome: JobOutcome) -> float:
    """How long after its submission did a finished job end?"""
    assert outcome.finished_s is not None  # noqa: S101 - asked of finished jobs only
    return outcome.finished_s - outcome.job.submit_s


def wait_s(outcome: JobOutcome) -> float:
    """How long did a finished job take beyond its duration?"""
    return completion_s(outcome) - outcome.job.duration_s


def _gpu_hours(outcome: JobOutcome) -> float:
    return outcome.job.duration_s * outcome.job.total_gpus / SECONDS_PER_HOUR


def bounded_slowdown(outcome: JobOutcome) -> float:
    """How many times its duration did a finished job take, short ones counted as 600 s?

    Feitelson and Rudolph, "Metrics and benchmarking for parallel job scheduling", JSSPP 1998.
    """
    longer_s = max(outcome.job.duration_s, SLOWDOWN_FLOOR_S)
    return max(1.0, completion_s(outcome) / longer_s)


def spread(values: Iterable[float]) -> Spread | None:
    """The distribution of these values; None: there are none.

    A percentile is the value at index floor(q × n) of the sorted ones: one that occurred.
    """
    ordered = sorted(values)
    if not ordered:
        return None

    def at(q: float) -> float:
        return ordered[min(int(q * len(ordered)), len(ordered) - 1)]

    return Spread(mean=sum(ordered) / len(ordered), p50=at(0.5), p95=at(0.95), p99=at(0.99))


def jain(values: Sequence[float]) -> float | None:
    """The evenness of these values: (Σx)² / (n·Σx²), Jain, Chiu and Hawe, DEC-TR-301, 1984.

    None: there are none, or all are 0.
    """
    squares = sum(x * x for x in values)
    return sum(values) ** 2 / (len(values) * squares) if squares else None


class ShareError(NamedTuple):
    """The distance of a team from its share while it waited, in GPU-seconds."""

    net_gpu_s: float
    """|∫ (GPUs it holds − its share) dt|: too much counts like too little."""
    shortfall_gpu_s: float
    """∫ max(0, its share − GPUs it holds) dt: what it wanted, was entitled to, and did not get."""


def share_error(
    outcomes: Sequence[JobOutcome], entitlements: Mapping[str, float], gpus: int
) -> ShareError:
    """The error of the teams that were treated furthest from their share.

    Team v is entitled to a fixed part of the cluster, gpus × weight_v / Σ weights. While at least
    one of its jobs waits, it wants that much; the integrals are over all that time. Each number is
    the largest of all teams; who never waits has no error. A job that never finished waits until
    the last event of the replay.

    Args:
        entitlements: Weights by team, over 0 in sum; a team without one is not checked.
    """
    total = sum(entitlements.values())
    end_s = max((held.end_s for o in outcomes for held in o.attempts), default=0.0)
    changes: dict[str, list[tuple[float, int, float]]] = {team: [] for team in entitlements}
    for outcome in outcomes:
        of_team = changes.get(outcome.job.team or "")
        if of_team is not None:
            of_team.extend(_changes(outcome, end_s))
    errors = [
        _error(sorted(of_team), gpus * entitlements[team] / total)
        for team, of_team in changes.items()
    ]
    return ShareError(
        net_gpu_s=max((error.net_gpu_s for error in errors), default=0.0),
        shortfall_gpu_s=max((error.shortfall_gpu_s for error in errors), default=0.0),
    )


def _changes(outcome: JobOutcome, end_s: float) -> Iterable[tuple[float, int, float]]:
    """The moments at which a job changes its team's waiting jobs and GPUs, with the amounts."""
    gpus = outcome.job.total_gpus
    yield outcome.job.submit_s, 1, 0.0
    for held in outcome.attempts:
        yield held.start_s, -1, gpus
        yield held.end_s, 1, -gpus
    # The last end made it wait again; a finished job does not.
    yield end_s if outcome.finished_s is None else outcome.finished_s, -1, 0.0


def _error(changes: Sequence[tuple[float, int, float]], entitled_gpus: float) -> ShareError:
    waiting, gpus, since_s, net_gpu_s, shortfall_gpu_s = 0, 0.0, 0.0, 0.0, 0.0
    for at_s, more_waiting, more_gpus in changes:
        if waiting:
            net_gpu_s += (gpus - entitled_gpus) * (at_s - since_s)
            shortfall_gpu_s += max(0.0, entitled_gpus - gpus) * (at_s - since_s)
        waiting += more_waiting
        gpus += more_gpus
        since_s = at_s
    return ShareError(abs(net_gpu_s), shortfall_gpu_s)


def cost_micro_usd(
    outcomes: Iterable[JobOutcome], micro_usd_per_gpu_hour: Mapping[Flavor, int]
) -> int | None:
    """The cost of all that was held; None: some of it has no price."""
    total = 0.0
    for outcome in outcomes:
        for held in outcome.attempts:
            if held.flavor is None:
                continue
            price = micro_usd_per_gpu_hour.get(held.flavor)
            if price is None:
                return None
            total += price * outcome.job.total_gpus * (held.end_s - held.start_s)
    return round(total / SECONDS_PER_HOUR)


def _recoveries_s(outcome: JobOutcome) -> Iterable[float]:
    for before, after in pairwise(outcome.attempts):
        if before.was_interrupted:
            yield after.start_s - before.end_s


def _gpu_h(outcomes: Iterable[JobOutcome], seconds: Callable[[SimulatedAttempt], float]) -> float:
    gpu_s = sum(seconds(held) * o.job.total_gpus for o in outcomes for held in o.attempts)
    return gpu_s / SECONDS_PER_HOUR


def _busy_gpu_s(outcomes: Iterable[JobOutcome], window_s: float, *, useful: bool) -> float:
    return sum(
        _within_s(held, window_s, useful=useful) * outcome.job.total_gpus
        for outcome in outcomes
        for held in outcome.attempts
    )


def _within_s(held: SimulatedAttempt, window_s: float, *, useful: bool) -> float:
    # What did no work is thought to be spread evenly over the attempt where the window cuts it.
    held_s = held.end_s - held.start_s
    inside_s = max(0.0, min(held.end_s, window_s) - max(held.start_s, 0.0))
    idle_s = held.lost_s + held.stalled_s
    return inside_s * (1 - idle_s / held_s) if useful and held_s else inside_s


def _team_slowdowns(done: Iterable[JobOutcome]) -> list[float]:
    """Each larger team's mean of completion / max(duration, 60 s)."""
    by_team: dict[str, list[float]] = {}
    for outcome in done:
        slowdown = completion_s(outcome) / max(outcome.job.duration_s, JAIN_FLOOR_S)
        by_team.setdefault(outcome.job.team or "", []).append(slowdown)
    return [sum(x) / len(x) for _, x in sorted(by_team.items()) if len(x) >= JAIN_MIN_JOBS]


def _mean(values: Sequence[float]) -> float | None:
    return sum(values) / len(values) if values else None


def _share(part: float, whole: float) -> float | None:
    return part / whole if whole else None
