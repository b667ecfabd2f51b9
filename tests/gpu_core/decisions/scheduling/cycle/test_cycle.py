"""One planning cycle: starts, preemptions, and explanations of the others."""

from dataclasses import replace
from datetime import timedelta

import pytest

from gpu_core.decisions.kubernetes.nodes.held_gpus import without_held
from gpu_core.decisions.model.cluster import Machine, NodeShare
from gpu_core.decisions.model.errors import InvalidInput
from gpu_core.decisions.model.gpu_health import HealthVerdict, HeldGpu
from gpu_core.decisions.model.reasons import Reason
from gpu_core.decisions.model.workload import Hold
from gpu_core.decisions.scheduling.cycle.planner import plan_cycle
from gpu_core.decisions.scheduling.plan.plan import Admit, Preempt
from gpu_core.testing.builders.workloads import (
    CRITICAL,
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
    with_shape,
)

POLICY = make_policy()


def plan(nodes, allocations=(), pending=(), policy=POLICY):
    return plan_cycle(make_snapshot(tuple(nodes), tuple(allocations), tuple(pending)), policy, NOW)


def admitted(plan):
    return [c.workload_id for c in plan.commands if isinstance(c, Admit)]


def preempted(plan):
    return [(c.workload_id, c.for_workload_id) for c in plan.commands if isinstance(c, Preempt)]


def reported(plan, workload_id):
    return next(e for e in plan.explanations if e.workload_id == workload_id)


def low(workload_id, gpus, saved_s_ago=None, **changes):
    """A low workload on these GPUs, which last saved that long ago."""
    counts = [len(ids.split()) for ids in gpus.values()]
    workload = make_workload(
        workload_id, counts[0], nodes=len(counts), **({"priority": LOW} | changes)
    )
    saved_at = None if saved_s_ago is None else ago(saved_s_ago)
    return make_allocation(workload, gpus, checkpointed_at=saved_at)


