"""Small pools with one preemptor, and every set of workloads that could be preempted for it."""

import itertools
import random
from collections.abc import Iterator
from functools import cache

from gpu_core.decisions.model.cluster import Allocation, Snapshot
from gpu_core.decisions.model.workload import WHOLE_GPU_MILLI, Workload
from gpu_core.decisions.placement.cluster_info import ClusterInfo
from gpu_core.decisions.quota.cohort_borrowing_and_lending import QuotaTree, QuotaUsage
from gpu_core.testing.builders.workloads import (
    HIGH,
    LOW,
    MEDIUM,
    ago,
    make_node,
    make_policy,
    make_workload,
)
from tests.gpu_core.decisions.scheduling.scenarios import Scenario

TEAMS = ("a", "b", "c")

_GRACE_S = 30
"""The grace period of the default policy."""

Loss = tuple[int, int]
"""Lost milli-GPU × s × micro-USD / h, and the number of victims."""


def contest(seed: int, *, most_running: int = 8, most_nodes: int = 5) -> Scenario:
    """A pool that is nearly full, and one urgent workload: gangs, shares, quotas and cohorts."""
    rng = random.Random(seed)
    is_shared, is_counted = rng.random() < 0.3, rng.random() < 0.2
    nodes = tuple(
        make_node(
            f"n{i}",
            rng.choice([1, 2, 4]),
            gpu_type=rng.choice(["a100-80gb", "a100-80gb", "t4"]),
            is_shareable=is_shared,
            cpu_milli=8_000 if is_counted else None,
        )
        for i in range(rng.randint(1, most_nodes))
    )
    cluster = ClusterInfo(nodes)
    allocations = []
    for i in range(3 * most_running):
        if len(allocations) == most_running:
            break
        workload = _running(rng, f"r{i}", is_shared=is_shared, is_counted=is_counted)
        placement = cluster.find(workload.shape)
        if placement is None:
            continue
        cluster.allocate(workload.shape, placement)
        held_s = rng.randint(1, 40) * 100
        allocations.append(
            Allocation(
                workload=workload,
                attempt=1,
                placement=placement,
                admitted_at=ago(held_s),
                checkpointed_at=rng.choice([None, ago(rng.randint(0, 9) * 10)]),
                save_s=rng.choice([None, None, 0.0, 30.0, 31.0]),
                restart_s=rng.choice([None, 40.0, 600.0]),
                works_since=rng.choice([None, ago(rng.randint(0, held_s))]),
            )
        )
    wanted = make_workload(
        "w",
        rng.choice([1, 1, 2, 4]),
        nodes=rng.choice([1, 1, 2, 3]),
        priority=rng.choice([LOW, HIGH, HIGH]),
        team=rng.choice(TEAMS),
        gpu_types=rng.choice([(), (), (), (), ("t4",), ("a100-80gb", "t4")]),
        cpu_milli=rng.choice([0, 3_000]) if is_counted else 0,
    )
    if is_shared and rng.random() < 0.5:
        wanted = make_workload("w", 1, gpu_share_milli=500, priority=HIGH, team=wanted.team)
    sections = {"quotas": _quotas(rng)} if rng.random() < 0.7 else {}
    return Scenario(
        Snapshot(nodes=nodes, allocations=tuple(allocations), pending=(wanted,)),
        make_policy(**sections),
    )


def _running(rng: random.Random, name: str, *, is_shared: bool, is_counted: bool) -> Workload:
    is_part = is_shared and rng.random() < 0.5
    return make_workload(
        name,
        1 if is_part else rng.choice([1, 1, 1, 2, 2, 3]),
        nodes=1 if is_part else rng.choice([1, 1, 2, 3]),
        gpu_share_milli=rng.choice([250, 500]) if is_part else WHOLE_GPU_MILLI,
        cpu_milli=rng.choice([0, 2_000, 4_000]) if is_counted else 0,
        priority=rng.choice([LOW, LOW, MEDIUM]),
        team=rng.choice(TEAMS),
        is_preemptible=rng.random() < 0.9,
        preemption_cost_s=rng.choice([None, None, 0.0, 300.0, 2_000.0]),
    )


def _quotas(rng: random.Random) -> dict[str, object]:
    def quota(most: int) -> dict[str, object]:
        nominal = rng.randint(0, most)
        found: dict[str, object] = {"nominal_quota": {"*": nominal}}
        if rng.random() < 0.3:
            found["borrowing_limit"] = {"*": rng.randint(0, 4)}
        if rng.random() < 0.3:
            found["lending_limit"] = {"*": rng.randint(0, nominal)}
        return found

    cohorts = [None, "x", "y"]
    teams = {name: quota(6) | {"cohort": rng.choice(cohorts)} for name in TEAMS}
    if rng.random() < 0.25:
        for team in teams.values():
            for limits in team.values():
                if isinstance(limits, dict):
                    limits["t4"] = rng.randint(0, 2) if "lend" not in str(limits) else 0
            team.pop("lending_limit", None)
    return {"reserved_ratio": 0, "teams": teams, "cohorts": {"x": {}, "y": {"parent": "x"}}}


