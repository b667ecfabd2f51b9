"""For how long an attempt is protected from preemption."""

from datetime import timedelta

import pytest

from gpu_core.testing.builders.workloads import NOW, ago, make_allocation, make_workload


def protected_s(workload=None, **allocation):
    """Seconds from now; it was admitted an hour ago and began half an hour ago."""
    run = make_workload("w", **{"min_runtime_s": 60, "max_protection_s": 3_600} | (workload or {}))
    held = make_allocation(run, {"n1": "0"}, **{"began_at": ago(1_800)} | allocation)
    return (held.protected_until - NOW).total_seconds()


@pytest.mark.parametrize(
    ("workload", "allocation", "want_s"),
    [
        pytest.param({}, {}, 60 - 1_800, id="its minimum run time, if it was never preempted"),
        pytest.param(
            {"preemption_cost_s": 1_000.0},
            {"admitted_at": ago(1_800)},
            1_000 - 1_800,
            id="what they cost",
        ),
        pytest.param(
            {"preemption_cost_s": 1_000.0}, {}, 1_000, id="with the time until it began, as long"
        ),
        pytest.param(
            {"preemption_cost_s": 30.0},
            {"admitted_at": ago(1_800)},
            60 - 1_800,
            id="its minimum run time, if it is longer",
        ),
        pytest.param(
            {"preemption_cost_s": 1_000.0},
            {"works_since": ago(1_500)},
            -1_500 + 1_000 + 2_100,
            id="with the time from its admission until it resumed",
        ),
        pytest.param(
            {"preemption_cost_s": None},
            {"works_since": ago(1_500)},
            60 - 1_800,
            id="a restart that no preemption caused protects from nothing",
        ),
        pytest.param(
            {"preemption_cost_s": 0.0},
            {"works_since": ago(1_500)},
            -1_500 + 2_100,
            id="a preemption that lost nothing costs the restart after it",
        ),
        pytest.param(
            {"preemption_cost_s": 9e9},
            {"works_since": ago(1_500)},
            3_600 - 1_800,
            id="never longer than the bound, however much they cost",
        ),
        pytest.param(
            {"preemption_cost_s": 9e9, "max_protection_s": 0.0}, {}, 60 - 1_800, id="no bound"
        ),
        pytest.param(
            {"preemption_cost_s": 9e9},
            {"began_at": None, "begins_by": ago(-90)},
            90,
            id="while it starts, nothing has been repaid",
        ),
        pytest.param(
            {"preemption_cost_s": 1_000.0},
            {"works_since": ago(4_000)},
            1_000 - 1_800,
            id="by a clock that is behind",
        ),
    ],
)
def test_protected_until(workload, allocation, want_s):
    """The later of its minimum run time and the time in which it repays its preemptions."""
    assert protected_s(workload, **allocation) == want_s


def test_it_repays_only_for_as_long_as_that_is_longer():
    """What its page says: the longer of the two protects."""
    run = make_workload("w", min_runtime_s=60, max_protection_s=3_600, preemption_cost_s=61.0)
    held = make_allocation(run, {"n1": "0"})
    assert held.is_repaying
    assert held.protected_until == held.admitted_at + timedelta(seconds=61)
