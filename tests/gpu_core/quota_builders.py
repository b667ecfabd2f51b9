"""Quota policies and random usage of them, for the tests of quotas."""

from typing import Any

from hypothesis import strategies as st

from gpu_core.decisions.model.cluster import Flavor
from gpu_core.decisions.policy.quotas import QuotaPolicy, quota_contradictions
from gpu_core.decisions.quota.tree import QuotaTree

A100 = Flavor("a100-80gb", "on-demand")
BUCKET = "*"


def make_quotas(**sections: Any) -> QuotaPolicy:
    """A policy without contradictions."""
    policy = QuotaPolicy.model_validate(sections)
    assert quota_contradictions(policy) == []
    return policy


def make_tree(gpus: int, **sections: Any) -> QuotaTree:
    """The tree of a cluster with so many A100s, all in the bucket `*`."""
    return QuotaTree(make_quotas(**sections), {A100: gpus * 1000})


@st.composite
def hybrid_sections(draw: st.DrawFn) -> dict[str, Any]:
    """Up to four teams in up to three cohorts, with limits or without."""
    cohorts = {}
    for i in range(draw(st.integers(0, 3))):
        above = draw(st.sampled_from([None, *cohorts]))
        cohorts[f"c{i}"] = draw(_quotas(is_team=False)) | ({"parent": above} if above else {})
    teams = {}
    for i in range(draw(st.integers(1, 4))):
        above = draw(st.sampled_from([None, *cohorts]))
        teams[f"t{i}"] = draw(_quotas(is_team=True)) | ({"cohort": above} if above else {})
    return {
        "teams": teams,
        "cohorts": cohorts,
        "unlisted": draw(st.sampled_from(["shared", "refused"])),
    }


@st.composite
def _quotas(draw: st.DrawFn, is_team: bool) -> dict[str, Any]:
    limits = st.one_of(st.none(), st.integers(0, 4))
    nominal = draw(limits)
    lending = draw(limits)
    if is_team and nominal is not None and lending is not None:
        lending = min(lending, nominal)
    values = {
        "nominal_quota": nominal,
        "lending_limit": lending,
        "borrowing_limit": draw(limits),
    }
    quotas: dict[str, Any] = {k: {BUCKET: gpus} for k, gpus in values.items() if gpus is not None}
    return quotas | {"weight": draw(st.sampled_from([1, 2, 0.5]))}
