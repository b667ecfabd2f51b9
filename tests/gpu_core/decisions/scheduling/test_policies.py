"""What each part of the policy does in one planning cycle."""

from dataclasses import replace
from datetime import timedelta
from typing import ClassVar

import pytest

from gpu_core.decisions.model.cluster import PastUsage, Snapshot
from gpu_core.decisions.model.reasons import Reason
from gpu_core.decisions.model.workload import RunTime, RunTimeSource
from gpu_core.decisions.policy.policy import parse_policy
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
)


def plan(nodes, allocations=(), pending=(), policy=None, **facts):
    snapshot = replace(
        make_snapshot(tuple(nodes), tuple(allocations), tuple(pending)),
        **facts,
    )
    return plan_cycle(snapshot, policy or make_policy(), NOW)


def admitted(plan):
    return [c.workload_id for c in plan.commands if isinstance(c, Admit)]


def preempted(plan):
    return [(c.workload_id, c.for_workload_id) for c in plan.commands if isinstance(c, Preempt)]


def reported(plan, workload_id):
    return next(e for e in plan.explanations if e.workload_id == workload_id)


def lasting(seconds):
    return RunTime(median_s=seconds, upper_s=seconds, source=RunTimeSource.STATED)


def running(workload_id, gpus, node="n1", **changes):
    return make_allocation(make_workload(workload_id, len(gpus.split()), **changes), {node: gpus})


