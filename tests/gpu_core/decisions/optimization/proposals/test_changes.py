"""A deployment is changed only if it is as it was, and set back only if it is as changed."""

import json
from dataclasses import replace
from datetime import date, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpu_core.decisions.model.decision_chain import Head, chained, check_chains
from gpu_core.decisions.model.errors import InvalidInput
from gpu_core.decisions.optimization.proposals.changes import (
    ChangeRefused,
    Done,
    Write,
    apply_step,
    approval_problem,
    undo_step,
)
from gpu_core.decisions.optimization.proposals.kinds import ProposalKind
from gpu_core.decisions.optimization.proposals.proposal import (
    Change,
    from_document,
    proposal_id,
    to_document,
)
from gpu_core.decisions.optimization.proposals.records import (
    DECLINED_FOR,
    WRITER,
    ProposalRecord,
    ProposalState,
    applied,
    begun,
    decided,
    declined_lately,
    is_due,
    is_new,
    measured_until,
    not_applied,
    proposed,
    records_of,
    score_of,
    undone,
    verified,
)
from gpu_core.decisions.optimization.proposals.savings_report import record_section, savings_page
from gpu_core.decisions.optimization.proposals.target import Before, Target, changed
from gpu_core.decisions.optimization.proposals.verification import SavingVerdict, Verification
from gpu_core.decisions.requests.variables.job_variables import parse_request
from tests.gpu_core.decisions.optimization.proposals.test_propose import (
    NOW,
    found_beside_spot,
)

PROPOSAL = found_beside_spot().proposals[0]
TARGET = Target(
    deployment_id="d-1",
    work_pool="gpu",
    work_queue="low",
    entrypoint="flows/train.py:train",
    job_variables={"gpu_count": 4, "capacity_type": "on-demand", "env": {"TOKEN": "secret"}},
)
UNSET = replace(TARGET, job_variables={"gpu_count": 4})
FOUND = Verification(
    verdict=SavingVerdict.LOSS, runs=9, saving=-0.1, cost_per_unit_micro_usd=3_300_000,
    saved_micro_usd=-5_000_000,
)  # fmt: skip


def record(*decisions):
    """The proposal in a log with these decisions."""
    first = proposed(PROPOSAL, RECORD.before, NOW)
    links = chained(WRITER, Head(), [first, *decisions])
    assert [check.problem for check in check_chains(links)] == [None]
    return records_of(links)[PROPOSAL.proposal_id]


RECORD = ProposalRecord(proposal=PROPOSAL, before=Before.of(TARGET, PROPOSAL), proposed_at=NOW)


def approved(*, is_approved=True, by="ada"):
    return decided(RECORD, is_approved=is_approved, by=by, flow_run_id="run", now=NOW)


def step_of(judged, current, *known, now=NOW):
    return apply_step(judged, current, known, now)


APPROVED = approved()
APPLIED = (APPROVED, begun(RECORD, NOW), applied(RECORD, NOW))


def test_an_approved_proposal_changes_its_variable_and_nothing_else():
    step = step_of(record(APPROVED), TARGET)
    assert isinstance(step, Write)
    want = {"gpu_count": 4, "capacity_type": "spot", "env": {"TOKEN": "secret"}}
    assert step.target == replace(TARGET, job_variables=want)


FIRST = replace(
    RECORD,
    proposal=replace(PROPOSAL, proposal_id="gpu-type-1"),
    applied_at=NOW - timedelta(days=PROPOSAL.verify_days - 1),
)


@pytest.mark.parametrize(
    ("first", "is_written"),
    [
        pytest.param(FIRST, False, id="applied a day too late to be over"),
        pytest.param(replace(FIRST, undone_at=NOW), True, id="undone"),
        pytest.param(replace(FIRST, applied_at=None), True, id="never applied"),
        pytest.param(
            replace(FIRST, applied_at=NOW - timedelta(days=PROPOSAL.verify_days)),
            True,
            id="its days are over",
        ),
        pytest.param(
            replace(FIRST, before=replace(RECORD.before, deployment_id="d-2")),
            True,
            id="of another deployment",
        ),
    ],
)
def test_one_change_of_a_deployment_is_measured_at_a_time(first, is_written):
    judged = record(APPROVED)
    step = step_of(judged, TARGET, judged, first)
    assert isinstance(step, Write if is_written else ChangeRefused)
    if isinstance(step, ChangeRefused):
        due = NOW + timedelta(days=1)
        assert step.why.startswith(
            f"gpu-type-1 is being measured on this deployment until {due:%Y-%m-%d %H:%M} UTC"
        )


