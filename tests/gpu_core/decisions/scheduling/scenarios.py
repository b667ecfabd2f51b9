"""Small pools of every kind from a number: a seed is drawn fast, and repeats a failure."""

import random
from dataclasses import dataclass, replace
from datetime import datetime, timedelta

from gpu_core.decisions.model.cluster import Allocation, Node, PastUsage, Snapshot
from gpu_core.decisions.model.reasons import Reason
from gpu_core.decisions.model.workload import Hold, RunTime, RunTimeSource, Workload
from gpu_core.decisions.placement.cluster_info import ClusterInfo
from gpu_core.decisions.policy.placement import Strategy
from gpu_core.decisions.policy.policy import Policy
from gpu_core.decisions.scheduling.plan.plan import Admit, Plan, Preempt
from gpu_core.testing.builders.workloads import (
    HIGH,
    LOW,
    MEDIUM,
    ago,
    make_node,
    make_policy,
    make_workload,
)

TEAMS = ("a", "b", "c")
HOLD = Hold(reason=Reason.HELD, summary="Held by a person.", resolution="Release it.")


@dataclass(frozen=True)
class Scenario:
    """A pool at one moment, and its policy."""

    snapshot: Snapshot
    policy: Policy


def scenario(seed: int, **sections: object) -> Scenario:
    """The pool of this number; these sections of the policy are not left to chance."""
    rng = random.Random(seed)
    nodes = tuple(_node(rng, f"n{i}") for i in range(rng.randint(1, 4)))
    strategies = list(Strategy)
    placement = {"strategy": strategies[seed % len(strategies)].value}
    policy = make_policy(**{"placement": placement, **_sections(rng), **sections})
    cluster = ClusterInfo(nodes)
    allocations = []
    for i in range(rng.randint(0, 8)):
        workload = a_workload(rng, f"r{i}")
        placement = cluster.find(workload.shape)
        if placement is None or not workload.shape.gpu_count:
            continue
        cluster.allocate(workload.shape, placement)
        is_draining = rng.random() < 0.15
        # Started with its admission, or later, or not yet: within its time or after it.
        began_at = rng.choice([None, ago(rng.randint(0, 100))])
        begins_by = rng.choice([None, None, ago(rng.randint(-600, 100))])
        allocations.append(
            Allocation(
                workload=workload,
                attempt=1,
                placement=placement,
                admitted_at=ago(rng.randint(0, 4_000)),
                began_at=began_at,
                begins_by=begins_by,
                checkpointed_at=rng.choice([None, ago(rng.randint(0, 900))]),
                is_draining=is_draining,
                drain_deadline_at=ago(-20) if is_draining else None,
            )
        )
    pending = tuple(a_workload(rng, f"p{i}") for i in range(rng.randint(1, 9)))
    usage = PastUsage(gpu_s_by_user={(team, None): rng.randint(0, 9) * 3600.0 for team in TEAMS})
    return Scenario(
        Snapshot(nodes=nodes, allocations=tuple(allocations), pending=pending, usage=usage), policy
    )


def a_workload(rng: random.Random, workload_id: str) -> Workload:
    """A workload that a small pool may or may not hold."""
    run_time_s = rng.choice([None, 600, 1_800, 7_200])
    return make_workload(
        workload_id,
        rng.choice([0, 1, 1, 1, 2, 2, 4]),
        nodes=rng.choice([1, 1, 1, 1, 2]),
        priority=rng.choice([LOW, MEDIUM, MEDIUM, HIGH]),
        submitted_at=ago(rng.randint(0, 20) * 50),
        gpu_types=rng.choice([(), (), ("t4",), ("a100-80gb", "t4")]),
        team=rng.choice([*TEAMS, None]),
        user=rng.choice(["u", "v", None]),
        group=rng.choice([None, None, None, "sweep"]),
        run_time=None
        if run_time_s is None
        else RunTime(median_s=run_time_s / 2, upper_s=run_time_s, source=RunTimeSource.LEARNED),
        attained_gpu_s=rng.choice([0.0, 0.0, 9_000.0]),
        deadline_at=rng.choice([None, ago(-9_000)]),
        is_preemptible=rng.random() < 0.85,
        min_runtime_s=rng.choice([0, 0, 600]),
        preemption_cost_s=rng.choice([None, None, 0.0, 60.0, 2_000.0]),
        max_protection_s=rng.choice([0.0, 1_000.0]),
        priority_override=rng.choice([0] * 9 + [1]),
        hold=HOLD if rng.random() < 0.05 else None,
        takes_free_only=rng.random() < 0.05,
    )