class TestOrder:
    """Who comes first, and by which key."""

    @pytest.mark.parametrize(
        ("ordering", "first", "second"),
        [
            pytest.param(
                {"keys": ["shortest-job"]},
                {"run_time": lasting(100)},
                {"run_time": lasting(200), "submitted_at": ago(999)},
                id="the shorter job",
            ),
            pytest.param(
                {"keys": ["shortest-job"]},
                {"run_time": lasting(9_999)},
                {"submitted_at": ago(999)},
                id="unknown run times come last",
            ),
            pytest.param(
                {"keys": ["shortest-remaining-service"]},
                {"remaining_s": 300.0, "gpu_count": 1},
                {"remaining_s": 200.0, "gpu_count": 2, "submitted_at": ago(999)},
                id="GPU-seconds left, not seconds",
            ),
            pytest.param(
                {"keys": ["shortest-remaining-time"]},
                {"remaining_s": 200.0, "gpu_count": 2},
                {"remaining_s": 300.0, "submitted_at": ago(999)},
                id="seconds left",
            ),
            pytest.param(
                {"keys": ["least-attained-service"]},
                {"attained_gpu_s": 3_599.0},
                {"attained_gpu_s": 3_601.0, "submitted_at": ago(999)},
                id="a level less of service",
            ),
            pytest.param(
                {"keys": ["least-attained-service"]},
                {"attained_gpu_s": 3_598.0, "submitted_at": ago(70)},
                {"attained_gpu_s": 1.0},
                id="inside a level age decides",
            ),
            pytest.param(
                {"keys": ["least-attained-service"], "service_levels": 2},
                {"attained_gpu_s": 99_999.0, "submitted_at": ago(999)},
                {"attained_gpu_s": 3_601.0},
                id="in the last level age decides",
            ),
            pytest.param(
                {"keys": ["least-attained-service", "most-gpus"], "service_levels": 2},
                {"attained_gpu_s": 99_999.0, "gpu_count": 2},
                {"attained_gpu_s": 3_601.0, "submitted_at": ago(999)},
                id="in the last level the largest",
            ),
            pytest.param(
                {"keys": ["most-gpus"]},
                {"gpu_count": 2},
                {"gpu_count": 1, "submitted_at": ago(999)},
                id="the larger job",
            ),
            pytest.param(
                {"keys": ["deadline-slack"]},
                {"deadline_at": ago(-900), "remaining_s": 600.0},
                {"deadline_at": ago(-600), "submitted_at": ago(999)},
                id="the least slack, not the first deadline",
            ),
            pytest.param(
                {"keys": ["priority", "shortest-job"]},
                {"priority": HIGH, "run_time": lasting(999)},
                {"run_time": lasting(1)},
                id="priority before length",
            ),
            pytest.param(
                {"keys": ["priority"], "aging_points_per_hour": 600},
                {"priority": LOW, "submitted_at": NOW - timedelta(hours=2)},
                {"priority": MEDIUM},
                id="two hours of aging beat 900 points",
            ),
            pytest.param(
                {"keys": ["priority"], "aging_points_per_hour": 400},
                {"priority": MEDIUM},
                {"priority": LOW, "submitted_at": NOW - timedelta(hours=2)},
                id="two hours of less aging do not",
            ),
            pytest.param(
                {"keys": ["priority"], "starvation_after": "1h"},
                {"priority": LOW, "submitted_at": NOW - timedelta(hours=1)},
                {"priority": HIGH},
                id="the run that has waited too long",
            ),
            pytest.param(
                {"keys": ["priority"], "starvation_after": "1h"},
                {"priority": HIGH},
                {
                    "priority": LOW,
                    "submitted_at": NOW - timedelta(hours=9),
                    "attained_gpu_s": 1.0,
                },
                id="who has run before does not starve",
            ),
            pytest.param(
                {"keys": ["priority"]},
                {"priority": LOW, "priority_override": 1},
                {"priority": HIGH},
                id="moved up by a person",
            ),
        ],
    )
    def test_who_comes_first(self, ordering, first, second):
        """One GPU, two who want it: the ids and the order of the input do not help."""
        pending = [make_workload("b", **first), make_workload("a", **second)]
        result = plan(
            [make_node(gpus=max(w.shape.gpu_count for w in pending))],
            pending=pending,
            policy=make_policy(ordering=ordering, preemption={"enabled": False}),
        )
        assert admitted(result)[0] == "b"

    def test_the_first_key_that_differs_is_shown(self):
        """Who waits reads by what the one ahead is ahead."""
        policy = make_policy(ordering={"keys": ["priority", "shortest-job"]})
        pending = [
            make_workload("long", 2, run_time=lasting(50)),
            make_workload("longer", run_time=lasting(60)),
        ]
        held = running("r", "0", priority=HIGH)
        result = plan([make_node(gpus=2)], [held], pending, policy)
        assert reported(result, "longer").numbers["ahead_by"] == "shortest-job"

    def test_fair_share_takes_turns_inside_one_cycle(self):
        """Four runs of one team came first; the other team still gets half."""
        pending = [
            make_workload(f"a{i}", team="a", submitted_at=ago(100 - i)) for i in range(4)
        ] + [make_workload(f"b{i}", team="b", submitted_at=ago(9 - i)) for i in range(4)]
        policy = make_policy(
            ordering={"keys": ["fair-share", "submitted"]}, preemption={"enabled": False}
        )
        result = plan([make_node(gpus=4)], pending=pending, policy=policy)
        assert sorted(admitted(result)) == ["a0", "a1", "b0", "b1"]

    def test_a_share_grows_for_other_shapes_of_the_team_too(self):
        """What its first run starts on counts for the second one, which came second of all."""
        pending = [
            make_workload("a0", team="a", submitted_at=ago(100)),
            make_workload("a1", team="a", submitted_at=ago(99), gpu_types=("a100-80gb",)),
            make_workload("b0", team="b", submitted_at=ago(9)),
        ]
        policy = make_policy(ordering={"keys": ["fair-share"]}, preemption={"enabled": False})
        result = plan([make_node(gpus=2)], pending=pending, policy=policy)
        assert sorted(admitted(result)) == ["a0", "b0"]

    def test_past_usage_counts(self):
        """A team that has had much waits for one that has had little."""
        pending = [make_workload("a", team="a", submitted_at=ago(99)), make_workload("b", team="b")]
        policy = make_policy(ordering={"keys": ["fair-share"]}, preemption={"enabled": False})
        usage = PastUsage(gpu_s_by_user={("a", None): 7200.0, ("b", None): 1800.0})
        result = plan([make_node(gpus=1)], pending=pending, policy=policy, usage=usage)
        assert admitted(result) == ["b"]

    @pytest.mark.parametrize("keys", [["priority"], ["priority", "fair-share"]])
    def test_the_run_that_others_were_preempted_for_comes_first(self, keys):
        """A later workload does not get what was freed for it."""
        pending = [make_workload("urgent", priority=HIGH), make_workload("w")]
        preemptors = frozenset({"w", "gone"})
        policy = make_policy(ordering={"keys": keys})
        result = plan([make_node(gpus=1)], pending=pending, policy=policy, preemptors=preemptors)
        assert admitted(result) == ["w"]


