"""What a change saved is measured by the work that was done, and every change is scored."""

from dataclasses import replace
from datetime import UTC, datetime, timedelta

import pytest

from benchmarks.saving_histories import History
from gpu_core.decisions.optimization.proposals.run_facts import run_facts
from gpu_core.decisions.optimization.proposals.verification import (
    SavingVerdict,
    due_at,
    score,
    verification_sentence,
    verify_saving,
)
from tests.gpu_core.decisions.optimization.proposals.test_propose import (
    DAY,
    NOW,
    ON_SPOT,
    WORK,
    ask,
    found_beside_spot,
)

LATER = NOW + timedelta(days=60)


@pytest.fixture(scope="module")
def proposal():
    return found_beside_spot().proposals[0]


def facts_after(work, seed=5, days=14):
    window = replace(ask([]).period, last=LATER.date()).window
    return run_facts(History(seed).days(work, DAY, days), window, LATER)


@pytest.mark.parametrize("runs_per_weekday", [3, 15])
def test_more_work_is_no_loss_and_less_work_no_saving(proposal, runs_per_weekday):
    work = replace(ON_SPOT, deployment="train/gpu", runs_per_weekday=runs_per_weekday)
    found = verify_saving(proposal, facts_after(work))
    assert found.saving == pytest.approx(proposal.saving.expected, abs=0.05)
    assert found.saved_micro_usd is not None
    assert found.saved_micro_usd > 0


@pytest.mark.parametrize(
    ("per_hour", "price", "want"),
    [
        pytest.param(
            0.05, 1_200_000, (SavingVerdict.AS_PREDICTED, SavingVerdict.BETTER), id="as predicted"
        ),
        pytest.param(2.0, 1_200_000, (SavingVerdict.LESS,), id="interrupted far more often"),
        pytest.param(0.0, 600_000, (SavingVerdict.BETTER,), id="spot became cheaper"),
        pytest.param(
            0.05, 3_300_000, (SavingVerdict.LOSS,), id="spot became dearer than on-demand"
        ),
    ],
)
def test_the_verdict_is(proposal, per_hour, price, want):
    work = replace(ON_SPOT, per_hour=per_hour, price_micro_usd=price)
    found = verify_saving(proposal, facts_after(work))
    assert found.verdict in want
    assert found.should_undo == (found.verdict in (SavingVerdict.LESS, SavingVerdict.LOSS))
    said = verification_sentence(proposal, found)
    assert (f"To revert it, run: {proposal.undo}" in said) == found.should_undo


def test_too_few_runs_or_runs_without_price_are_no_verdict(proposal):
    facts = facts_after(WORK)
    unpriced = [replace(fact, cost_micro_usd=None) for fact in facts]
    for given in (facts[:3], unpriced, []):
        found = verify_saving(proposal, given)
        assert (found.verdict, found.saving, found.should_undo) == (
            SavingVerdict.UNKNOWN,
            None,
            False,
        )
        assert "Not measurable" in verification_sentence(proposal, found)


def test_the_score_counts_losses(proposal):
    good = verify_saving(proposal, facts_after(replace(ON_SPOT, per_hour=0.05)))
    bad = verify_saving(proposal, facts_after(replace(ON_SPOT, price_micro_usd=3_300_000)))
    unknown = verify_saving(proposal, [])
    found = score(4, [good, bad, unknown])
    assert (found.applied, found.measured, found.losses) == (4, 2, 1)
    assert found.saved_micro_usd == (good.saved_micro_usd or 0) + (bad.saved_micro_usd or 0)
    assert "1 with a loss" in found.sentence
    assert score(0, []).sentence == "No proposals have been applied yet."


def test_it_is_due_when_its_days_are_over(proposal):
    applied_at = datetime(2026, 11, 3, 10, tzinfo=UTC)
    assert due_at(proposal, applied_at) == applied_at + timedelta(days=proposal.verify_days)
