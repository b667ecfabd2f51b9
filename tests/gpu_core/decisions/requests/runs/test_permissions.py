"""No run is admitted beyond what the policy permits its team, and each learns why."""

from datetime import UTC, datetime
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpu_core.decisions.model.errors import InvalidInput
from gpu_core.decisions.model.reasons import Reason
from gpu_core.decisions.model.workload import Workload
from gpu_core.decisions.policy.policy import Policy, parse_policy
from gpu_core.decisions.requests.runs.run_tags import FIRST_TAG, HOLD_TAG
from gpu_core.decisions.requests.runs.run_workload import workload_from_request
from gpu_core.decisions.requests.variables.job_variables import parse_request
from gpu_core.decisions.scheduling.cycle.planner import plan_cycle
from gpu_core.testing.builders.workloads import make_node, make_snapshot

NOON = datetime(2026, 9, 1, 12, tzinfo=UTC)
PERMISSIONS = {
    "default": {
        "queues": ["medium", "low"],
        "non_preemptible": False,
        "move_up": False,
        "max_gpus_per_run": 4,
        "max_budget_usd": 100,
        "gpu_types": ["t4", "a100-80gb"],
    },
    "teams": {
        "infra": {"queues": None, "non_preemptible": True, "move_up": True},
        "vision": {"max_gpus_per_run": 16, "gpu_types": None},
    },
}


def policy_with(permissions: object = PERMISSIONS) -> Policy:
    return parse_policy(
        {"version": 1, "preemption": {"min_runtime": "60s"}, "permissions": permissions}
    )


def workload_of(
    policy: Policy, queue: str | None = "low", tags: tuple[str, ...] = (), **variables: Any
) -> Workload:
    return workload_from_request(
        parse_request(variables, ()),
        workload_id="w",
        name="w",
        queue=queue,
        submitted_at=NOON,
        policy=policy,
        tags=tags,
    )


@pytest.mark.parametrize(
    ("queue", "tags", "variables", "want"),
    [
        pytest.param("medium", (), {}, None, id="within all limits"),
        pytest.param("default", (), {}, None, id="Prefect's own queue has a medium one's priority"),
        pytest.param(None, (), {}, None, id="no queue"),
        pytest.param(
            "critical",
            (),
            {},
            "have the priority of the queue 'critical' (allowed: low, medium)",
            id="a queue",
        ),
        pytest.param(
            "low",
            (),
            {"gpu_priority": "high"},
            "have the priority of the queue 'high' (allowed: low, medium)",
            id="a queue by gpu_priority",
        ),
        pytest.param("critical", (), {"gpu_priority": "low"}, None, id="a lower priority"),
        pytest.param(
            "low", (), {"preemptible": False}, "set preemptible to false", id="not preemptible"
        ),
        pytest.param(
            "low",
            (),
            {"min_runtime": "1d"},
            "set min_runtime to 1d 00h (at most 1m 00s)",
            id="protected for a day",
        ),
        pytest.param("low", (), {"min_runtime": "30s"}, None, id="protected for less"),
        pytest.param(
            "low",
            (FIRST_TAG,),
            {},
            "move to the front of the queue with the tag 'gpu:first'",
            id="moved up",
        ),
        pytest.param("low", (), {"gpu_count": 2, "nodes": 2}, None, id="as many GPUs as it may"),
        pytest.param(
            "low", (), {"gpu_count": 1, "nodes": 5}, "use 5 GPUs (at most 4)", id="a large gang"
        ),
        pytest.param(
            "low",
            (),
            {"budget_usd": 100.01},
            "have a budget of $100.01 (at most $100.00)",
            id="a large budget",
        ),
        pytest.param(
            "low",
            (),
            {"gpu_type": ["t4", "h100"]},
            "use h100 (allowed: a100-80gb, t4)",
            id="a GPU type",
        ),
        pytest.param("low", (), {"gpu_type": "T4"}, None, id="a permitted GPU type"),
        pytest.param(
            "low",
            (),
            {"preemptible": False, "gpu_count": 8},
            "set preemptible to false, or to use 8 GPUs (at most 4)",
            id="two at once",
        ),
        pytest.param(
            "critical",
            (FIRST_TAG,),
            {"team": "infra", "preemptible": False, "min_runtime": "1d"},
            None,
            id="a team that may",
        ),
        pytest.param(
            "low",
            (),
            {"team": "infra", "gpu_count": 8},
            "use 8 GPUs (at most 4)",
            id="what a team leaves out is the default's",
        ),
        pytest.param(
            "low", (), {"team": "vision", "gpu_count": 16, "gpu_type": "h100"}, None, id="null: any"
        ),
        pytest.param(
            "high",
            (),
            {"team": "vision"},
            "have the priority of the queue 'high' (allowed: low, medium)",
            id="the default's queues for a team",
        ),
        pytest.param(
            "critical",
            (),
            {"team": "Infra"},
            "have the priority of the queue 'critical' (allowed: low, medium)",
            id="a misspelled team is not listed",
        ),
    ],
)
def test_what_a_run_may_ask_for(
    queue: str | None, tags: tuple[str, ...], variables: dict[str, Any], want: str | None
) -> None:
    """The hold says what is too much and what is allowed."""
    hold = workload_of(policy_with(), queue, tags, **variables).hold
    if want is None:
        assert hold is None
        return
    assert hold is not None
    assert hold.reason == Reason.NOT_PERMITTED
    assert hold.summary.endswith(f" is not permitted to {want}.")