class TestBackfill:
    """What starts in front of whom, and what never does."""

    # `big` wants all four; `r` holds two for 1,000 s more.
    HOLDS_TWO = running("r", "0 1", priority=HIGH, run_time=lasting(4_600))

    @pytest.mark.parametrize(
        ("small", "want"),
        [
            pytest.param({"run_time": lasting(1_000)}, ["small"], id="ends just in time"),
            pytest.param({"run_time": lasting(1_001)}, [], id="a second too long"),
            pytest.param({}, [], id="it is unknown how long"),
            pytest.param({"expected_duration_s": 900}, ["small"], id="its owner said"),
        ],
    )
    def test_the_first_in_line_is_not_delayed(self, small, want):
        """It would start in 1,000 s; a workload that starts before it has ended by then."""
        pending = [make_workload("big", 4, submitted_at=ago(90)), make_workload("small", **small)]
        result = plan([make_node(gpus=4)], [self.HOLDS_TWO], pending)
        assert admitted(result) == want
        assert reported(result, "big").expected_start_at == NOW + timedelta(seconds=1_000)
        if not want:
            assert reported(result, "small").reason is Reason.RESERVED_AHEAD

    def test_gpus_beside_the_reservation_are_open(self):
        """`big` leaves one GPU of the five: another may use it for any time."""
        pending = [make_workload("big", 4, submitted_at=ago(90)), make_workload("small")]
        result = plan([make_node(gpus=5)], [self.HOLDS_TWO], pending)
        assert admitted(result) == ["small"]

    def test_what_starts_beside_the_reservation_counts_for_the_next_one(self):
        """`big` leaves one GPU of the six: the second one that wants it is too late."""
        pending = [make_workload("big", 5, submitted_at=ago(90))]
        pending += [make_workload(f"s{i}", submitted_at=ago(50 - i)) for i in range(2)]
        result = plan([make_node(gpus=6)], [self.HOLDS_TWO], pending)
        assert admitted(result) == ["s0"]

    def test_a_shorter_one_of_the_same_kind_may_pass_a_longer_one(self):
        """The second of three alike is short enough."""
        pending = [make_workload("big", 4, submitted_at=ago(90))] + [
            make_workload(f"s{i}", run_time=lasting(s), submitted_at=ago(50 - i))
            for i, s in enumerate([2_000, 500, 3_000])
        ]
        result = plan([make_node(gpus=4)], [self.HOLDS_TWO], pending)
        assert admitted(result) == ["s1"]

    def test_a_strict_queue_passes_no_run(self):
        """Even a run of a second waits."""
        pending = [
            make_workload("big", 4, submitted_at=ago(90)),
            make_workload("small", run_time=lasting(1)),
        ]
        policy = make_policy(backfill={"mode": "none"})
        assert admitted(plan([make_node(gpus=4)], [self.HOLDS_TWO], pending, policy)) == []

    @pytest.mark.parametrize(("mode", "want"), [("easy", ["third"]), ("conservative", [])])
    def test_only_conservative_protects_the_second(self, mode, want):
        """`second` could start in 2,000 s, when `first` has ended; `third` would be in its way."""
        nodes = [make_node("n1", 2), make_node("n2", 2)]
        held = [
            running("r", "0 1", "n1", priority=HIGH, run_time=lasting(4_600)),
            running("q", "0", "n2", priority=HIGH, run_time=lasting(5_600)),
        ]
        pending = [
            make_workload("first", 2, submitted_at=ago(90), run_time=lasting(10_000)),
            make_workload("second", 2, submitted_at=ago(80), run_time=lasting(10_000)),
            make_workload("third", 1, submitted_at=ago(70), run_time=lasting(5_000)),
        ]
        result = plan(nodes, held, pending, make_policy(backfill={"mode": mode}))
        assert admitted(result) == want

    @pytest.mark.parametrize(("mode", "want"), [("easy", ["s"]), ("auto", [])])
    def test_a_gang_gets_its_nodes_together(self, mode, want):
        """The node that is free waits for the one that comes; a long run does not slip in.

        A short one does, where run times are taken for exact.
        """
        nodes = [make_node("n1", 2), make_node("n2", 2)]
        held = [running("r", "0 1", "n1", priority=HIGH, run_time=lasting(4_600))]
        gang = make_workload("gang", 2, nodes=2, submitted_at=ago(90))
        long, short = (
            make_workload(name, run_time=lasting(s)) for name, s in [("long", 2_000), ("s", 900)]
        )
        result = plan(nodes, held, [gang, long, short], make_policy(backfill={"mode": mode}))
        assert admitted(result) == want
        assert reported(result, "gang").expected_start_at == NOW + timedelta(seconds=1_000)

    def test_without_known_ends_everything_is_kept(self):
        """No start can be computed, so the nodes are kept."""
        pending = [
            make_workload("big", 4, submitted_at=ago(90)),
            make_workload("small", run_time=lasting(1)),
        ]
        held = running("r", "0 1", priority=HIGH)
        assert admitted(plan([make_node(gpus=4)], [held], pending)) == []


