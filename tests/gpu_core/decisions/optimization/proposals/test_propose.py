"""Which changes are proposed, with which saving, and when nothing is."""

from dataclasses import replace
from datetime import UTC, date, datetime, timedelta
from functools import cache, partial

import pytest

from benchmarks.saving_histories import FIRST_DAY, LEARNING_DAYS, History, Work
from gpu_core.decisions.catalog.offerings import Catalog
from gpu_core.decisions.model.attempts import EndReason, Provenance
from gpu_core.decisions.model.errors import InvalidInput
from gpu_core.decisions.optimization.proposals.kinds import ProposalKind
from gpu_core.decisions.optimization.proposals.markdown import proposal_lines, to_markdown
from gpu_core.decisions.optimization.proposals.period import Period
from gpu_core.decisions.optimization.proposals.proposal import from_document, to_document
from gpu_core.decisions.optimization.proposals.propose import LEAST_DAYS, optimize
from gpu_core.decisions.policy.policy import parse_policy
from gpu_core.testing.builders.attempts import make_attempt, make_run

DAY = FIRST_DAY + timedelta(days=LEARNING_DAYS)
NOW = datetime(2026, 11, 2, 3, tzinfo=UTC)
WORK = Work(
    deployment="train/gpu",
    runs_per_weekday=5,
    hours=1.0,
    spread=0.2,
    gpu_type="a10g",
    gpu_count=4,
    capacity_type="on-demand",
    price_micro_usd=3_000_000,
)
ON_SPOT = replace(
    WORK,
    deployment="others/gpu",
    capacity_type="spot",
    price_micro_usd=1_200_000,
    per_hour=0.05,
    checkpoint_s=600.0,
)
ask = partial(
    optimize,
    period=Period.before(DAY),
    now=NOW,
    policy=parse_policy({"version": 1}, source="test"),
    catalog=Catalog(),
)


def history(*works, seed=1, days=LEARNING_DAYS):
    made = History(seed)
    return [record for work in works for record in made.days(work, FIRST_DAY, days)]


@cache
def found_beside_spot():
    """What is found where another deployment runs on spot: worked out once for many modules."""
    return ask(history(WORK, ON_SPOT))


def test_spot_is_proposed_where_others_show_its_price_and_its_interruptions():
    found = found_beside_spot()
    (proposal,) = found.proposals
    assert (proposal.kind, proposal.deployment) == (ProposalKind.SPOT, "train/gpu")
    assert proposal.job_variables == {"capacity_type": "spot"}
    saving = proposal.saving
    # 60% by the price; an hour of work is interrupted in 5% of the cases, and started again.
    assert 0.5 < saving.low < saving.expected < saving.high < 0.6
    assert "No checkpoints were saved" in "\n".join(proposal.evidence)
    assert "Spot costs 40% of on-demand (the prices that runs paid)." in proposal.evidence
    assert proposal.waits is not None
    assert proposal.undo == f"prefect-gpu optimize undo {proposal.proposal_id}"


def test_checkpoints_make_spot_cheaper():
    often = replace(ON_SPOT, per_hour=0.5)
    plain, saving = (
        ask(history(replace(WORK, checkpoint_s=interval_s), often)).proposals[0].saving
        for interval_s in (None, 300.0)
    )
    assert saving.expected > plain.expected + 0.05


def test_what_costs_nothing_is_not_to_be_saved_and_hides_no_other_proposal():
    """Owned GPUs may have a price of 0."""
    free = replace(WORK, deployment="own/gpu", price_micro_usd=0)
    found = ask(history(free, WORK, ON_SPOT))
    assert [proposal.deployment for proposal in found.proposals] == ["train/gpu"]


def test_spot_that_would_interrupt_each_run_many_times_is_not_proposed():
    long = replace(WORK, hours=40.0, runs_per_weekday=1)
    assert ask(history(long, replace(ON_SPOT, per_hour=0.5))).proposals == ()


@pytest.mark.parametrize("seed", range(5))
def test_a_difference_that_is_noise_is_not_proposed(seed):
    """The same work on half the GPUs takes twice the time: it costs the same."""
    halves = replace(WORK.faster(2.0), gpu_count=2, runs_per_weekday=4)
    found = ask(history(replace(WORK, runs_per_weekday=16), halves, seed=seed))
    assert found.calibration.is_close, found.calibration.sentence
    assert found.proposals == ()


@pytest.mark.parametrize(
    ("other", "kind", "variables"),
    [
        pytest.param(
            replace(WORK.faster(1.5), gpu_count=2, runs_per_weekday=2),
            ProposalKind.GPU_COUNT,
            {"gpu_count": 2},
            id="half the GPUs take one and a half times the time",
        ),
        pytest.param(
            replace(WORK.faster(1.5), gpu_type="l4", price_micro_usd=1_500_000, runs_per_weekday=2),
            ProposalKind.GPU_TYPE,
            {"gpu_type": "l4"},
            id="a type at half the price takes one and a half times the time",
        ),
    ],
)
def test_a_configuration_on_which_runs_cost_less_is_proposed(other, kind, variables):
    (proposal,) = ask(history(WORK, other)).proposals
    assert (proposal.kind, proposal.job_variables) == (kind, variables)
    assert proposal.saving.low < 0.25 < proposal.saving.high
    assert proposal.saving.high - proposal.saving.low < 0.2


def test_what_differs_in_type_and_number_is_not_compared():
    other = replace(WORK.faster(0.5), gpu_type="l4", gpu_count=2, runs_per_weekday=3)
    assert ask(history(WORK, other)).proposals == ()