class TestTheLine:
    """Order, and what is kept for whom."""

    def test_an_empty_cluster_shows_all_runs_that_there_is_no_gpu(self):
        """Nothing to give is an answer, not an error."""
        result = plan((), pending=[make_workload("a"), make_workload("b", 0)])
        assert admitted(result) == ["b"]
        assert reported(result, "a").reason == Reason.EXCEEDS_CLUSTER

    def test_nothing_pending_is_an_empty_plan(self):
        """Running workloads are left alone."""
        assert plan([make_node()], [low("l", {"n1": "0 1"})]).commands == ()

    def test_priority_goes_before_age_and_age_before_id(self):
        """Four of five fit; the least urgent and youngest waits."""
        pending = [
            make_workload("e", submitted_at=ago(10)),
            make_workload("d", submitted_at=ago(20)),
            make_workload("c", submitted_at=ago(20)),
            make_workload("b", priority=LOW, submitted_at=ago(999)),
            make_workload("a", priority=HIGH, submitted_at=ago(1)),
        ]
        result = plan([make_node(gpus=4)], pending=pending)
        assert admitted(result) == ["a", "c", "d", "e"]
        assert [e.workload_id for e in result.explanations] == ["a", "c", "d", "e", "b"]

    def test_free_gpus_are_kept_for_the_blocked_workload_ahead(self):
        """A small one may not slip past a large one of the same hardware, or it would starve."""
        result = plan(
            [make_node(gpus=4)],
            [low("l", {"n1": "0 1"}, priority=MEDIUM)],
            [make_workload("big", 4, submitted_at=ago(9)), make_workload("small", 1)],
        )
        assert admitted(result) == ["small"]  # it is older
        result = plan(
            [make_node(gpus=4)],
            [low("l", {"n1": "0 1"}, priority=MEDIUM)],
            [make_workload("big", 4), make_workload("small", 1, submitted_at=ago(9))],
        )
        assert admitted(result) == []
        assert reported(result, "small").reason == Reason.BEHIND_OTHERS
        assert reported(result, "small").summary == "Waiting for 1 GPU of any type behind 'big'."
        assert (reported(result, "big").position, reported(result, "small").position) == (1, 2)

    def test_other_hardware_does_not_idle(self):
        """Who is blocked on one GPU type does not hold up another type."""
        nodes = [make_node("a", 4), make_node("t", 4, gpu_type="t4")]
        blocked = make_workload("blocked", 4, gpu_types=("a100-80gb",))
        behind = make_workload("behind", 1, gpu_types=("t4",), submitted_at=ago(1))
        result = plan(nodes, [low("l", {"a": "0"}, priority=MEDIUM)], [blocked, behind])
        assert admitted(result) == ["behind"]

    def test_who_waits_for_other_hardware_is_not_ahead(self):
        """Two are blocked on two GPU types: each is first in the queue for its own."""
        nodes = [make_node("a", 1), make_node("t", 1, gpu_type="t4")]
        running = [
            low("l", {"a": "0"}, priority=HIGH),
            make_allocation(make_workload("m", priority=HIGH), {"t": "0"}, "t4"),
        ]
        pending = [make_workload("x", gpu_types=("a100-80gb",))]
        pending += [make_workload("y", gpu_types=("t4",), submitted_at=ago(1))]
        result = plan(nodes, running, pending)
        assert {reported(result, w).reason for w in "xy"} == {Reason.WAITING_FOR_GPUS}

    def test_a_node_that_a_gang_could_never_use_is_not_kept_for_it(self):
        """Two nodes of one type are wanted: the only node of another type stays open."""
        nodes = [make_node("a", 2), make_node("b", 2), make_node("t", 2, gpu_type="t4")]
        gang = make_workload("gang", 2, nodes=2)
        pending = [gang, make_workload("small", submitted_at=ago(1))]
        result = plan(nodes, [low("l", {"a": "0"}, priority=HIGH)], pending)
        assert admitted(result) == ["small"]

    def test_a_run_that_cannot_be_considered_blocks_no_other(self):
        """Held ones and those that never fit are explained and passed by."""
        hold = Hold(reason="UnknownQueue", summary="s", resolution="r")
        pending = [
            make_workload("held", priority=CRITICAL, hold=hold),
            make_workload("never", 9, priority=CRITICAL),
            make_workload("next"),
        ]
        result = plan([make_node()], pending=pending)
        assert admitted(result) == ["next"]
        assert (reported(result, "held").reason, reported(result, "held").summary) == (
            "UnknownQueue",
            "s",
        )
        assert reported(result, "never").reason == Reason.EXCEEDS_CLUSTER
        assert {reported(result, w).position for w in ("held", "never", "next")} == {0}

    def test_a_run_does_not_start_beside_its_own_previous_attempt(self):
        """The same run never runs twice, even without a hold."""
        running = low("again", {"n1": "0"})
        result = plan([make_node()], [running], [running.workload])
        assert admitted(result) == []
        assert reported(result, "again").reason == Reason.PREVIOUS_ATTEMPT_ENDING

    def test_a_run_without_gpus_never_waits(self):
        """It needs none of the resources that the queue is for."""
        result = plan(
            [make_node(gpus=1)],
            [low("l", {"n1": "0"}, priority=HIGH)],
            [make_workload("blocked"), make_workload("cpu", 0, priority=LOW)],
        )
        assert admitted(result) == ["cpu"]
        assert reported(result, "cpu").summary == "Starting without GPUs."

    def test_a_gang_starts_on_all_its_nodes_or_not_at_all(self):
        """Half a gang is nothing."""
        gang = make_workload("gang", 2, nodes=2)
        nodes = [make_node("a", 2), make_node("b", 2)]
        [command] = plan(nodes, pending=[gang]).commands
        assert isinstance(command, Admit)
        assert command.placement.shares == (
            NodeShare(node="a", gpu_ids=("0", "1")),
            NodeShare(node="b", gpu_ids=("0", "1")),
        )
        assert admitted(plan(nodes, [low("l", {"b": "0"}, priority=HIGH)], [gang])) == []

    def test_a_gpu_that_its_node_lost_does_not_count(self):
        """Neither a vanished node nor a vanished GPU of a running workload is given out."""
        held = [low("l", {"n1": "7"}), low("m", {"gone": "0"})]
        result = plan([make_node(gpus=2)], held, [make_workload("w", 2)])
        assert admitted(result) == ["w"]


