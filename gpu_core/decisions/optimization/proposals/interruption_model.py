"""How long does work hold its GPUs on capacity that is interrupted?"""

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from gpu_core.decisions.model.attempts import Attempt
from gpu_core.decisions.model.interruption_hazard import SPOT_PRIOR
from gpu_core.decisions.model.units import SECONDS_PER_HOUR
from gpu_core.decisions.optimization.proposals.run_facts import RunFact, held_s

Numbers = NDArray[np.float64]

_PRIOR_INTERRUPTIONS = 4.0
"""As many as the prior counts for in `model.interruption_hazard`."""

MOST_EXPECTED_INTERRUPTIONS = 3.0
"""Of one run. Work that is interrupted more often and saves nothing needs exp(3) = 20 times its
time on average: that is no proposal."""

_MOST_ROUNDS = 10_000


@dataclass(frozen=True, slots=True, kw_only=True)
class Hazard:
    """The rate of interruptions of attempts on some capacity: an occurrence-exposure rate."""

    interruptions: float
    exposure_h: float
    """Hours that attempts held it."""

    @property
    def per_hour(self) -> float:
        """The rate; 0 where nothing was observed."""
        return self.interruptions / self.exposure_h if self.exposure_h else 0.0

    def draws(self, rng: np.random.Generator, count: int) -> Numbers:
        """Rates that fit what was observed, from the posterior of a Poisson rate.

        Gamma(interruptions + 1/2, exposure): Jeffreys' prior (Gelman et al., Bayesian Data
        Analysis, 3rd edition, section 2.8).
        """
        if not self.exposure_h:
            return np.zeros(count)
        return rng.gamma(self.interruptions + 0.5, 1 / self.exposure_h, size=count)


def observed_hazard(attempts: Iterable[Attempt]) -> Hazard:
    """How often did these attempts, which are over, lose their capacity?"""
    counted = list(attempts)
    return Hazard(
        interruptions=sum(attempt.lost_capacity for attempt in counted),
        exposure_h=sum(held_s(attempt) for attempt in counted) / SECONDS_PER_HOUR,
    )


def prior_hazard(attempt_s: float) -> Hazard:
    """How often are attempts of this length interrupted on spot of which nothing was observed?

    The cumulative hazard of `SPOT_PRIOR` up to that age, divided by the age.
    """
    stages = SPOT_PRIOR.stages
    ends_s = [stage.from_age_s for stage in stages[1:]] + [math.inf]
    expected = sum(
        max(0.0, min(attempt_s, end_s) - stage.from_age_s) / stage.mean_life_s
        for stage, end_s in zip(stages, ends_s, strict=True)
    )
    exposure_h = _PRIOR_INTERRUPTIONS * attempt_s / expected / SECONDS_PER_HOUR if expected else 0.0
    return Hazard(interruptions=_PRIOR_INTERRUPTIONS, exposure_h=exposure_h)


def observed_breaks(attempts: Iterable[Attempt]) -> Hazard:
    """How often did these attempts end before their run was over, for any reason?"""
    counted = list(attempts)
    return Hazard(
        interruptions=sum(a.end_reason is not None and a.end_reason.resumes for a in counted),
        exposure_h=sum(held_s(attempt) for attempt in counted) / SECONDS_PER_HOUR,
    )


def checkpoint_interval_s(facts: Sequence[RunFact]) -> float | None:
    """How much work lies between two checkpoints of these runs, as far as their attempts show it?

    Twice the mean loss: an interruption comes anywhere between two saves. The loss that a flow
    measures counts before the one that interruptions show.

    Returns:
        None: no checkpoint was ever seen, so that an interruption loses all of an attempt.
    """
    attempts = [attempt for fact in facts for attempt in fact.attempts]
    stated = [a.expected_loss_s for a in attempts if a.expected_loss_s is not None]
    if stated:
        return 2 * sum(stated) / len(stated)
    seen = [
        (a.released_at - a.checkpointed_at).total_seconds()
        for a in attempts
        if a.end_reason is not None
        and a.end_reason.resumes
        and a.released_at is not None
        and a.checkpointed_at is not None
    ]
    return 2 * max(0.0, sum(seen) / len(seen)) if seen else None


def expected_held_s(work_s: Numbers, rate_per_hour: Numbers, startup_s: Numbers) -> Numbers:
    """How long do these runs hold their GPUs in the mean, where none saves a checkpoint?

    One attempt must last for all of the work: at the rate r an attempt of length t takes
    (exp(r t) - 1) / r, with those that are interrupted before it (Daly, "A higher order estimate",
    Future Generation Computer Systems 22, 2006). Args as for `simulated_held_s`.
    """
    needed_s = startup_s + work_s
    rate_per_s = rate_per_hour / SECONDS_PER_HOUR
    # A rate next to zero has no digits left in the difference; a high one has no end.
    is_calm = rate_per_s * needed_s < 1e-9
    with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
        repeated_s = np.expm1(rate_per_s * needed_s) / rate_per_s
        longest_s = _MOST_ROUNDS / rate_per_s
    held_s: Numbers = np.where(is_calm, needed_s, np.minimum(repeated_s, longest_s))
    return held_s


def simulated_held_s(
    work_s: Numbers,
    rate_per_hour: Numbers,
    startup_s: Numbers,
    interval_s: float | None,
    rng: np.random.Generator,
) -> Numbers:
    """How long do these runs hold their GPUs until their work is done?

    Interruptions are a Poisson process. Each attempt starts up again, and loses the work since the
    last checkpoint, uniform over the interval; without checkpoints all of its work.

    Args:
        work_s: Work of each run, in seconds without interruption.
        rate_per_hour: Interruptions per hour, for each run.
        startup_s: From each attempt's admission to its first step.
        interval_s: Work between two checkpoints; None: no checkpoints.
        rng: Seeded.
    """
    left_s = np.array(work_s, dtype=np.float64)
    held = np.zeros_like(left_s)
    open_ = np.flatnonzero(np.ones_like(left_s))
    for _ in range(_MOST_ROUNDS):
        if not open_.size:
            break
        rate_per_s = rate_per_hour[open_] / SECONDS_PER_HOUR
        # A rate of zero, or next to it: it is never interrupted.
        with np.errstate(divide="ignore", over="ignore"):
            life_s = rng.exponential(size=open_.size) / rate_per_s
        needed_s = startup_s[open_] + left_s[open_]
        is_done = life_s >= needed_s
        held[open_] += np.where(is_done, needed_s, life_s)
        if interval_s is not None:
            done_s = np.maximum(0.0, life_s - startup_s[open_])
            saved_s = np.maximum(0.0, done_s - rng.uniform(0.0, interval_s, size=open_.size))
            left_s[open_] -= np.where(is_done, 0.0, saved_s)
        open_ = open_[~is_done]
    return held