class Oracle:
    """All sets of workloads that could be preempted for the one that waits.

    It knows the cluster, the quota tree and DESIGN.md's rule of who may be preempted, and nothing
    of how the scheduler searches.
    """

    def __init__(self, pool: Scenario) -> None:
        self.pool = pool
        [self.wanted] = pool.snapshot.pending
        self._running = {a.workload.workload_id: a for a in pool.snapshot.allocations}
        self._tree: QuotaTree | None = None
        if pool.policy.quotas is not None:
            capacity: dict[object, int] = {}
            for node in pool.snapshot.nodes:
                milli = len(node.gpu_ids) * WHOLE_GPU_MILLI
                capacity[node.flavor] = capacity.get(node.flavor, 0) + milli
            self._tree = QuotaTree(pool.policy.quotas, capacity)
        self.is_legal = cache(self._is_legal)

    @property
    def candidates(self) -> frozenset[str]:
        """All that may be preempted, if each were the only one."""
        return frozenset(i for i, a in self._running.items() if self._may_ever(a))

    def sets(self) -> Iterator[tuple[Loss, frozenset[str]]]:
        """Every legal set that is enough, the cheapest first."""
        ids = sorted(self.candidates)
        if not self.is_enough(self.candidates):
            return
        every = (
            frozenset(chosen)
            for size in range(len(ids) + 1)
            for chosen in itertools.combinations(ids, size)
        )
        for chosen in sorted(every, key=lambda c: (self.loss(c), sorted(c))):
            if self.is_enough(chosen) and self.is_legal(chosen):
                yield self.loss(chosen), chosen

    def loss(self, chosen: frozenset[str]) -> Loss:
        """What these lose."""
        return sum(self._lost(self._running[i]) for i in chosen), len(chosen)

    def is_enough(self, gone: frozenset[str]) -> bool:
        """Does the workload fit without these, within quota?"""
        cluster = ClusterInfo(self.pool.snapshot.nodes)
        for workload_id, allocation in self._running.items():
            if workload_id not in gone:
                cluster.allocate(allocation.workload.shape, allocation.placement)
        usage, shape = self._usage(gone), self.wanted.shape
        flavors = {node.flavor for node in self.pool.snapshot.nodes}
        if usage is not None and self._tree is not None:
            flavors = {
                flavor
                for flavor in flavors
                if usage.available(self.wanted.team, self._tree.bucket(flavor))
                >= shape.total_gpu_milli
            }
        return cluster.find(shape, flavors=flavors) is not None

    def _is_legal(self, chosen: frozenset[str]) -> bool:
        """May they be preempted one after the other, in some order?"""
        if not chosen:
            return True
        return any(
            self._may_now(self._running[last], chosen - {last}) and self.is_legal(chosen - {last})
            for last in chosen
        )

    def _may_ever(self, allocation: Allocation) -> bool:
        return allocation.workload.is_preemptible and self._may_now(allocation, frozenset())

    def _may_now(self, allocation: Allocation, gone: frozenset[str]) -> bool:
        workload, wanted = allocation.workload, self.wanted
        if self._tree is None or workload.team == wanted.team:
            return workload.priority < wanted.priority
        bucket = self._tree.bucket(allocation.placement.flavor)
        before, usage = self._usage(frozenset()), self._usage(gone)
        if wanted.shape.total_gpu_milli > before.nominal_left(wanted.team, bucket):
            return False
        return workload.team in usage.borrowers(wanted.team, bucket)

    def _usage(self, gone: frozenset[str]) -> QuotaUsage | None:
        if self._tree is None:
            return None
        usage = QuotaUsage(self._tree)
        for workload_id, allocation in self._running.items():
            if workload_id not in gone:
                bucket = self._tree.bucket(allocation.placement.flavor)
                usage.allocate(allocation.workload.team, bucket, _milli(allocation))
        return usage

    def _lost(self, allocation: Allocation) -> int:
        price = self.pool.policy.price_micro_usd_per_gpu_hour(*allocation.placement.flavor)
        return _milli(allocation) * price * (_repeated_s(allocation) + _unpaid_s(allocation))


def _repeated_s(allocation: Allocation) -> int:
    """What the next attempt has to do again: a restart, and work that is not saved by then."""
    restart_s = int(allocation.restart_s or 0)
    if allocation.save_s in (0, _GRACE_S):
        return restart_s
    saved_at = allocation.checkpointed_at
    if saved_at is not None and saved_at > allocation.admitted_at:
        return int((ago(0) - saved_at).total_seconds()) + restart_s
    return int((ago(0) - allocation.admitted_at).total_seconds())


def _unpaid_s(allocation: Allocation) -> int:
    """What its preemptions have cost it, with this restart, less what it has worked since."""
    cost_s = allocation.workload.preemption_cost_s
    if cost_s is None:
        return 0
    works_since = allocation.works_since or allocation.admitted_at
    restart_s = (works_since - allocation.admitted_at).total_seconds()
    worked_s = (ago(0) - works_since).total_seconds()
    return int(max(0.0, cost_s + restart_s - worked_s))


def _milli(allocation: Allocation) -> int:
    return sum(len(s.gpu_ids) * s.share_milli for s in allocation.placement.shares)