class TestPreemption:
    """Whose GPUs are taken, for whom, and who is safe."""

    def test_the_example_of_the_design_note(self):
        """What DESIGN.md works out by hand."""
        running = [
            low("a", {"n1": "0 1 2 3"}, saved_s_ago=600),
            low("b", {"n1": "4 5"}, saved_s_ago=3600),
        ]
        small = make_workload("small", priority=LOW)
        big = make_workload("big", 6, priority=CRITICAL)
        result = plan([make_node()], running, [small, big])
        assert result.commands == (
            Preempt(
                workload_id="a",
                for_workload_id="big",
                lost_gpu_s=2_400,
                lost_micro_usd=2_400_000,
            ),
        )
        assert reported(result, "small").reason == Reason.BEHIND_OTHERS
        result = plan([make_node()], running, [small, with_shape(big, gpu_count=4)])
        assert preempted(result) == [("a", "big")]
        assert reported(result, "small").reason == Reason.WAITING_FOR_VICTIMS

    def test_what_takes_free_gpus_only_preempts_none(self):
        """A run after a failure waits for GPUs that are free, however urgent it is."""
        running = [low("a", {"n1": "0 1 2 3"}, saved_s_ago=60)]
        urgent = make_workload("urgent", 2, priority=CRITICAL)
        assert preempted(plan([make_node(gpus=4)], running, [urgent])) == [("a", "urgent")]
        patient = replace(urgent, takes_free_only=True)
        assert plan([make_node(gpus=4)], running, [patient]).commands == ()

    def test_own_and_lent_gpus_of_one_node_together_may_lose_the_least(self):
        """A borrower alone frees a node, too; it has computed for a day and saved nothing."""
        quotas = {
            "reserved_ratio": 0,
            "teams": {
                "a": {"nominal_quota": {"*": 6}, "cohort": "all"},
                "b": {"nominal_quota": {"*": 2}, "cohort": "all"},
            },
            "cohorts": {"all": {}},
        }
        running = [
            low("own", {"n1": "0 1"}, saved_s_ago=10, team="a"),
            low("lent", {"n1": "2 3"}, saved_s_ago=10, team="b"),
            low("large", {"n2": "0 1 2 3"}, saved_s_ago=86_400, team="b"),
        ]
        nodes = [make_node("n1", 4), make_node("n2", 4)]
        wanted = make_workload("w", 4, priority=HIGH, team="a")
        policy = make_policy(quotas=quotas)
        assert preempted(plan(nodes, [running[2]], [wanted], policy)) == []
        found = plan([nodes[1]], [running[2]], [wanted], policy)
        assert preempted(found) == [("large", "w")]
        found = plan(nodes, running, [wanted], policy)
        assert sorted(preempted(found)) == [("lent", "w"), ("own", "w")]

    def test_the_least_lost_work_goes_first(self):
        """Who saved a minute ago loses less than who saved an hour ago."""
        running = [
            low("old", {"n1": "0 1"}, saved_s_ago=3600),
            low("new", {"n1": "2 3"}, saved_s_ago=60),
        ]
        result = plan([make_node(gpus=4)], running, [make_workload("w", 2)])
        # 2 GPUs × 60 s at $3.60 per GPU-hour.
        assert result.commands == (
            Preempt(workload_id="new", for_workload_id="w", lost_gpu_s=120, lost_micro_usd=120_000),
        )
        assert reported(result, "w").reason == Reason.WAITING_FOR_VICTIMS
        assert reported(result, "w").expected_start_at == NOW + timedelta(seconds=30)
        assert reported(result, "w").summary == (
            "Waiting for 2 GPUs of any type on one node: 'new' is releasing 2 GPUs by 12:00:30 UTC."
        )

    def test_money_counts_and_not_time(self):
        """An hour of a T4 costs less than half an hour of an A100."""
        nodes = [make_node("a", 1), make_node("t", 1, gpu_type="t4")]
        running = [
            low("dear", {"a": "0"}, saved_s_ago=1800),
            make_allocation(make_workload("cheap", priority=LOW), {"t": "0"}, "t4"),
        ]
        assert preempted(plan(nodes, running, [make_workload()])) == [("cheap", "w")]

    def test_without_a_price_gpu_seconds_count_for_all(self):
        """Unpriced is not free: comparing money with nothing would always pick the unpriced."""
        nodes = [make_node("a", 1), make_node("x", 1, gpu_type="b200")]
        running = [
            low("priced", {"a": "0"}, saved_s_ago=1800),
            make_allocation(make_workload("unpriced", priority=LOW), {"x": "0"}, "b200"),
        ]
        result = plan(nodes, running, [make_workload()])
        assert preempted(result) == [("priced", "w")]
        running[0] = low("priced", {"a": "0"}, min_runtime_s=99_999)
        [command] = plan(nodes, running, [make_workload()]).commands
        assert isinstance(command, Preempt)
        assert (command.lost_gpu_s, command.lost_micro_usd) == (3600, None)

    def test_several_small_ones_may_be_cheaper_than_a_large_one(self):
        """The choice is the cheapest set, not the cheapest one after another."""
        running = [
            low("a", {"n1": "0"}, saved_s_ago=100),
            low("b", {"n1": "1"}, saved_s_ago=100),
            low("c", {"n1": "2 3"}, saved_s_ago=90),
            low("d", {"n1": "4 5 6 7"}, saved_s_ago=1000),
        ]
        result = plan([make_node()], running, [make_workload("w", 4)])
        assert preempted(result) == [("a", "w"), ("b", "w"), ("c", "w")]
        result = plan([make_node()], running, [make_workload("w", 2)])
        assert preempted(result) == [("c", "w")]

    def test_ties_go_to_fewer_then_less_urgent_then_older_then_the_first_id(self):
        """No victim loses work, and the choice is still the same each time."""
        saved = {"saved_s_ago": 0}
        one = [low("a", {"n1": "0"}, **saved), low("b", {"n1": "1"}, **saved)]
        two = low("c", {"n1": "2 3"}, priority=MEDIUM, **saved)
        node = make_node(gpus=4)
        want = make_workload("w", 2, priority=HIGH)
        assert preempted(plan([node], [*one, two], [want])) == [("c", "w")]
        single = make_workload("w", priority=HIGH)
        urgent = [low("a", {"n1": "0"}, priority=MEDIUM, **saved), one[1]]
        assert preempted(plan([make_node(gpus=2)], urgent, [single])) == [("b", "w")]
        young = make_allocation(
            make_workload("a", priority=LOW), {"n1": "0"}, admitted_at=ago(5), checkpointed_at=NOW
        )
        assert preempted(plan([make_node(gpus=2)], [young, one[1]], [single])) == [("b", "w")]
        assert preempted(plan([make_node(gpus=2)], one, [single])) == [("a", "w")]

    @pytest.mark.parametrize(
        "holder",
        [
            pytest.param(low("l", {"n1": "0"}, priority=MEDIUM), id="as urgent"),
            pytest.param(low("l", {"n1": "0"}, priority=HIGH), id="more urgent"),
            pytest.param(low("l", {"n1": "0"}, is_preemptible=False), id="not preemptible"),
        ],
    )
    def test_who_is_safe(self, holder):
        """Equals never preempt each other, nor a workload that opted out."""
        result = plan([make_node(gpus=1)], [holder], [make_workload()])
        assert result.commands == ()
        assert reported(result, "w").reason == Reason.WAITING_FOR_GPUS

    def test_preemption_can_be_switched_off(self):
        """The policy's word is final."""
        policy = make_policy(preemption={"enabled": False})
        result = plan([make_node(gpus=1)], [low("l", {"n1": "0"})], [make_workload()], policy)
        assert result.commands == ()
        assert reported(result, "w").reason == Reason.WAITING_FOR_GPUS

    def test_the_minimum_run_time_protects(self):
        """The owner learns when preemption becomes possible."""
        young = make_allocation(
            make_workload("young", priority=LOW, min_runtime_s=60), {"n1": "0"}, admitted_at=ago(20)
        )
        result = plan([make_node(gpus=1)], [young], [make_workload()])
        assert result.commands == ()
        assert reported(result, "w").reason == Reason.MIN_RUNTIME_PROTECTS
        assert reported(result, "w").numbers["possible_from"] == "2026-09-01T12:00:40+00:00"
        assert reported(result, "w").expected_start_at == NOW + timedelta(seconds=70)
        assert reported(result, "w").summary == (
            "Waiting for 1 GPU of any type: 'young' can be preempted, but not within the minimum "
            "run time, until 12:00:40 UTC."
        )

    @pytest.mark.parametrize(
        ("others", "why"),
        [
            pytest.param(
                (),
                "'starts' can be preempted, but that run is protected while it is starting, until "
                "12:01:30 UTC at the latest",
                id="one that starts",
            ),
            pytest.param(
                [{"begins_by": ago(-20)}],
                "'other-0' and 'starts' can be preempted, but those runs are protected while they "
                "are starting, until 12:01:30 UTC at the latest",
                id="two that start",
            ),
            pytest.param(
                [{"began_at": ago(20)}],
                "'other-0' and 'starts' can be preempted, but not while they are starting or "
                "within the minimum run time, until 12:01:30 UTC",
                id="one that starts and one that runs",
            ),
        ],
    )
    def test_a_start_protects_until_it_is_over_or_takes_too_long(self, others, why):
        """However long ago it was admitted: nothing of it has run."""
        starting = low("starts", {"n1": "0"}, min_runtime_s=60)
        running = [replace(starting, begins_by=ago(-90))]
        for number, changes in enumerate(others):
            other = low(f"other-{number}", {"n1": str(number + 1)}, min_runtime_s=60)
            running.append(replace(other, **changes))
        gpus = len(running)

        result = plan([make_node(gpus=gpus)], running, [make_workload("w", gpus)])

        assert result.commands == ()
        assert reported(result, "w").reason == Reason.MIN_RUNTIME_PROTECTS
        assert reported(result, "w").numbers["possible_from"] == "2026-09-01T12:01:30+00:00"
        assert why in reported(result, "w").summary

    @pytest.mark.parametrize(
        ("other", "why"),
        [
            pytest.param(
                None,
                "'again' can be preempted, but not before the run has recovered the time "
                "lost to preemption, until 12:01:40 UTC.",
                id="one",
            ),
            pytest.param(
                {"preemption_cost_s": 3_690.0},
                "'again' and 'other' can be preempted, but not before they have recovered "
                "the time lost to preemption, until 12:01:40 UTC.",
                id="two",
            ),
            pytest.param(
                {"min_runtime_s": 3_690},
                "'again' and 'other' can be preempted, but not within the minimum run time "
                "or before they have recovered the time lost to preemption, until 12:01:40 "
                "UTC.",
                id="one, and one in its minimum run time",
            ),
        ],
    )
    def test_what_was_preempted_is_not_preempted_again_before_it_has_repaid_that(self, other, why):
        """It was admitted an hour ago, and has worked for a shorter time than it lost before."""
        bound = {"max_protection_s": 86_400.0}
        running = [low("again", {"n1": "0"}, preemption_cost_s=3_700.0, **bound)]
        if other is not None:
            running.append(low("other", {"n1": "1"}, **(bound | other)))
        gpus = len(running)
        result = plan([make_node(gpus=gpus)], running, [make_workload("w", gpus)])
        assert result.commands == ()
        assert reported(result, "w").reason == Reason.MIN_RUNTIME_PROTECTS
        assert why in reported(result, "w").summary

    def test_what_has_repaid_its_preemptions_is_preempted_again(self):
        """To the second: it has worked for an hour."""
        repaid = low("again", {"n1": "0"}, preemption_cost_s=3_600.0, max_protection_s=86_400.0)
        assert preempted(plan([make_node(gpus=1)], [repaid], [make_workload()])) == [("again", "w")]

    def test_who_has_repaid_is_preempted_before_who_has_not(self):
        """The one that has not would lose less."""
        again = low("a", {"n1": "0"}, preemption_cost_s=99.0, max_protection_s=3_600.0)
        again = replace(again, admitted_at=ago(1))
        result = plan([make_node(gpus=2)], [again, low("b", {"n1": "1"})], [make_workload()])
        assert preempted(result) == [("b", "w")]

    def test_the_minimum_run_time_counts_from_the_beginning(self):
        """What waited for its start for an hour has had twenty seconds."""
        waited = low("waited", {"n1": "0"}, min_runtime_s=60)
        waited = replace(waited, began_at=ago(20), begins_by=ago(3_000))
        result = plan([make_node(gpus=1)], [waited], [make_workload()])
        assert result.commands == ()
        assert reported(result, "w").numbers["possible_from"] == "2026-09-01T12:00:40+00:00"

    def test_a_start_that_takes_too_long_protects_no_more(self):
        """Others do not wait for a start that may never come."""
        stuck = replace(low("stuck", {"n1": "0"}, min_runtime_s=60), begins_by=ago(0))
        assert preempted(plan([make_node(gpus=1)], [stuck], [make_workload()])) == [("stuck", "w")]

    def test_who_runs_is_preempted_before_who_starts(self):
        """The one that starts would lose less: nothing."""
        starting = replace(low("a", {"n1": "0"}), admitted_at=ago(1), begins_by=ago(-599))
        running = low("b", {"n1": "1"})
        result = plan([make_node(gpus=2)], [starting, running], [make_workload()])
        assert preempted(result) == [("b", "w")]

    def test_the_minimum_run_time_ends_exactly(self):
        """At its last moment it does not protect any more."""
        ripe = make_allocation(
            make_workload("ripe", priority=LOW, min_runtime_s=60), {"n1": "0"}, admitted_at=ago(60)
        )
        assert preempted(plan([make_node(gpus=1)], [ripe], [make_workload()])) == [("ripe", "w")]

    def test_no_run_passes_one_that_waits_for_a_minimum_run_time(self):
        """The free GPUs of the protected run's node are kept too."""
        young = low("young", {"n1": "0"}, min_runtime_s=99_999)
        pending = [make_workload("big", 2), make_workload("small", submitted_at=ago(1))]
        result = plan([make_node(gpus=2)], [young], pending)
        assert result.commands == ()
        assert reported(result, "big").reason == Reason.MIN_RUNTIME_PROTECTS

    def test_an_unhealthy_gpu_is_no_room(self):
        """It is free, and still both victims are needed."""
        node = make_node(gpus=3, unhealthy_gpu_ids=frozenset("0"))
        running = [low("a", {"n1": "1"}), low("b", {"n1": "2"})]
        result = plan([node], running, [make_workload("w", 2)])
        assert preempted(result) == [("a", "w"), ("b", "w")]

    def test_a_clock_that_is_ahead_makes_no_negative_loss(self):
        """A checkpoint from the future is one from now."""
        [command] = plan(
            [make_node(gpus=1)], [low("a", {"n1": "0"}, saved_s_ago=-500)], [make_workload()]
        ).commands
        assert isinstance(command, Preempt)
        assert (command.lost_gpu_s, command.lost_micro_usd) == (0, 0)

    def test_gpus_that_are_coming_are_waited_for(self):
        """No second victim while the first one is still saving."""
        leaving = make_allocation(
            make_workload("leaving", priority=LOW),
            {"n1": "0"},
            is_draining=True,
            drain_deadline_at=ago(-12),
        )
        result = plan([make_node(gpus=2)], [leaving, low("l", {"n1": "1"})], [make_workload()])
        assert result.commands == ()
        assert reported(result, "w").reason == Reason.WAITING_FOR_VICTIMS
        assert reported(result, "w").expected_start_at == ago(-12)
        second = make_workload("x", submitted_at=ago(1))
        both = [make_workload(), second]
        result = plan([make_node(gpus=2)], [leaving, low("l", {"n1": "1"})], both)
        assert preempted(result) == [("l", "x")]

    def test_two_urgent_runs_are_served_in_one_cycle(self):
        """The second does not wait a grace period for the first."""
        running = [low("a", {"n1": "0"}), low("b", {"n1": "1"})]
        pending = [make_workload("x", priority=HIGH), make_workload("y", priority=HIGH)]
        result = plan([make_node(gpus=2)], running, pending)
        assert preempted(result) == [("a", "x"), ("b", "y")]

    def test_taken_gpus_are_not_up_for_grabs(self):
        """Free GPUs next to the victim's are assigned too: a small one must not use them."""
        result = plan(
            [make_node(gpus=2)],
            [low("l", {"n1": "0"})],
            [make_workload("big", 2), make_workload("small", priority=LOW)],
        )
        assert preempted(result) == [("l", "big")]
        assert admitted(result) == []
        assert reported(result, "small").reason == Reason.BEHIND_OTHERS

    def test_more_than_was_needed_serves_the_next(self):
        """A victim's spare GPUs are assigned to another workload, without another victim."""
        running = [low("l", {"n1": "0 1"}), low("m", {"n1": "2 3"})]
        pending = [make_workload("x"), make_workload("y", submitted_at=ago(1))]
        result = plan([make_node(gpus=4)], running, pending)
        assert preempted(result) == [("l", "x")]
        assert reported(result, "y").reason == Reason.WAITING_FOR_VICTIMS

    def test_a_gang_spares_whom_another_victim_makes_superfluous(self):
        """A gang holds both nodes: the single run chosen for one of them is left alone."""
        nodes = [make_node("a", 2), make_node("b", 2)]
        running = [
            low("gang", {"a": "0", "b": "0"}, saved_s_ago=1000),
            low("single", {"a": "1"}, saved_s_ago=10),
            low("other", {"b": "1"}, saved_s_ago=5000),
        ]
        result = plan(nodes, running, [make_workload("w", 1, nodes=2)])
        assert preempted(result) == [("gang", "w")]

    def test_the_position_in_the_line_is_of_those_who_wait(self):
        """Starting runs have no place in it."""
        result = plan(
            [make_node(gpus=2)],
            [low("l", {"n1": "0"}, priority=HIGH)],
            [make_workload("a", priority=HIGH), make_workload("b"), make_workload("c")],
        )
        assert [reported(result, w).position for w in "abc"] == [0, 1, 2]


