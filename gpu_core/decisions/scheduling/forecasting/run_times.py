"""The time that a run will take: stated by its owner, or learned from the runs before it."""

import math
from collections import OrderedDict
from dataclasses import dataclass
from statistics import NormalDist
from typing import NamedTuple

from gpu_core.decisions.model.recent_sample import RecentSample
from gpu_core.decisions.model.workload import RunTime, RunTimeSource, Workload
from gpu_core.decisions.policy.run_times import UPPER_QUANTILE, RunTimePolicy

_NORMAL = NormalDist()


class _Group(NamedTuple):
    """Runs that are thought to take about as long as each other."""

    scope: str
    name: str | None = None
    gpus: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class RunKind:
    """The properties that a run shares with the runs that its run time is learned from."""

    deployment: str | None = None
    """The deployment's id; None: the run has none."""
    team: str | None = None
    gpus: int
    """GPUs over all nodes."""

    def groups(self) -> tuple[_Group, ...]:
        """The groups it belongs to, most alike first; the whole pool is the last."""
        own = [
            group
            for scope, name in (("deployment", self.deployment), ("team", self.team))
            if name is not None
            for group in (_Group(scope, name, self.gpus), _Group(scope, name))
        ]
        return (*own, _Group("pool"))


class RunTimeHistory:
    """The durations of finished runs, by group. Fed by the worker, one run at a time.

    Each group keeps its latest durations, so that it follows a deployment that changes; the
    groups that have gone longest without a finished run are forgotten first.

    Args:
        runs_per_group: Durations kept in each group.
        max_groups: Groups kept.
    """

    def __init__(self, runs_per_group: int = 200, max_groups: int = 5_000) -> None:
        self._runs_per_group = runs_per_group
        self._max_groups = max_groups
        self._groups: OrderedDict[_Group, RecentSample] = OrderedDict()
        # What is asked again before another run has finished: thousands that wait are of few kinds.
        self._learned: dict[tuple[RunKind, float, int], RunTime | None] = {}

    def observe(self, kind: RunKind, duration_s: float) -> None:
        """Learn that a run of this kind took this long.

        Args:
            kind: The run that finished by itself; a stopped one says nothing about its length.
            duration_s: Its uninterrupted run time, 0 or more.
        """
        self._learned.clear()
        for group in kind.groups():
            if group not in self._groups:
                self._groups[group] = RecentSample(self._runs_per_group)
            self._groups[group].add(duration_s)
            self._groups.move_to_end(group)
        while len(self._groups) > self._max_groups:
            self._groups.popitem(last=False)

    def upper_s(
        self, kind: RunKind, quantile: float, min_runs: int, elapsed_s: float = 0.0
    ) -> float | None:
        """The time that a run of this kind stays under with this probability.

        The most alike group with enough runs that took longer than `elapsed_s` says it. None: no
        group has them.
        """
        for group in kind.groups():
            sample = self._groups.get(group)
            if sample is None or len(sample) < min_runs:
                continue
            upper = sample.upper(quantile, above=elapsed_s)
            if upper is not None:
                return upper
        return None

    def learned(self, kind: RunKind, policy: RunTimePolicy) -> RunTime | None:
        """How long do runs of this kind take? None: too few have finished."""
        question = (kind, policy.quantile, policy.min_runs)
        if question not in self._learned:
            if len(self._learned) >= self._max_groups:
                self._learned.clear()
            self._learned[question] = self._learn(kind, policy)
        return self._learned[question]

    def _learn(self, kind: RunKind, policy: RunTimePolicy) -> RunTime | None:
        for group in kind.groups():
            sample = self._groups.get(group)
            if sample is None or len(sample) < policy.min_runs:
                continue
            median, upper = sample.upper(0.5), sample.upper(policy.quantile)
            if median is not None and upper is not None:
                return RunTime(median_s=median, upper_s=upper, source=RunTimeSource.LEARNED)
        return None


class Estimate(NamedTuple):
    """The expected run time of a run that waits, and the rest of it."""

    run_time: RunTime | None
    """How long it takes; None: unknown."""
    remaining_s: float | None
    """How much of that is left; None: nothing of it is saved, or that is unknown."""


def estimate_of(
    workload: Workload,
    saved_s: float | None,
    *,
    deployment: str | None,
    limit_s: float | None,
    history: RunTimeHistory,
    policy: RunTimePolicy,
) -> Estimate:
    """How long will this workload take, and how much of that is left?

    Args:
        workload: As its request made it.
        saved_s: The run time that checkpoints of its earlier attempts hold; None: it has had no
            attempt, or nothing is known of them.
        deployment: What its run time is learned by.
        limit_s: When an attempt of it would be stopped; None: never.
        history: What earlier runs took.
        policy: How run times are estimated.
    """
    kind = RunKind(deployment=deployment, team=workload.team, gpus=workload.shape.total_gpus)
    estimate = run_time(
        kind, history, policy, stated_s=workload.expected_duration_s, limit_s=limit_s
    )
    # A limit is for each attempt: what others saved does not shorten it.
    if saved_s is None or estimate is None or estimate.source is RunTimeSource.LIMIT:
        return Estimate(estimate, None)
    return Estimate(estimate, remaining_s(estimate, saved_s, history, kind, policy))


