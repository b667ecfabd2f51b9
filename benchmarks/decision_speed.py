"""How long decisions take: cycles of large pools, reclaims, a gang with hundreds of victims.

    python -m benchmarks.decision_speed --data DIR [--out results.json]

Processor time of one core, the planner alone. A worker keeps its planner from cycle to cycle and
reads every explanation, and Python seldom looks for garbage in it: so it is here. Its first cycle,
which reads all anew, is timed apart; both must make the same plan.
References: KAI's own thread on reclaiming (172 s to 166 s, its pull request 1809), Kueue's on a
gang with 700 victims (a cycle of 40 s, its issue 13148), and Kueue's large load test (1,179 s).
These schedulers write to a real API, in real time; here nothing is written. Where no number is
published, our own goal stands instead.
"""

import argparse
import json
import random
import time
from collections.abc import Iterator
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from pathlib import Path

from benchmarks.philly import Job, read_jobs
from benchmarks.report import percentile
from gpu_core.cli.simulate.command import replay_policies
from gpu_core.cli.simulate.options import SimulateOptions
from gpu_core.decisions.model.cluster import Allocation, Node, NodeShare, Placement, Snapshot
from gpu_core.decisions.model.workload import RunTime, RunTimeSource, Shape, Workload
from gpu_core.decisions.policy.policy import Policy, parse_policy
from gpu_core.decisions.scheduling.cycle.planner import (
    Planner,
    SnapshotPlanner,
    plan_cycle,
)
from gpu_core.decisions.scheduling.plan.plan import Admit, Plan, Preempt
from gpu_core.worker.operations.garbage import RareGarbageCollection

_NOW = datetime(2026, 9, 1, tzinfo=UTC)
_GPU_TYPE = "a100-80gb"
_GPUS = tuple("01234567")
_CYCLES = 20


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """One measured time and what it is compared with."""

    name: str
    seconds: float
    goal_s: float
    reference: str
    detail: str


def _node(number: int) -> Node:
    return Node(name=f"n{number:05d}", gpu_type=_GPU_TYPE, gpu_ids=_GPUS)


def _allocation(workload: Workload, node: str, gpus: tuple[str, ...], age_s: float) -> Allocation:
    return Allocation(
        workload=workload,
        attempt=1,
        placement=Placement(
            gpu_type=_GPU_TYPE,
            capacity_type="on-demand",
            shares=(NodeShare(node=node, gpu_ids=gpus),),
        ),
        admitted_at=_NOW - timedelta(seconds=age_s),
    )