def test_the_hold_says_whose_permission_it_is() -> None:
    """And where a platform team changes it."""
    infra = workload_of(policy_with(), team="infra", gpu_count=8).hold
    nobody = workload_of(policy_with(), gpu_count=8).hold
    assert infra is not None
    assert nobody is not None
    assert infra.summary == (
        "Held: a run of team 'infra' is not permitted to use 8 GPUs (at most 4)."
    )
    assert "permissions.teams.infra" in infra.resolution
    assert nobody.summary == (
        "Held: a run without a team is not permitted to use 8 GPUs (at most 4)."
    )
    assert "permissions.default" in nobody.resolution


def test_what_a_run_leaves_open_is_what_it_may_have() -> None:
    """Without a budget and a GPU type of its own it would have any."""
    within = workload_of(policy_with())
    assert (within.shape.gpu_types, within.budget_micro_usd) == (("t4", "a100-80gb"), 100_000_000)
    own = workload_of(policy_with(), gpu_type="t4", budget_usd=5)
    assert (own.shape.gpu_types, own.budget_micro_usd) == (("t4",), 5_000_000)


def test_a_run_beyond_its_permission_keeps_the_budget_of_its_team() -> None:
    """It may run already, when the policy is made stricter and a worker reads it anew."""
    held = workload_of(policy_with(), gpu_count=8)
    assert held.hold is not None
    assert held.budget_micro_usd == 100_000_000


def test_without_the_section_a_run_may_ask_for_anything() -> None:
    """As before."""
    asked = workload_of(
        Policy(version=1), "critical", (FIRST_TAG,), preemptible=False, gpu_count=64, nodes=64
    )
    assert (asked.hold, asked.budget_micro_usd, asked.shape.gpu_types) == (None, None, ())


def test_it_comes_before_a_persons_hold() -> None:
    """To take the tag away would not help."""
    hold = workload_of(policy_with(), "critical", (HOLD_TAG,)).hold
    assert hold is not None
    assert hold.reason == Reason.NOT_PERMITTED
    unknown = workload_of(policy_with(), "urgent").hold
    assert unknown is not None
    assert unknown.reason == Reason.UNKNOWN_QUEUE


