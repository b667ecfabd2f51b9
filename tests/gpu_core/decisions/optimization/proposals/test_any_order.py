"""Whatever people and flows do, and in whichever order: what a deployment never becomes.

A small world with the parts of the three flows that decide: no server, no ledger.
"""

from dataclasses import dataclass, field, replace
from datetime import timedelta
from itertools import product

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gpu_core.decisions.model.decision_chain import Decision, Head, chained
from gpu_core.decisions.optimization.proposals.changes import (
    ChangeRefused,
    Done,
    Write,
    apply_step,
    undo_step,
)
from gpu_core.decisions.optimization.proposals.records import (
    WRITER,
    ProposalRecord,
    ProposalState,
    applied,
    begun,
    decided,
    is_new,
    is_unfinished,
    not_applied,
    proposed,
    records_of,
    undone,
)
from gpu_core.decisions.optimization.proposals.target import Before, Target
from tests.gpu_core.decisions.optimization.proposals.test_changes import PROPOSAL, TARGET
from tests.gpu_core.decisions.optimization.proposals.test_propose import NOW
from tests.support.examples import examples

VARIABLE, VALUE = "capacity_type", "spot"
BEGINNING = replace(TARGET, job_variables={"gpu_count": 4, "team": "x", VARIABLE: "on-demand"})


@dataclass(slots=True)
class World:
    """A deployment, the log, and the question that a person sees, if there is one."""

    target: Target = BEGINNING
    log: dict[str, Decision] = field(default_factory=dict)
    question: ProposalRecord | None = None
    days: int = 0
    minutes: int = 0
    written: Target | None = None
    """The deployment as a flow has left it, until the variable changes again."""

    @property
    def now(self):
        return NOW + timedelta(days=self.days, minutes=self.minutes)

    @property
    def record(self):
        links = chained(WRITER, Head(), self.log.values())
        return records_of(links).get(PROPOSAL.proposal_id)

    def append(self, *decisions):
        """A decision that is in the log already stays as it was."""
        for decision in decisions:
            self.log.setdefault(decision.decision_id, decision)

    def propose(self):
        self.days += 1
        before = Before.of(self.target, PROPOSAL)
        if self.target.job_variables.get(VARIABLE) != VALUE and is_new(self.record, before):
            self.append(proposed(PROPOSAL, before, self.now))

    def ask(self):
        if self.record is not None and self.record.is_approved is None:
            self.question = self.record

    def answer(self, *, is_approved):
        if self.question is not None:
            self.append(
                decided(
                    *(self.question,),
                    is_approved=is_approved,
                    by="ada",
                    flow_run_id="run",
                    now=self.now,
                )
            )

    def apply(self, *, dies=False, others=()):
        record = self.record
        if record is None or not record.is_approved or record.applied_at is not None:
            return
        step = apply_step(record, self.target, (record, *others), self.now)
        if isinstance(step, ChangeRefused):
            self.append(not_applied(record, step.why, self.now))
            return
        if isinstance(step, Write):
            self.append(begun(record, self.now))
            self.target = self.written = step.target
        if not dies:
            self.append(applied(record, self.now))

    def undo(self):
        record = self.record
        if record is None:
            return
        step = undo_step(record, self.target)
        if isinstance(step, ChangeRefused):
            return
        if isinstance(step, Write):
            self.target, self.written = step.target, None
            assert self.target.job_variables.get(VARIABLE) == record.before.values.get(VARIABLE)
        self.append(undone(record, "ada", self.now))

    def apply_beside_another(self):
        """The same while another change of the deployment is measured."""
        proposal = replace(PROPOSAL, proposal_id="other-1")
        before = Before.of(self.target, PROPOSAL)
        other = ProposalRecord(proposal=proposal, before=before, proposed_at=NOW)
        self.apply(others=(replace(other, applied_at=self.now),))

    def verify(self):
        """As each night: a change whose flow has died is recorded."""
        record = self.record
        if record is None or not is_unfinished(record):
            return
        if isinstance(apply_step(record, self.target, (record,), self.now), Done):
            self.append(applied(record, self.now))

    def edit(self, **variables):
        self.target = self.target.with_variables(variables)
        if VARIABLE in variables:
            self.written = None


EVENTS = {
    "propose": World.propose,
    "ask": World.ask,
    "approve": lambda world: world.answer(is_approved=True),
    "decline": lambda world: world.answer(is_approved=False),
    "apply": World.apply,
    "apply beside another": World.apply_beside_another,
    "verify": World.verify,
    "die": lambda world: world.apply(dies=True),
    "undo": World.undo,
    "a person changes another variable": lambda world: world.edit(team="y"),
    "a person makes the same change": lambda world: world.edit(**{VARIABLE: VALUE}),
    "a person chooses another value": lambda world: world.edit(**{VARIABLE: "reserved"}),
}


def others(target):
    return {name: v for name, v in target.job_variables.items() if name != VARIABLE}


def check(events):
    world = World()
    for name in events:
        before, known = world.target, world.record
        world.minutes += 1
        EVENTS[name](world)
        after, record = world.target, world.record
        if world.written is not None:
            check_can_be_undone(world)
        if known is not None and known.state in (ProposalState.DECLINED, ProposalState.UNDONE):
            assert record.state is known.state, "a refusal and an undo are the end"
        if "person" in name or after == before:
            continue
        assert others(after) == others(before), "no other variable is ever changed"
        assert record.is_approved, "nothing is changed without an approval"
        if name == "undo":
            assert before.job_variables[VARIABLE] == VALUE, "another person's value stays"
        else:
            assert name in ("apply", "die", "apply beside another")
            assert record.before.digest == before.digest, "the deployment was as it was"


def check_can_be_undone(world):
    """What a flow has changed can be undone, and is recorded where nothing else has changed."""
    assert isinstance(undo_step(world.record, world.target), Write)
    later = replace(world, log=dict(world.log))
    later.verify()
    if world.target == world.written and world.record.not_applied is None:
        assert later.record.applied_at is not None


LONG = ("propose", "ask", "approve")


@pytest.mark.parametrize("first", EVENTS)
def test_each_short_order_after_an_approval(first):
    for rest in product(EVENTS, repeat=2):
        check((*LONG, first, *rest))


@settings(max_examples=examples(400))
@given(st.lists(st.sampled_from(sorted(EVENTS)), max_size=14))
def test_any_order(events):
    check(events)
