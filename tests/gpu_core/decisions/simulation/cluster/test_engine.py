"""Stories of the event loop, with timelines worked out by hand, and what holds for all traces."""

from typing import Any

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from gpu_core.decisions.model.cluster import Flavor
from gpu_core.decisions.model.errors import InvalidInput
from gpu_core.decisions.policy.policy import Policy, parse_policy
from gpu_core.decisions.scheduling.cycle.planner import Planner
from gpu_core.decisions.simulation.cluster.engine import SimulationOptions, simulate
from gpu_core.decisions.simulation.cluster.outcomes import JobOutcome, SimulatedAttempt, Simulation
from gpu_core.decisions.simulation.cluster.run_time_oracle import (
    NoRunTimes,
    RunTimeOracle,
    TrueRunTimes,
)
from gpu_core.decisions.simulation.cluster.trace import NodeEvent, Trace, TraceJob, whole_nodes
from gpu_core.decisions.simulation.policies.named_policies import named_policy
from gpu_core.testing.builders.workloads import make_node
from tests.support.examples import examples

FLAVOR = Flavor("a100-80gb", "on-demand")

BY_PRIORITY = parse_policy(
    {
        "version": 1,
        "backfill": {"mode": "none"},
        "preemption": {"grace_period": 0, "min_runtime": 0},
    }
)


def job(job_id: str, submit_s: float, duration_s: float, gpus: int = 1, **changes: Any) -> TraceJob:
    return TraceJob(
        job_id=job_id, submit_s=submit_s, duration_s=duration_s, gpu_count=gpus, **changes
    )


def replay(
    *jobs: TraceJob,
    gpus: int = 1,
    policy: Policy | None = None,
    run_times: RunTimeOracle | None = None,
    events: tuple[NodeEvent, ...] = (),
    **options: Any,
) -> Simulation:
    trace = Trace(jobs=jobs, nodes=(make_node("n1", gpus),), events=events)
    planner = Planner(policy or named_policy("fifo"), trace.nodes)
    return simulate(trace, planner, run_times or NoRunTimes(), SimulationOptions(**options))


def spans(simulation: Simulation) -> dict[str, list[tuple[float, float]]]:
    return {
        outcome.job.job_id: [(held.start_s, held.end_s) for held in outcome.attempts]
        for outcome in simulation.outcomes
    }


@pytest.mark.parametrize(
    ("policy", "jobs", "expected"),
    [
        pytest.param(
            "fifo",
            [job("a", 0, 10), job("b", 1, 5), job("c", 2, 1)],
            {"a": [(0, 10)], "b": [(10, 15)], "c": [(15, 16)]},
            id="first come, first served",
        ),
        pytest.param(
            "sjf",
            [job("a", 0, 10), job("b", 1, 5), job("c", 2, 1)],
            {"a": [(0, 10)], "b": [(11, 16)], "c": [(10, 11)]},
            id="the shortest first",
        ),
        pytest.param(
            "sjf",
            [job("a", 0, 10), job("b", 1, 5), job("c", 10, 1)],
            {"a": [(0, 10)], "b": [(11, 16)], "c": [(10, 11)]},
            id="who arrives when one finishes is considered with those who wait",
        ),
        pytest.param(
            "fifo",
            [job("a", 3, 0), job("b", 3, 2)],
            {"a": [(3, 3)], "b": [(3, 5)]},
            id="a job of no duration frees its GPU at the same moment",
        ),
        pytest.param(
            "srtf",
            [job("a", 0, 10), job("b", 2, 3)],
            {"a": [(0, 2), (5, 13)], "b": [(2, 5)]},
            id="a shorter one takes over, and the longer goes on where it was",
        ),
    ],
)
def test_one_gpu(
    policy: str, jobs: list[TraceJob], expected: dict[str, list[tuple[float, float]]]
) -> None:
    """Who has the one GPU when."""
    simulation = replay(*jobs, policy=named_policy(policy), run_times=TrueRunTimes())
    assert spans(simulation) == expected