def test_a_change_that_was_made_before_its_flow_died_is_finished_beside_another():
    judged = record(APPROVED, begun(RECORD, NOW))
    assert step_of(judged, changed(TARGET, PROPOSAL), judged, FIRST) == Done()


@pytest.mark.parametrize(
    ("decisions", "current", "said"),
    [
        pytest.param((), TARGET, "not been approved", id="no answer"),
        pytest.param((approved(is_approved=False),), TARGET, "not been approved", id="declined"),
        pytest.param((APPROVED,), None, "no longer exists", id="the deployment is gone"),
        pytest.param(
            (APPROVED,),
            replace(TARGET, deployment_id="d-2"),
            "no longer exists",
            id="made again by its name",
        ),
        pytest.param(
            (APPROVED,), TARGET.with_variables({"gpu_count": 8}), "modified", id="another variable"
        ),
        pytest.param((APPROVED,), replace(TARGET, work_queue="high"), "modified", id="its queue"),
        pytest.param(
            (APPROVED,), replace(TARGET, entrypoint="flows/b.py:b"), "modified", id="its code"
        ),
        pytest.param(
            (APPROVED,), changed(TARGET, PROPOSAL), "modified", id="someone else made the change"
        ),
        pytest.param(APPLIED, TARGET, "already Applied", id="applied, and set back by hand"),
        pytest.param((*APPLIED, undone(RECORD, "ada", NOW)), TARGET, "Undone", id="undone"),
    ],
)
def test_nothing_is_applied(decisions, current, said):
    step = step_of(record(*decisions), current)
    assert isinstance(step, ChangeRefused)
    assert said in step.why


def test_a_flow_that_died_after_the_change_knows_it_as_its_own():
    assert step_of(record(APPROVED, begun(RECORD, NOW)), changed(TARGET, PROPOSAL)) == Done()


def test_a_flow_that_died_before_the_change_makes_it():
    assert isinstance(step_of(record(APPROVED, begun(RECORD, NOW)), TARGET), Write)


@pytest.mark.parametrize("target", [TARGET, UNSET], ids=["it was set", "it was not set"])
def test_undo_gives_back_what_was_there(target):
    applied_to = replace(RECORD, before=Before.of(target, PROPOSAL), applied_at=NOW)
    assert undo_step(applied_to, changed(target, PROPOSAL)) == Write(target=target)


@given(st.dictionaries(st.sampled_from(["gpu_count", "team", "env"]), st.integers(), max_size=3))
def test_undo_leaves_other_variables_as_they_are_now(others):
    now_has = changed(TARGET, PROPOSAL).with_variables(others)
    assert undo_step(record(*APPLIED), now_has) == Write(target=TARGET.with_variables(others))


@pytest.mark.parametrize(
    ("decisions", "current", "said"),
    [
        pytest.param((APPROVED,), TARGET, "no changes to revert", id="never applied"),
        pytest.param(APPLIED, None, "no longer exists", id="the deployment is gone"),
        pytest.param(
            APPLIED,
            TARGET.with_variables({"capacity_type": "reserved"}),
            "No changes were made, because capacity_type has been modified",
            id="changed since",
        ),
    ],
)
def test_nothing_is_undone(decisions, current, said):
    step = undo_step(record(*decisions), current)
    assert isinstance(step, ChangeRefused)
    assert said in step.why


def test_a_change_whose_flow_died_before_its_record_can_be_undone():
    died = record(APPROVED, begun(RECORD, NOW))
    assert undo_step(died, changed(TARGET, PROPOSAL)) == Write(target=TARGET)
    undone_then = record(APPROVED, begun(RECORD, NOW), undone(RECORD, "ada", NOW))
    assert isinstance(step_of(undone_then, TARGET), ChangeRefused)