def run_time(
    kind: RunKind,
    history: RunTimeHistory,
    policy: RunTimePolicy,
    *,
    stated_s: float | None = None,
    limit_s: float | None = None,
) -> RunTime | None:
    """How long will this run take?

    Args:
        stated_s: What its owner expects; None: nothing.
        limit_s: When it would be stopped; None: never. No estimate is over it.

    Returns:
        The first that is known of: stated, learned, its limit. None: none is.
    """
    if stated_s is not None and policy.use_stated:
        return _limited(_exactly(stated_s, RunTimeSource.STATED), limit_s)
    learned = history.learned(kind, policy)
    if learned is not None:
        return _limited(learned, limit_s)
    if limit_s is not None:
        return _exactly(limit_s, RunTimeSource.LIMIT)
    return None


def remaining_s(
    run_time: RunTime | None,
    elapsed_s: float,
    history: RunTimeHistory,
    kind: RunKind,
    policy: RunTimePolicy,
) -> float | None:
    """How much longer will a run continue at most, now that it has run this long?

    The quantile of D - e given D > e, of the runs of its kind that also ran longer than e. What
    an owner stated holds until the run has outlasted it; a limit holds always.

    Args:
        run_time: What was thought when it started; None: nothing.
        elapsed_s: What it has run without interruption, 0 or more.

    Returns:
        Seconds, 0 or more; None: nothing is known.
    """
    if run_time is not None and (
        run_time.source is RunTimeSource.LIMIT
        or (_is_exact(run_time) and elapsed_s < run_time.upper_s)
    ):
        return expected_end_s(run_time, elapsed_s, policy.quantile)
    upper = history.upper_s(kind, policy.quantile, policy.min_runs, elapsed_s)
    if upper is not None:
        return upper - elapsed_s
    return expected_end_s(run_time, elapsed_s, policy.quantile)


def expected_end_s(
    run_time: RunTime | None, elapsed_s: float, quantile: float = UPPER_QUANTILE
) -> float | None:
    """How much longer will a run continue at most, from its run time alone?

    Before the run has outlasted an exact estimate: the rest of it. After that, as long again as
    it has run: P(D > x | D > e) = e / x, whose median residual is e (Harchol-Balter & Downey,
    ACM TOCS 15(3), 1997). Backfill schedulers that plan with predictions also lengthen them in
    growing steps once they are outlasted (Tsafrir, Etsion & Feitelson, IEEE TPDS 18(6), 2007).

    With a median m and an upper quantile u: the conditional quantile of the log-normal through
    both, whose tail is heavy too. It meets u for a run that has just started.

    Args:
        run_time: What is thought of it; None: nothing.
        elapsed_s: What it has run without interruption, 0 or more.
        quantile: The probability that `upper_s` of the run time stands for.

    Returns:
        Seconds, 0 or more; None: nothing is known.
    """
    if run_time is None:
        return None
    if run_time.source is RunTimeSource.LIMIT:
        return max(run_time.upper_s - elapsed_s, 0.0)
    if _is_exact(run_time) or elapsed_s <= 0:
        rest_s = run_time.upper_s - elapsed_s
        return rest_s if rest_s > 0 else elapsed_s
    return _log_normal_rest_s(run_time, elapsed_s, quantile)


def _log_normal_rest_s(run_time: RunTime, elapsed_s: float, quantile: float) -> float:
    scale = math.log(run_time.upper_s / run_time.median_s) / _NORMAL.inv_cdf(quantile)
    survival = _NORMAL.cdf(-math.log(elapsed_s / run_time.median_s) / scale)
    beyond = (1 - quantile) * survival
    if beyond <= 0:  # so far out in the tail that floats are equal
        return elapsed_s
    return max(run_time.median_s * math.exp(-scale * _NORMAL.inv_cdf(beyond)) - elapsed_s, 0.0)


def _is_exact(run_time: RunTime) -> bool:
    return not 0 < run_time.median_s < run_time.upper_s


def _exactly(duration_s: float, source: RunTimeSource) -> RunTime:
    return RunTime(median_s=duration_s, upper_s=duration_s, source=source)


def _limited(estimate: RunTime, limit_s: float | None) -> RunTime:
    if limit_s is None or estimate.upper_s <= limit_s:
        return estimate
    return RunTime(
        median_s=min(estimate.median_s, limit_s), upper_s=limit_s, source=estimate.source
    )