QUOTAS = {
    "strategy": "hybrid",
    "reserved_ratio": 0,
    "teams": {
        "a": {"nominal_quota": {"*": 4}, "cohort": "all"},
        "b": {"nominal_quota": {"*": 4}, "cohort": "all"},
    },
    "cohorts": {"all": {}},
}


class TestQuotas:
    """Who may have how much, and who has to give it back."""

    POLICY = make_policy(quotas=QUOTAS)

    def test_idle_quota_is_lent(self):
        """Team a alone may have all eight GPUs."""
        pending = [make_workload(f"a{i}", 2, team="a", submitted_at=ago(9 - i)) for i in range(5)]
        result = plan([make_node()], pending=pending, policy=self.POLICY)
        assert admitted(result) == ["a0", "a1", "a2", "a3"]

    def test_without_borrowing_the_nominal_quota_is_all(self):
        """Four GPUs are free, and not for team a."""
        quotas = QUOTAS | {
            "teams": {
                "a": {"nominal_quota": {"*": 4}, "cohort": "all", "borrowing_limit": {"*": 0}},
                "b": {"nominal_quota": {"*": 4}, "cohort": "all"},
            }
        }
        pending = [make_workload(f"a{i}", 2, team="a", submitted_at=ago(9 - i)) for i in range(3)]
        result = plan([make_node()], pending=pending, policy=make_policy(quotas=quotas))
        assert admitted(result) == ["a0", "a1"]
        assert reported(result, "a2").reason is Reason.WAITING_FOR_QUOTA
        assert reported(result, "a2").summary == (
            "Waiting for quota: team 'a' uses 4 GPUs with 0 remaining, but this run requires 2."
        )
        too_large = make_workload("x", 6, team="a")
        result = plan([make_node()], pending=[too_large], policy=make_policy(quotas=quotas))
        assert reported(result, "x").reason is Reason.EXCEEDS_QUOTA

    def test_what_was_lent_is_taken_back(self):
        """Team b is within its quota; team a loses the cheapest victim."""
        held = [
            make_allocation(
                make_workload(f"a{i}", 2, team="a", priority=HIGH),
                {"n1": f"{2 * i} {2 * i + 1}"},
                checkpointed_at=ago(100 * (i + 1)),
            )
            for i in range(4)
        ]
        mine = make_workload("b", 2, team="b", priority=LOW)
        result = plan([make_node()], held, [mine], self.POLICY)
        assert preempted(result) == [("a0", "b")]

    def test_a_team_that_borrows_takes_from_no_other(self):
        """Team b has its four: a fifth would be borrowed, whatever its priority."""
        held = [
            running("a", "0 1 2 3", team="a", priority=LOW),
            running("b", "4 5 6 7", team="b", priority=HIGH),
        ]
        more = make_workload("more", 1, team="b", priority=HIGH)
        result = plan([make_node()], held, [more], self.POLICY)
        assert result.commands == ()
        assert reported(result, "more").reason is Reason.WAITING_FOR_QUOTA

    def test_within_a_team_priority_counts(self):
        """Its own less urgent run makes room; another team's does not."""
        held = [
            running("a", "0 1 2 3", team="a", priority=LOW),
            running("b", "4 5 6 7", team="b", priority=LOW),
        ]
        urgent = make_workload("urgent", 1, team="b", priority=HIGH)
        result = plan([make_node()], held, [urgent], self.POLICY)
        assert preempted(result) == [("b", "urgent")]

    def test_no_more_is_taken_back_than_was_lent(self):
        """Team a has borrowed two GPUs: a gang of four has to wait for the other two."""
        held = [
            running("a0", "0 1 2", team="a"),
            running("a1", "3 4 5", team="a"),
            running("b0", "6 7", team="b", priority=HIGH),
        ]
        result = plan([make_node()], held, [make_workload("w", 2, team="b")], self.POLICY)
        assert len(preempted(result)) == 1
        result = plan([make_node()], held, [make_workload("w", 4, team="b")], self.POLICY)
        assert preempted(result) == []

    def test_a_user_has_a_limit(self):
        """The third GPU of one user waits; another user's run does not."""
        pending = [make_workload(f"u{i}", user="u", submitted_at=ago(9 - i)) for i in range(3)] + [
            make_workload("v", user="v")
        ]
        policy = make_policy(limits={"max_gpus_per_user": 2})
        result = plan([make_node()], pending=pending, policy=policy)
        assert sorted(admitted(result)) == ["u0", "u1", "v"]
        assert reported(result, "u2").reason is Reason.USER_LIMIT