@pytest.mark.parametrize(
    ("changes", "options", "expected", "lost_s"),
    [
        pytest.param({}, {}, [(0, 250), (260, 510)], [0, 0], id="all progress is safe"),
        pytest.param(
            {}, {"restart_s": 30}, [(0, 250), (260, 540)], [0, 30], id="restarting takes time"
        ),
        pytest.param(
            {"checkpoint_interval_s": 100},
            {},
            [(0, 250), (260, 560)],
            [50, 0],
            id="work since the last checkpoint is done again",
        ),
        pytest.param(
            {"checkpoint_interval_s": 100, "checkpoint_stall_s": 10},
            {},
            # Saved at 110 and 220; 300 s of work are left, with stalls after 100 and 200 of them.
            [(0, 250), (260, 580)],
            [30, 0],
            id="saving takes time",
        ),
        pytest.param(
            {}, {"grace_s": 20}, [(0, 270), (280, 530)], [20, 0], id="GPUs are held while leaving"
        ),
    ],
)
def test_what_a_preemption_costs(
    changes: dict[str, Any],
    options: dict[str, Any],
    expected: list[tuple[float, float]],
    lost_s: list[float],
) -> None:
    """A job of 500 s is preempted at 250 s by one of 10 s."""
    victim, urgent = job("v", 0, 500, **changes), job("u", 250, 10, priority=9)
    simulation = replay(victim, urgent, policy=BY_PRIORITY, **options)
    outcome = simulation.outcomes[0]
    assert [(held.start_s, held.end_s) for held in outcome.attempts] == expected
    assert [held.lost_s for held in outcome.attempts] == lost_s
    assert outcome.preemptions == 1


def test_a_node_that_goes_interrupts_and_one_that_comes_takes_up_again() -> None:
    """Work since the checkpoint is lost; the job waits for the repair."""
    events = (
        NodeEvent(at_s=250, name="n1", node=None),
        NodeEvent(at_s=400, name="n1", node=make_node("n1", 1)),
    )
    simulation = replay(job("a", 0, 500, checkpoint_interval_s=100), events=events)
    assert simulation.outcomes == (
        JobOutcome(
            job=simulation.outcomes[0].job,
            attempts=(
                SimulatedAttempt(0, 250, 50, FLAVOR, was_interrupted=True),
                SimulatedAttempt(400, 700, 0, FLAVOR),
            ),
            finished_s=700,
            preemptions=0,
            interruptions=1,
        ),
    )


def test_a_node_that_goes_while_a_victim_leaves_it_cuts_its_grace_short() -> None:
    """Of its 20 s it held the GPU for 5: no more than that is lost."""
    events = (
        NodeEvent(at_s=255, name="n1", node=None),
        NodeEvent(at_s=300, name="n1", node=make_node("n1", 1)),
    )
    victim, urgent = job("v", 0, 500), job("u", 250, 10, priority=9)
    outcome = replay(victim, urgent, policy=BY_PRIORITY, events=events, grace_s=20).outcomes[0]
    assert outcome.attempts == (
        SimulatedAttempt(0, 255, 5, FLAVOR, was_interrupted=True),
        SimulatedAttempt(310, 560, 0, FLAVOR),
    )


@pytest.mark.parametrize(
    ("changes", "notice_s", "want_lost_s", "want_stalled_s", "want_end_s"),
    [
        pytest.param({}, 0, 0, 0, 650, id="all progress is safe"),
        pytest.param({"checkpoint_interval_s": 100}, 0, 50, 0, 700, id="no notice"),
        pytest.param(
            # At 230 it saves 230 s of work; 20 s of its notice are left for nothing.
            {"checkpoint_interval_s": 100},
            20,
            20,
            0,
            670,
            id="a checkpoint at the notice",
        ),
        pytest.param(
            # Saved at 110 and 220; at 230 again, which takes until 240: 210 s of work are safe.
            {"checkpoint_interval_s": 100, "checkpoint_stall_s": 10},
            20,
            10,
            30,
            # 290 s are left, with stalls after 100 and 200 of them.
            710,
            id="a checkpoint at the notice takes time",
        ),
        pytest.param(
            {"checkpoint_interval_s": 100, "checkpoint_stall_s": 10},
            5,
            30,
            20,
            # 300 s are left, with two stalls.
            720,
            id="a notice that is too short to save",
        ),
    ],
)
def test_what_an_interruption_with_notice_costs(
    changes: dict[str, Any],
    notice_s: float,
    want_lost_s: float,
    want_stalled_s: float,
    want_end_s: float,
) -> None:
    """A job of 500 s loses its node at 250 s and has it again at 400 s."""
    events = (
        NodeEvent(at_s=250, name="n1", node=None, notice_s=notice_s),
        NodeEvent(at_s=400, name="n1", node=make_node("n1", 1)),
    )
    (outcome,) = replay(job("a", 0, 500, **changes), events=events).outcomes
    first = outcome.attempts[0]
    assert (first.lost_s, first.stalled_s) == (want_lost_s, want_stalled_s)
    assert outcome.finished_s == want_end_s


