"""The reason why a run was preempted."""

import pytest

from gpu_core.decisions.attempts.preempted import why_preempted
from gpu_core.testing.builders.workloads import HIGH, LOW, make_workload


@pytest.mark.parametrize(
    ("preemptor", "want"),
    [
        pytest.param(
            {"priority": HIGH},
            "'new' has a higher priority (10,000 points instead of 100) and needs 2 GPUs.",
            id="a higher priority",
        ),
        pytest.param(
            {"team": "b"}, "'new' reclaims quota of team 'b' and needs 2 GPUs.", id="lent quota"
        ),
        pytest.param(
            {}, "'new' is ahead in the order of the policy and needs 2 GPUs.", id="the order"
        ),
    ],
)
def test_the_reason(preemptor, want):
    """It names a priority only where that is higher."""
    victim = make_workload("old", priority=LOW, team="a")
    fields = {"name": "new", "priority": LOW, "team": "a"} | preemptor
    assert why_preempted(victim, make_workload("w", 2, **fields)) == want
