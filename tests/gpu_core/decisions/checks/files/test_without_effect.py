"""Settings that change nothing, and policies under which nothing starts."""

import copy
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gpu_core.decisions.checks.files.without_effect import settings_without_effect
from gpu_core.decisions.policy.policy import parse_policy
from gpu_core.decisions.scheduling.cycle.planner import plan_cycle
from gpu_core.testing.builders.workloads import NOW
from tests.gpu_core.decisions.scheduling.scenarios import scenario
from tests.support.examples import examples

# Sections of a policy; the path of each finding.
CASES: tuple[tuple[str, dict[str, Any], list[str]], ...] = (
    ("the defaults", {}, []),
    (
        "shares that no key compares",
        {"fair_share": {"half_life": "2d", "weights": {"vision": 2}}},
        ["fair_share.half_life", "fair_share.weights"],
    ),
    (
        "shares that a key compares",
        {"fair_share": {"half_life": "2d"}, "ordering": {"keys": ["priority", "fair-share"]}},
        [],
    ),
    ("a default that is stated", {"fair_share": {"by": "team-and-user"}}, []),
    (
        "aging of an order without priorities",
        {
            "ordering": {"keys": ["submitted"], "aging_points_per_hour": 10},
            "preemption": {"enabled": False},
        },
        ["ordering.aging_points_per_hour"],
    ),
    ("aging of priorities", {"ordering": {"aging_points_per_hour": 10}}, []),
    (
        "levels of a service that no key compares",
        {"ordering": {"service_levels": 3, "service_quantum_gpu_s": 60}},
        ["ordering.service_quantum_gpu_s", "ordering.service_levels"],
    ),
    (
        "the depth of another backfill",
        {"backfill": {"mode": "easy", "depth": 5}},
        ["backfill.depth"],
    ),
    ("the depth of conservative backfill", {"backfill": {"mode": "conservative", "depth": 5}}, []),
    (
        "who is preempted, where none is",
        {"preemption": {"enabled": False, "takes_from": "later-in-order"}},
        ["preemption.takes_from"],
    ),
    (
        "a protection, where none is preempted or moved",
        {"preemption": {"enabled": False, "max_protection": "1h"}},
        ["preemption.max_protection"],
    ),
    (
        "a protection from moves",
        {
            "preemption": {"enabled": False, "max_protection": "1h"},
            "placement": {"consolidation": {"enabled": True}},
        },
        [],
    ),
    (
        "GPUs that are left to all",
        {"priorities": {"medium": 5}, "preemption": {"spare_gpus": 2}},
        ["preemption.spare_gpus"],
    ),
    (
        "moves that are off",
        {"placement": {"consolidation": {"max_moves": 3}}},
        ["placement.consolidation.max_moves"],
    ),
    ("hints without offers", {"scale": {"queued": 5, "max_gpus": 8}}, ["scale.queued"]),
    (
        "hints with offers",
        {"scale": {"queued": 5, "offers": [{"gpu_type": "l4", "gpus_per_node": 4}]}},
        [],
    ),
    ("more memory that is off", {"memory": {"max_divisor": 4}}, ["memory.max_divisor"]),
    ("equal points", {"priorities": {"high": 5, "medium": 5}}, ["priorities"]),
    ("one queue", {"priorities": {"medium": 5}}, []),
    ("no GPUs for any run", {"limits": {"max_gpus_per_run": 0}}, ["limits.max_gpus_per_run"]),
    ("no GPUs for any user", {"limits": {"max_gpus_per_user": 0}}, ["limits.max_gpus_per_user"]),
    (
        "no GPUs for users but of one team",
        {
            "limits": {"max_gpus_per_user": 0},
            "quotas": {"teams": {"a": {"nominal_quota": {"*": 4}, "max_gpus_per_user": 2}}},
        },
        [],
    ),
    (
        "teams without a GPU",
        {
            "quotas": {
                "teams": {
                    "a": {"nominal_quota": {"*": 0}, "borrowing_limit": {"*": 0}},
                    "b": {"nominal_quota": {"*": 4}, "max_gpus_per_user": 0},
                    "c": {"nominal_quota": {"*": 0}, "borrowing_limit": {"*": 2}},
                    "d": {"nominal_quota": {"*": 0}},
                }
            }
        },
        ["quotas.teams.a.nominal_quota", "quotas.teams.b.max_gpus_per_user"],
    ),
    (
        "a team without a GPU where none is lent",
        {"quotas": {"strategy": "static", "teams": {"a": {"nominal_quota": {"*": 0}}}}},
        ["quotas.teams.a.nominal_quota"],
    ),
    ("no team, and the others are refused", {"quotas": {"unlisted": "refused"}}, ["quotas.teams"]),
)


@pytest.mark.parametrize(
    ("sections", "want"), [pytest.param(sections, want, id=name) for name, sections, want in CASES]
)
def test_settings_without_effect(sections: dict[str, Any], want: list[str]) -> None:
    policy = parse_policy({"version": 1, **sections})
    found = settings_without_effect(policy, dict.fromkeys(want, 7), "Deployment a")
    assert [finding.path for finding in found] == want
    assert {finding.line for finding in found} <= {7}


IDLE = [
    sections
    for _, sections, want in CASES
    if want and not {"quotas", "limits", "priorities"} & sections.keys()
]


@settings(max_examples=examples(300))
@given(st.sampled_from(IDLE), st.integers(0, 2**32 - 1))
def test_what_is_said_to_have_no_effect_changes_no_plan(
    sections: dict[str, Any], seed: int
) -> None:
    policy = parse_policy({"version": 1, **sections})
    without = copy.deepcopy(sections)
    for finding in settings_without_effect(policy, {}, None):
        *path, key = finding.path.split(".")
        section = without
        for name in path:
            section = section[name]
        del section[key]
    pool = scenario(seed).snapshot
    assert plan_cycle(pool, policy, NOW) == plan_cycle(
        pool, parse_policy({"version": 1, **without}), NOW
    )