def test_runs_that_fail_on_the_other_configuration_count():
    """Half of them fail after the same time: what completes costs twice as much."""
    other = replace(WORK.faster(1.5), gpu_count=2, runs_per_weekday=2)
    records = history(WORK, other)
    assert ask(records).proposals
    failing = [
        (run, (replace(attempts[0], end_reason=EndReason.FAILED),))
        if attempts[0].gpu_count == 2 and number % 2
        else (run, attempts)
        for number, (run, attempts) in enumerate(records)
    ]
    assert ask(failing).proposals == ()


def test_no_saving_is_shown_where_the_replay_is_not_close():
    begins = Period.before(DAY).first
    # In the month that is judged every second day's runs wait 40 minutes longer.
    records = [
        (run, tuple(_later(attempt, 40) for attempt in attempts))
        if run.submitted_at.date() >= begins and run.submitted_at.day % 2
        else (run, attempts)
        for run, attempts in history(WORK, ON_SPOT)
    ]
    found = ask(records)
    assert not found.calibration.is_close
    assert found.proposals == ()
    assert found.calibration.sentence.endswith("are allowed, so no savings are displayed.")
    assert found.analysis.workloads, "where money went is shown all the same"
    assert "No changes are recommended" in to_markdown(found)


def _later(attempt, minutes):
    more = timedelta(minutes=minutes)
    moments = ("admitted_at", "started_at", "first_step_at", "released_at", "checkpointed_at")
    known = {name: getattr(attempt, name) for name in moments}
    return replace(attempt, **{name: at + more for name, at in known.items() if at is not None})


def busy_days(days):
    """So many days in the middle of the month, with as many runs as in others in a fortnight."""
    works = [replace(work, runs_per_weekday=50) for work in (WORK, ON_SPOT)]
    made, first = History(3), FIRST_DAY + timedelta(days=35)
    return [record for work in works for record in made.days(work, first, days)]


def priced(micro_usd):
    return [
        (run, tuple(replace(a, price_micro_usd_per_gpu_hour=micro_usd) for a in attempts))
        for run, attempts in history(WORK, ON_SPOT)
    ]


@pytest.mark.parametrize(
    "records",
    [
        pytest.param([], id="an empty ledger"),
        pytest.param(history(WORK, ON_SPOT)[:1], id="one run"),
        pytest.param(history(WORK, ON_SPOT, days=1), id="one day, long before"),
        pytest.param(
            [(make_run(submitted_at=NOW), (make_attempt(),))], id="a run that is not over"
        ),
        pytest.param(
            [
                (run, tuple(replace(a, price_micro_usd_per_gpu_hour=None) for a in attempts))
                for run, attempts in history(WORK, ON_SPOT)
            ],
            id="nothing has a price",
        ),
        pytest.param(busy_days(1), id="one day with enough runs"),
        pytest.param(busy_days(LEAST_DAYS - 1), id="a day too few"),
        pytest.param(priced(0), id="all is free"),
        pytest.param(priced(-1_000), id="negative prices, as of a correction"),
    ],
)
def test_nothing_is_proposed_from(records):
    found = ask(records)
    assert found.proposals == ()
    assert to_markdown(found)


def test_gaps_and_the_order_of_rows_change_nothing_or_little():
    records = history(WORK, ON_SPOT)
    (proposal,) = ask(records).proposals
    assert ask(records[::-1]).proposals == (proposal,)
    gap = (date(2026, 10, 10), date(2026, 10, 13))
    rest = [r for r in records if not gap[0] <= r[0].submitted_at.date() <= gap[1]]
    (with_gap,) = ask(rest).proposals
    assert with_gap.saving.expected == pytest.approx(proposal.saving.expected, abs=0.03)


def test_few_busy_days_are_enough():
    assert ask(busy_days(LEAST_DAYS)).proposals


def test_rows_that_are_there_twice_are_refused():
    records = history(WORK, ON_SPOT)
    with pytest.raises(InvalidInput, match="is there twice"):
        ask([*records, *records])


def test_attempts_that_end_before_they_begin_hold_no_time():
    """The clock of a machine was set back while they ran."""

    def set_back(attempt):
        return replace(attempt, released_at=attempt.admitted_at - timedelta(minutes=5))

    records = [
        (run, tuple(map(set_back, attempts)) if number % 20 == 0 else attempts)
        for number, (run, attempts) in enumerate(history(WORK, ON_SPOT))
    ]
    (proposal,) = ask(records).proposals
    (usual,) = found_beside_spot().proposals
    assert proposal.saving.expected == pytest.approx(usual.saving.expected, abs=0.03)


def test_generated_runs_are_named():
    records = [
        (replace(run, provenance=Provenance.GENERATED), attempts)
        for run, attempts in history(WORK, ON_SPOT)
    ]
    (proposal,) = ask(records).proposals
    assert "The evidence includes generated runs." in proposal_lines(proposal)


@pytest.mark.parametrize("kind", ProposalKind)
def test_an_interval_that_is_too_narrow_promises_no_probability(kind):
    (proposal,) = found_beside_spot().proposals
    page = "\n".join(proposal_lines(replace(proposal, kind=kind)))
    held = {ProposalKind.GPU_COUNT: "19 of 28"}
    assert ("in 80% of the cases" in page) == (kind not in held)
    assert ("too narrow" in page) == (kind in held)
    assert held.get(kind, "") in page


def test_a_proposal_is_read_back_as_it_was_written():
    (proposal,) = found_beside_spot().proposals
    document = to_document(proposal)
    assert from_document(document) == proposal
    with pytest.raises(InvalidInput, match="cannot be read"):
        from_document({name: value for name, value in document.items() if name != "saving"})
