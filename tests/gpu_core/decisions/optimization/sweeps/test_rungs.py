"""Successive halving by dollars: budgets hold, comparisons are at equal dollars, the best stays."""

import random
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpu_core.decisions.model.errors import InvalidInput
from gpu_core.decisions.optimization.sweeps.rungs import (
    MetricGoal,
    SweepDecision,
    SweepPlan,
    SweepRun,
    SweepStep,
    budget_after,
    lost_chance,
    sweep_step,
)

PLAN = SweepPlan(budget_micro_usd=1_000, first_rung_micro_usd=10, rungs=3)

plans = st.builds(
    SweepPlan,
    budget_micro_usd=st.integers(1, 3_000),
    first_rung_micro_usd=st.integers(1, 30),
    rungs=st.integers(1, 4),
    reduction=st.integers(2, 4),
    goal=st.sampled_from(MetricGoal),
    waits_for_rung=st.booleans(),
)


@st.composite
def sweeps(draw: st.DrawFn, plan: SweepPlan) -> list[SweepRun]:
    """Runs that have come anywhere, also over what they had."""
    found = []
    for number in range(draw(st.integers(0, 12))):
        granted = draw(st.one_of(st.none(), st.integers(0, plan.last_rung)))
        reached = 0 if granted is None else draw(st.integers(granted, granted + 1))
        metric = st.one_of(st.none(), st.floats(-9, 9, allow_nan=False))
        found.append(
            SweepRun(
                run_id=f"r{number:02}",
                granted=granted,
                spent_micro_usd=draw(st.integers(0, 1_000)),
                metrics=tuple(draw(metric) for _ in range(reached)),
                is_over=draw(st.booleans()),
            )
        )
    return found


def waiting(count: int) -> list[SweepRun]:
    """Runs that have not started."""
    return [
        SweepRun(run_id=f"r{n:02}", granted=None, spent_micro_usd=0, metrics=())
        for n in range(count)
    ]


def reached(run_id: str, *metrics: float | None, **changes: Any) -> SweepRun:
    """A run that has spent its dollars up to the rung of its last metric."""
    rung = len(metrics) - 1
    run = SweepRun(
        run_id=run_id,
        granted=rung,
        spent_micro_usd=PLAN.rung_micro_usd(rung),
        metrics=metrics,
    )
    return replace(run, **changes)


def finish(
    plan: SweepPlan, curves: dict[str, list[float]], places: int, seed: int
) -> tuple[dict[str, SweepRun], SweepDecision]:
    """The whole sweep, where runs reach their rungs in a random order."""
    order = random.Random(seed)
    runs = {
        name: SweepRun(run_id=name, granted=None, spent_micro_usd=0, metrics=()) for name in curves
    }
    while True:
        decided = sweep_step(plan, list(runs.values()), places)
        assert decided.granted_micro_usd <= plan.budget_micro_usd
        for name, step in decided.steps.items():
            if step in (SweepStep.START, SweepStep.PROMOTE):
                before = runs[name].granted
                runs[name] = replace(runs[name], granted=0 if before is None else before + 1)
        busy = [r for r in runs.values() if r.granted is not None and not r.has_reached(r.granted)]
        if not busy:
            return runs, decided
        run = order.choice(busy)
        assert run.granted is not None
        runs[run.run_id] = replace(
            run,
            metrics=(*run.metrics, curves[run.run_id][run.granted]),
            spent_micro_usd=plan.rung_micro_usd(run.granted),
        )


curves = st.dictionaries(
    st.sampled_from([f"r{n:02}" for n in range(12)]),
    st.lists(st.floats(0, 1), min_size=3, max_size=3),
    min_size=1,
)


@given(st.data(), plans, st.integers(1, 5))
def test_nothing_is_granted_beyond_the_budget(
    data: st.DataObject, plan: SweepPlan, places: int
) -> None:
    runs = data.draw(sweeps(plan))
    decided = sweep_step(plan, runs, places)
    steps = set(decided.steps.values())
    if decided.granted_micro_usd > plan.budget_micro_usd:
        assert not steps & {SweepStep.START, SweepStep.PROMOTE}
    assert set(decided.steps) == {run.run_id for run in runs}


@given(st.data(), plans)
def test_the_best_run_of_the_last_rung_is_never_parked(
    data: st.DataObject, plan: SweepPlan
) -> None:
    runs = data.draw(sweeps(plan))
    at_end = {
        run.run_id: plan.worth(metric)
        for run in runs
        if run.has_reached(plan.last_rung) and (metric := run.metrics[plan.last_rung]) is not None
    }
    steps = sweep_step(plan, runs, 3).steps
    best = [name for name, step in steps.items() if step is SweepStep.BEST]
    assert len(best) == bool(at_end)
    assert all(at_end[name] == max(at_end.values()) for name in best)


