"""What a sweep can be made of, what keeps it from continuing, and its page."""

from dataclasses import replace
from typing import Any

import pytest

from gpu_core.decisions.model.errors import InvalidInput
from gpu_core.decisions.optimization.sweeps.checks import (
    places_for,
    refuse_other_sweep,
    refuse_policy,
    sweep_problem,
)
from gpu_core.decisions.optimization.sweeps.page import is_over, sweep_page
from gpu_core.decisions.optimization.sweeps.request import SweepRequest, sweep_request
from gpu_core.decisions.optimization.sweeps.rungs import MetricGoal, sweep_step
from gpu_core.decisions.optimization.sweeps.trials import SweepTrial, sweep_run
from gpu_core.decisions.policy.capacity import CapacityPolicy
from gpu_core.decisions.policy.policy import Policy
from gpu_core.testing.builders.attempts import make_attempt
from tests.gpu_core.decisions.optimization.sweeps.test_trials import COMPLETED, FIRST, NOW

ASKED: dict[str, Any] = {
    "name": "lr",
    "deployment": "train/gpu",
    "metric": "accuracy",
    "budget_usd": 50,
    "first_rung_usd": 1,
    "grid": {"lr": [0.1, 0.2, 0.3], "size": [1, 2, 3]},
}


def request(**changes: Any) -> SweepRequest:
    """A sweep of nine trials."""
    return sweep_request(**(ASKED | changes))


def test_a_grid_gives_all_combinations_in_their_order() -> None:
    trials = request().trials
    assert len(trials) == 9
    assert trials[:2] == ({"lr": 0.1, "size": 1}, {"lr": 0.1, "size": 2})
    listed = request(grid=None, trials=list(trials))
    assert listed.trials == trials


def test_a_trial_has_one_key_in_a_sweep_whatever_the_order_of_its_parameters() -> None:
    sweep = request()
    assert sweep.key({"lr": 0.1, "size": 1}) == sweep.key({"size": 1, "lr": 0.1})
    keys = {sweep.key(trial) for trial in sweep.trials}
    assert len(keys) == 9
    assert sweep.key({"lr": [1.0], "size": 1}) == sweep.key({"lr": [1], "size": 1.0})
    assert sweep.key({"lr": True}) != sweep.key({"lr": 1})
    assert not keys & {request(name="other").key(trial) for trial in sweep.trials}


@pytest.mark.parametrize(
    ("changes", "want_field"),
    [
        pytest.param({"name": "My sweep"}, "name", id="a name with a space"),
        pytest.param({"name": "a--b"}, "name", id="a name that no artifact can have"),
        pytest.param({"name": "a" * 61}, "name", id="a long name"),
        pytest.param({"deployment": " "}, "deployment", id="no deployment"),
        pytest.param({"metric": ""}, "metric", id="no metric"),
        pytest.param({"parallel": 0}, "parallel", id="no place"),
        pytest.param({"budget_usd": float("nan")}, "budget_usd", id="a budget that is no number"),
        pytest.param({"budget_usd": -1}, "budget_usd", id="a negative budget"),
        pytest.param({"budget_usd": 8.99}, "budget_usd", id="a budget below the last rung"),
        pytest.param({"first_rung_usd": 0}, "first_rung_usd", id="a rung of nothing"),
        pytest.param({"rungs": 0}, "rungs", id="no rung"),
        pytest.param({"reduction": 1}, "reduction", id="all are promoted"),
        pytest.param({"grid": None}, "trials", id="neither trials nor a grid"),
        pytest.param({"trials": [{"lr": 1}]}, "trials", id="both"),
        pytest.param({"grid": {"lr": []}}, "grid.lr", id="a parameter without values"),
        pytest.param({"grid": {"lr": [*range(2000)]}}, "grid", id="very many trials"),
        pytest.param({"grid": {"lr": [1, 1, *range(2, 9)]}}, "grid", id="a trial twice"),
        pytest.param(
            {"grid": {"x": [{"lr": [1]}, {"lr": [1.0]}, *range(7)]}}, "grid", id="1 and 1.0"
        ),
        pytest.param({"grid": {"lr": [1, 2]}}, "trials", id="too few for three rungs"),
        pytest.param({"rungs": 20}, "rungs", id="rungs for more trials than there may be"),
        pytest.param({"reduction": 10**300, "rungs": 20}, "rungs", id="an immense reduction"),
        pytest.param({"keep": [10]}, "keep", id="a trial that there is not"),
    ],
)
def test_what_cannot_be_a_sweep_is_named(changes: dict[str, Any], want_field: str) -> None:
    with pytest.raises(InvalidInput) as caught:
        request(**changes)
    assert caught.value.field == want_field


def test_a_budget_just_below_the_last_rung_reads_differently() -> None:
    with pytest.raises(InvalidInput, match=r"got '\$9'\). Allowed: \$9\.0036 or more"):
        request(budget_usd=9, first_rung_usd=1.0004)