def test_a_later_refusal_is_the_reason_that_the_page_shows():
    measured = not_applied(RECORD, "another is measured", NOW)
    modified = not_applied(RECORD, "modified", NOW + timedelta(days=14))
    known = record(APPROVED, measured, begun(RECORD, NOW + timedelta(days=13)), modified)
    assert (known.state, known.not_applied) == (ProposalState.NOT_APPLIED, "modified")
    assert len({measured.decision_id, modified.decision_id}) == 2


def test_a_change_undone_by_a_clock_that_is_behind_is_measured_for_no_time():
    earlier = undone(RECORD, "ada", NOW - timedelta(minutes=5))
    assert measured_until(record(*APPLIED, earlier)) == NOW


OTHER = replace(TARGET, work_queue="high")
AGAIN = proposed(PROPOSAL, Before.of(OTHER, PROPOSAL), NOW + timedelta(days=1))


def test_a_changed_deployment_gets_another_version_that_no_earlier_answer_approves():
    refused = not_applied(RECORD, "modified", NOW)
    again = record(APPROVED, refused, AGAIN)
    assert again.state is ProposalState.PROPOSED
    assert isinstance(step_of(again, OTHER), ChangeRefused)
    late = record(AGAIN, APPROVED)
    assert late.is_approved is None
    approval = decided(again, is_approved=True, by="bob", flow_run_id=None, now=NOW)
    assert record(APPROVED, refused, AGAIN, approval).decided_by == "bob"


@pytest.mark.parametrize(
    ("known", "target", "want"),
    [
        pytest.param(None, TARGET, True, id="no record"),
        pytest.param(RECORD, TARGET, False, id="the same deployment"),
        pytest.param(RECORD, OTHER, True, id="the deployment has changed"),
        pytest.param(replace(RECORD, not_applied="modified"), OTHER, True, id="it was not applied"),
        pytest.param(replace(RECORD, is_approved=True), OTHER, False, id="approved"),
        pytest.param(replace(RECORD, is_approved=False), OTHER, False, id="declined"),
        pytest.param(replace(RECORD, applied_at=NOW), OTHER, False, id="applied"),
        pytest.param(replace(RECORD, undone_at=NOW), OTHER, False, id="undone"),
    ],
)
def test_a_proposal_is_recorded_when_it_is_new_or_its_deployment_has_changed(known, target, want):
    assert is_new(known, Before.of(target, PROPOSAL)) == want


DECLINED = replace(
    RECORD,
    proposal=replace(PROPOSAL, proposal_id="spot-1"),
    is_approved=False,
    decided_by="bob",
    decided_at=NOW - timedelta(days=40),
)
DEARER = replace(
    PROPOSAL,
    saving=replace(
        PROPOSAL.saving, monthly_cost_micro_usd=50 * PROPOSAL.saving.monthly_cost_micro_usd
    ),
)


@pytest.mark.parametrize(
    ("answer", "found", "is_kept"),
    [
        pytest.param(DECLINED, PROPOSAL, True, id="the same change a month later"),
        pytest.param(
            replace(DECLINED, decided_at=NOW - DECLINED_FOR), PROPOSAL, False, id="a quarter later"
        ),
        pytest.param(DECLINED, DEARER, False, id="it saves much more than it did"),
        pytest.param(
            replace(DECLINED, proposal=PROPOSAL), DEARER, True, id="it is the very proposal"
        ),
        pytest.param(
            DECLINED, replace(PROPOSAL, deployment="eval/gpu"), False, id="another deployment"
        ),
        pytest.param(DECLINED, replace(PROPOSAL, changes=()), False, id="another change"),
        pytest.param(replace(DECLINED, is_approved=True), PROPOSAL, False, id="it was approved"),
        pytest.param(RECORD, PROPOSAL, False, id="without a response"),
    ],
)
def test_a_declined_change_stays_declined_for_a_quarter(answer, found, is_kept):
    other = replace(DECLINED, decided_at=NOW - timedelta(days=200))
    assert (declined_lately(found, [other, answer], NOW) is answer) is is_kept