def test_a_job_that_finishes_when_its_node_goes_has_finished() -> None:
    """Finishes come before node events."""
    events = (NodeEvent(at_s=10, name="n1", node=None),)
    assert replay(job("a", 0, 10), events=events).outcomes[0].finished_s == 10


def test_a_protected_attempt_is_taken_when_its_minimum_run_time_ends() -> None:
    """The planner is asked at that moment, although nothing else happens then."""
    urgent = job("u", 10, 5, priority=9)
    simulation = replay(job("v", 0, 500), urgent, policy=BY_PRIORITY, min_runtime_s=60)
    assert spans(simulation) == {"v": [(0, 60), (65, 505)], "u": [(60, 65)]}


def test_an_attempt_is_taken_again_when_it_has_repaid_its_preemption() -> None:
    """It lost 20 s of work and 10 s of restart: its 30 s of work end at 115 s."""
    urgent = [job("u", 70, 5, priority=9), job("w", 76, 5, priority=9)]
    saving = job("v", 0, 500, checkpoint_interval_s=50)
    options = {"restart_s": 10, "max_protection_s": 3_600.0}
    simulation = replay(saving, *urgent, policy=BY_PRIORITY, **options)
    assert spans(simulation) == {
        "v": [(0, 70), (75, 115), (120, 580)],
        "u": [(70, 75)],
        "w": [(115, 120)],
    }


def costs_s(outcome: JobOutcome) -> list[tuple[SimulatedAttempt, float]]:
    """Each attempt that began after a preemption, with what all before it had cost, by hand."""
    found, cost_s = [], 0.0
    for number, held in enumerate(outcome.attempts):
        if number:
            found.append((held, cost_s))
        cost_s += held.lost_s
    return found


@given(
    lows=st.lists(st.tuples(st.integers(0, 300), st.integers(1, 2_000)), min_size=1, max_size=6),
    urgent=st.lists(st.tuples(st.integers(0, 3_000), st.integers(1, 200)), max_size=12),
    interval_s=st.sampled_from([None, 40.0, 400.0]),
    restart_s=st.sampled_from([0, 30, 200]),
    most_s=st.sampled_from([0.0, 100.0, 1_000.0]),
)
@example([(0, 2), (0, 4)], [(1, 1), (3, 1)], None, 30, 100.0)  # the first lost nothing
@settings(max_examples=examples(60))
def test_no_run_is_preempted_twice_without_the_work_in_between(
    lows: list[tuple[int, int]],
    urgent: list[tuple[int, int]],
    interval_s: float | None,
    restart_s: int,
    most_s: float,
) -> None:
    """As much as all preemptions before have cost it, with the restart; or the bound is over.

    So a job that needs no other waits for no longer than the bound of one attempt, if it is the
    only urgent one.
    """
    jobs = [
        job(f"low-{n}", at, length, checkpoint_interval_s=interval_s)
        for n, (at, length) in enumerate(lows)
    ] + [job(f"urgent-{n}", at, length, priority=9) for n, (at, length) in enumerate(urgent)]
    options = {"restart_s": restart_s, "max_protection_s": most_s}
    simulation = replay(*jobs, gpus=2, policy=BY_PRIORITY, **options)
    for outcome in simulation.outcomes:
        assert outcome.finished_s is not None
        if outcome.job.priority:
            assert outcome.preemptions == 0
            continue
        # The last attempt finished.
        for held, cost_s in costs_s(outcome)[:-1]:
            held_s = held.end_s - held.start_s
            assert held_s == pytest.approx(most_s) or held_s >= min(most_s, restart_s + cost_s) - 1
    if len(urgent) == 1:
        outcome = simulation.outcomes[-1]
        assert outcome.attempts[0].start_s <= outcome.job.submit_s + most_s


def test_least_attained_service_changes_over_at_a_tick() -> None:
    """After its first quantum, an hour, the running job makes way for the one that had nothing."""
    jobs = job("a", 0, 9000), job("b", 10, 60)
    simulation = replay(*jobs, policy=named_policy("las"), tick_s=600)
    assert spans(simulation) == {"a": [(0, 3610), (3670, 9060)], "b": [(3610, 3670)]}