class TestExplanations:
    """What an owner reads."""

    def test_the_first_in_line_reads_who_holds_what(self):
        """Numbers, and names with their GPUs."""
        running = [low("train-low", {"n1": "0 1 2 3 4 5"}, priority=MEDIUM)]
        wanted = make_workload("w", 4, gpu_types=("a100-80gb",))
        explanation = reported(plan([make_node()], running, [wanted]), "w")
        assert explanation.reason == Reason.WAITING_FOR_GPUS
        assert explanation.summary == (
            "Waiting for 4 × a100-80gb on one node: 2 of 8 are free, 'train-low' holds 6."
        )
        assert explanation.numbers == {
            "wanted_gpus": 4,
            "free_gpus": 2,
            "usable_gpus": 8,
            "most_free_on_one_node": 2,
            "unhealthy_gpus": 0,
            "avoided_free_gpus": 0,
        }

    def test_why_a_run_is_for_this_kind_of_capacity_follows(self):
        """Whether it waits or starts; a run whose owner chose reads nothing of it."""
        why = "on-demand: critical work requires on-demand capacity"
        chosen = make_workload("w", capacity_type="on-demand", capacity_reason=why)
        for running in ([], [low("l", {"n1": "0"}, priority=HIGH)]):
            explanation = reported(plan([make_node(gpus=1)], running, [chosen]), "w")
            assert explanation.summary.endswith(f". Capacity: {why}.")
            assert explanation.numbers["capacity"] == why

    def test_scattered_and_unhealthy_gpus_are_named(self):
        """Enough are free, but not together."""
        nodes = [
            make_node("a", 2),
            make_node("b", 2),
            make_node("c", 2, unhealthy_gpu_ids=frozenset("1")),
        ]
        running = [low(n, {n: "0"}, priority=MEDIUM) for n in ("a", "b")]
        result = plan(nodes, running, [make_workload("w", 2)])
        assert reported(result, "w").summary == (
            "Waiting for 2 GPUs of any type on one node: 3 of 5 are free (1 on one node), 1 "
            "is unhealthy or in use by other workloads, 'a' holds 1, 'b' holds 1."
        )

    def test_why_well_gpus_are_withheld_and_what_frees_them_is_said(self):
        """Not that they are unhealthy, or used by others."""
        held = HeldGpu(
            gpu_id="GPU-a",
            verdict=HealthVerdict.RESET,
            reason="XID 79 (the GPU has fallen off the bus) (node n1)",
            remedy="restart the machine",
            found_at=None,
        )
        nodes = [
            without_held(make_node(f"n{number}", 2, machine=Machine(gpus=2)), [held])
            for number in (1, 2, 3, 4)
        ]
        explanation = reported(
            plan(
                [*nodes, make_node("z", 2)],
                [low("l", {"z": "0 1"}, priority=HIGH)],
                [make_workload("w", 2)],
            ),
            "w",
        )
        assert explanation.summary == (
            "Waiting for 2 GPUs of any type on one node: 0 of 2 are free, 2 GPUs of n1 "
            "withheld because the held GPU might be assigned to a pod on that node (GPU-a: "
            "XID 79 (the GPU has fallen off the bus)), 2 GPUs of n2 withheld because the "
            "held GPU might be assigned to a pod on that node (GPU-a: XID 79 (the GPU has "
            "fallen off the bus)), and also the GPUs of 2 more nodes, 'l' holds 2."
        )
        assert explanation.resolution == (
            "No run ahead in the queue requires these GPUs. The run can start once enough "
            "GPUs are available. n1: restart the machine, then `kubectl annotate node n1 "
            "prefect-gpu.dev/held-gpus-`. n2: restart the machine, then `kubectl annotate "
            "node n2 prefect-gpu.dev/held-gpus-`."
        )
        only = reported(plan(nodes[:1], [], [make_workload("w", 2)]), "w")
        assert only.resolution.startswith(
            "Insufficient usable GPUs. The run can start once the held GPUs are freed, "
            "withdrawn or replaced. n1: "
        )

    def test_many_holders_are_cut_short(self):
        """Three names, then a number."""
        running = [low(f"r{i}", {"n1": str(i)}, priority=MEDIUM) for i in range(6)]
        result = plan([make_node(gpus=6)], running, [make_workload("w", 1, nodes=1)])
        assert reported(result, "w").summary == (
            "Waiting for 1 GPU of any type: 0 of 6 are free, 'r0' holds 1, 'r1' holds 1, "
            "'r2' holds 1, 3 others hold 3."
        )

    def test_many_ahead_are_cut_short(self):
        """Three names in queue order, then a number."""
        pending = [make_workload(f"w{i}") for i in range(6)]
        result = plan([make_node(gpus=1)], [low("l", {"n1": "0"}, priority=HIGH)], pending)
        assert reported(result, "w5").summary == (
            "Waiting for 1 GPU of any type behind 'w0', 'w1', 'w2' and 2 others."
        )
        assert reported(result, "w5").numbers == {
            "wanted_gpus": 1,
            "ahead": 5,
            "ahead_by": "id",
        }

    def test_what_is_wanted_is_spelled_out(self):
        """Nodes, memory and capacity stand in the sentence."""
        wanted = make_workload(
            "w",
            2,
            nodes=2,
            gpu_types=("a100-80gb", "t4"),
            gpu_memory_gib=40,
            capacity_type="on-demand",
        )
        nodes = [make_node("a", 2), make_node("b", 2)]
        result = plan(nodes, [low("l", {"a": "0"}, priority=HIGH)], [wanted])
        assert reported(result, "w").summary.startswith(
            "Waiting for 2 nodes with 2 × a100-80gb or t4 with 40 GiB (on-demand) each: "
        )

    @pytest.mark.parametrize(
        ("durations_s", "want_start_s"),
        [
            pytest.param([5000, 4000, 9000], 1400, id="when the second of three ends"),
            pytest.param([5000, None, 4000], 1400, id="one unknown end is not needed"),
            pytest.param([5000, None, None], None, id="an unknown end is needed"),
            pytest.param([5000, 3600, 3000], 3600, id="two over their time: as long again"),
        ],
    )
    def test_the_expected_start_is_known_where_ends_are(self, durations_s, want_start_s):
        """From what the owners of running workloads said, and a guess where that has passed."""
        running = [
            low(f"r{i}", {"n1": str(i)}, priority=MEDIUM, expected_duration_s=s)
            for i, s in enumerate(durations_s)
        ]
        result = plan([make_node(gpus=3)], running, [make_workload("w", 2)])
        want = None if want_start_s is None else NOW + timedelta(seconds=want_start_s)
        assert reported(result, "w").expected_start_at == want

    def test_a_victim_of_this_cycle_is_not_expected_to_end_once_more(self):
        """Half of its GPUs are coming already: they must not count twice."""
        nodes = [make_node("n1", 2), make_node("n2", 4, gpu_memory_gib=None)]
        running = [
            low("gang", {"n1": "0 1", "n2": "0 1"}, expected_duration_s=7200),
            low("other", {"n2": "2 3"}, priority=HIGH),
        ]
        pending = [
            make_workload("urgent", priority=CRITICAL, gpu_memory_gib=80),
            make_workload("w", 4),
        ]
        result = plan(nodes, running, pending)
        assert preempted(result) == [("gang", "urgent")]
        assert reported(result, "w").reason == Reason.WAITING_FOR_GPUS
        assert reported(result, "w").expected_start_at is None

    def test_a_later_day_is_written_out(self):
        """A time alone would be taken for today's."""
        running = low("l", {"n1": "0"}, min_runtime_s=100_000)
        summary = reported(plan([make_node(gpus=1)], [running], [make_workload()]), "w").summary
        assert summary.endswith("the minimum run time, until 2026-09-02 14:46:40 UTC.")


