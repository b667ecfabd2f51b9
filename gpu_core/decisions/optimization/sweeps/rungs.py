"""Successive halving by dollars: which runs of a sweep get more dollars, and which stay parked.

Every run has a budget of its own. It is stopped there with a checkpoint and stays parked until
its budget is raised to the next rung. Each rung costs `reduction` times the one before.

Sources: Jamieson and Talwalkar 2016 (AISTATS), algorithm 1, for the synchronous form; Li et al.
2020 (MLSys, "A System for Massively Parallel Hyperparameter Tuning"), algorithm 2, for the
asynchronous one. Both count a resource for each run; here it is what the run may cost.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum

from gpu_core.decisions.model.errors import InvalidInput

MOST_RUNGS = 20


class MetricGoal(StrEnum):
    """The better values of the metric; as in the tag `cost.quality_goal`."""

    HIGHER = "higher"
    LOWER = "lower"


@dataclass(frozen=True, slots=True, kw_only=True)
class SweepPlan:
    """The budget of a sweep, and the rungs at which its runs are compared."""

    budget_micro_usd: int
    """Of all its runs together, 1 or more."""
    first_rung_micro_usd: int
    """The budget of a run before it is compared for the first time, 1 or more."""
    rungs: int
    """How many there are, 1 to 20."""
    reduction: int = 3
    """The number of runs of which one gets the dollars of the next rung, 2 or more."""
    goal: MetricGoal = MetricGoal.HIGHER
    waits_for_rung: bool = False
    """The synchronous form: no run is promoted before all runs of its rung have reached it."""

    def __post_init__(self) -> None:
        """Refuse what compares nothing."""
        limits = (
            ("budget_micro_usd", 1, None),
            ("first_rung_micro_usd", 1, None),
            ("rungs", 1, MOST_RUNGS),
            ("reduction", 2, None),
        )
        for name, least, most in limits:
            value = getattr(self, name)
            if value < least or (most is not None and value > most):
                allowed = f"{least} or more" if most is None else f"{least} to {most}"
                raise InvalidInput(name, "is out of range", got=value, allowed=allowed)

    def rung_micro_usd(self, rung: int) -> int:
        """The most that a run may cost in all, up to this rung, 0 or more."""
        return self.first_rung_micro_usd * int(self.reduction**rung)

    @property
    def last_rung(self) -> int:
        """The rung beyond which no run gets dollars."""
        return self.rungs - 1

    def worth(self, metric: float) -> float:
        """The metric, turned so that more is better."""
        return metric if self.goal is MetricGoal.HIGHER else -metric


@dataclass(frozen=True, slots=True, kw_only=True)
class SweepRun:
    """One run of a sweep, as far as it has come."""

    run_id: str
    granted: int | None
    """The rung to which its budget reaches; None: it has none yet and has not started."""
    spent_micro_usd: int
    metrics: tuple[float | None, ...]
    """The metric at each rung that it has reached, the first one first; None: it has none there."""
    is_over: bool = False
    """It completed, failed or was cancelled: more dollars have no effect."""
    is_kept: bool = False
    """A person has said that it goes on, whatever its metric."""

    def __post_init__(self) -> None:
        """Refuse a run that reached what it has no dollars for."""
        if len(self.metrics) > (0 if self.granted is None else self.granted + 1):
            raise InvalidInput(
                "metrics", "are more than the rungs that the run has dollars for",
                got=len(self.metrics), allowed=f"at most those up to rung {self.granted}",
            )  # fmt: skip

    def has_reached(self, rung: int) -> bool:
        """Has it a result there, if only that it has no metric?"""
        return len(self.metrics) > rung


class SweepStep(StrEnum):
    """The next step of a run."""

    START = "start"
    PROMOTE = "promote"
    """It gets the dollars of its next rung, and resumes from its checkpoint."""
    CONTINUE = "continue"
    """It has dollars left up to its rung."""
    PARK = "park"
    """It keeps its checkpoint, and gets no dollars for now."""
    BEST = "best"
    """The best of the last rung."""
    WAIT = "wait"
    """It has not started: the budget has no room for it, or no place is free."""
    OVER = "over"


@dataclass(frozen=True, slots=True, kw_only=True)
class SweepDecision:
    """The next step of each run of a sweep."""

    steps: dict[str, SweepStep]
    """Of each run, by its id."""
    granted_micro_usd: int
    """The budget of all runs together, with what is decided here; spent dollars if they are
    more."""
    is_spent: bool
    """The budget has no room for what would come next."""
    saved_micro_usd: int
    """The further cost of the parked runs up to the last rung."""
    lost_chance: float | None
    """How likely is a parked run better than the best? None: too few runs have gone on to say."""


def sweep_step(plan: SweepPlan, runs: Sequence[SweepRun], places: int) -> SweepDecision:
    """The runs of the sweep that get more dollars now, and those that are parked.

    Higher rungs come first; a run without a metric is promoted only if a person keeps it. Nothing
    is granted beyond the sweep's budget; where the first in turn does not fit, no later one is
    taken instead.
    What is decided depends on the runs and not on their order.

    Args:
        plan: The sweep's budget and rungs.
        runs: All runs of the sweep, each with an id of its own.
        places: How many runs may have dollars left at the same time, 1 or more.

    Raises:
        InvalidInput: Two runs have the same id, or there is no place.
    """
    ids = [run.run_id for run in runs]
    if len(set(ids)) < len(ids):
        raise InvalidInput("runs", "have an id twice", got=len(ids), allowed=f"{len(set(ids))} ids")
    if places < 1:
        raise InvalidInput("places", "is out of range", got=places, allowed="1 or more")
    by_id = sorted(runs, key=lambda run: run.run_id)
    steps = {run.run_id: _unchanged(run) for run in by_id}
    best = _ranked(plan, by_id, plan.last_rung)[:1]
    steps |= {run.run_id: SweepStep.BEST for run in best}
    granted = sum(_granted_micro_usd(plan, run) for run in by_id)
    free = places - sum(step is SweepStep.CONTINUE for step in steps.values())
    is_spent = False
    for run, step, cost_micro_usd in _candidates(plan, by_id):
        if free < 1:
            break
        if granted + cost_micro_usd > plan.budget_micro_usd:
            is_spent = True
            break
        steps[run.run_id] = step
        granted, free = granted + cost_micro_usd, free - 1
    parked = [run for run in by_id if steps[run.run_id] is SweepStep.PARK]
    return SweepDecision(
        steps=steps,
        granted_micro_usd=granted,
        is_spent=is_spent,
        saved_micro_usd=sum(_unspent_micro_usd(plan, run) for run in parked),
        lost_chance=lost_chance(plan, by_id, parked),
    )


def budget_after(plan: SweepPlan, run: SweepRun, step: SweepStep) -> int:
    """The budget of this run in all after this step, in micro-USD; 0: nothing."""
    if step is SweepStep.START:
        return plan.rung_micro_usd(0)
    if run.granted is None:
        return 0
    return plan.rung_micro_usd(run.granted + (step is SweepStep.PROMOTE))


def _unchanged(run: SweepRun) -> SweepStep:
    """Without further dollars."""
    if run.is_over:
        return SweepStep.OVER
    if run.granted is None:
        return SweepStep.WAIT
    return SweepStep.PARK if run.has_reached(run.granted) else SweepStep.CONTINUE


def _candidates(plan: SweepPlan, runs: Sequence[SweepRun]) -> list[tuple[SweepRun, SweepStep, int]]:
    """The runs that may get dollars, with their cost, in the order in which they get them."""
    promoted = [
        (run, SweepStep.PROMOTE, plan.rung_micro_usd(rung + 1) - plan.rung_micro_usd(rung))
        for rung in reversed(range(plan.last_rung))
        for run in _promotable(plan, runs, rung)
    ]
    started = [
        (run, SweepStep.START, plan.rung_micro_usd(0))
        for run in runs
        if run.granted is None and not run.is_over
    ]
    # In the synchronous form a rung is complete only when every run has begun.
    return started + promoted if plan.waits_for_rung else promoted + started


def _promotable(plan: SweepPlan, runs: Sequence[SweepRun], rung: int) -> list[SweepRun]:
    """The best runs of this rung that have no dollars for the next one."""
    if plan.waits_for_rung and not all(_has_settled(plan, runs, r) for r in range(rung + 1)):
        return []
    return _best_left(plan, runs, rung)


def _best_left(plan: SweepPlan, runs: Sequence[SweepRun], rung: int) -> list[SweepRun]:
    reached = sum(run.has_reached(rung) for run in runs)
    count = reached // plan.reduction
    if plan.waits_for_rung:
        count = max(count, 1)
    top = _ranked(plan, runs, rung)[:count]
    kept = [run for run in runs if run.is_kept and run.has_reached(rung) and run not in top]
    return [run for run in (*top, *kept) if run.granted == rung and not run.is_over]


def _has_settled(plan: SweepPlan, runs: Sequence[SweepRun], rung: int) -> bool:
    """Has every run that comes to this rung reached it, once the rungs below have settled?"""
    alive = [run for run in runs if not run.is_over and not run.has_reached(rung)]
    if any(run.granted is not None and run.granted >= rung for run in alive):
        return False
    if rung == 0:
        return all(run.granted is not None for run in alive)
    return not _best_left(plan, runs, rung - 1)


def _ranked(plan: SweepPlan, runs: Sequence[SweepRun], rung: int) -> list[SweepRun]:
    """The runs with a metric at this rung, the best first; of equal ones the first id."""
    worth = {
        run.run_id: plan.worth(metric)
        for run in runs
        if run.has_reached(rung) and (metric := run.metrics[rung]) is not None
    }
    known = [run for run in runs if run.run_id in worth]
    return sorted(known, key=lambda run: (-worth[run.run_id], run.run_id))


def _granted_micro_usd(plan: SweepPlan, run: SweepRun) -> int:
    if run.granted is None or run.is_over:
        return run.spent_micro_usd
    return max(plan.rung_micro_usd(run.granted), run.spent_micro_usd)


def _unspent_micro_usd(plan: SweepPlan, run: SweepRun) -> int:
    return max(plan.rung_micro_usd(plan.last_rung) - run.spent_micro_usd, 0)


_FEWEST = 3
"""A line and its residual need as many points."""


def lost_chance(
    plan: SweepPlan, runs: Sequence[SweepRun], parked: Sequence[SweepRun]
) -> float | None:
    """How likely would a parked run have been the best of the last rung?

    From rung to rung the metric of a parked run is predicted by a line through the runs that went
    on (least squares), normal with the variance of a new value. Few runs go on, so that most of
    the error is the line's and common to all parked runs: the chance is that of the likeliest one.
    Those that went on are the best, and the line is extended to worse ones.

    Returns:
        0 to 1. None: no run has reached the last rung, or fewer than three runs with different
        metrics, or on one exact line, went from a rung to the next.
    """
    best = _ranked(plan, runs, plan.last_rung)[:1]
    if not best:
        return None
    to_beat = plan.worth(best[0].metrics[plan.last_rung] or 0.0)
    lines = [_line(plan, runs, rung) for rung in range(plan.last_rung)]
    likeliest = 0.0
    for run in parked:
        rung = len(run.metrics) - 1
        metric = run.metrics[rung] if 0 <= rung < plan.last_rung else None
        if metric is None:
            continue
        mean, variance = plan.worth(metric), 0.0
        for line in lines[rung:]:
            if line is None:
                return None
            try:
                variance = line.slope**2 * variance + line.variance_at(mean)
            except OverflowError:
                mean = -math.inf  # as the perplexity of a training that has diverged
                break
            mean = line.at(mean)
        if not math.isfinite(mean):
            continue
        chance = 0.5 * math.erfc((to_beat - mean) / math.sqrt(2 * variance))
        likeliest = max(likeliest, chance)
    return likeliest


@dataclass(frozen=True, slots=True)
class _Line:
    """The line from a metric to the next rung's."""

    middle: float
    mean: float
    slope: float
    residual: float
    """The variance around the line."""
    count: int
    squares: float

    def at(self, metric: float) -> float:
        return self.mean + self.slope * (metric - self.middle)

    def variance_at(self, metric: float) -> float:
        return self.residual * (1 + 1 / self.count + (metric - self.middle) ** 2 / self.squares)


def _line(plan: SweepPlan, runs: Sequence[SweepRun], rung: int) -> _Line | None:
    """Through the runs with a metric at this rung and the next one; None: they give none."""
    pairs = [
        (plan.worth(before), plan.worth(after))
        for run in runs
        if run.has_reached(rung + 1)
        and (before := run.metrics[rung]) is not None
        and (after := run.metrics[rung + 1]) is not None
    ]
    try:
        return _through(pairs)
    except OverflowError:
        return None


def _through(pairs: Sequence[tuple[float, float]]) -> _Line | None:
    n = len(pairs)
    if n < _FEWEST:
        return None
    middle, mean = math.fsum(x for x, _ in pairs) / n, math.fsum(y for _, y in pairs) / n
    squares = math.fsum((x - middle) ** 2 for x, _ in pairs)
    if min(x for x, _ in pairs) == max(x for x, _ in pairs):
        return None
    if not squares:  # so near to 0 that their squares are 0, as of likelihoods
        return None
    slope = math.fsum((x - middle) * (y - mean) for x, y in pairs) / squares
    residual = math.fsum((y - mean - slope * (x - middle)) ** 2 for x, y in pairs) / (n - 2)
    return _Line(middle, mean, slope, residual, n, squares) if residual else None
