"""Another checkpoint interval is proposed where saves and interruptions were measured."""

from dataclasses import replace
from datetime import timedelta

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from benchmarks.saving_histories import History
from gpu_core.decisions.costs.usage.usage_cost import Window
from gpu_core.decisions.model.attempts import EndReason
from gpu_core.decisions.optimization.proposals.checkpoint_proposals import checkpoint_draft
from gpu_core.decisions.optimization.proposals.kinds import ProposalKind
from gpu_core.decisions.optimization.proposals.period import Period
from gpu_core.decisions.optimization.proposals.run_facts import run_facts
from gpu_core.decisions.optimization.proposals.saves import (
    LEAST_BREAKS,
    LEAST_RUNS,
    observed_saves,
)
from gpu_core.decisions.optimization.proposals.verification import verify_saving
from tests.gpu_core.decisions.optimization.proposals.test_propose import (
    DAY,
    NOW,
    ON_SPOT,
    ask,
    history,
)

PERIOD = Period.before(DAY)
RARE = replace(
    *(ON_SPOT,),
    runs_per_weekday=6, hours=4.0, per_hour=0.4, checkpoint_s=3600.0, stall_s=10.0,
)  # fmt: skip
"""It loses half an hour with each interruption; every 5 minutes is enough."""
OFTEN = replace(RARE, checkpoint_s=40.0)
"""It stands still for a fifth of its time."""


def facts_of(records, window=PERIOD.window):
    return run_facts(records, window, NOW)


def drafted(records, seed=1):
    return checkpoint_draft(facts_of(records), PERIOD, (seed, 0))


def true_saving(work, interval_s, runs=1500):
    """Of many runs with either interval, by the work that they do."""
    return 1 - true_cost(replace(work, checkpoint_s=float(interval_s)), runs) / true_cost(
        work, runs
    )


def true_cost(work, runs):
    made = History(99)
    day = PERIOD.first
    records = [made.run(work, day) for _ in range(runs)]
    facts = run_facts(records, PERIOD.window, NOW + timedelta(days=100))
    return sum(f.cost_micro_usd for f in facts) / sum(f.useful_gpu_h for f in facts)


@pytest.mark.parametrize(
    ("work", "is_longer"),
    [
        pytest.param(RARE, False, id="interruptions lose more than saves cost"),
        pytest.param(OFTEN, True, id="saves cost more than interruptions lose"),
    ],
)
def test_the_interval_is_proposed_and_its_saving_holds_the_truth(work, is_longer):
    proposal = drafted(history(work)).proposal
    assert proposal.kind is ProposalKind.CHECKPOINT_INTERVAL
    (change,) = proposal.changes
    assert change.variable == "checkpoint_interval"
    # Daly for 10 s and 2.5 hours is 7 minutes: what lies near it costs next to the same.
    assert 300 < change.proposed < 600
    assert (change.proposed > work.checkpoint_s) is is_longer
    true = true_saving(work, change.proposed)
    assert true > 0.05
    assert proposal.saving.low < true < proposal.saving.high


def test_a_proposed_interval_is_verified_by_the_work_between_saves():
    """A run that saves less often does the same work in less time: not less work."""
    proposal = drafted(history(OFTEN)).proposal
    (change,) = proposal.changes
    changed = replace(OFTEN, checkpoint_s=float(change.proposed))
    after = list(History(5).days(changed, DAY, proposal.verify_days))
    window = Window(PERIOD.window.end, PERIOD.window.end + timedelta(days=30))
    found = verify_saving(proposal, run_facts(after, window, NOW + timedelta(days=60)))
    assert proposal.saving.low < found.saving < proposal.saving.high


@pytest.mark.parametrize("seed", range(5))
def test_an_interval_near_the_best_is_left_alone(seed):
    assert drafted(history(replace(RARE, checkpoint_s=400.0), seed=seed)) is None