@given(st.data(), plans, st.integers(1, 5))
def test_a_promoted_run_is_among_the_best_at_equal_dollars(
    data: st.DataObject, plan: SweepPlan, places: int
) -> None:
    runs = data.draw(sweeps(plan))
    for name, step in sweep_step(plan, runs, places).steps.items():
        if step is not SweepStep.PROMOTE:
            continue
        (run,) = (each for each in runs if each.run_id == name)
        assert run.granted is not None
        own = run.metrics[run.granted]
        assert own is not None
        at_rung = [each for each in runs if each.has_reached(run.granted)]
        better = [
            each
            for each in at_rung
            if (other := each.metrics[run.granted]) is not None
            and plan.worth(other) > plan.worth(own)
        ]
        assert len(better) < max(len(at_rung) / plan.reduction, 1)


@given(st.data(), plans, st.integers(1, 5))
def test_the_order_of_the_runs_decides_nothing(
    data: st.DataObject, plan: SweepPlan, places: int
) -> None:
    runs = data.draw(sweeps(plan))
    shuffled = data.draw(st.permutations(runs))
    assert sweep_step(plan, runs, places) == sweep_step(plan, shuffled, places)


@given(curves, st.integers(1, 4), st.integers(0, 9), st.integers(0, 9))
def test_the_order_of_arrival_changes_no_winner_of_the_synchronous_form(
    of_runs: dict[str, list[float]], places: int, one: int, other: int
) -> None:
    plan = replace(PLAN, waits_for_rung=True)
    first, _ = finish(plan, of_runs, places, one)
    second, _ = finish(plan, of_runs, places + 1, other)
    assert first == second


@given(curves, st.integers(1, 4), st.integers(0, 99), st.integers(1, 400), st.booleans())
def test_a_whole_sweep_stays_in_its_budget_and_names_the_best_that_reached_the_end(
    of_runs: dict[str, list[float]], places: int, seed: int, budget: int, waits: bool
) -> None:
    plan = replace(PLAN, budget_micro_usd=budget, waits_for_rung=waits)
    runs, decided = finish(plan, of_runs, places, seed)
    assert sum(run.spent_micro_usd for run in runs.values()) <= budget
    at_end = [name for name, run in runs.items() if run.has_reached(plan.last_rung)]
    best = [name for name, step in decided.steps.items() if step is SweepStep.BEST]
    assert len(best) == bool(at_end)
    assert all(of_runs[best[0]][-1] >= of_runs[name][-1] for name in at_end)


def test_nine_runs_cost_a_third_of_nine_whole_ones() -> None:
    """By hand: 9 runs of 10, 3 of 20 more, 1 of 60 more: 210 of 810."""
    names = {f"r{n:02}": [n / 10, n / 10 + 0.1, n / 10 + 0.2] for n in range(9)}
    runs, decided = finish(replace(PLAN, waits_for_rung=True), names, 4, 1)
    assert decided.granted_micro_usd == 210
    assert decided.saved_micro_usd == 600
    assert decided.steps["r08"] is SweepStep.BEST
    assert [run.granted for run in runs.values()] == [0] * 6 + [1, 1, 2]


@pytest.mark.parametrize(
    ("waits", "want"),
    [
        pytest.param(False, SweepStep.PROMOTE, id="the asynchronous form"),
        pytest.param(True, SweepStep.PARK, id="the synchronous form"),
    ],
)
def test_only_the_synchronous_form_waits_for_a_slow_run(waits: bool, want: SweepStep) -> None:
    slow = reached("slow", granted=0, metrics=(), spent_micro_usd=5)
    runs = [reached("a", 0.9), reached("b", 0.8), reached("c", 0.7), slow]
    decided = sweep_step(replace(PLAN, waits_for_rung=waits), runs, 4)
    assert decided.steps["a"] is want
    assert decided.steps["slow"] is SweepStep.CONTINUE


@pytest.mark.parametrize(
    ("metrics", "goal", "want"),
    [
        pytest.param((0.1, 0.9, 0.5), MetricGoal.HIGHER, "b", id="higher is better"),
        pytest.param((0.1, 0.9, 0.5), MetricGoal.LOWER, "a", id="lower is better"),
        pytest.param((None, 0.9, 0.5), MetricGoal.LOWER, "c", id="a run without a metric"),
        pytest.param((0.5, 0.5, 0.5), MetricGoal.HIGHER, "a", id="equal ones by their ids"),
        pytest.param((None, None, None), MetricGoal.HIGHER, None, id="none has a metric"),
    ],
)
def test_the_best_by_the_goal_is_promoted(
    metrics: tuple[float | None, ...], goal: MetricGoal, want: str | None
) -> None:
    runs = [reached(name, metric) for name, metric in zip("abc", metrics, strict=True)]
    steps = sweep_step(replace(PLAN, goal=goal), runs, 1).steps
    promoted = [name for name, step in steps.items() if step is SweepStep.PROMOTE]
    assert promoted == ([] if want is None else [want])


def test_a_spent_budget_says_so_and_admits_nothing_more() -> None:
    decided = sweep_step(replace(PLAN, budget_micro_usd=25), waiting(4), 4)
    assert list(decided.steps.values()).count(SweepStep.START) == 2
    assert (decided.is_spent, decided.granted_micro_usd) == (True, 20)