def applied(scenario: Scenario, plan: Plan, now: datetime) -> Scenario:
    """The pool after the plan: admitted workloads hold GPUs, preempted ones drain."""
    snapshot = scenario.snapshot
    pending = {w.workload_id: w for w in snapshot.pending}
    running = {a.workload.workload_id: a for a in snapshot.allocations}
    preemptors = set(snapshot.preemptors)
    for command in plan.commands:
        match command:
            case Preempt(workload_id=victim, for_workload_id=preemptor):
                running[victim] = replace(
                    running[victim],
                    is_draining=True,
                    drain_deadline_at=now + timedelta(seconds=30),
                    draining_for=preemptor,
                )
                preemptors.add(preemptor)
            case Admit(workload_id=workload_id, placement=placement):
                running[workload_id] = Allocation(
                    workload=pending.pop(workload_id),
                    attempt=1,
                    placement=placement,
                    admitted_at=now,
                )
                preemptors.discard(workload_id)
    return replace(
        scenario,
        snapshot=replace(
            snapshot,
            pending=tuple(pending.values()),
            allocations=tuple(running.values()),
            preemptors=frozenset(preemptors),
        ),
    )


def drained(scenario: Scenario) -> Scenario:
    """The pool once all draining workloads have ended and are pending again."""
    snapshot = scenario.snapshot
    gone = [a.workload for a in snapshot.allocations if a.is_draining]
    staying = tuple(a for a in snapshot.allocations if not a.is_draining)
    return replace(
        scenario,
        snapshot=replace(snapshot, allocations=staying, pending=(*snapshot.pending, *gone)),
    )


def _node(rng: random.Random, name: str) -> Node:
    gpus = rng.choice([1, 2, 4, 4])
    sick = frozenset({"0"}) if rng.random() < 0.1 else frozenset()
    gpu_type = rng.choice(["a100-80gb", "a100-80gb", "t4"])
    return make_node(name, gpus, gpu_type=gpu_type, unhealthy_gpu_ids=sick)


def _sections(rng: random.Random) -> dict[str, object]:
    keys = rng.choice(
        [
            ["priority", "submitted"],
            ["priority", "fair-share", "submitted"],
            ["priority", "deadline-slack"],
            ["priority", "shortest-job"],
            ["fair-share", "priority"],
            ["shortest-job"],
            ["deadline-slack", "priority"],
        ]
    )
    sections: dict[str, object] = {
        "ordering": {
            "keys": keys,
            "aging_points_per_hour": rng.choice([0, 500]),
            "starvation_after": rng.choice(["10m", "7d"]),
        },
        "backfill": {"mode": rng.choice(["none", "easy", "easy", "conservative"])},
        "preemption": {"enabled": rng.random() < 0.8 and keys[0] == "priority"},
    }
    if rng.random() < 0.6:
        sections["quotas"] = _quotas(rng)
    if rng.random() < 0.2:
        sections["limits"] = {"max_gpus_per_user": rng.choice([1, 2, 4])}
    return sections


def _quotas(rng: random.Random) -> dict[str, object]:
    def team() -> dict[str, object]:
        nominal = rng.randint(0, 4)
        quota: dict[str, object] = {"nominal_quota": {"*": nominal}}
        if rng.random() < 0.4:
            quota["borrowing_limit"] = {"*": rng.randint(0, 3)}
        if rng.random() < 0.4:
            quota["lending_limit"] = {"*": rng.randint(0, nominal)}
        quota["cohort"] = rng.choice(["x", "y"])
        return quota

    return {
        "reserved_ratio": 0,
        "unlisted": rng.choice(["shared", "refused"]),
        "teams": {name: team() for name in TEAMS},
        "cohorts": {"x": {}, "y": {"parent": "x"}},
    }
