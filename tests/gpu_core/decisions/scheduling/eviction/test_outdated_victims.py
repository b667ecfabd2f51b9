"""A victim whose team has stopped borrowing in the cycle is outdated: another one is chosen."""

import os
import random

from hypothesis import event, given, settings
from hypothesis import strategies as st

from gpu_core.decisions.model.workload import WHOLE_GPU_MILLI
from gpu_core.decisions.quota.cohort_borrowing_and_lending import QuotaTree, QuotaUsage
from gpu_core.decisions.scheduling.cycle.planner import plan_cycle
from gpu_core.decisions.scheduling.plan.plan import Preempt
from gpu_core.testing.builders.workloads import (
    NOW,
    ago,
    make_allocation,
    make_node,
    make_policy,
    make_snapshot,
    make_workload,
)
from tests.gpu_core.decisions.scheduling.scenarios import Scenario
from tests.support.examples import examples

SEEDS = st.integers(0, 2**32 - 1)
many = settings(max_examples=examples(int(os.environ.get("PREFECT_GPU_EXAMPLES", "1000"))))
BORROWERS = ("b", "c", "d")


def lent_pool(seed):
    """Each node has one GPU, and all are used by teams that may have borrowed from `a`."""
    rng = random.Random(seed)
    nominal = {"a": rng.randint(1, 4)} | {team: rng.randint(0, 3) for team in BORROWERS}
    names = [f"n{i}" for i in range(sum(nominal.values()))]
    cohort_of = {"a": "x"} | {team: rng.choice(["x", "x", "y"]) for team in BORROWERS}
    quotas = {
        "reserved_ratio": 0,
        "teams": {
            team: {"nominal_quota": {"*": gpus}, "cohort": cohort_of[team]}
            for team, gpus in nominal.items()
        },
        "cohorts": {"x": {}, "y": {"parent": "x"}},
    }
    # No two lose the same.
    ages_s = rng.sample(range(100, 5_000), len(names))
    held = tuple(
        make_allocation(
            make_workload(f"r{i}", 1, team=rng.choice(BORROWERS)),
            {name: "0"},
            admitted_at=ago(age_s),
        )
        for i, (name, age_s) in enumerate(zip(names, ages_s, strict=True))
    )
    pending = tuple(
        make_workload(f"w{i}", 1, team="a", user=f"u{i}", submitted_at=ago(90 - i))
        for i in range(rng.randint(1, nominal["a"] + 1))
    )
    nodes = tuple(make_node(name, 1) for name in names)
    return Scenario(make_snapshot(nodes, held, pending), make_policy(quotas=quotas))


def victims_in_turn(pool):
    """For each that waits the run that loses the least, of those that borrow by then."""
    [flavor] = {node.flavor for node in pool.snapshot.nodes}
    tree = QuotaTree(pool.policy.quotas, {flavor: len(pool.snapshot.nodes) * WHOLE_GPU_MILLI})
    bucket, usage = tree.bucket(flavor), QuotaUsage(tree)
    running = sorted(pool.snapshot.allocations, key=lambda a: a.admitted_at, reverse=True)
    for allocation in running:
        usage.allocate(allocation.workload.team, bucket, WHOLE_GPU_MILLI)
    found = {}
    for wanted in pool.snapshot.pending:
        if usage.nominal_left(wanted.team, bucket) < WHOLE_GPU_MILLI:
            break
        borrowers = usage.borrowers(wanted.team, bucket)
        victim = next((a for a in running if a.workload.team in borrowers), None)
        if victim is None:
            break
        running.remove(victim)
        usage.release(victim.workload.team, bucket, WHOLE_GPU_MILLI)
        usage.allocate(wanted.team, bucket, WHOLE_GPU_MILLI)
        found[wanted.workload_id] = victim.workload.workload_id
    return found


@many
@given(SEEDS)
def test_each_preemptor_of_a_cycle_takes_the_cheapest_run_of_those_that_still_borrow(seed):
    """However many came before it, and whichever teams have stopped borrowing for them."""
    pool = lent_pool(seed)
    plan = plan_cycle(pool.snapshot, pool.policy, NOW)
    victims = {c.for_workload_id: c.workload_id for c in plan.commands if isinstance(c, Preempt)}
    event(f"{len(victims)} preemptors")
    assert victims == victims_in_turn(pool)