def test_a_run_that_spent_more_than_its_rung_counts_with_what_it_spent() -> None:
    runs = [reached("a", 0.5, spent_micro_usd=45), *waiting(1)]
    decided = sweep_step(replace(PLAN, budget_micro_usd=50), runs, 4)
    assert (decided.is_spent, decided.granted_micro_usd) == (True, 45)


def test_a_run_that_a_person_keeps_is_promoted_whatever_its_metric() -> None:
    runs = [reached(name, metric) for name, metric in (("a", 0.9), ("b", 0.5), ("c", 0.1))]
    kept = [*runs, replace(reached("d", None), is_kept=True)]
    for those, want in ((runs, {"a"}), (kept, {"a", "d"})):
        steps = sweep_step(PLAN, those, 9).steps
        assert {name for name, step in steps.items() if step is SweepStep.PROMOTE} == want


@pytest.mark.parametrize(
    ("run", "step", "want"),
    [
        pytest.param(waiting(1)[0], SweepStep.WAIT, 0, id="none before it starts"),
        pytest.param(waiting(1)[0], SweepStep.START, 10, id="the first rung at its start"),
        pytest.param(reached("a", 1.0), SweepStep.PARK, 10, id="what it had, parked"),
        pytest.param(reached("a", 1.0), SweepStep.PROMOTE, 30, id="the next rung, promoted"),
    ],
)
def test_what_a_run_may_cost_after_a_step(run: SweepRun, step: SweepStep, want: int) -> None:
    assert budget_after(PLAN, run, step) == want


def test_the_chance_of_a_loss_is_one_half_where_the_prediction_meets_the_best() -> None:
    plan = replace(PLAN, rungs=2)
    gone_on = [reached("a", 0.1, 0.3), reached("b", 0.2, 0.6), reached("c", 0.3, 0.6)]
    # The line is 0.5 + 1.5 * (metric - 0.2); the best is 0.6.
    parked = reached("d", 0.2 + 0.1 / 1.5)
    worse = reached("e", 0.1)
    assert lost_chance(plan, [*gone_on, parked, worse], [parked, worse]) == pytest.approx(0.5)
    found = lost_chance(plan, gone_on, [worse])
    assert found is not None
    assert 0 < found < 0.5
    assert lost_chance(plan, gone_on, []) == 0


def test_metrics_next_to_0_say_nothing_of_the_chance() -> None:
    """Likelihoods underflow: the squares of their differences are 0."""
    plan = replace(PLAN, rungs=2)
    gone_on = [reached(name, 1e-170 * n, n / 10) for n, name in enumerate("abc", start=1)]
    parked = reached("d", 1e-171)
    assert lost_chance(plan, [*gone_on, parked], [parked]) is None


def test_too_few_runs_that_went_on_say_nothing_of_the_chance() -> None:
    plan = replace(PLAN, rungs=2)
    gone_on = [reached("a", 0.1, 0.3), reached("b", 0.2, 0.6)]
    alike = [reached(name, 0.1, after) for name, after in (("a", 0.3), ("b", 0.4), ("c", 0.5))]
    parked = reached("d", 0.1)
    for others in (gone_on, alike, []):
        assert lost_chance(plan, [*others, parked], [parked]) is None


@pytest.mark.parametrize("diverged", [1e200, 1.7e308])
def test_a_perplexity_of_a_training_that_has_diverged_stops_no_sweep(diverged: float) -> None:
    plan = replace(PLAN, rungs=2, goal=MetricGoal.LOWER)
    gone_on = [reached("a", 9.0, 7.0), reached("b", 8.0, 4.0), reached("c", 7.0, 4.0)]
    near, far = reached("d", 9.5), reached("e", diverged)
    want = lost_chance(plan, gone_on, [near])
    assert lost_chance(plan, gone_on, [far, near]) == want != 0
    assert lost_chance(plan, [*gone_on, reached("f", diverged, diverged)], [near]) is None


@pytest.mark.parametrize(
    ("change", "want_field"),
    [
        pytest.param({"budget_micro_usd": 0}, "budget_micro_usd", id="no budget"),
        pytest.param({"first_rung_micro_usd": 0}, "first_rung_micro_usd", id="a rung of nothing"),
        pytest.param({"rungs": 0}, "rungs", id="no rung"),
        pytest.param({"rungs": 21}, "rungs", id="too many rungs"),
        pytest.param({"reduction": 1}, "reduction", id="a reduction to all"),
    ],
)
def test_a_plan_that_compares_nothing_is_refused(change: dict[str, Any], want_field: str) -> None:
    with pytest.raises(InvalidInput, match=want_field):
        replace(PLAN, **change)


def test_impossible_runs_are_refused() -> None:
    with pytest.raises(InvalidInput, match="metrics"):
        reached("a", 0.1, 0.2, granted=0)
    with pytest.raises(InvalidInput, match="twice"):
        sweep_step(PLAN, waiting(1) * 2, 1)
    with pytest.raises(InvalidInput, match="places"):
        sweep_step(PLAN, waiting(1), 0)