def test_runs_that_save_in_time_on_a_notice_lose_nothing_and_get_no_shorter_interval():
    """Each interruption comes right after a save."""
    records = [
        (run, tuple(replace(a, checkpointed_at=a.released_at) for a in attempts))
        for run, attempts in history(RARE)
    ]
    assert drafted(records) is None


@pytest.mark.parametrize("noticed", [0.0, 0.5, 0.9])
def test_saves_on_a_notice_are_not_taken_for_the_interval(noticed):
    """They come before their time: as many hours with more saves look like a shorter interval."""
    rng = np.random.default_rng(1)

    def saved(attempt):
        is_over = attempt.end_reason is EndReason.INTERRUPTED and attempt.first_step_at is not None
        if not is_over or rng.random() >= noticed:
            return attempt
        return replace(
            *(attempt,),
            checkpointed_at=attempt.released_at, saves=(attempt.saves or 0) + 1,
            save_stall_s=RARE.stall_s, checkpoint="on-notice",
        )  # fmt: skip

    records = [(run, tuple(map(saved, attempts))) for run, attempts in history(RARE)]
    assert observed_saves(facts_of(records)).interval_s == pytest.approx(3600.0, rel=0.01)


def test_checkpoints_of_which_no_save_was_measured_stop_no_proposal():
    """A row of one run must not end the night's work for all deployments."""
    records = [
        (run, tuple(replace(a, saves=0 if a.saves else a.saves) for a in attempts))
        for run, attempts in history(RARE)
    ]
    assert observed_saves(facts_of(records)) is None


def without(name):
    def change(attempt):
        return replace(attempt, **{name: None})

    return change


def not_interrupted(attempt):
    is_over = attempt.end_reason is EndReason.INTERRUPTED
    return replace(attempt, end_reason=EndReason.FAILED) if is_over else attempt


WITH_ALL = history(RARE)


@settings(max_examples=25, deadline=None)
@given(
    work=st.sampled_from([RARE, OFTEN]),
    missing=st.sampled_from(
        [
            without("saves"),
            without("save_stall_s"),
            without("expected_loss_s"),
            without("first_step_at"),
            without("price_micro_usd_per_gpu_hour"),
            not_interrupted,
        ]
    ),
    seed=st.integers(1, 100),
)
def test_nothing_is_proposed_where_the_evidence_is_missing(work, missing, seed):
    records = [
        (run, tuple(missing(attempt) for attempt in attempts))
        for run, attempts in history(replace(work, runs_per_weekday=1), seed=seed)
    ]
    assert drafted(records, seed) is None


def test_few_runs_and_few_interruptions_are_no_evidence():
    facts = facts_of(WITH_ALL)
    assert observed_saves(facts) is not None
    assert observed_saves(facts[: LEAST_RUNS - 1]) is None
    calm = [fact for fact in facts if len(fact.attempts) == 1]
    broken = [fact for fact in facts if len(fact.attempts) == 2]
    assert observed_saves([*calm, *broken[: LEAST_BREAKS - 1]]) is None
    assert observed_saves([*calm, *broken[:LEAST_BREAKS]]) is not None


def test_it_is_proposed_with_the_others_and_replayed():
    (proposal,) = ask(history(OFTEN)).proposals
    assert proposal.kind is ProposalKind.CHECKPOINT_INTERVAL
    assert proposal.waits is not None


def test_the_interval_is_as_wide_as_chance_makes_the_cost_of_the_period():
    """The saving is measured against that cost, in which interruptions were few or many."""
    costs = []
    for seed in range(1, 21):
        facts = facts_of(history(RARE, seed=seed))
        costs.append(sum(f.cost_micro_usd for f in facts) / sum(f.useful_gpu_h for f in facts))
    chance = np.std(costs, ddof=1) / np.mean(costs)
    saving = drafted(history(RARE)).proposal.saving
    # 80% of a normal distribution lie within 1.28 deviations, which twenty costs give to 16%.
    assert saving.high - saving.low > 0.7 * 2 * 1.28 * chance * (1 - saving.expected)
