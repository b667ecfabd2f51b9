"""What the worker knows of the past, from a real ledger that others write to."""

from collections import Counter
from dataclasses import replace
from datetime import timedelta
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from uuid import UUID, uuid4

import anyio
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from prefect.client.schemas.objects import FlowRun

from gpu_core.adapters.files.run_files import CheckpointReport
from gpu_core.adapters.ledger import Ledger
from gpu_core.decisions.model.attempts import EndReason, Provenance
from gpu_core.decisions.model.cluster import ZONE_LABEL
from gpu_core.decisions.model.interruption_hazard import SPOT_PRIOR
from gpu_core.decisions.model.prices import PriceChange, Rates
from gpu_core.decisions.model.workload import RunTimeSource
from gpu_core.decisions.requests.runs.run_workload import RunLimits, workload_from_request
from gpu_core.decisions.requests.variables.job_variables import GpuRequest
from gpu_core.testing.builders.attempts import admit, at, make_attempt, make_run
from gpu_core.testing.builders.workloads import (
    make_allocation,
    make_node,
    make_policy,
    make_workload,
)
from gpu_core.worker.attempts.state import AttemptState
from gpu_core.worker.pending.demand import Demand
from gpu_core.worker.pending.history import History

BUDGETED = make_policy(
    ordering={"keys": ["fair-share"]},
    preemption={"enabled": False, "max_protection": "30m"},
    budgets=[{"name": "all", "scope": "pool", "period": "day", "usd": 100}],
    run_times={"min_runs": 3},
)


@pytest.fixture
def ledger(tmp_path):
    with Ledger.open(f"sqlite:///{tmp_path / 'ledger.db'}") as opened:
        yield opened


@pytest.fixture
def history(ledger):
    return History(ledger, "gpus")


def look(history, hours, policy=BUDGETED):
    anyio.run(history.refresh, policy, at(hours))
    return history.usage(at(hours))


def opened(ledger, run, number=1, **fields):
    attempt = make_attempt(run.flow_run_id, number, **fields)
    admit(ledger, attempt, run)
    return attempt.attempt_id


def close(ledger, attempt_id, hours, reason=EndReason.COMPLETED, end_message=None, **more):
    ledger.close_attempt(
        attempt_id,
        released_at=at(hours),
        end_reason=reason,
        end_message=end_message,
        exit_code=0,
        is_charged_failure=False,
        **more,
    )


def demand(run_id, run_count=0, **workload):
    return Demand(
        flow_run=FlowRun(id=UUID(run_id), flow_id=uuid4(), run_count=run_count),
        flow_name="train",
        deployment="train/gpu",
        queue="medium",
        request=GpuRequest(),
        limits=RunLimits(max_duration_s=None, max_failures=3, max_interruptions=None),
        workload=make_workload(run_id, team="vision", **workload),
    )


def known(history, run_id, **more):
    found = anyio.run(
        history.of_pending, {run_id: demand(run_id, **more)}, (), (), BUDGETED, at(12)
    )
    return found[run_id].workload


def test_usage_follows_the_ledger(ledger, history):
    """An open attempt grows, one that ended does not, and a withdrawn one never was."""
    ended, runs_on = (opened(ledger, make_run(name)) for name in ("ended", "runs-on"))
    assert look(history, 1).micro_usd_by_budget == {"all": 2_000_000}
    close(ledger, ended, 1.5)
    withdrawn = opened(ledger, make_run("withdrawn"), admitted_at=at(1.5))
    assert look(history, 2).micro_usd_by_budget == {"all": 4_000_000}
    ledger.withdraw_attempt(withdrawn)
    close(ledger, runs_on, 3)
    usage = look(history, 4)
    assert usage.micro_usd_by_budget == {"all": 4_500_000}
    assert usage.gpu_s_by_budget == {"all": 16_200}
    assert usage.gpu_s_by_user.keys() == {("vision", "ada")}


