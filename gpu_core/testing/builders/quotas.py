"""Quota policies and their trees."""

from typing import Any

from gpu_core.decisions.model.cluster import Flavor
from gpu_core.decisions.policy.quotas import QuotaPolicy, quota_contradictions
from gpu_core.decisions.quota.cohort_borrowing_and_lending import QuotaTree

A100 = Flavor("a100-80gb", "on-demand")
BUCKET = "*"


def make_quotas(**sections: Any) -> QuotaPolicy:
    """A policy without contradictions."""
    policy = QuotaPolicy.model_validate(sections)
    if contradictions := quota_contradictions(policy):
        raise ValueError(f"the quotas contradict each other: {contradictions}")
    return policy


def make_tree(gpus: int, **sections: Any) -> QuotaTree:
    """The tree of a cluster with `gpus` A100s, all in the bucket `*`."""
    return QuotaTree(make_quotas(**sections), {A100: gpus * 1000})