QUEUES = ["critical", "high", "medium", "low"]
TYPES = ["t4", "a100-80gb", "h100"]
PERMISSION = st.fixed_dictionaries(
    {},
    optional={
        "queues": st.none() | st.lists(st.sampled_from(QUEUES), unique=True),
        "non_preemptible": st.booleans(),
        "move_up": st.booleans(),
        "max_gpus_per_run": st.none() | st.integers(0, 8),
        "max_budget_usd": st.none() | st.integers(1, 100),
        "gpu_types": st.none() | st.lists(st.sampled_from(TYPES), min_size=1, unique=True),
    },
)
VARIABLES = st.fixed_dictionaries(
    {},
    optional={
        "team": st.sampled_from(["vision", "infra", "other"]),
        "gpu_priority": st.sampled_from(QUEUES),
        "preemptible": st.booleans(),
        "min_runtime": st.integers(0, 600),
        "gpu_count": st.integers(0, 4),
        "budget_usd": st.integers(1, 200),
        "gpu_type": st.sampled_from(TYPES)
        | st.lists(st.sampled_from(TYPES), min_size=1, unique=True),
    },
)


@given(
    PERMISSION,
    st.dictionaries(st.sampled_from(["vision", "infra"]), PERMISSION),
    VARIABLES,
    st.sampled_from([*QUEUES, "default", None]),
    st.booleans(),
)
def test_nothing_is_admitted_beyond_a_permission(
    default: dict[str, Any],
    teams: dict[str, dict[str, Any]],
    variables: dict[str, Any],
    queue: str | None,
    is_first: bool,
) -> None:
    """Whatever the policy and the run say: what starts is within every limit of its team."""
    policy = policy_with({"default": default, "teams": teams})
    workload = workload_of(policy, queue, (FIRST_TAG,) if is_first else (), **variables)
    nodes = tuple(make_node(name, gpu_type=name) for name in TYPES)
    plan = plan_cycle(make_snapshot(nodes, (), (workload,)), policy, NOON)
    (explanation,) = plan.explanations
    may = {**default, **teams.get(str(variables.get("team")), {})}
    if workload.hold is not None:
        assert plan.commands == ()
        assert explanation.reason is Reason.NOT_PERMITTED
    else:
        points = {policy.priorities[name] for name in may.get("queues") or QUEUES}
        assert may.get("queues") is None or workload.priority in points
        if not may.get("non_preemptible", True):
            assert workload.is_preemptible
            assert workload.min_runtime_s <= 60
        assert may.get("move_up", True) or not workload.priority_override
        most_gpus, most_usd = may.get("max_gpus_per_run"), may.get("max_budget_usd")
        assert most_gpus is None or workload.shape.total_gpus <= most_gpus
        if most_usd is not None:
            assert workload.budget_micro_usd is not None
            assert workload.budget_micro_usd <= most_usd * 1_000_000
        if may.get("gpu_types") is not None:
            assert workload.shape.gpu_types or not workload.shape.gpu_count
            assert {*workload.shape.gpu_types} <= {*may["gpu_types"]}


@pytest.mark.parametrize(
    ("permissions", "want_error"),
    [
        pytest.param(
            {"default": {"queues": ["hihg"]}},
            r"permissions.default.queues names a queue without a priority.*Did you mean 'high'",
            id="an unknown queue",
        ),
        pytest.param(
            {"teams": {"vision": {"queues": ["urgent"]}}},
            "permissions.teams.vision.queues names",
            id="of a team",
        ),
        pytest.param({"default": {"max_gpus": 8}}, "max_gpus_per_run", id="an unknown key"),
        pytest.param({"default": {"max_budget_usd": 0}}, "pays for nothing", id="no budget"),
        pytest.param({"default": {"max_budget_usd": "5"}}, "is not an amount", id="text"),
        pytest.param({"default": {"gpu_types": []}}, "gpu_types", id="no GPU type"),
        pytest.param({"default": {"max_gpus_per_run": -1}}, "max_gpus_per_run", id="below 0"),
    ],
)
def test_a_permission_that_cannot_be_used_is_refused(permissions: object, want_error: str) -> None:
    """With the field and what is allowed."""
    with pytest.raises(InvalidInput, match=want_error):
        policy_with(permissions)