def _workload(workload_id: str, rng: random.Random, job: Job, teams: int) -> Workload:
    """A workload of a job's size and length, of any team; over 8 GPUs it is a gang."""
    duration_s = job.duration_s + 60
    return Workload(
        workload_id=workload_id,
        name=workload_id,
        priority=rng.choice([100, 1_000, 1_000, 10_000]),
        submitted_at=_NOW - timedelta(seconds=rng.uniform(0, 86_400)),
        shape=Shape(gpu_count=min(8, job.gpus), nodes=max(1, -(-job.gpus // 8))),
        team=f"team-{rng.randrange(teams)}",
        run_time=RunTime(median_s=duration_s / 2, upper_s=duration_s, source=RunTimeSource.LEARNED),
    )


def _busy_pool(
    jobs: list[Job], pending: int, nodes: int, teams: int
) -> tuple[list[Node], list[Allocation], list[Workload]]:
    """Nine of ten GPUs in use; sizes and lengths drawn from October (seed 1)."""
    rng = random.Random(1)
    cluster = [_node(i) for i in range(nodes)]
    allocations: list[Allocation] = []
    for node in cluster:
        free = list(_GPUS)
        spare = rng.choice([0, 1, 1, 1, 1])
        while len(free) > spare:
            job = rng.choice(jobs)
            count = min(job.gpus, 8, len(free) - spare)
            workload = replace(
                _workload(f"r{len(allocations)}", rng, job, teams), shape=Shape(gpu_count=count)
            )
            age_s = rng.uniform(0, job.duration_s)
            allocations.append(_allocation(workload, node.name, tuple(free[:count]), age_s))
            free = free[count:]
    waiting = [_workload(f"p{i:06d}", rng, rng.choice(jobs), teams) for i in range(pending)]
    return cluster, allocations, waiting


def _quotas(teams: int, gpus: int) -> dict[str, object]:
    return {
        "teams": {
            f"team-{i}": {"nominal_quota": {"*": gpus // teams}, "cohort": f"cohort-{i % 10}"}
            for i in range(teams)
        },
        "cohorts": {f"cohort-{i}": {} for i in range(10)},
    }


def cycles(
    jobs: list[Job], *, pending: int, nodes: int, teams: int, with_quotas: bool, preempts: bool
) -> Iterator[Row]:
    """Cycles of a pool in which 1% of all workloads changes from one to the next."""
    policy = parse_policy(
        {
            "version": 1,
            "prices": {_GPU_TYPE: {"on-demand": 3.6}},
            "ordering": {"keys": ["priority", "fair-share", "submitted"]},
            "preemption": {"enabled": preempts},
            "quotas": _quotas(teams, nodes * 8) if with_quotas else None,
        }
    )
    pool = _Pool(policy, *_busy_pool(jobs, pending, nodes, teams))
    taken = [pool.cycle(step) for step in range(_CYCLES)]
    name = f"{pending:,} pending, {nodes:,} nodes, {teams} teams"
    what = f"quotas {'on' if with_quotas else 'off'}, preemption {'on' if preempts else 'off'}"
    for kind, times in (
        ("worker's cycle", [kept for kept, _ in taken[1:]]),
        ("its first cycle", [cold for _, cold in taken]),
    ):
        decided_s, reported_s = [t.decided_s for t in times], [t.reported_s for t in times]
        yield Row(
            name=f"{kind}, p99: {name}",
            seconds=percentile(reported_s, 0.99),
            goal_s=0.25,
            reference="–",
            detail=f"{what}; p50 {percentile(reported_s, 0.5):.3f} s; without explanations "
            f"p99 {percentile(decided_s, 0.99):.3f} s, p50 {percentile(decided_s, 0.5):.3f} s",
        )


class _Taken:
    """How long a cycle took that started then and has just made this plan."""

    def __init__(self, began: float, plan: Plan) -> None:
        self.decided_s = time.process_time() - began
        for _ in plan.explanations:
            pass
        self.reported_s = time.process_time() - began


class _Pool:
    """A pool over time: each plan is carried out, then 1% of all workloads changes.

    Args:
        policy: The rules.
        cluster: The nodes.
        allocations: What runs at first.
        waiting: What waits at first.
    """

    def __init__(
        self,
        policy: Policy,
        cluster: list[Node],
        allocations: list[Allocation],
        waiting: list[Workload],
    ) -> None:
        self._policy, self._cluster = policy, tuple(cluster)
        self._holders = {a.workload.workload_id: a for a in allocations}
        self._pending = {w.workload_id: w for w in waiting}
        self._waiting = waiting
        self._rng = random.Random(2)
        self._planner = SnapshotPlanner()

    def cycle(self, step: int) -> tuple[_Taken, _Taken]:
        """How long does a worker's cycle take, and how long one that reads all anew?"""
        now = _NOW + timedelta(seconds=30 * step)
        # As a worker makes them, anew for each cycle: equal to those of the last one.
        snapshot = Snapshot(
            nodes=self._cluster,
            allocations=tuple(replace(held) for held in self._holders.values()),
            pending=tuple(replace(workload) for workload in self._pending.values()),
        )
        began = time.process_time()
        plan = self._planner.plan(snapshot, self._policy, now)
        kept = _Taken(began, plan)
        began = time.process_time()
        again = plan_cycle(snapshot, self._policy, now)
        cold = _Taken(began, again)
        if plan != again:
            raise AssertionError("a planner that is kept plans something else")
        self._carry_out(plan, now)
        self._change(step, now)
        return kept, cold

    def _carry_out(self, plan: Plan, now: datetime) -> None:
        for command in plan.commands:
            match command:
                case Admit(workload_id=workload_id, placement=placement):
                    self._holders[workload_id] = Allocation(
                        workload=self._pending.pop(workload_id),
                        attempt=1,
                        placement=placement,
                        admitted_at=now,
                    )
                case Preempt(workload_id=workload_id):
                    victim = self._holders.pop(workload_id).workload
                    self._pending[workload_id] = victim

    def _change(self, step: int, now: datetime) -> None:
        for workload_id in self._rng.sample(sorted(self._holders), len(self._holders) // 100):
            del self._holders[workload_id]
        for i in range(len(self._waiting) // 100):
            newcomer = replace(
                self._rng.choice(self._waiting),
                workload_id=f"n{step}-{i}",
                name=f"n{i}",
                submitted_at=now,
            )
            self._pending[newcomer.workload_id] = newcomer


def reclaim() -> Row:
    """4,000 running one-GPU jobs of a team that has borrowed all, 4,000 pending of its owner."""
    policy = parse_policy(
        {
            "version": 1,
            "quotas": {
                "teams": {
                    "guest": {"nominal_quota": {"*": 0}, "cohort": "all"},
                    "owner": {"nominal_quota": {"*": 4000}, "cohort": "all"},
                },
                "cohorts": {"all": {}},
            },
        }
    )
    planner = Planner(policy, [_node(i) for i in range(500)])
    for i in range(4000):
        workload = Workload(
            workload_id=f"r{i}", name=f"r{i}", priority=1000, submitted_at=_NOW, team="guest"
        )
        planner.allocate(_allocation(workload, f"n{i // 8:05d}", (str(i % 8),), 3600 + i))
    for i in range(4000):
        workload = Workload(
            workload_id=f"p{i}", name=f"p{i}", priority=1000, submitted_at=_NOW, team="owner"
        )
        planner.submit(workload)
    began = time.process_time()
    plan = planner.plan(_NOW)
    return Row(
        name="reclaim 4,000 GPUs on 500 nodes",
        seconds=time.process_time() - began,
        goal_s=10.0,
        reference="KAI 166 s",
        detail=f"{len(plan.commands):,} victims",
    )


def gang() -> Row:
    """A gang of 350 nodes that has to evict two jobs on each."""
    planner = Planner(parse_policy({"version": 1}), [_node(i) for i in range(2000)])
    for i in range(4000):
        gpus = _GPUS[:4] if i % 2 else _GPUS[4:]
        workload = Workload(
            workload_id=f"r{i}",
            name=f"r{i}",
            priority=100,
            submitted_at=_NOW,
            shape=Shape(gpu_count=4),
        )
        planner.allocate(_allocation(workload, f"n{i // 2:05d}", gpus, 3600 + i))
    planner.submit(
        Workload(
            workload_id="gang",
            name="gang",
            priority=10_000,
            submitted_at=_NOW,
            shape=Shape(gpu_count=8, nodes=350),
        )
    )
    began = time.process_time()
    plan = planner.plan(_NOW)
    return Row(
        name="gang of 350 nodes × 8 GPUs among 2,000",
        seconds=time.process_time() - began,
        goal_s=2.0,
        reference="Kueue 40 s",
        detail=f"{len(plan.commands):,} victims",
    )


def kueue_large() -> Iterator[Row]:
    """Kueue's large load test: 50,000 jobs of 1,000 queues in 10 cohorts, nominal quota for all.

    All jobs of a moment arrive before its cycle, which starts every one that fits; Kueue's looks
    at the first of each queue.
    """
    options = SimulateOptions(
        workload="large", format="kueue", nodes="1000x20", policies=("fifo",), as_json=True
    )
    (replay,) = replay_policies(options)
    done = f"{replay.metrics.finished:,} of {replay.metrics.jobs:,} jobs, {replay.cycles} cycles"
    name = "Kueue's large load test, simulated"
    yield Row(name=name, seconds=replay.cpu_s, goal_s=20.0, reference="Kueue 1,179 s", detail=done)
    if replay.cycle_s is not None:
        yield Row(
            name=f"{name}: a cycle, p99",
            seconds=replay.cycle_s.p99,
            goal_s=0.2,
            reference="–",
            detail=f"{done}; p50 {replay.cycle_s.p50:.3f}",
        )


def rows(jobs: list[Job], *, with_large: bool = False) -> Iterator[Row]:
    """All measurements, the short ones first."""
    yield gang()
    yield reclaim()
    yield from kueue_large()
    size = {"pending": 10_000, "nodes": 1_000, "teams": 100}
    yield from cycles(jobs, **size, with_quotas=False, preempts=False)
    yield from cycles(jobs, **size, with_quotas=True, preempts=False)
    yield from cycles(jobs, **size, with_quotas=True, preempts=True)
    if with_large:
        size = {"pending": 100_000, "nodes": 10_000, "teams": 100}
        yield from cycles(jobs, **size, with_quotas=False, preempts=False)
        yield from cycles(jobs, **size, with_quotas=True, preempts=False)
        yield from cycles(jobs, **size, with_quotas=True, preempts=True)


def _as_in_a_worker(measured: Iterator[Row]) -> Iterator[Row]:
    with RareGarbageCollection():
        yield from measured


def main() -> None:
    """Measure, print each row as it comes, and write them."""
    parser = argparse.ArgumentParser(description="How long decisions take.")
    parser.add_argument("--data", type=Path, required=True, help="the folder of the traces")
    parser.add_argument("--large", action="store_true", help="100,000 pending × 10,000 nodes too")
    parser.add_argument("--out", type=Path, help="write the results here, as JSON")
    options = parser.parse_args()
    found = {}
    print(f"{'':63}{'seconds':>9}{'goal':>8}  reference")
    for row in _as_in_a_worker(rows(read_jobs(options.data), with_large=options.large)):
        verdict = "" if row.seconds <= row.goal_s else "  MISSED"
        print(
            f"{row.name:66}{row.seconds:>9.3f}{row.goal_s:>8.2f}  {row.reference:10}"
            f"  {row.detail}{verdict}",
            flush=True,
        )
        found[f"{row.name} ({row.detail.split(';')[0]})"] = {
            "seconds": row.seconds,
            "goal_s": row.goal_s,
            "reference": row.reference,
        }
    if options.out is not None:
        options.out.write_text(json.dumps(found, indent=2) + "\n")


if __name__ == "__main__":
    main()