class TestBudgetsAndCalendar:
    """What money and the calendar allow."""

    def test_a_run_that_would_pass_the_limit_waits(self):
        """Two hours of one GPU at $3.60 and one that is admitted before it: $7.20 of $10."""
        policy = make_policy(
            budgets=[{"name": "vision", "scope": "team", "of": "v", "period": "month", "usd": 10}]
        )
        pending = [
            make_workload(f"v{i}", team="v", run_time=lasting(3_600), submitted_at=ago(9 - i))
            for i in range(3)
        ]
        result = plan([make_node()], pending=pending, policy=policy)
        assert admitted(result) == ["v0", "v1"]
        assert reported(result, "v2").reason is Reason.BUDGET_EXCEEDED
        assert "$10.80 of $10.00" in reported(result, "v2").summary

    def test_a_cheaper_gpu_that_the_budget_pays_is_taken(self):
        """The A100 is too dear, the T4 is not."""
        policy = make_policy(
            budgets=[{"name": "pool", "scope": "pool", "period": "month", "usd": 1}]
        )
        nodes = [make_node("a"), make_node("t", gpu_type="t4")]
        wanted = make_workload(run_time=lasting(3_600), gpu_types=("a100-80gb", "t4"))
        [command] = plan(nodes, pending=[wanted], policy=policy).commands
        assert command.placement.gpu_type == "t4"

    WINDOW: ClassVar = {
        "closures": [
            {
                "name": "driver update",
                "starts_at": "2026-09-01T13:00:00Z",
                "ends_at": "2026-09-01T14:00:00Z",
                "nodes": ["n1"],
            }
        ]
    }

    @pytest.mark.parametrize(("run_time_s", "want"), [(3_600, ["w"]), (3_601, []), (None, [])])
    def test_runs_end_before_a_maintenance_window(self, run_time_s, want):
        """The window begins in an hour; a run of unknown length may not be over by then."""
        run_time = None if run_time_s is None else lasting(run_time_s)
        pending = [make_workload("w", run_time=run_time)]
        result = plan([make_node()], pending=pending, policy=make_policy(calendar=self.WINDOW))
        assert admitted(result) == want
        if not want:
            assert reported(result, "w").reason is Reason.CAPACITY_CLOSED

    def test_a_reserved_start_is_after_a_window_that_the_run_would_meet(self):
        """GPUs are released in 1,000 s; three hours from then on would meet the window."""
        held = running("r", "0 1 2 3", priority=HIGH, run_time=lasting(4_600))
        pending = [make_workload("w", 4, run_time=lasting(10_800))]
        policy = make_policy(calendar=self.WINDOW)
        result = plan([make_node(gpus=4)], [held], pending, policy)
        assert reported(result, "w").expected_start_at == NOW + timedelta(hours=2)

    def test_a_weekly_window_does_not_put_off_a_run_of_unknown_length(self):
        """A day is assumed: it starts when the GPUs are released, and none starts before."""
        every_sunday = {"weekdays": ["sun"], "starts": "02:00", "ends": "06:00"}
        policy = make_policy(
            calendar={"closures": [{"name": "drivers", "nodes": ["n1"], "weekly": every_sunday}]}
        )
        held = running("r", "0 1", priority=HIGH, run_time=lasting(4_600))
        pending = [
            make_workload("big", 4, submitted_at=ago(90)),
            make_workload("long", run_time=lasting(20_000)),
        ]
        result = plan([make_node(gpus=4)], [held], pending, policy)
        assert reported(result, "big").expected_start_at == NOW + timedelta(seconds=1_000)
        assert admitted(result) == []

    def test_an_advance_reservation_is_there_for_its_team(self):
        """Its own runs start, those of others wait for it to end."""
        [window] = self.WINDOW["closures"]
        policy = make_policy(calendar={"closures": [window | {"for_team": "v"}]})
        pending = [make_workload("v", team="v"), make_workload("w", team="w")]
        result = plan([make_node()], pending=pending, policy=policy)
        assert admitted(result) == ["v"]