def test_a_policy_that_stops_no_run_is_refused() -> None:
    refuse_policy(Policy(version=1))
    with pytest.raises(InvalidInput, match="at_budget"):
        refuse_policy(Policy(version=1, capacity=CapacityPolicy(at_budget="continue")))


def test_the_name_of_another_sweep_is_refused() -> None:
    sweep = request()
    started = {sweep.key(trial): trial for trial in sweep.trials[:2]}
    refuse_other_sweep(sweep, started, is_same_deployment=True)
    with pytest.raises(InvalidInput, match="another deployment"):
        refuse_other_sweep(sweep, started, is_same_deployment=False)
    lost = {**started, "gpu-sweep/lr/x": {"lr": 0.4, "size": 1}}
    with pytest.raises(InvalidInput, match=r"lack one that has started .*0\.4"):
        refuse_other_sweep(sweep, lost, is_same_deployment=True)


def test_trials_start_one_by_one_until_one_has_saved() -> None:
    sweep = request()
    unsaved = replace(FIRST, attempts=(replace(FIRST.attempts[0], checkpoint=None),))
    assert places_for(sweep, [unsaved]) == 1
    assert places_for(sweep, [unsaved, FIRST]) == sweep.places


@pytest.mark.parametrize(
    ("trial", "want"),
    [
        pytest.param(FIRST, None, id="nothing"),
        pytest.param(SweepTrial(number=1, parameters={}), None, id="nothing has started"),
        pytest.param(
            replace(FIRST, attempts=(replace(FIRST.attempts[0], checkpoint=None),)),
            "keeps no checkpoints",
            id="it lost its work",
        ),
        pytest.param(
            replace(
                FIRST,
                attempts=(replace(FIRST.attempts[0], price_micro_usd_per_gpu_hour=None),),
            ),
            "without a price",
            id="it has no price",
        ),
        pytest.param(
            replace(
                FIRST,
                state_type="RUNNING",
                attempts=(make_attempt(price_micro_usd_per_gpu_hour=None),),
            ),
            "without a price",
            id="it runs without a price, so that its budget never stops it",
        ),
        pytest.param(replace(FIRST, points=()), "Did you mean 'acuracy'", id="another metric"),
        pytest.param(replace(COMPLETED, points=()), "in MLflow", id="completed without a metric"),
    ],
)
def test_what_keeps_a_sweep_from_going_on(trial: SweepTrial, want: str | None) -> None:
    problem = sweep_problem(request(), [trial], {"acuracy", "loss"}, NOW)
    assert (problem is None) == (want is None)
    assert want is None or want in str(problem)


def page(**changes: Any) -> str:
    """Two trials at the first rung of nine, and what becomes of them."""
    sweep = request(**changes)
    waiting = [
        SweepTrial(number=n, parameters=parameters, is_kept=n in sweep.kept)
        for n, parameters in enumerate(sweep.trials, start=1)
    ]
    reached = [
        replace(
            FIRST, number=n, parameters=waiting[n - 1].parameters, flow_run_id=f"run-{n}",
            is_kept=waiting[n - 1].is_kept, points=(FIRST.points[0]._replace(value=n / 10),),
        )
        for n in (1, 2, 3)
    ]  # fmt: skip
    failed = replace(
        FIRST, number=4, flow_run_id="run-4", attempts=(), message="the | data is gone"
    )
    trials = [*reached, failed, *waiting[4:]]
    runs = [sweep_run(sweep.plan, trial, NOW) for trial in trials]
    decided = sweep_step(sweep.plan, runs, 1)
    assert not is_over(decided)
    return sweep_page(sweep, trials, runs, decided)


def test_the_page_has_the_best_first_and_what_was_saved_and_risked() -> None:
    text = page()
    rows = [line for line in text.splitlines() if line.startswith("| [")]
    assert [row.split("]")[0] for row in rows] == ["| [3", "| [2", "| [1", "| [4"]
    assert rows[0].endswith("| 0.3 |  |  | promoted |")
    assert rows[1].endswith("| 0.2 |  |  | parked |")
    assert rows[3].endswith("| failed: the \\| data is gone |")
    for words in (
        "Trial 3 is leading with accuracy 0.3 at $1.00",
        "Parked trials: 2 of 9",
        "$16.04 more up to the last rung. Running all trials up to the last rung would cost $81.00",
        "unknown, because too few trials were promoted",
        "`keep: [3, 5]`",
    ):
        assert words in text
    assert page() == text


def test_lower_is_better_where_it_is_said_and_kept_trials_say_so() -> None:
    text = page(goal=MetricGoal.LOWER, keep=[3])
    assert "Trial 1 is leading with accuracy 0.1" in text
    assert "parked, kept |" in text  # the one place is taken