def test_an_end_that_is_not_judged_yet_takes_nothing_more_from_a_budget(ledger, history):
    """Prefect is away: the process has ended, and its GPUs are another run's."""
    attempt_id = opened(ledger, make_run())
    assert look(history, 1).micro_usd_by_budget == {"all": 1_000_000}
    ledger.note_gone(attempt_id, at(1.5), None)
    assert look(history, 4).micro_usd_by_budget == {"all": 1_500_000}
    close(ledger, attempt_id, 1.5)
    assert look(history, 5).micro_usd_by_budget == {"all": 1_500_000}


def test_a_new_worker_knows_what_the_last_one_knew(ledger, history):
    """Everything is in the ledger; the sums agree to the micro-dollar, the shares to a float."""
    close(ledger, opened(ledger, make_run("ended")), 1.5)
    look(history, 1)
    opened(ledger, make_run("runs"), admitted_at=at(1.2))
    old, new = look(history, 2), look(History(ledger, "gpus"), 2)
    assert new.micro_usd_by_budget == old.micro_usd_by_budget
    assert new.gpu_s_by_user == pytest.approx(old.gpu_s_by_user)


STEPS = st.one_of(
    st.tuples(st.just("open"), st.integers(0, 3)),
    st.tuples(
        st.sampled_from(["first step", "save", "withdraw", "gone", "dearer"]), st.integers(0, 3)
    ),
    st.tuples(st.sampled_from([EndReason.COMPLETED, EndReason.INTERRUPTED]), st.integers(0, 3)),
    st.tuples(st.just("look"), st.just(0)),
)