class TestWhatWaitedLong:
    """What was put before others in spite of its priority is not preempted for them."""

    AGING: ClassVar = {"ordering": {"keys": ["priority"], "aging_points_per_hour": 500}}
    STARVATION: ClassVar = {"ordering": {"keys": ["priority"], "starvation_after": "1h"}}

    @pytest.mark.parametrize(
        ("sections", "low", "waits", "want"),
        [
            pytest.param(AGING, {"submitted_at": ago(7_200 + 600)}, {}, [], id="by aging"),
            pytest.param(
                AGING,
                {"submitted_at": ago(3_600 + 600)},
                {},
                [("low", "w")],
                id="aging is not enough",
            ),
            pytest.param(
                AGING,
                {"submitted_at": ago(7_200 + 600)},
                {"priority": CRITICAL},
                [("low", "w")],
                id="aging, before a critical run",
            ),
            pytest.param(STARVATION, {"submitted_at": ago(4_500)}, {}, [], id="by starvation"),
            pytest.param(
                STARVATION,
                {"submitted_at": ago(4_500)},
                {"submitted_at": ago(500)},
                [("low", "w")],
                id="starvation, and the other came after it had started",
            ),
            pytest.param(
                STARVATION,
                {"submitted_at": ago(4_500), "attained_gpu_s": 1.0},
                {},
                [("low", "w")],
                id="what has had GPUs does not starve",
            ),
            pytest.param({}, {"priority_override": 1}, {}, [], id="by a person"),
            pytest.param(
                {},
                {"priority_override": 1},
                {"priority_override": 1},
                [("low", "w")],
                id="a person moved the other up, too",
            ),
            pytest.param({}, {}, {}, [("low", "w")], id="nothing put it first"),
        ],
    )
    def test_it_keeps_its_gpus(self, sections, low, waits, want):
        """The low run started 10 minutes ago, and the medium one has waited for 15."""
        run = make_workload("low", **{"priority": LOW, "submitted_at": ago(1_200), **low})
        held = [make_allocation(run, {"n1": "0"}, admitted_at=ago(600))]
        other = make_workload("w", **{"priority": MEDIUM, "submitted_at": ago(900), **waits})
        result = plan([make_node(gpus=1)], held, [other], make_policy(**sections))
        assert preempted(result) == want


