"""A commitment is proposed for machines that are there nearly all the time, to a person."""

from dataclasses import replace
from datetime import timedelta

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gpu_core.decisions.costs.prices.price_book import PriceBook
from gpu_core.decisions.optimization.proposals.kinds import ProposalKind
from gpu_core.decisions.optimization.proposals.markdown import report_lines
from gpu_core.decisions.optimization.proposals.period import Period
from gpu_core.decisions.optimization.proposals.reserved_proposals import (
    MachineHistory,
    reserved_proposals,
)
from gpu_core.testing.builders.workloads import make_policy
from tests.gpu_core.adapters.ledger.test_capacity import make_interval
from tests.gpu_core.decisions.optimization.proposals.test_propose import DAY, NOW

PERIOD = Period.before(DAY)
START, END = PERIOD.window.start, PERIOD.window.end
USD = 10**6
BOOK = PriceBook(policy=make_policy(prices={"a100-40gb": {"on-demand": 2.0, "reserved": 1.2}}))
"""A commitment costs 60% of on-demand."""


def machine(name, since, until, **fields):
    ordinary = {
        "node": name,
        "since": since,
        "until": until,
        "capacity_type": "on-demand",
        "gpu_type": "a100-40gb",
        "gpus": 8,
        "micro_usd_per_hour": 16 * USD,
    }
    return make_interval(name, **ordinary | fields)


def daily(name, hours, seed=1):
    """A machine that is there each day for about so many hours."""
    rng = np.random.default_rng(seed)
    lengths = rng.normal(hours, 1.0, size=PERIOD.days).clip(0, 24)
    return [
        machine(f"{name}-{day}", START + timedelta(days=day), START + timedelta(days=day, hours=h))
        for day, h in enumerate(lengths)
        if h
    ]


ALWAYS = [machine("a", START, END), machine("b", START, END)]


def proposed(machines, **fields):
    ordinary = {"intervals": machines, "recorded_since": START, "book": BOOK}
    return reserved_proposals(MachineHistory(**ordinary | fields), PERIOD, NOW)


def test_machines_that_are_always_there_are_committed_and_others_are_not():
    (proposal,) = proposed([*ALWAYS, *daily("c", 19), *daily("d", 10)])
    assert proposal.kind is ProposalKind.RESERVED
    assert proposal.job_variables == {"reserved machines": 3}
    # 48 and 19 of 77 hours a day at 16 USD; commitments for three machines cost 60% of 72.
    true = (67 - 0.6 * 72) / 77
    assert proposal.saving.low < true < proposal.saving.high
    assert "60% of the on-demand price" in proposal.evidence[1]


def test_a_person_carries_it_out():
    (proposal,) = proposed(ALWAYS)
    assert proposal.is_by_hand
    lines = "\n".join(report_lines(proposal))
    assert "Apply: purchase the commitment from the provider" in lines
    assert "Undo: by hand" in lines
    assert "apply-saving" not in lines


@pytest.mark.parametrize("seed", range(5))
def test_a_machine_at_the_break_even_is_not_committed(seed):
    assert proposed(daily("a", 0.6 * 24, seed)) == []


def weekly(hours_by_week):
    """A machine that is there for as many hours on each day of a week."""
    return [
        machine(f"w-{day}", START + timedelta(days=day), START + timedelta(days=day, hours=hours))
        for day in range(PERIOD.days)
        if (hours := hours_by_week[day // 7])
    ]


def test_weeks_that_differ_leave_the_next_ones_open():
    """With the other machine each week saves 0.4 less what the second one stands idle."""
    (proposal,) = proposed([ALWAYS[0], *weekly([24, 24, 18, 21])])
    assert proposal.job_variables == {"reserved machines": 2}
    saved = [1 - 0.6 * 48 / (24 + hours) for hours in (24, 24, 18, 21)]
    # Student's t of three degrees of freedom is 1.638 at 0.9; two weeks follow four.
    half = 1.638 * np.std(saved, ddof=1) * np.sqrt(1 / 2 + 1 / 4)
    assert proposal.saving.expected == pytest.approx(np.mean(saved), abs=1e-4)
    assert proposal.saving.low == pytest.approx(np.mean(saved) - half, abs=1e-4)
    # No more than 40% can be saved, where all machines are always there.
    assert proposal.saving.high == pytest.approx(0.4)


@pytest.mark.parametrize(
    ("hours_by_week", "is_proposed"),
    [
        pytest.param([24, 24, 24, 24], True, id="always"),
        pytest.param([18, 18, 18, 18], True, id="three quarters of each day"),
        pytest.param([24, 24, 24, 0], False, id="gone in the last week"),
        pytest.param([24, 10, 24, 10], False, id="above the break-even in the mean only"),
    ],
)
def test_a_machine_is_committed_if_it_pays_off_in_nine_of_ten_cases(hours_by_week, is_proposed):
    assert bool(proposed(weekly(hours_by_week))) is is_proposed


@settings(max_examples=20, deadline=None)
@given(
    fields=st.sampled_from(
        [
            {"recorded_since": None},
            {"recorded_since": START + timedelta(days=1)},
            {"book": PriceBook(policy=make_policy(prices={}))},
            {"book": PriceBook(policy=make_policy(prices={"a100-40gb": {"on-demand": 2.0}}))},
            {"intervals": []},
            {"intervals": [replace(each, capacity_type="spot") for each in ALWAYS]},
            {"intervals": [replace(each, capacity_type="reserved") for each in ALWAYS]},
            {"intervals": [replace(each, gpu_type="l4") for each in ALWAYS]},
        ]
    ),
    count=st.integers(1, 2),
)
def test_nothing_is_proposed_where_the_evidence_is_missing(fields, count):
    machines = fields.get("intervals", ALWAYS)[:count]
    assert proposed(machines, **{k: v for k, v in fields.items() if k != "intervals"}) == []


def test_days_that_are_not_over_are_no_evidence():
    history = MachineHistory(intervals=ALWAYS, recorded_since=START, book=BOOK)
    assert reserved_proposals(history, PERIOD, END - timedelta(hours=1)) == []