@settings(max_examples=40, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(st.lists(STEPS, min_size=5, max_size=30))
def test_reading_what_has_changed_teaches_what_reading_all_teaches(steps):
    """Whatever starts, steps, saves, gets dearer, ends or is withdrawn between two looks."""
    with TemporaryDirectory() as folder, Ledger.open(f"sqlite:///{folder}/ledger.db") as ledger:
        history, open_ids, worked, numbers = History(ledger, "gpus"), {}, set(), Counter()
        for tick, (step, which) in enumerate(steps, start=1):
            hours, run = tick / 100, f"run-{which}"
            if step == "look":
                look(history, hours)
            elif step == "open" and run not in open_ids:
                numbers[run] += 1
                open_ids[run] = opened(
                    ledger, make_run(run), numbers[run], admitted_at=at(hours), capacity_type="spot"
                )
            elif step == "withdraw" and open_ids.get(run) not in worked:
                # Only an attempt that has never started is withdrawn.
                ledger.withdraw_attempt(open_ids.pop(run, ""))
            elif step == "gone" and run in open_ids:
                worked.add(open_ids[run])
                ledger.note_gone(open_ids[run], at(hours), None)
            elif step == "dearer" and run in open_ids:
                ledger.add_price(
                    make_attempt(attempt_id=open_ids[run], later_prices=(dear(hours),))
                )
            elif isinstance(step, EndReason) and run in open_ids:
                close(ledger, open_ids.pop(run), hours, step)
            elif step in ("first step", "save") and run in open_ids:
                worked.add(open_ids[run])
                ledger.heartbeat(at(hours), {open_ids[run]: report(open_ids[run], step, hours)})
        end = (len(steps) + 1) / 100
        warm, cold = look(history, end), look(new := History(ledger, "gpus"), end)
        assert warm.micro_usd_by_budget == cold.micro_usd_by_budget
        assert warm.gpu_s_by_budget == cold.gpu_s_by_budget
        shares = [usage.gpu_s_by_user.get(("vision", "ada"), 0) for usage in (warm, cold)]
        assert shares[0] == pytest.approx(shares[1], abs=1e-6)
        run_id = str(uuid4())
        assert known(history, run_id) == known(new, run_id)


def dear(hours):
    """A price that counts from then."""
    return PriceChange(since=at(hours), rates=Rates(gpu_micro_usd_per_hour=9_000_000, source="c"))


def report(attempt_id, step, hours):
    """What an attempt says of its first step, or of a checkpoint."""
    if step == "first step":
        return CheckpointReport(attempt_id=attempt_id, first_step_at=at(hours))
    return CheckpointReport(attempt_id=attempt_id, saved_at=at(hours), expected_loss_s=60 * hours)


def test_a_look_reads_only_the_runs_that_have_changed(ledger, history, monkeypatch):
    """A busy pool has hundreds that run on, and every look would read all of them."""
    ended, runs_on = (opened(ledger, make_run(name)) for name in ("ended", "runs-on"))
    look(history, 1)
    read = []
    whole = ledger.records_of
    monkeypatch.setattr(ledger, "records_of", lambda ids: read.append(list(ids)) or whole(ids))
    look(history, 1.1)
    close(ledger, ended, 1.15)
    look(history, 1.2)
    ledger.heartbeat(at(1.3), {runs_on: CheckpointReport(attempt_id=runs_on, saved_at=at(1.25))})
    look(history, 1.3)
    assert read == [[], ["ended"], ["runs-on"]]


def test_an_attempt_that_waited_for_its_node_counts_from_when_that_came(ledger, history):
    """Not from its admission, and the same as for a worker that starts anew."""
    run = make_run()
    waiting = make_attempt(node="new/big/0", price_micro_usd_per_gpu_hour=0)
    admit(ledger, waiting, run)
    assert look(history, 1).micro_usd_by_budget == {"all": 0}
    there = replace(waiting, node="n1", admitted_at=at(1), price_micro_usd_per_gpu_hour=1_000_000)
    ledger.move_attempt(there)
    history.moved(
        AttemptState(
            attempt=there,
            record=run,
            workload=make_workload(),
            request=GpuRequest(),
            limits=RunLimits(max_duration_s=None, max_failures=3, max_interruptions=None),
            run_dir=Path(),
        )
    )
    old, new = look(history, 3), look(History(ledger, "gpus"), 3)
    assert old.micro_usd_by_budget == new.micro_usd_by_budget == {"all": 2_000_000}
    assert old.gpu_s_by_budget == new.gpu_s_by_budget == {"all": 7_200}
    assert old.gpu_s_by_user == pytest.approx(new.gpu_s_by_user)


def test_a_budget_is_whole_again_in_its_next_period(ledger, history):
    """What runs over midnight counts in both days."""
    opened(ledger, make_run())
    assert look(history, 11).micro_usd_by_budget == {"all": 11_000_000}
    assert look(history, 13).micro_usd_by_budget == {"all": 1_000_000}


def test_an_end_that_is_written_down_hours_later_counts_from_when_it_was(ledger, history):
    """A machine that died is found by the next one."""
    attempt_id = opened(ledger, make_run())
    look(history, 1)
    look(history, 8)
    close(ledger, attempt_id, 2)
    assert look(history, 9).micro_usd_by_budget == {"all": 2_000_000}


@pytest.mark.parametrize(
    "other",
    [
        pytest.param({"pool": "others"}, id="of another pool"),
        pytest.param({"provenance": Provenance.GENERATED}, id="made up"),
    ],
)
def test_only_what_this_pool_measured_counts(ledger, history, other):
    """A ledger may serve several pools, and hold demonstrations."""
    opened(ledger, make_run(**other))
    assert look(history, 1).micro_usd_by_budget == {"all": 0}


def test_run_times_are_learned_from_what_completed(ledger, history):
    """Before the worker started and since; each run once, failures never."""
    for number in range(5):
        close(ledger, opened(ledger, make_run(f"early-{number}")), 1)
    close(ledger, opened(ledger, make_run("failed")), 0.1, EndReason.FAILED)
    run_id = str(uuid4())
    look(history, 1)
    early = known(history, run_id).run_time
    for number in range(20):
        close(ledger, opened(ledger, make_run(f"late-{number}"), admitted_at=at(1)), 4)
    look(history, 4)
    look(history, 4.01)
    late = known(history, run_id).run_time

    assert early is not None
    assert (early.source, early.median_s) == (RunTimeSource.LEARNED, 3_600)
    assert late is not None
    assert late.median_s == 3 * 3_600


def test_a_workload_is_made_anew_only_where_its_past_has_changed(ledger, history):
    """As others of its deployment end, its own attempt ends, or it asks for something else."""
    run_id = str(uuid4())
    asked = demand(run_id, run_count=1, expected_duration_s=3 * 3_600)

    def planned(asked):
        found = anyio.run(history.of_pending, {run_id: asked}, (), (), BUDGETED, at(12))
        return found[run_id]

    look(history, 1)
    first = planned(asked)
    assert planned(asked) is first
    close(ledger, opened(ledger, make_run(run_id)), 2, EndReason.PREEMPTED)
    look(history, 3)
    second = planned(asked)
    assert (first.workload.attained_gpu_s, second.workload.attained_gpu_s) == (0, 7_200)
    other = planned(replace(asked, workload=replace(asked.workload, priority=7)))
    assert (other.workload.priority, other.workload.attained_gpu_s) == (7, 7_200)
    renamed = planned(replace(asked, flow_name="other"))
    assert renamed.flow_name == "other"
    anyio.run(history.of_pending, {}, (), (), BUDGETED, at(12))
    assert (history._known, history._planned) == ({}, {})


def test_a_run_that_comes_back_knows_what_it_has_had_and_saved(ledger, history):
    """Two hours held, one of them safe, of three stated ones."""
    run_id = str(uuid4())
    attempt_id = opened(ledger, make_run(run_id))
    close(ledger, attempt_id, 2, EndReason.PREEMPTED, checkpoint="k", checkpointed_at=at(1))
    look(history, 3)
    workload = known(history, run_id, run_count=1, expected_duration_s=3 * 3_600)
    assert (workload.attained_gpu_s, workload.remaining_s) == (7_200, 7_200)
    assert (workload.preemption_cost_s, workload.max_protection_s) == (3_600, 1_800)


def test_a_run_that_says_what_it_does_gets_the_gpu_types_that_hold_it(history):
    """The pool's own, at the policy's prices; it is then placed like one that named them."""
    run_id = str(uuid4())
    asking = replace(demand(run_id), request=GpuRequest(work="fine-tune a 7B model with LoRA"))
    nodes = (make_node("n1"), make_node("n2", gpu_type="t4"))
    found = anyio.run(history.of_pending, {run_id: asking}, nodes, (), make_policy(), at(1))
    workload = found[run_id].workload
    assert workload.shape.gpu_types == ("a100-80gb",)
    assert workload.gpu_type_reason.startswith("a100-80gb ($")


def test_a_deployments_later_run_begins_with_what_an_earlier_one_completed_with(ledger, history):
    """From the ledger, by policy: as it asks where the policy remembers nothing."""
    run = make_run(str(uuid4()))
    short = opened(ledger, run, gpu_type="a100-80gb")
    out_of_memory = "Failure 1 of 3: OutOfMemoryError: CUDA out of memory. Retrying the run."
    close(ledger, short, 1, EndReason.FAILED, end_message=out_of_memory)
    enough = opened(ledger, run, 2, gpu_type="a100-80gb", micro_batch_divisor=2, admitted_at=at(1))
    close(ledger, enough, 2)
    look(history, 3)
    later = str(uuid4())

    def divisor(hours, **memory):
        policy = make_policy(memory={"action": "shrink"} | memory)
        found = anyio.run(
            history.of_pending, {later: demand(later)}, (make_node(),), (), policy, at(hours)
        )
        return found[later].workload.micro_batch_divisor

    assert divisor(3, remember=True) == 2
    assert divisor(3) == 1
    assert divisor(31 * 24, remember=True) == 1


def test_work_ranks_what_the_teams_permission_allows(history):
    """From the request to the placement; a type that the run names itself stays."""
    policy = make_policy(permissions={"default": {"gpu_types": ["t4", "a100-80gb"]}})
    nodes = (make_node("n1"), make_node("n2", gpu_type="t4"))

    def types(run_id, **fields):
        request = GpuRequest(work="fine-tune a 7B model with LoRA", **fields)
        workload = workload_from_request(
            request, workload_id=run_id, name="run", queue=None, submitted_at=at(0), policy=policy
        )
        asking = replace(demand(run_id), request=request, workload=workload)
        found = anyio.run(history.of_pending, {run_id: asking}, nodes, (), policy, at(1))
        return found[run_id].workload.shape.gpu_types

    assert types(str(uuid4())) == ("a100-80gb",)
    assert types(str(uuid4()), gpu_type="t4") == ("t4",)


def test_a_run_that_never_started_is_not_asked_for(ledger, history, monkeypatch):
    """Thousands may wait: each cycle asks only for those that come back."""
    monkeypatch.setattr(ledger, "attempts_of", partial(pytest.fail, "asked the ledger"))
    assert known(history, str(uuid4()), expected_duration_s=60).attained_gpu_s == 0


@pytest.mark.parametrize("is_new_worker", [False, True])
def test_a_run_that_was_postponed_before_it_ever_ran_is_held(ledger, history, is_new_worker):
    """Prefect has counted no start of it."""
    run = make_run(str(uuid4()))
    look(history, 0)
    close(ledger, opened(ledger, run), 0.01, EndReason.POSTPONED)
    history = History(ledger, "gpus") if is_new_worker else history
    look(history, 0.011)
    run_id = run.flow_run_id
    found = anyio.run(history.of_pending, {run_id: demand(run_id)}, (), (), BUDGETED, at(0.011))[
        run_id
    ]
    assert found.workload.hold is not None
    assert found.workload.hold.reason == "WaitingForClusterQuota"


def test_what_is_older_than_ten_half_lives_has_no_share(ledger, history):
    """Run times are still learned from it."""
    close(ledger, opened(ledger, make_run()), 1)
    late = at(1) + timedelta(days=11)
    anyio.run(history.refresh, BUDGETED, late)
    assert history.usage(late).gpu_s_by_user == {}


def test_how_long_spot_lives_is_learned_from_all_runs_of_the_pool(ledger, history):
    """Anew every ten minutes; without any attempt it is the library's prior, on-demand has none."""
    assert history.capacity_life("a10g", "spot") == SPOT_PRIOR
    attempt_id = opened(ledger, make_run(), capacity_type="spot")
    look(history, 0.01)
    close(ledger, attempt_id, 0.1, EndReason.INTERRUPTED)
    look(history, 0.15)
    before = history.capacity_life("a10g", "spot")
    look(history, 0.2)
    after = history.capacity_life("a10g", "spot")
    # One more interruption, after 360 s, on a prior of four at 1,940 s each.
    assert before.stages[0].mean_life_s > SPOT_PRIOR.stages[0].mean_life_s
    assert after.stages[0].mean_life_s == pytest.approx((4 * 1_940 + 360) / 5)
    assert history.capacity_life("t4", "spot") == SPOT_PRIOR
    assert history.capacity_life("a10g", "on-demand") is None
    assert history.capacity_life(None, "spot") is None


def test_a_zone_that_has_just_failed_is_left_at_once(ledger, history):
    """Lifetimes are learned every ten minutes, but where spot went is known at the next look."""
    nodes = [
        make_node(f"s{zone}", gpu_type="a10g", capacity_type="spot", labels={ZONE_LABEL: zone})
        for zone in "ab"
    ]
    look(history, 0)
    first, second = (
        opened(ledger, make_run(zone), capacity_type="spot", node=f"s{zone}", zone=zone)
        for zone in "ab"
    )

    def preferred(hours):
        look(history, hours)
        run_id = str(uuid4())
        found = anyio.run(
            history.of_pending, {run_id: demand(run_id)}, nodes, (), BUDGETED, at(hours)
        )
        return found[run_id].workload

    close(ledger, first, 0.05, EndReason.INTERRUPTED)
    assert preferred(0.06).shape.preferred_nodes == {"sb"}
    close(ledger, second, 0.15, EndReason.INTERRUPTED)
    found = preferred(0.16)
    assert found.shape.preferred_nodes == {"sa"}
    assert found.zone_reason.startswith("a: expected to provide ")


def test_a_run_that_gets_no_on_demand_takes_spot_in_a_later_cycle(history):
    """Since when it has asked is remembered from one cycle to the next."""
    nodes = (make_node("s", 1, capacity_type="spot"), make_node("o", 1))
    full = make_allocation(make_workload("other"), {"o": "0"})
    run_id, deadline_at = str(uuid4()), at(10.3)

    def asked(hours):
        one = demand(run_id, expected_duration_s=36_000, deadline_at=deadline_at)
        found = anyio.run(
            history.of_pending, {run_id: one}, nodes, (full,), make_policy(), at(hours)
        )
        return found[run_id].workload.shape.capacity_type

    assert [asked(0), asked(0.01), asked(0.02)] == ["on-demand", "on-demand", "spot"]


def test_an_attempt_that_never_was_says_nothing_of_spot(ledger, history):
    """Nor does one from before the last thirty days."""
    withdrawn = opened(ledger, make_run("withdrawn"), capacity_type="spot")
    close(ledger, opened(ledger, make_run("old"), capacity_type="spot"), 1, EndReason.INTERRUPTED)
    look(history, 0.1)
    assert history.capacity_life("a10g", "spot") != SPOT_PRIOR
    ledger.withdraw_attempt(withdrawn)
    look(history, 31 * 24)
    assert history.capacity_life("a10g", "spot") == SPOT_PRIOR


def test_a_run_gets_what_the_starts_of_its_deployment_lost(ledger, history):
    """18 min each, as soon as the third has done its first step; until then the policy's 12."""
    for number in range(1, 4):
        attempt_id = opened(ledger, make_run(f"run-{number}"))
        report = CheckpointReport(attempt_id=attempt_id, first_step_at=at(0.3))
        ledger.heartbeat(at(0.4), {attempt_id: report})
        look(history, 0.5)
        changeover = known(history, str(uuid4())).changeover
        assert changeover == ((720, number) if number < 3 else (pytest.approx(1350), 3))
        close(ledger, attempt_id, 1)
    look(history, 2)
    look(again := History(ledger, "gpus"), 2)
    for knows in (history, again):
        assert known(knows, str(uuid4())).changeover == (pytest.approx(1350), 3)


def test_a_run_that_goes_on_learns_what_a_start_loses(ledger, history):
    """It was admitted when nothing was measured."""
    run = make_run("runs")
    for number in range(1, 4):
        opened(ledger, make_run(f"run-{number}"), first_step_at=at(0.3))
    look(history, 1)
    running = AttemptState(
        attempt=make_attempt("runs"),
        record=run,
        workload=make_workload("runs"),
        request=GpuRequest(),
        limits=RunLimits(max_duration_s=None, max_failures=3, max_interruptions=None),
        run_dir=Path(),
    )
    history.learn_restarts([running], BUDGETED)
    assert running.workload.changeover == (pytest.approx(1350), 3)


def test_a_run_knows_whether_those_of_its_deployment_resumed(ledger, history):
    """From the third on that continued from its newest checkpoint."""
    for number in range(1, 4):
        run = make_run(f"run-{number}")
        first = opened(ledger, run, first_step_at=at(0.1), checkpoint="c", checkpointed_at=at(0.3))
        close(ledger, first, 0.4, EndReason.PREEMPTED)
        assert not known(history, str(uuid4())).has_resumed
        opened(ledger, run, number=2, restored_from="c", first_step_at=at(0.5))
        look(history, 0.6)
    assert known(history, str(uuid4())).has_resumed
    look(again := History(ledger, "gpus"), 0.7)
    assert known(again, str(uuid4())).has_resumed