class TestTakingTurns:
    """Preemption by the order itself."""

    POLICY = make_policy(
        ordering={"keys": ["least-attained-service"]},
        preemption={"takes_from": "later-in-order"},
    )

    def test_who_has_had_more_makes_room(self):
        """The run that has had an hour goes, the one that has just started stays."""
        held = [
            running("old", "0"),
            make_allocation(make_workload("new"), {"n1": "1"}, admitted_at=ago(10)),
        ]
        result = plan([make_node(gpus=2)], held, [make_workload("w")], self.POLICY)
        assert preempted(result) == [("old", "w")]

    @pytest.mark.parametrize(
        ("keys", "want"),
        [
            pytest.param(["least-attained-service", "most-gpus"], [("old", "gang")], id="larger"),
            pytest.param(["least-attained-service"], [], id="only its size would be ahead"),
        ],
    )
    def test_a_gang_takes_over_among_long_runs(self, keys, want):
        """Both have had their hour: in the last level the gang's size counts."""
        policy = make_policy(
            ordering={"keys": keys, "service_levels": 2},
            preemption={"takes_from": "later-in-order"},
        )
        held = [make_allocation(make_workload("old", attained_gpu_s=9_999.0), {"n1": "0"})]
        gang = make_workload("gang", 2, attained_gpu_s=99_999.0)
        result = plan([make_node(gpus=2)], held, [gang], policy)
        assert preempted(result) == want

    def test_what_waited_long_is_ahead_in_the_queue_only(self):
        """Aging and starvation change positions; they let none preempt by order."""
        policy = make_policy(
            ordering={
                "keys": ["priority"],
                "aging_points_per_hour": 900,
                "starvation_after": "1h",
            },
            preemption={"takes_from": "later-in-order"},
        )
        held = [make_allocation(make_workload("medium", priority=MEDIUM), {"n1": "0"})]
        old = make_workload("old", priority=LOW, submitted_at=ago(9_999))
        urgent = make_workload("urgent", priority=HIGH)
        assert preempted(plan([make_node(gpus=1)], held, [old], policy)) == []
        assert preempted(plan([make_node(gpus=1)], held, [urgent], policy)) == [
            ("medium", "urgent")
        ]

    def test_equals_do_not_take_turns(self):
        """None is ahead by the policy: age alone preempts none."""
        held = [make_allocation(make_workload("new"), {"n1": "0"}, admitted_at=ago(10))]
        waiting = make_workload("w", submitted_at=ago(9_999))
        assert plan([make_node(gpus=1)], held, [waiting], self.POLICY).commands == ()


def test_the_snapshot_says_who_waits_once():
    """A snapshot without anything is a plan without anything."""
    assert plan_cycle(Snapshot(nodes=(), allocations=(), pending=()), make_policy(), NOW) == (
        plan([], [], [])
    )


@pytest.mark.parametrize(
    "quota",
    [
        pytest.param({"*": 4}, id="of any type"),
        pytest.param({"a100-80gb": 4}, id="of another type"),
    ],
)
@pytest.mark.parametrize("nodes", [0, 1], ids=["no node is left", "nodes of another type are left"])
def test_a_run_whose_kind_of_gpu_is_gone_stops_no_planning(quota, nodes):
    """A node went while its pod still counts as held: the others are planned all the same."""
    held = make_allocation(make_workload("held", team="a"), {"gone": "0"}, gpu_type="t4")
    snapshot = Snapshot(
        nodes=tuple(make_node(f"n{number}", 2) for number in range(nodes)),
        allocations=(held,),
        pending=(make_workload("w", team="a"),),
    )
    policy = parse_policy({"version": 1, "quotas": {"teams": {"a": {"nominal_quota": quota}}}})
    plan = plan_cycle(snapshot, policy, NOW)
    assert [e.reason for e in plan.explanations] == [
        Reason.STARTING if nodes else Reason.EXCEEDS_CLUSTER
    ]
