"""The phases of an attempt: the table of what may follow what, and random lives."""

import pickle
from datetime import timedelta
from itertools import pairwise, product

import pytest
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule

from gpu_core.decisions.attempts.phase import (
    TRANSITIONS,
    AttemptLife,
    AttemptPhase,
    IllegalTransition,
    PhaseStart,
    recorded_phase,
)
from gpu_core.decisions.model.attempts import EndReason
from gpu_core.testing.builders.attempts import NOON, make_attempt

P = AttemptPhase

# Written out again: what follows each phase, and what it says of the attempt.
#   phase: (followers, holds GPUs, is up, has ended, is stopping)
TABLE = {
    P.RECOVERING: ({P.LAUNCHING, P.STARTED, P.DRAINING, P.RELEASED}, True, False, False, False),
    P.ADMITTED: ({P.LAUNCHING, P.STARTED, P.ENDING, P.SETTLED}, True, False, False, False),
    P.LAUNCHING: ({P.STARTED, P.DRAINING, P.ENDING}, True, False, False, False),
    P.STARTED: ({P.RUNNING, P.DRAINING, P.ENDING}, True, True, False, False),
    P.RUNNING: ({P.DRAINING, P.ENDING}, True, True, False, False),
    P.DRAINING: ({P.ENDING}, True, False, False, True),
    P.ENDING: ({P.RELEASED}, True, False, True, True),
    P.RELEASED: ({P.SETTLED}, False, False, True, True),
    P.SETTLED: (set(), False, False, True, True),
}


@pytest.mark.parametrize(
    ("before", "after"),
    [pytest.param(*pair, id=f"{pair[0]} to {pair[1]}") for pair in product(P, P)],
)
def test_every_pair_of_phases(before, after):
    life = AttemptLife("a", (PhaseStart(before, NOON),))
    if after in TABLE[before][0]:
        moved = life.moved_to(after, NOON)
        assert moved.history == (before, after)
        assert life.history == (before,)
        return
    with pytest.raises(IllegalTransition) as caught:
        life.moved_to(after, NOON)
    assert (caught.value.from_, caught.value.to) == (before, after)


@pytest.mark.parametrize("phase", P)
def test_what_each_phase_says(phase):
    said = phase.holds_gpus, phase.is_up, phase.has_ended, phase.is_stopping
    assert said == TABLE[phase][1:]


def test_an_illegal_transition_names_attempt_phases_and_history_and_can_be_pickled():
    life = AttemptLife("attempt-7", (PhaseStart(P.ADMITTED, NOON),))
    for phase in (P.LAUNCHING, P.STARTED, P.ENDING):
        life = life.moved_to(phase, NOON)
    with pytest.raises(IllegalTransition) as caught:
        life.moved_to(P.RUNNING, NOON)
    want = (
        "attempt attempt-7 cannot go from ending to running. Allowed: released. "
        "It was admitted → launching → started → ending."
    )
    assert str(caught.value) == want
    copy = pickle.loads(pickle.dumps(caught.value))  # noqa: S301 - our own bytes
    assert (str(copy), copy.history) == (want, life.history)


@pytest.mark.parametrize(
    ("columns", "want"),
    [
        pytest.param({}, P.LAUNCHING, id="its worker may have died before it noted the start"),
        pytest.param({"started_at": NOON}, P.STARTED, id="whether it runs is Prefect's to say"),
        pytest.param({"drain_requested_at": NOON}, P.DRAINING, id="it was asked to stop"),
        pytest.param(
            {"started_at": NOON, "drain_requested_at": NOON, "drain_reason": EndReason.PREEMPTED},
            P.DRAINING,
            id="started, and asked to stop",
        ),
        pytest.param(
            {"started_at": NOON, "settlement": {"end_reason": "Crashed"}},
            P.STARTED,
            id="judged and not closed: what is left of it may live",
        ),
        pytest.param(
            {"started_at": NOON, "drain_requested_at": NOON, "gone_at": NOON},
            P.RELEASED,
            id="a worker saw that nothing of it lives: its GPUs may be another's",
        ),
        pytest.param(
            {"started_at": NOON, "released_at": NOON, "end_reason": EndReason.COMPLETED},
            P.SETTLED,
            id="closed",
        ),
        pytest.param(
            {"started_at": NOON, "shares": None, "job_variables": None, "zone": None},
            P.STARTED,
            id="of a version before, without the columns that came later",
        ),
    ],
)
def test_a_row_of_the_ledger_has_the_phase(columns, want):
    assert recorded_phase(make_attempt(**columns)) is want


class Lives(RuleBasedStateMachine):
    """One attempt to which random things happen, legal ones and others."""

    @initialize(first=st.sampled_from([P.ADMITTED, P.RECOVERING]))
    def begin(self, first):
        self.life = AttemptLife("a", (PhaseStart(first, NOON),))
        self.n_moves = 0

    @rule(phase=st.sampled_from(P))
    def move(self, phase):
        before, at = self.life, NOON + timedelta(seconds=self.n_moves)
        if phase not in TRANSITIONS[before.phase]:
            with pytest.raises(IllegalTransition):
                before.moved_to(phase, at)
            return
        self.life = before.moved_to(phase, at)
        self.n_moves += 1
        assert self.life.entered_at(phase) == at
        # No phase comes twice, so that the moment of each is one.
        assert phase not in before.history

    @invariant()
    def its_gpus_are_released_once_and_for_all(self):
        held = [phase.holds_gpus for phase in self.life.history]
        assert held == sorted(held, reverse=True)

    @invariant()
    def an_end_is_followed_by_ends_alone(self):
        over = [phase.has_ended for phase in self.life.history]
        assert over == sorted(over)
        stopping = [phase.is_stopping for phase in self.life.history]
        assert stopping == sorted(stopping)

    @invariant()
    def what_is_settled_never_changes(self):
        assert P.SETTLED not in self.life.history[:-1]

    @invariant()
    def every_step_is_in_the_table_and_in_order(self):
        assert all(b in TABLE[a][0] for a, b in pairwise(self.life.history))
        moments = [step.at for step in self.life.steps]
        assert moments == sorted(moments)


TestLives = Lives.TestCase


def test_every_phase_can_be_reached_and_leads_to_the_end():
    reached = {P.ADMITTED, P.RECOVERING}
    while more := {after for before in reached for after in TRANSITIONS[before]} - reached:
        reached |= more
    assert reached == set(P)
    ends = {P.SETTLED}
    while more := {phase for phase in P if TRANSITIONS[phase] & ends} - ends:
        ends |= more
    assert ends == set(P)
