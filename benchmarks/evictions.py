"""How often are runs preempted, and how long do they wait, under each rule?

    python -m benchmarks.evictions --data DIR [--half 1] [--seed 0] [--rule default ...]

One of four jobs of Philly's October 2017, on 20 nodes of 8 GPUs, under the default policy, without
known run times. Jobs drawn at random are critical until they have 30% of the GPU-hours; all others
are low. A job saves at its notice, and takes 5 min to restart, as in `benchmarks/month.py`. Rules
are developed on the first half of the month; the second is reported.

The goals, a third fewer preemptions and a third less wait at an equal p99 of the critical class,
are near what GFS reports on a trace of its own: 33 and 44% (ASPLOS'26, arXiv 2509.11134).
"""

import argparse
import json
import random
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from statistics import mean

from benchmarks.philly import Job, read_jobs
from gpu_core.adapters.traces.clusters import shorthand_nodes
from gpu_core.decisions.policy.policy import Policy, parse_policy
from gpu_core.decisions.scheduling.cycle.planner import Planner
from gpu_core.decisions.simulation.cluster.engine import SimulationOptions, simulate
from gpu_core.decisions.simulation.cluster.outcomes import Simulation
from gpu_core.decisions.simulation.cluster.run_time_oracle import NoRunTimes
from gpu_core.decisions.simulation.cluster.trace import Trace, TraceJob, whole_nodes
from gpu_core.decisions.simulation.policies.metrics import metrics, spread, wait_s

_NODES, _GPUS_PER_NODE, _ONE_OF = "20x8", 8, 4
_HALF_S = 15 * 86_400
_CRITICAL, _LOW = 1_000_000, 100
_CRITICAL_SHARE = 0.3
_RESTART_S = 5 * 60.0
_LEAST_ATTAINED = {"keys": ["priority", "least-attained-service"]}
_RULES: dict[str, dict[str, object]] = {
    "default": {},
    "max_protection": {"preemption": {"max_protection": "1h"}},
    "spare_gpus": {"preemption": {"spare_gpus": 1}},
    "least_attained": {"ordering": _LEAST_ATTAINED},
    "least_attained_spare_1": {"ordering": _LEAST_ATTAINED, "preemption": {"spare_gpus": 1}},
    "least_attained_spare_2": {"ordering": _LEAST_ATTAINED, "preemption": {"spare_gpus": 2}},
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Found:
    """What came of one rule."""

    preemptions: int
    most_of_one_run: int
    low_wait_s: float
    """The mean; what restarts cost included."""
    low_p95_wait_s: float
    low_longest_wait_s: float
    low_preempted_wait_s: float
    """The mean of those that were preempted at least once."""
    critical_wait_s: float
    critical_p99_wait_s: float
    lost_gpu_h: float


def half_month(jobs: Sequence[Job], half: int, seed: int) -> tuple[TraceJob, ...]:
    """The jobs of the first or second half, with their classes."""
    rng = random.Random(seed)
    chosen = [
        job
        for job in jobs
        if (job.submit_s < _HALF_S) == (half == 1) and rng.randrange(_ONE_OF) == 0
    ]
    drawn = [job for job in chosen if job.gpus]
    rng.shuffle(drawn)
    left_gpu_s = _CRITICAL_SHARE * sum(job.duration_s * job.gpus for job in drawn)
    critical = set()
    for job in drawn:
        if left_gpu_s <= 0:
            break
        left_gpu_s -= job.duration_s * job.gpus
        critical.add(job.job_id)
    first_s = min(job.submit_s for job in chosen)
    return tuple(
        _trace_job(job, first_s, _CRITICAL if job.job_id in critical else _LOW) for job in chosen
    )


def _trace_job(job: Job, first_s: float, priority: int) -> TraceJob:
    nodes, gpu_count = whole_nodes(job.gpus, _GPUS_PER_NODE)
    return TraceJob(
        job_id=str(job.job_id),
        submit_s=job.submit_s - first_s,
        duration_s=job.duration_s,
        gpu_count=gpu_count,
        nodes=nodes,
        priority=priority,
    )


def replay(jobs: tuple[TraceJob, ...], policy: Policy) -> Found:
    """What would have come of these jobs under this policy?"""
    trace = Trace(jobs=jobs, nodes=shorthand_nodes(_NODES))
    options = SimulationOptions(
        restart_s=_RESTART_S,
        grace_s=policy.preemption.grace_period_s,
        min_runtime_s=policy.preemption.min_runtime_s,
        max_protection_s=policy.preemption.max_protection_s,
    )
    return found(simulate(trace, Planner(policy, trace.nodes), NoRunTimes(), options), trace)


def found(simulation: Simulation, trace: Trace) -> Found:
    """The numbers of one replay."""

    def waited_s(priority: int = _LOW, *, at_least: int = 0) -> list[float]:
        return [
            wait_s(outcome)
            for outcome in simulation.outcomes
            if outcome.job.priority == priority
            and outcome.finished_s is not None
            and outcome.preemptions >= at_least
        ]

    low, critical = spread(waited_s()), spread(waited_s(_CRITICAL))
    return Found(
        preemptions=sum(outcome.preemptions for outcome in simulation.outcomes),
        most_of_one_run=max(outcome.preemptions for outcome in simulation.outcomes),
        low_wait_s=0.0 if low is None else low.mean,
        low_p95_wait_s=0.0 if low is None else low.p95,
        low_longest_wait_s=max(waited_s(), default=0.0),
        low_preempted_wait_s=mean(waited_s(at_least=1) or [0.0]),
        critical_wait_s=0.0 if critical is None else critical.mean,
        critical_p99_wait_s=0.0 if critical is None else critical.p99,
        lost_gpu_h=metrics(simulation, gpus=trace.gpus).lost_gpu_h,
    )


def main() -> None:
    """Replay under each rule, print one below the other, and write them."""
    parser = argparse.ArgumentParser(description="Preemptions and waits under each rule.")
    parser.add_argument("--data", type=Path, required=True, help="the folder of the traces")
    parser.add_argument("--half", type=int, choices=(1, 2), default=2, help="of October")
    parser.add_argument("--seed", type=int, default=0, help="draws the critical jobs")
    parser.add_argument("--rule", choices=_RULES, action="append", help="only these; default: all")
    parser.add_argument("--out", type=Path, help="write the results here, as JSON")
    options = parser.parse_args()
    jobs = half_month(read_jobs(options.data), options.half, options.seed)
    rows = {}
    for rule in options.rule or _RULES:
        policy = parse_policy({"version": 1, **_RULES[rule]})
        rows[rule] = asdict(replay(jobs, policy))
        numbers = "  ".join(f"{key} {value:,.0f}" for key, value in rows[rule].items())
        print(rule, numbers, flush=True)
    if options.out:
        options.out.write_text(json.dumps(rows, indent=2) + "\n")


if __name__ == "__main__":
    main()
