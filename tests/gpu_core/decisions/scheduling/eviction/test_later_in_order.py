"""Victims by the order of the queue."""

import os
import random
from dataclasses import replace

import pytest
from hypothesis import event, given, settings
from hypothesis import strategies as st

from gpu_core.decisions.model.reasons import Reason
from gpu_core.decisions.policy.preemption import TakesFrom
from gpu_core.decisions.scheduling.cycle.planner import Planner, plan_cycle
from gpu_core.decisions.scheduling.eviction.later_in_order import WORKS_FOR_RESTARTS, gives_way
from gpu_core.decisions.scheduling.plan.plan import Preempt
from gpu_core.decisions.simulation.cluster.engine import SimulationOptions, simulate
from gpu_core.decisions.simulation.cluster.run_time_oracle import NoRunTimes
from gpu_core.decisions.simulation.cluster.trace import MOST_S, Trace, TraceJob
from gpu_core.decisions.simulation.policies.named_policies import named_policy
from gpu_core.testing.builders.workloads import (
    HIGH,
    LOW,
    MEDIUM,
    NOW,
    ago,
    make_allocation,
    make_node,
    make_policy,
    make_snapshot,
    make_workload,
)
from tests.gpu_core.decisions.scheduling.scenarios import Scenario, scenario
from tests.support.examples import examples

BY_SERVICE = {"keys": ["priority", "least-attained-service", "most-gpus"]}
BY_ORDER = {"takes_from": "later-in-order"}
RESUMABLE = {"takes_from": "resumable"}
GRACE_S = 30
SEEDS = st.integers(0, 2**32 - 1)
many = settings(max_examples=examples(int(os.environ.get("PREFECT_GPU_EXAMPLES", "300"))))


def preempts(plan):
    return [command for command in plan.commands if isinstance(command, Preempt)]


def test_no_run_goes_where_the_quota_stays_short():
    """Team a may use two GPUs. Without `old` a GPU is free, and the quota of a has one."""
    teams = {name: {"nominal_quota": {"*": 2}} for name in "ab"}
    runs = [
        make_allocation(make_workload(name, team=team, is_preemptible=goes), {"n1": gpu})
        for name, team, gpu, goes in (
            ("old", "a", "0", True),
            ("kept", "a", "1", False),
            ("other", "b", "2", True),
        )
    ]
    quotas = {"strategy": "static", "teams": teams}
    policy = make_policy(ordering=BY_SERVICE, preemption=BY_ORDER, quotas=quotas)
    waits = make_workload("wide", 2, team="a")
    plan = plan_cycle(make_snapshot((make_node(gpus=4),), tuple(runs), (waits,)), policy, NOW)
    assert preempts(plan) == []


@many
@given(SEEDS)
def test_a_preemptor_gets_the_gpus(seed):
    """No run is preempted for one that then waits for quota, or for other GPUs."""
    pool = scenario(seed, ordering=BY_SERVICE, preemption=BY_ORDER)
    plan = plan_cycle(pool.snapshot, pool.policy, NOW)
    reasons = {each.workload_id: each.reason for each in plan.explanations}
    assert {reasons[c.for_workload_id] for c in preempts(plan)} <= {Reason.WAITING_FOR_VICTIMS}


def resumable(workload_id="old", gpus="0", **changes):
    """A run that loses a restart of a minute: it has worked for an hour, and has saved."""
    fields = {name: changes.pop(name) for name in ("nodes", "priority", "team") if name in changes}
    values = {"has_resumed": True, **fields, **changes.pop("workload", {})}
    workload = make_workload(workload_id, len(gpus.split()), **values)
    saved = {"checkpointed_at": ago(500), "save_s": 5.0, "restart_s": 60.0}
    return make_allocation(workload, {"n1": gpus}, **(saved | changes))


@pytest.mark.parametrize(
    ("changes", "want"),
    [
        pytest.param({}, True, id="it loses a restart"),
        pytest.param({"workload": {"has_resumed": False}}, False, id="none of its kind resumed"),
        pytest.param({"checkpointed_at": None}, False, id="it has saved nothing yet"),
        pytest.param({"save_s": None}, False, id="it does not save when it is asked to end"),
        pytest.param({"save_s": 31.0}, False, id="it saves too slowly"),
        pytest.param({"restart_s": None}, False, id="its restart is not known"),
        pytest.param({"restart_s": 361.0}, False, id="it has not worked ten restarts"),
        pytest.param({"restart_s": 360.0}, True, id="it has worked ten restarts"),
        pytest.param({"works_since": ago(599)}, False, id="restarting is no work"),
        pytest.param({"workload": {"nodes": 2}}, False, id="a gang"),
        pytest.param({"workload": {"preemption_cost_s": 4_000.0}}, False, id="it repays"),
        pytest.param({"workload": {"preemption_cost_s": 3_000.0}}, True, id="it has repaid"),
        pytest.param({"begins_by": ago(-60)}, False, id="it starts"),
    ],
)
def test_a_run_gives_way_where_it_loses_little(changes, want):
    """By what it has shown, and not before it has worked for its restarts."""
    assert gives_way(resumable(**changes), NOW.timestamp(), GRACE_S) is want