def with_interval(proposed, last=date(2026, 11, 1)):
    """A change of the checkpoint interval, which is estimated anew each night."""
    change = replace(PROPOSAL.changes[0], variable="checkpoint_interval", proposed=proposed)
    kind, variables = ProposalKind.CHECKPOINT_INTERVAL, {"checkpoint_interval": proposed}
    name = proposal_id(kind, PROPOSAL.deployment, PROPOSAL.pool, variables, last)
    return replace(PROPOSAL, proposal_id=name, kind=kind, changes=(change,), last_day=last)


def test_an_interval_of_some_seconds_more_is_the_same_change():
    first, same_month = with_interval(412), with_interval(415)
    later = with_interval(430, date(2026, 12, 2))
    answer = replace(DECLINED, proposal=first)
    assert same_month.proposal_id == first.proposal_id != later.proposal_id
    assert declined_lately(same_month, [answer], NOW) is answer
    assert declined_lately(later, [answer], NOW) is answer


def test_the_page_says_who_declined_what_and_until_when():
    page = savings_page(found_beside_spot(), [DECLINED], [], {"spot-2": DECLINED})
    decided = DECLINED.decided_at
    assert (
        f"spot-2 was declined by bob on {decided:%Y-%m-%d}, as spot-1. "
        f"Approval will not be requested again before {decided + DECLINED_FOR:%Y-%m-%d}."
    ) in page


def test_another_version_does_not_replace_an_approved_one():
    assert record(APPROVED, AGAIN).is_approved is True


def test_what_is_as_before_already_is_done():
    assert undo_step(record(*APPLIED), TARGET) == Done()


@pytest.mark.parametrize(
    ("answered", "is_answer", "said"),
    [
        pytest.param(timedelta(hours=1), True, None, id="in time"),
        pytest.param(timedelta(hours=73), True, "expired", id="after the expiry"),
        pytest.param(None, True, "without a response", id="its state was set by hand"),
        pytest.param(timedelta(hours=1), False, "without a response", id="no input"),
    ],
)
def test_an_answer_counts_only_if_it_came_in_time(answered, is_answer, said):
    came_at = None if answered is None else NOW + answered
    problem = approval_problem(came_at, NOW + timedelta(hours=72), is_answer=is_answer)
    assert (problem is None) == (said is None)
    assert said is None or said in (problem or "")
    assert approval_problem(came_at, None, is_answer=is_answer) is not None


@pytest.mark.parametrize(
    ("decisions", "want"),
    [
        ((), ProposalState.PROPOSED),
        ((APPROVED,), ProposalState.APPROVED),
        ((approved(is_approved=False),), ProposalState.DECLINED),
        ((APPROVED, not_applied(RECORD, "no longer exists", NOW)), ProposalState.NOT_APPLIED),
        (APPLIED, ProposalState.APPLIED),
        ((*APPLIED, verified(RECORD, FOUND, "lost", NOW)), ProposalState.VERIFIED),
        ((*APPLIED, undone(RECORD, "ada", NOW)), ProposalState.UNDONE),
    ],
)
def test_the_log_says_how_far_a_proposal_is(decisions, want):
    assert record(*decisions).state is want


def test_both_answers_have_one_id_so_that_the_first_one_counts():
    assert approved().decision_id == approved(is_approved=False, by="bob").decision_id


def test_no_secret_of_the_deployment_is_in_the_records():
    first = proposed(PROPOSAL, Before.of(TARGET, PROPOSAL), NOW)
    assert "secret" not in str(first.numbers)


def test_losses_are_in_the_score_also_when_the_change_was_undone():
    lost = record(*APPLIED, verified(RECORD, FOUND, "", NOW), undone(RECORD, "ada", NOW))
    found = score_of([lost])
    assert (found.applied, found.losses, found.saved_micro_usd) == (1, 1, -5_000_000)
    assert "$5.00 lost in all" in record_section([lost])
    failed = record(*APPLIED, verified(RECORD, FOUND, "", NOW))
    assert f"To revert it, run: {PROPOSAL.undo}" in record_section([failed])