class TestContradictions:
    """A snapshot that cannot be true is refused, whatever else is in it."""

    @pytest.mark.parametrize(
        ("nodes", "allocations", "pending", "want_field"),
        [
            pytest.param([make_node(), make_node()], [], [], "nodes", id="a node twice"),
            pytest.param(
                [make_node(gpu_ids=("0", "0"))], [], [], "nodes.n1.gpu_ids", id="a GPU twice"
            ),
            pytest.param(
                [], [], [make_workload(), make_workload()], "pending", id="a workload twice"
            ),
            pytest.param(
                [],
                [low("l", {"n1": "0"}), low("l", {"n1": "1"})],
                [],
                "allocations",
                id="a running workload twice",
            ),
            pytest.param(
                [make_node()],
                [low("l", {"n1": "0"}), low("m", {"n1": "0"})],
                [],
                "allocations.placement",
                id="a GPU held twice",
            ),
        ],
    )
    def test_twice(self, nodes, allocations, pending, want_field):
        """The error names what was there twice."""
        with pytest.raises(InvalidInput) as error:
            plan(nodes, allocations, pending)
        assert error.value.field == f"snapshot.{want_field}"

    def test_a_moment_without_a_zone(self):
        """Its zone would be a guess."""
        with pytest.raises(InvalidInput, match=r"^now has no time zone"):
            plan_cycle(make_snapshot(), POLICY, NOW.replace(tzinfo=None))
