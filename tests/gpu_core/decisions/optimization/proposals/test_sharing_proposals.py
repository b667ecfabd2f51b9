"""A part of a GPU is proposed where runs were measured and the pool has such parts."""

from dataclasses import replace
from datetime import timedelta

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gpu_core.decisions.model.cluster import NodeShare
from gpu_core.decisions.model.gpu_summary import GpuSummary
from gpu_core.decisions.optimization.proposals.kinds import ProposalKind
from gpu_core.decisions.optimization.proposals.period import Period
from gpu_core.decisions.optimization.proposals.proposal import from_document, to_document
from gpu_core.decisions.optimization.proposals.run_facts import run_facts
from gpu_core.decisions.optimization.proposals.sharing_proposals import (
    LEAST_RUNS,
    parts_held,
    sharing_draft,
)
from gpu_core.decisions.policy.idle import IdlePolicy
from tests.gpu_core.decisions.optimization.proposals.test_propose import DAY, NOW, WORK, history

PERIOD = Period.before(DAY)
GIB = 2**30
ONE = replace(WORK, gpu_count=1, gpu_type="a100-40gb", runs_per_weekday=2)
OTHERS = replace(ONE, deployment="others/gpu", runs_per_weekday=0.5)
QUARTER = NodeShare(node="n", gpu_ids=("0",), share_milli=250)
SEVENTH = NodeShare(node="n", gpu_ids=("0",), share_milli=125, mig_starts=(0,), exact_part=(1, 7))


def used(utilization=0.15, memory_gib=3.0, **fields):
    """The summary of a run's GPU."""
    ordinary = {
        "gpu_id": "0",
        "samples": 3600,
        "utilization_mean_ratio": utilization,
        "memory_used_max_bytes": int(memory_gib * GIB),
    }
    return (GpuSummary(**ordinary | fields),)


def with_attempts(records, **fields):
    return [(run, tuple(replace(a, **fields) for a in attempts)) for run, attempts in records]


MEASURED = with_attempts(history(ONE), gpu_summaries=used())
SHARED = with_attempts(history(OTHERS), shares=(QUARTER,))


def drafted(records, others=SHARED, seed=1):
    facts = run_facts(records, PERIOD.window, NOW)
    everything = run_facts([*records, *others], PERIOD.window, NOW)
    return sharing_draft(facts, everything, IdlePolicy(), PERIOD, (seed, 0))


@pytest.mark.parametrize("busy", [0.15, 0.5, 0.8])
def test_a_part_is_proposed_and_its_saving_holds_the_truth(busy):
    """Three neighbors, each busy for this part of the time: a kernel waits for them in turn."""
    proposal = drafted(MEASURED).proposal
    assert proposal.kind is ProposalKind.SHARING
    assert proposal.job_variables == {"gpu_fraction": 0.25}
    true = 1 - 0.25 * (1 + 0.15 * 3 * busy)
    assert proposal.saving.low < true < proposal.saving.high
    assert from_document(to_document(proposal)) == proposal


def test_a_mig_instance_is_proposed_where_the_pool_has_it():
    proposal = drafted(MEASURED, with_attempts(history(OTHERS), shares=(SEVENTH,))).proposal
    assert proposal.job_variables == {"mig_profile": "1g.5gb"}
    # Kernels that fill the GPU take seven times as long on a seventh of it: 1.9 times the run.
    assert 1 - 1.9 / 7 < proposal.saving.low < proposal.saving.high < 1 - 1 / 7


def test_the_replay_does_not_share_gpus_so_that_waits_are_unknown():
    draft = drafted(MEASURED)
    assert (draft.held_s, draft.proposal.waits) == (None, None)
    assert "1.45 times as long" in draft.proposal.risk


@settings(max_examples=20, deadline=None)
@given(
    missing=st.sampled_from(
        [
            {"gpu_summaries": None},
            {"gpu_summaries": used(is_simulated=True)},
            {"gpu_summaries": used(utilization_mean_ratio=None)},
            {"gpu_summaries": used(memory_used_max_bytes=None)},
            {"gpu_summaries": used(memory_gib=9.5)},
            {"gpu_summaries": used(utilization=0.3)},
            {"gpu_summaries": used(utilization=0.99)},
            {"gpu_ids": ("0", "1")},
            {"shares": (QUARTER,)},
            {"gpu_type": "unknown-gpu"},
            {"price_micro_usd_per_gpu_hour": None},
        ]
    ),
    seed=st.integers(1, 1000),
)
def test_nothing_is_proposed_where_the_evidence_is_missing(missing, seed):
    fields = {"gpu_summaries": used()} | missing
    assert drafted(with_attempts(MEASURED[-20:], **fields), SHARED[-3:], seed=seed) is None


def test_one_run_that_was_not_measured_is_enough_to_know_too_little():
    (run, attempts), *rest = MEASURED[-20:]
    assert drafted(MEASURED[-20:]) is not None
    assert drafted([(run, (replace(attempts[0], gpu_summaries=None),)), *rest]) is None


def test_a_pool_without_parts_of_the_type_and_few_runs_are_no_evidence():
    assert drafted(MEASURED, []) is None
    other_type = with_attempts(SHARED, gpu_type="l4")
    assert drafted(MEASURED, other_type) is None
    assert drafted(MEASURED[-LEAST_RUNS + 1 :]) is None
    early = timedelta(days=99)
    long_ago = [(replace(run, submitted_at=run.submitted_at - early), a) for run, a in SHARED]
    assert drafted(MEASURED, long_ago) is None


def test_parts_are_those_that_were_held():
    facts = run_facts(
        [
            *with_attempts(history(OTHERS), shares=(SEVENTH,)),
            *with_attempts(history(OTHERS, seed=2), shares=(QUARTER,)),
        ],
        PERIOD.window,
        NOW,
    )
    found = parts_held("a100-40gb", facts)
    assert [(part.variable, part.value) for part in found] == [
        ("mig_profile", "1g.5gb"),
        ("gpu_fraction", 0.25),
    ]
    assert parts_held("a30", facts) == ()