def test_a_job_that_fits_nowhere_never_finishes() -> None:
    """The replay ends all the same."""
    outcome = replay(job("big", 0, 10, gpus=2), gpus=1, tick_s=60).outcomes[0]
    assert (outcome.finished_s, outcome.attempts) == (None, ())


@pytest.mark.parametrize(
    ("gpus", "expected"),
    [(0, (1, 0)), (1, (1, 1)), (8, (1, 8)), (12, (2, 6)), (16, (2, 8)), (9, (3, 3)), (11, (11, 1))],
)
def test_whole_nodes(gpus: int, expected: tuple[int, int]) -> None:
    """Gangs have equal members."""
    assert whole_nodes(gpus, 8) == expected


@pytest.mark.parametrize(
    ("jobs", "named"),
    [
        pytest.param([job("a", 0, 1), job("a", 1, 1)], "job_id", id="an id twice"),
        pytest.param([job("a", 0, -1)], "duration_s", id="a negative duration"),
        pytest.param([job("a", 0, float("nan"))], "duration_s", id="no number"),
        pytest.param([job("a", 0, 1, checkpoint_interval_s=0)], "interval_s", id="no interval"),
    ],
)
def test_nonsense_is_refused(jobs: list[TraceJob], named: str) -> None:
    """A trace that cannot be replayed is not made."""
    with pytest.raises(InvalidInput, match=named):
        Trace(jobs=tuple(jobs), nodes=())


@st.composite
def job_lists(draw: st.DrawFn) -> list[TraceJob]:
    return [
        job(
            f"j{i}",
            draw(st.integers(0, 30)),
            draw(st.integers(0, 20)),
            draw(st.integers(1, 4)),
            priority=draw(st.integers(0, 2)),
            checkpoint_interval_s=draw(st.sampled_from([None, 3.0, 7.0])),
            checkpoint_stall_s=draw(st.sampled_from([0.0, 1.0])),
        )
        for i in range(draw(st.integers(1, 8)))
    ]


policies = st.sampled_from(
    [BY_PRIORITY, *map(named_policy, ("fifo", "easy", "sjf", "srsf", "fair"))]
)


@st.composite
def outages(draw: st.DrawFn) -> tuple[NodeEvent, ...]:
    """The node goes, with or without notice, and comes back."""
    moments_s = sorted(draw(st.sets(st.integers(5, 60), max_size=6)))
    notice_s = draw(st.sampled_from([0.0, 1.0, 4.0]))
    return tuple(
        event
        for gone_s, back_s in zip(moments_s[::2], moments_s[1::2], strict=False)
        for event in (
            NodeEvent(at_s=gone_s, name="n1", node=None, notice_s=notice_s),
            NodeEvent(at_s=back_s, name="n1", node=make_node("n1", 4)),
        )
    )


@settings(deadline=None, max_examples=examples(60))
@given(job_lists(), outages(), policies, st.sampled_from([0.0, 2.0]), st.sampled_from([0.0, 3.0]))
def test_time_and_gpus_are_conserved(
    jobs: list[TraceJob],
    events: tuple[NodeEvent, ...],
    policy: Policy,
    restart_s: float,
    grace_s: float,
) -> None:
    """GPUs are never held twice, no run is faster than its duration, and no work is left out."""
    options = {"restart_s": restart_s, "grace_s": grace_s, "usage_half_life_s": 3600.0}
    run_times = TrueRunTimes()

    def once() -> Simulation:
        return replay(*jobs, gpus=4, policy=policy, run_times=run_times, events=events, **options)

    simulation = once()
    assert simulation == once()
    changes = []
    for outcome in simulation.outcomes:
        assert outcome.finished_s is not None
        assert outcome.attempts[0].start_s >= outcome.job.submit_s
        worked_s = sum(h.end_s - h.start_s - h.lost_s - h.stalled_s for h in outcome.attempts)
        assert worked_s == pytest.approx(outcome.job.duration_s)
        gpus = outcome.job.gpu_count
        changes += [(h.start_s, 1, gpus) for h in outcome.attempts if h.end_s > h.start_s]
        changes += [(h.end_s, 0, -gpus) for h in outcome.attempts if h.end_s > h.start_s]
    held = 0
    for _, _, more in sorted(changes):
        held += more
        assert 0 <= held <= 4
