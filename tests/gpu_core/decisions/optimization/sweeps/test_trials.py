"""A trial's rungs are those at which its budget has stopped it, and its metric that of the time."""

from dataclasses import replace
from datetime import timedelta

import pytest

from gpu_core.decisions.model.attempts import Attempt, EndReason
from gpu_core.decisions.optimization.sweeps.rungs import SweepPlan, SweepStep, sweep_step
from gpu_core.decisions.optimization.sweeps.trials import (
    MetricPoint,
    SweepTrial,
    TrialStatus,
    budget_micro_usd,
    metric_at,
    sweep_run,
    trial_status,
)
from gpu_core.testing.builders.attempts import NOON, make_attempt

# The trials run at $1 an hour, and 90 s, the minute until the next poll and the grace, cost 2.5 ¢.
HOUR = timedelta(hours=1)
GRACE = timedelta(seconds=30)
PLAN = SweepPlan(budget_micro_usd=100_000_000, first_rung_micro_usd=1_000_000, rungs=3)
NOW = NOON + 100 * HOUR


def stopped(number: int, begins_h: float, hours: float) -> Attempt:
    """An attempt that its budget has stopped at the last moment, and that then saved for 20 s."""
    begins = NOON + begins_h * HOUR
    asked = begins + hours * HOUR - timedelta(seconds=89)
    return make_attempt(
        number=number,
        admitted_at=begins,
        drain_requested_at=asked,
        drain_deadline_at=asked + GRACE,
        released_at=asked + timedelta(seconds=20),
        end_reason=EndReason.BUDGET_SPENT,
        checkpoint=f"checkpoint-{number}",
    )


def ended(number: int, begins_h: float, hours: float, reason: EndReason) -> Attempt:
    """An attempt that ended by itself."""
    begins = NOON + begins_h * HOUR
    return make_attempt(
        number=number,
        admitted_at=begins,
        released_at=begins + hours * HOUR,
        end_reason=reason,
    )


def points(*values: tuple[float, float]) -> tuple[MetricPoint, ...]:
    """Values of the metric, each with its hour."""
    return tuple(MetricPoint(NOON + hour * HOUR, value) for hour, value in values)


FIRST = SweepTrial(
    number=1,
    parameters={"lr": 0.1},
    flow_run_id="run-1",
    state_type="FAILED",
    budget_micro_usd=1_000_000,
    attempts=(stopped(1, 0, 1),),
    points=points((0.5, 0.4), (0.9, 0.5)),
)
RESUMED = replace(
    FIRST,
    state_type="RUNNING",
    budget_micro_usd=3_000_000,
    attempts=(*FIRST.attempts, make_attempt(number=2, admitted_at=NOON + 10 * HOUR)),
    # The first is within the first rung's dollars, but after it was compared there.
    points=points((0.5, 0.4), (0.9, 0.5), (10.001, 0.9), (11.0, 0.95)),
)
OVER_DUE = replace(FIRST, attempts=(stopped(1, 0, 5),), points=points((0.9, 0.5), (4.0, 0.9)))
COMPLETED = replace(
    FIRST,
    state_type="COMPLETED",
    attempts=(ended(1, 0, 0.7, EndReason.COMPLETED),),
    points=points((0.6, 0.8)),
)


