"""The ledger's own history, replayed by the planner that schedules."""

import math
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from gpu_core.decisions.model.cluster import Flavor, Node
from gpu_core.decisions.model.units import SECONDS_PER_HOUR, format_duration
from gpu_core.decisions.optimization.proposals.interruption_model import (
    Hazard,
    Numbers,
    checkpoint_interval_s,
    observed_breaks,
)
from gpu_core.decisions.optimization.proposals.mean_held import (
    Indices,
    MeanHeld,
    mean_held,
    mean_held_with_interval,
)
from gpu_core.decisions.optimization.proposals.run_facts import Configuration, RunFact
from gpu_core.decisions.optimization.proposals.saves import observed_saves, simulated_with_saves_s
from gpu_core.decisions.policy.policy import Policy
from gpu_core.decisions.simulation.cluster.engine import SimulationOptions
from gpu_core.decisions.simulation.cluster.trace import Trace, TraceJob
from gpu_core.decisions.simulation.cluster.under_policy import simulate_policy

MOST_GPU_HOURS_ERROR = 0.02
MOST_WAIT_ERROR = 0.15
"""The largest error of the replay, as a part of what was recorded."""
LEAST_RUNS = 20
"""Fewer runs teach no usual delay, and a mean of their waits says nothing."""

_SIMULATED_RUNS = 1_000_000
"""Over all simulations of the period. How long a run holds its GPUs varies by its mean at most, as
the number of tries of the same work does: the standard error of the GPU-hours is a thousandth."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ReplayJob:
    """One run as it is replayed."""

    fact: RunFact
    flavor: Flavor
    gpu_count: int
    held_s: float
    """How long it holds its GPUs, all attempts together: the mean of many simulations."""
    held_error_s: float = 0.0
    """The standard error of this mean."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Calibration:
    """The replay of the period, with the recorded figures to compare it with."""

    runs: int
    recorded_gpu_hours: float
    replayed_gpu_hours: float
    recorded_wait_s: float
    replayed_wait_s: float
    gpu_hours_standard_error: float
    """Of the replayed GPU-hours, which are the mean of many simulations."""

    @property
    def gpu_hours_error(self) -> float:
        """As a part of the recorded GPU-hours."""
        return _error(self.replayed_gpu_hours, self.recorded_gpu_hours)

    @property
    def wait_error(self) -> float:
        """As a part of the recorded mean wait."""
        return _error(self.replayed_wait_s, self.recorded_wait_s)

    @property
    def is_close(self) -> bool:
        """Does the replay reproduce the period well enough to be believed?"""
        return (
            self.runs >= LEAST_RUNS
            and self.gpu_hours_error <= MOST_GPU_HOURS_ERROR
            and self.wait_error <= MOST_WAIT_ERROR
        )

    @property
    def sentence(self) -> str:
        """The accuracy of the replay, for people."""
        if self.runs < LEAST_RUNS:
            return (
                f"{self.runs} runs are not enough to validate the simulation ({LEAST_RUNS} "
                "required), so no savings are displayed."
            )
        said = (
            f"The replay of {self.runs:,} runs gives {self.replayed_gpu_hours:,.1f} GPU-hours "
            f"(standard error {self.gpu_hours_standard_error:,.1f}) where "
            f"{self.recorded_gpu_hours:,.1f} were recorded ({self.gpu_hours_error:.1%} off) "
            f"and a mean wait of {format_duration(self.replayed_wait_s)} where "
            f"{format_duration(self.recorded_wait_s)} was recorded ({self.wait_error:.0%} off)."
        )
        if self.is_close:
            return said
        return (
            f"{said} At most {MOST_GPU_HOURS_ERROR:.0%} and {MOST_WAIT_ERROR:.0%} are allowed, "
            "so no savings are displayed."
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class ReplayedPeriod:
    """The replayed period, with the run times that earlier days predict."""

    calibration: Calibration
    jobs: tuple[ReplayJob, ...]
    delay_s: float
    """The mean wait of a run that the planner would start at once."""


def calibrated(
    learned_from: Sequence[RunFact], facts: Sequence[RunFact], policy: Policy, seed: Sequence[int]
) -> ReplayedPeriod:
    """Does the replay reproduce these runs, with what earlier runs teach?

    Interruptions, start-up times and the delay before the planner sees a run come from the earlier
    runs; work, sizes and moments of submission are those of the runs that are replayed. Each run
    holds its GPUs as long as in the mean of many simulations.

    Args:
        learned_from: Runs before them.
        facts: The runs that are replayed.
        policy: The policy that was in force.
        seed: Of the interruptions.
    """
    learned = _jobs(learned_from, _breaks(learned_from), learned_from, seed)
    delay_s = max(0.0, _mean_wait_s(learned_from) - _mean(replayed_waits_s(learned, policy)))
    jobs = _jobs(facts, _breaks(learned_from), learned_from, seed)
    waits_s = replayed_waits_s(jobs, policy)
    return ReplayedPeriod(
        calibration=Calibration(
            runs=min(len(facts), len(learned_from)),
            recorded_gpu_hours=sum(fact.held_gpu_h for fact in facts),
            replayed_gpu_hours=sum(job.held_s * job.fact.gpus for job in jobs) / SECONDS_PER_HOUR,
            recorded_wait_s=_mean_wait_s(facts),
            replayed_wait_s=_mean(waits_s) + delay_s,
            gpu_hours_standard_error=_standard_error_gpu_h(jobs),
        ),
        jobs=jobs,
        delay_s=delay_s,
    )


def replayed_waits_s(jobs: Sequence[ReplayJob], policy: Policy) -> list[float]:
    """How long would each of these runs wait for GPUs? In their order; without the usual delay.

    The cluster has of each flavor as many GPUs as the runs held at once at most: more were never
    seen. A run that no node ever has room for waits until the end of the replay.
    """
    if not jobs:
        return []
    began_at = min(job.fact.run.submitted_at for job in jobs)
    trace = Trace(
        jobs=tuple(
            TraceJob(
                job_id=job.fact.run.flow_run_id,
                submit_s=(job.fact.run.submitted_at - began_at).total_seconds(),
                duration_s=job.held_s,
                gpu_count=job.gpu_count,
                gpu_types=(job.flavor.gpu_type,),
                capacity_type=job.flavor.capacity_type,
                team=job.fact.run.team,
                user=job.fact.run.user,
                deployment=job.fact.run.deployment,
                priority=job.fact.run.priority,
            )
            for job in jobs
        ),
        nodes=_nodes(jobs),
    )
    options = SimulationOptions(grace_s=policy.preemption.grace_period_s)
    done = simulate_policy(trace, policy, options)
    end_s = max((held.end_s for o in done.outcomes for held in o.attempts), default=0.0)
    return [
        (outcome.attempts[0].start_s if outcome.attempts else end_s) - outcome.job.submit_s
        for outcome in done.outcomes
    ]


def with_change(
    replayed: ReplayedPeriod, deployment: str, on: Configuration | None, held_s: Mapping[str, float]
) -> tuple[ReplayJob, ...]:
    """The same runs, with those of one deployment on another configuration.

    Args:
        replayed: What was.
        deployment: Whose runs change.
        on: What they are on; None: what they were on.
        held_s: How long they hold their GPUs there, by flow run.
    """
    return tuple(
        job
        if job.fact.run.deployment != deployment
        else ReplayJob(
            fact=job.fact,
            flavor=job.flavor if on is None else Flavor(on.gpu_type, on.capacity_type),
            gpu_count=job.gpu_count if on is None else on.gpu_count,
            held_s=held_s.get(job.fact.run.flow_run_id, job.held_s),
        )
        for job in replayed.jobs
    )


def _breaks(facts: Sequence[RunFact]) -> Mapping[Flavor, Hazard]:
    """The rate at which attempts on each flavor end before their run is over."""
    by_flavor = defaultdict(list)
    for fact in facts:
        for attempt in fact.attempts:
            by_flavor[Flavor(attempt.gpu_type or "", attempt.capacity_type)].append(attempt)
    return {flavor: observed_breaks(attempts) for flavor, attempts in by_flavor.items()}


def _jobs(
    facts: Sequence[RunFact],
    breaks: Mapping[Flavor, Hazard],
    learned_from: Sequence[RunFact],
    seed: Sequence[int],
) -> tuple[ReplayJob, ...]:
    """These runs, with how long they hold their GPUs by what was learned."""
    learned: dict[str | None, list[RunFact]] = defaultdict(list)
    for fact in learned_from:
        learned[fact.run.deployment].append(fact)
    rng = np.random.default_rng(seed)
    simulations = max(2, -(-_SIMULATED_RUNS // max(1, len(facts))))
    jobs: dict[str, ReplayJob] = {}
    by_deployment: dict[str | None, list[RunFact]] = defaultdict(list)
    for fact in facts:
        by_deployment[fact.run.deployment].append(fact)
    for deployment, runs in sorted(by_deployment.items(), key=lambda item: item[0] or ""):
        earlier = learned.get(deployment) or runs
        flavors = [
            Flavor(f.attempts[-1].gpu_type or "", f.attempts[-1].capacity_type) for f in runs
        ]
        rates = np.array([_rate(breaks, flavor) for flavor in flavors])
        held = _held(runs, earlier, rates, simulations, rng)
        for fact, flavor, mean_s, error_s in zip(
            runs, flavors, held.mean_s, held.error_s, strict=True
        ):
            jobs[fact.run.flow_run_id] = ReplayJob(
                fact=fact,
                flavor=flavor,
                gpu_count=fact.attempts[-1].gpu_count,
                held_s=float(mean_s),
                held_error_s=float(error_s),
            )
    return tuple(jobs[fact.run.flow_run_id] for fact in facts)


def _held(
    runs: Sequence[RunFact],
    earlier: Sequence[RunFact],
    rates: Numbers,
    simulations: int,
    rng: np.random.Generator,
) -> MeanHeld:
    """The time for which these runs hold their GPUs, if they start and save as earlier ones did."""
    startup_s = np.full(len(runs), _mean([fact.startup_s for fact in earlier]))
    saves = observed_saves(earlier)
    if saves is None:
        work_s, interval_s = np.array([f.work_s for f in runs]), checkpoint_interval_s(earlier)
        return mean_held_with_interval(work_s, rates, startup_s, interval_s, simulations, rng)
    useful_s = np.array([fact.useful_s for fact in runs])

    def simulate(chosen: Indices) -> Numbers:
        drawn = (useful_s[chosen], rates[chosen], startup_s[chosen])
        return simulated_with_saves_s(*drawn, saves, rng)

    return mean_held(simulate, len(runs), simulations)


def _standard_error_gpu_h(jobs: Sequence[ReplayJob]) -> float:
    """Of the GPU-hours of all jobs, whose simulations do not depend on each other."""
    return math.hypot(*(job.held_error_s * job.fact.gpus for job in jobs)) / SECONDS_PER_HOUR


def _rate(breaks: Mapping[Flavor, Hazard], flavor: Flavor) -> float:
    found = breaks.get(flavor)
    return 0.0 if found is None else found.per_hour


def _nodes(jobs: Sequence[ReplayJob]) -> tuple[Node, ...]:
    changes: dict[Flavor, list[tuple[float, int]]] = defaultdict(list)
    largest: dict[Flavor, int] = defaultdict(int)
    for job in jobs:
        start_s = job.fact.attempts[0].admitted_at.timestamp()
        changes[job.flavor] += [(start_s, job.gpu_count), (start_s + job.held_s, -job.gpu_count)]
        largest[job.flavor] = max(largest[job.flavor], job.gpu_count)
    return tuple(
        Node(
            name=f"{flavor.gpu_type}-{flavor.capacity_type}-{number}",
            gpu_type=flavor.gpu_type,
            gpu_ids=tuple(str(index) for index in range(largest[flavor])),
            capacity_type=flavor.capacity_type,
        )
        for flavor, of_flavor in sorted(changes.items())
        for number in range(-(-_peak(of_flavor) // largest[flavor]))
    )


def _peak(changes: Sequence[tuple[float, int]]) -> int:
    held = peak = 0
    # At one moment GPUs are given back before others are taken.
    for _, gpus in sorted(changes):
        held += gpus
        peak = max(peak, held)
    return peak


def _mean_wait_s(facts: Sequence[RunFact]) -> float:
    return _mean([fact.wait_s for fact in facts])


def _mean(values: Sequence[float] | Numbers) -> float:
    return float(sum(values) / len(values)) if len(values) else 0.0


def _error(replayed: float, recorded: float) -> float:
    if recorded:
        return abs(replayed - recorded) / recorded
    return 0.0 if not replayed else float("inf")