def test_the_page_counts_all_proposals_by_state_and_shows_the_newest():
    declined = replace(RECORD, is_approved=False)
    generated = replace(RECORD, proposal=replace(PROPOSAL, has_generated=True))
    many = record_section([declined] * 30 + [RECORD, generated])
    assert many.startswith(
        "## Proposals: 2 open, 30 declined\n\nNo proposals have been applied yet."
    )
    assert (many.count("| Declined |"), many.count("| Proposed |")) == (18, 2)
    assert "12 older proposals omitted." in many
    assert many.count("(generated runs)") == 1
    assert record_section([]).startswith("## Proposals: 0 open")


def test_it_is_due_after_its_days_or_when_it_was_undone():
    open_ = record(*APPLIED)
    assert not is_due(open_, NOW + timedelta(days=13))
    assert is_due(open_, NOW + timedelta(days=14))
    assert is_due(record(*APPLIED, undone(RECORD, "ada", NOW)), NOW)
    assert not is_due(record(*APPLIED, verified(RECORD, FOUND, "", NOW)), NOW)
    assert not is_due(record(APPROVED), NOW + timedelta(days=99))


def test_a_record_that_cannot_be_read_is_named():
    (link,) = chained(WRITER, Head(), [proposed(PROPOSAL, Before.of(TARGET, PROPOSAL), NOW)])
    with pytest.raises(InvalidInput, match="cannot be read"):
        records_of([replace(link, numbers='{"proposal_id": "spot-1"}')])
    assert records_of([replace(link, writer="a worker")]) == {}


@pytest.mark.parametrize(
    ("before", "is_written"),
    [
        pytest.param({"gpu_fraction": 1.0}, False, id="a whole GPU that is written out"),
        pytest.param({"gpu_count": 1}, True, id="a number of GPUs"),
        pytest.param({"gpu_fraction": "{{ a }}"}, True, id="what no run could ask for before"),
        pytest.param({"image": "a:1", "unknown": 1}, True, id="variables of its pool"),
    ],
)
def test_a_change_after_which_no_run_could_start_is_refused(before, is_written):
    change = Change(variable="mig_profile", observed="a whole GPU", proposed="1g.5gb")
    proposal = replace(PROPOSAL, kind=ProposalKind.SHARING, changes=(change,))
    target = replace(TARGET, job_variables=before)
    judged = ProposalRecord(
        proposal=proposal, before=Before.of(target, proposal), proposed_at=NOW, is_approved=True
    )
    step = apply_step(judged, target, (), NOW)
    assert isinstance(step, Write) is is_written
    if isinstance(step, ChangeRefused):
        assert "prevent all runs of the deployment from starting: gpu_fraction" in step.why


@pytest.mark.parametrize(
    ("kind", "variable", "value", "before"),
    [
        pytest.param(ProposalKind.SPOT, "capacity_type", "spot", {}, id="spot"),
        pytest.param(ProposalKind.GPU_TYPE, "gpu_type", "l4", {"gpu_type": "a10g"}, id="a type"),
        pytest.param(ProposalKind.GPU_COUNT, "gpu_count", 2, {"gpu_count": 4}, id="a number"),
        pytest.param(
            *(ProposalKind.CHECKPOINT_INTERVAL, "checkpoint_interval", 420),
            {"checkpoint_interval": "1h"},
            id="an interval",
        ),
        pytest.param(ProposalKind.SHARING, "gpu_fraction", 0.25, {"team": "x"}, id="a fraction"),
        pytest.param(ProposalKind.SHARING, "mig_profile", "1g.5gb", {}, id="a MIG instance"),
    ],
)
def test_a_run_can_request_what_each_kind_applies_and_undo_gives_back_what_was_there(
    kind, variable, value, before
):
    change = Change(variable=variable, observed="other", proposed=value)
    proposal = replace(PROPOSAL, kind=kind, changes=(change,))
    target = replace(TARGET, job_variables=before)
    judged = ProposalRecord(
        proposal=from_document(json.loads(json.dumps(to_document(proposal)))),
        before=Before.of(target, proposal),
        proposed_at=NOW,
        is_approved=True,
    )
    step = apply_step(judged, target, (), NOW)
    assert isinstance(step, Write)
    assert step.target.job_variables == before | {variable: value}
    assert parse_request(step.target.job_variables, ())
    assert undo_step(replace(judged, applied_at=NOW), step.target) == Write(target=target)