@pytest.mark.parametrize(
    ("trial", "want_status", "want_granted", "want_metrics"),
    [
        pytest.param(
            SweepTrial(number=1, parameters={}), TrialStatus.NOT_STARTED, None, (), id="not started"
        ),
        pytest.param(
            replace(FIRST, state_type="RUNNING", attempts=(make_attempt(),)),
            *(TrialStatus.ACTIVE, 0, ()),
            id="it runs",
        ),
        pytest.param(
            FIRST, TrialStatus.STOPPED, 0, (0.5,), id="stopped a little before its budget"
        ),
        pytest.param(
            replace(FIRST, state_type="RUNNING"),
            *(TrialStatus.ACTIVE, 0, (0.5,)),
            id="stopped, and Prefect does not have it yet",
        ),
        pytest.param(
            replace(FIRST, budget_micro_usd=3_000_000),
            *(TrialStatus.STOPPED, 1, (0.5,)),
            id="given more dollars by a pass that died, and not resumed",
        ),
        pytest.param(
            RESUMED, TrialStatus.ACTIVE, 1, (0.5,), id="resumed, and compared as when it stopped"
        ),
        pytest.param(
            replace(
                RESUMED, state_type="FAILED", attempts=(*FIRST.attempts, stopped(2, 10, 2.0192))
            ),
            *(TrialStatus.STOPPED, 1, (0.5, 0.95)),
            id="at the second rung",
        ),
        pytest.param(
            OVER_DUE, TrialStatus.STOPPED, 0, (0.5,), id="stopped late, and compared at its rung"
        ),
        pytest.param(
            COMPLETED, TrialStatus.COMPLETED, 2, (0.8, 0.8, 0.8), id="completed below the first"
        ),
        pytest.param(
            replace(FIRST, attempts=(ended(1, 0, 0.4, EndReason.FAILED),)),
            *(TrialStatus.ENDED, 0, ()),
            id="failed by itself",
        ),
        pytest.param(
            replace(FIRST, attempts=()), TrialStatus.ENDED, 0, (), id="refused at its submission"
        ),
        pytest.param(
            replace(FIRST, state_type="CANCELLED"),
            *(TrialStatus.ENDED, 0, (0.5,)),
            id="parked and cancelled",
        ),
        pytest.param(
            replace(FIRST, attempts=(replace(FIRST.attempts[0], released_at=None),)),
            *(TrialStatus.ACTIVE, 0, ()),
            id="failed, while its GPUs are not free yet",
        ),
        pytest.param(
            replace(FIRST, budget_micro_usd=7_000_000),
            *(TrialStatus.BY_HAND, 2, (0.5,)),
            id="with a budget that is no rung",
        ),
        pytest.param(
            replace(FIRST, points=points((0.5, 0.4), (0.9, float("nan")))),
            *(TrialStatus.STOPPED, 0, (None,)),
            id="diverged",
        ),
        pytest.param(
            replace(FIRST, points=()), TrialStatus.STOPPED, 0, (None,), id="without a metric"
        ),
    ],
)
def test_how_far_a_trial_has_come(
    trial: SweepTrial,
    want_status: TrialStatus,
    want_granted: int | None,
    want_metrics: tuple[float | None, ...],
) -> None:
    run = sweep_run(PLAN, trial, NOW)
    assert trial_status(PLAN, trial) is want_status
    assert (run.granted, run.metrics) == (want_granted, want_metrics)


@pytest.mark.parametrize(
    ("usd", "want"),
    [
        pytest.param(0.4, None, id="before the first value"),
        pytest.param(0.5, 0.4, id="at the first value"),
        pytest.param(1.0, 0.5, id="a later and better value does not count"),
        pytest.param(2.0, 0.95, id="dollars of all attempts count, and no time between them"),
    ],
)
def test_the_metric_is_that_of_equal_dollars(usd: float, want: float | None) -> None:
    trial = replace(RESUMED, points=points((0.5, 0.4), (0.9, 0.5), (11.0, 0.95)))
    assert metric_at(trial, int(usd * 1e6)) == want


def test_a_trial_that_a_person_gave_a_budget_is_left_alone_and_counts_with_all_of_it() -> None:
    by_hand = replace(FIRST, budget_micro_usd=97_500_000)
    waiting = SweepTrial(number=2, parameters={"lr": 0.2})
    others = [replace(waiting, number=number) for number in (2, 3, 4)]
    runs = [sweep_run(PLAN, trial, NOW) for trial in (by_hand, *others)]
    decided = sweep_step(PLAN, runs, 9)
    assert decided.granted_micro_usd == 99_500_000
    assert list(decided.steps.values()) == [
        *(SweepStep.OVER, SweepStep.START, SweepStep.START, SweepStep.WAIT),
    ]


def test_a_trial_whose_grant_was_not_resumed_continues() -> None:
    left = replace(FIRST, budget_micro_usd=3_000_000)
    decided = sweep_step(PLAN, [sweep_run(PLAN, left, NOW)], 9)
    assert decided.steps == {"0001": SweepStep.CONTINUE}
    assert left.is_stopped


@pytest.mark.parametrize("value", [None, "1", -1, 0, True, float("nan"), [1]])
def test_what_is_no_budget_is_none(value: object) -> None:
    assert budget_micro_usd(value) is None
    assert budget_micro_usd(0.3) == 300_000