@pytest.mark.parametrize(
    ("runs", "waits", "want"),
    [
        pytest.param([resumable()], {}, ["old"], id="it has had more"),
        pytest.param(
            [resumable(workload={"has_resumed": False})], {}, [], id="it has not shown that"
        ),
        pytest.param([resumable(priority=HIGH)], {}, [], id="never of a higher priority"),
        pytest.param(
            [resumable(priority=LOW, workload={"has_resumed": False})],
            {},
            ["old"],
            id="of a lower one as by default",
        ),
        pytest.param(
            [resumable(), resumable("low", "1", priority=LOW)],
            {},
            ["low"],
            id="of a lower one first",
        ),
        pytest.param([resumable()], {"attained_gpu_s": 9_999.0}, [], id="it has had as much"),
    ],
)
def test_who_makes_room(runs, waits, want):
    """A run of the same priority that is later in the order, and resumes."""
    policy = make_policy(ordering=BY_SERVICE, preemption=RESUMABLE)
    node = make_node(gpus=len(runs))
    snapshot = make_snapshot((node,), tuple(runs), (make_workload("w", **waits),))
    plan = plan_cycle(snapshot, policy, NOW)
    assert [command.workload_id for command in preempts(plan)] == want


def crowded_pool(seed):
    """A full pool of runs that have saved, or not, and have shown that they resume, or not."""
    rng = random.Random(seed)
    nodes = tuple(make_node(f"n{i}", 4) for i in range(rng.randint(1, 3)))
    free = [(node.name, gpu) for node in nodes for gpu in node.gpu_ids]
    runs = []
    while free:
        gpus = [at for at in free if at[0] == free[0][0]][: rng.randint(1, 2)]
        free = [at for at in free if at not in gpus]
        run = make_workload(
            f"r{len(runs)}",
            len(gpus),
            priority=rng.choice([LOW, *[MEDIUM] * 6, HIGH]),
            team=rng.choice("ab"),
            attained_gpu_s=rng.choice([0.0, 9_000.0, 99_999.0]),
            preemption_cost_s=rng.choice([None, None, 300.0, 9_000.0]),
            is_preemptible=rng.random() < 0.9,
            has_resumed=rng.random() < 0.8,
        )
        runs.append(
            make_allocation(
                run,
                {gpus[0][0]: " ".join(gpu for _, gpu in gpus)},
                admitted_at=ago(rng.choice([60, 4_000, 9_000])),
                checkpointed_at=rng.choice([None, *[ago(60)] * 4]),
                save_s=rng.choice([None, 0.0, 10.0, 29.0, 90.0]),
                restart_s=rng.choice([None, 0.0, 30.0, 200.0, 500.0]),
            )
        )
    pending = tuple(
        make_workload(
            f"p{i}",
            rng.choice([1, 1, 2, 4]),
            nodes=rng.choice([1, 1, 1, len(nodes)]),
            team=rng.choice("ab"),
            priority=rng.choice([LOW, MEDIUM, MEDIUM, MEDIUM, HIGH]),
            attained_gpu_s=rng.choice([0.0, 0.0, 9_000.0]),
            submitted_at=ago(rng.randint(0, 9) * 100),
        )
        for i in range(rng.randint(1, 5))
    )
    sections = {}
    if rng.random() < 0.4:
        teams = {name: {"nominal_quota": {"*": rng.randint(0, 6)}, "cohort": "x"} for name in "ab"}
        sections["quotas"] = {"teams": teams, "cohorts": {"x": {}}}
    policy = make_policy(ordering=BY_SERVICE, preemption=RESUMABLE, **sections)
    return Scenario(make_snapshot(nodes, tuple(runs), pending), policy)


