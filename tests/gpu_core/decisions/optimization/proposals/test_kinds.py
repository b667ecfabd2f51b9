"""Every kind of proposal has its rule."""

from gpu_core.decisions.optimization.proposals.kinds import RULES, ProposalKind


def test_every_kind_has_a_rule():
    assert set(RULES) == set(ProposalKind)