@many
@given(SEEDS)
def test_none_of_its_priority_goes_that_has_not_shown_that_it_resumes(seed):
    """A preempted run has a lower priority, or borrows, or loses a restart that it earned."""
    pool = crowded_pool(seed)
    running = {each.workload.workload_id: each for each in pool.snapshot.allocations}
    waiting = {each.workload_id: each for each in pool.snapshot.pending}
    plan = plan_cycle(pool.snapshot, pool.policy, NOW)
    for command in preempts(plan):
        victim, preemptor = running[command.workload_id], waiting[command.for_workload_id]
        is_lower = victim.workload.priority < preemptor.priority
        is_other = victim.workload.team != preemptor.team
        if is_lower or (is_other and pool.policy.quotas is not None):
            continue
        event("a run of the same priority gives way")
        assert victim.workload.priority == preemptor.priority
        assert gives_way(victim, NOW.timestamp(), GRACE_S)
        assert victim.protected_until <= NOW
        assert not victim.is_draining


@many
@given(SEEDS)
def test_as_by_default_where_nothing_has_resumed(seed):
    """Without what deployments have shown the plan is that of `lower-priority`."""
    pool = crowded_pool(seed)
    shown = tuple(
        replace(each, workload=replace(each.workload, has_resumed=False))
        for each in pool.snapshot.allocations
    )
    snapshot = replace(pool.snapshot, allocations=shown)
    by_priority = pool.policy.preemption.model_copy(update={"takes_from": TakesFrom.LOWER_PRIORITY})
    policy = pool.policy.model_copy(update={"preemption": by_priority})
    assert plan_cycle(snapshot, pool.policy, NOW) == plan_cycle(snapshot, policy, NOW)


def jobs(rng):
    """Jobs of one priority, of which more is wanted than two nodes of four GPUs have."""
    return tuple(
        TraceJob(
            job_id=f"j{i}",
            submit_s=rng.randint(0, 40) * 600,
            duration_s=rng.choice([60, 600, 6_000, 30_000]),
            gpu_count=rng.choice([1, 1, 2, 4]),
            nodes=rng.choice([1, 1, 1, 1, 2]),
            has_resumed=(can := rng.random() < 0.7),
            checkpoint_interval_s=None if can else MOST_S,
        )
        for i in range(rng.randint(5, 30))
    )


@settings(max_examples=examples(60))
@given(SEEDS)
def test_no_run_is_evicted_before_it_has_worked_for_its_restarts(seed):
    """All jobs end; a gang and one that has not shown that it resumes are never evicted."""
    rng = random.Random(seed)
    restart_s = rng.choice([0, 30, 300])
    policy = make_policy(
        ordering=BY_SERVICE | {"service_quantum_gpu_s": 600},
        preemption=RESUMABLE | {"min_runtime": 0},
    )
    trace = Trace(jobs=jobs(rng), nodes=(make_node("a", 4), make_node("b", 4)))
    options = SimulationOptions(restart_s=restart_s, grace_s=GRACE_S, tick_s=300)
    replay = simulate(trace, Planner(policy, trace.nodes), NoRunTimes(), options)
    for outcome in replay.outcomes:
        assert outcome.finished_s is not None
        if not outcome.job.has_resumed or outcome.job.nodes > 1:
            assert outcome.preemptions == 0
        cost_s = 0.0
        for number, held in enumerate(outcome.attempts[:-1]):
            event("it gives way again" if number else "it gives way")
            began_s = restart_s if number else 0
            cost_s += began_s
            worked_s = held.end_s - held.start_s - began_s - GRACE_S
            assert worked_s >= WORKS_FOR_RESTARTS * restart_s
            assert worked_s >= cost_s
            cost_s += GRACE_S


@pytest.mark.parametrize(
    ("policy", "want_h"),
    [
        pytest.param("default", 24, id="by default it keeps its GPU"),
        pytest.param("resumable", 49, id="it waits for all of them"),
    ],
)
def test_a_long_run_waits_while_shorter_ones_come(policy, want_h):
    """The limit of taking turns, and why it is no default: 25 h of short runs, one at a time."""
    long = TraceJob(job_id="long", submit_s=0, duration_s=24 * 3_600)
    short = [
        TraceJob(job_id=f"s{i}", submit_s=3_600 + i * 1_800, duration_s=1_800) for i in range(50)
    ]
    trace = Trace(jobs=(long, *short), nodes=(make_node("a", 1),))
    options = SimulationOptions(restart_s=30, grace_s=GRACE_S, min_runtime_s=60)
    replay = simulate(trace, Planner(named_policy(policy), trace.nodes), NoRunTimes(), options)
    assert replay.outcomes[0].finished_s == pytest.approx(want_h * 3_600, abs=120)
