"""What job variables may say, what a person reads who wrote something else, and the workload."""

import re
from datetime import UTC, datetime, timedelta

import pytest

from gpu_core.decisions.model.errors import InvalidInput
from gpu_core.decisions.model.pydantic_errors import InvalidInputs
from gpu_core.decisions.model.reasons import Reason
from gpu_core.decisions.model.workload import Hold, Shape, Workload
from gpu_core.decisions.requests.runs.run_workload import (
    RunLimits,
    run_limits,
    workload_from_request,
)
from gpu_core.decisions.requests.variables.job_variables import GpuRequest, parse_request
from gpu_core.testing.builders.workloads import NOW, make_policy

WORKER_VARIABLES = ("env", "command", "name", "labels", "working_dir")


def request(**variables):
    return parse_request(variables, WORKER_VARIABLES)


def workload(request, queue="medium", policy=None, hold=None, user=None, tags=()):
    return workload_from_request(
        request,
        workload_id="id",
        name="train",
        queue=queue,
        submitted_at=NOW,
        policy=policy or make_policy(),
        user=user,
        tags=tags,
        hold=hold,
    )


def test_nothing_given_is_one_gpu_of_any_type():
    """None and the parent worker's own variables mean that nothing was asked."""
    given = {"gpu_count": None, "team": None, "env": {"A": "b"}, "env.FOO": "x", "command": "c"}
    assert parse_request(given, WORKER_VARIABLES) == GpuRequest()
    assert (GpuRequest().gpu_count, GpuRequest().nodes, GpuRequest().gpu_type) == (1, 1, ())


def test_everything_given():
    """Durations become seconds, types an ordered list in lower case, auto no wish."""
    parsed = request(
        team="vision",
        workload_type="fine-tuning",
        gpu_type=["H100-80GB", "a100-80gb"],
        gpu_count=4,
        nodes=2,
        gpu_memory_gib=80,
        capacity_type="spot",
        expected_duration="90m",
        max_duration="12h",
        min_runtime=0,
        checkpoint_uri="s3://bucket/x",
        checkpoint_interval="auto",
        budget_usd=12.5,
        max_failures=5,
        max_interruptions=7,
        preemptible=False,
        gpu_priority="high",
    )
    assert parsed.gpu_type == ("h100-80gb", "a100-80gb")
    assert (parsed.expected_duration_s, parsed.max_duration_s) == (5_400, 43_200)
    assert parsed.checkpoint_interval_s is None
    assert workload(parsed) == Workload(
        workload_id="id",
        name="train",
        priority=10_000,
        submitted_at=NOW,
        shape=Shape(
            gpu_count=4,
            nodes=2,
            gpu_types=("h100-80gb", "a100-80gb"),
            gpu_memory_gib=80,
            capacity_type="spot",
        ),
        is_preemptible=False,
        min_runtime_s=0,
        expected_duration_s=5_400,
        budget_micro_usd=12_500_000,
        team="vision",
        queue="medium",
    )


@pytest.mark.parametrize(
    ("variables", "want_message"),
    [
        pytest.param(
            {"gpu_cuont": 4},
            "gpu_cuont is not a known name. Did you mean 'gpu_count'? Allowed: budget_usd, ",
            id="a misspelled variable",
        ),
        pytest.param(
            {"comand": "x"},
            "comand is not a known name. Did you mean 'command'?",
            id="a misspelled variable of the worker",
        ),
        pytest.param(
            {"gpu_count": "4"},
            "gpu_count is not a whole number (got '4'). Allowed: a whole number from 0 to 64. "
            "Write 4 without quotes",
            id="a number in quotes",
        ),
        pytest.param(
            {"gpu_count": 1.5}, "gpu_count is not a whole number (got 1.5)", id="half a GPU"
        ),
        pytest.param(
            {"gpu_count": -1}, "gpu_count is too small (got -1). Allowed: 0 to 64", id="less"
        ),
        pytest.param(
            {"gpu_count": 65}, "gpu_count is too large (got 65). Allowed: 0 to 64", id="more"
        ),
        pytest.param(
            {"gpu_count": 0, "nodes": 2},
            "nodes needs GPUs on each node (got 2). Set gpu_count too",
            id="nodes without GPUs",
        ),
        pytest.param(
            {"gpu_fraction": 0}, "gpu_fraction is too small (got 0). Allowed: over 0", id="none"
        ),
        pytest.param(
            {"gpu_fraction": 1.5},
            "gpu_fraction is too large (got 1.5). Allowed: over 0 to 1",
            id="1+",
        ),
        pytest.param(
            {"gpu_fraction": 0.5, "mig_profile": "1g.10gb"},
            (
                "gpu_fraction cannot be combined with mig_profile (got 0.5). Specify only one "
                "of them"
            ),
            id="two kinds of parts",
        ),
        pytest.param(
            {"gpu_count": 0, "mig_profile": "1g.10gb"},
            "mig_profile needs a GPU (got '1g.10gb'). Set gpu_count to 1",
            id="an instance of no GPU",
        ),
        pytest.param(
            {"gpu_count": 0, "gpu_fraction": 0.5},
            "gpu_fraction needs a GPU (got 0.5). Set gpu_count to 1",
            id="a part of no GPU",
        ),
        pytest.param(
            {"mig_profile": "10gb"},
            "mig_profile is not a MIG profile (got '10gb'). Allowed: compute slices and memory "
            "such as '1g.10gb' or '1g.10gb+me'",
            id="half a profile",
        ),
        pytest.param({"mig_profile": 1}, "mig_profile is not a MIG profile (got 1)", id="a number"),
        pytest.param(
            {"gpu_type": 100}, "gpu_type is not a GPU type (got 100). Allowed: 'auto'", id="number"
        ),
        pytest.param(
            {"gpu_type": []}, "gpu_type is not a GPU type (got []). Allowed: 'auto'", id="no type"
        ),
        pytest.param(
            {"gpu_type": ["t4", "auto"]},
            "gpu_type is not a list of GPU types (got ['t4', 'auto'])",
            id="auto in a list",
        ),
        pytest.param(
            {"gpu_type": "a100 80gb"},
            "gpu_type is not a list of GPU types (got 'a100 80gb')",
            id="a type with a space",
        ),
        pytest.param(
            {"gpu_type": ["t4", "T4"]}, "gpu_type contains a duplicate GPU type", id="a type twice"
        ),
        pytest.param(
            {"capacity_type": "sopt"},
            "capacity_type is not one of the choices (got 'sopt'). Did you mean 'spot'? "
            "Allowed: auto, spot, on-demand, reserved",
            id="a misspelled choice",
        ),
        pytest.param(
            {"expected_duration": "an hour"},
            "expected_duration is not a duration (got 'an hour'). Allowed: whole seconds",
            id="a duration in words",
        ),
        pytest.param(
            {"max_duration": 0}, "max_duration is too small (got 0). Allowed: 1 s or more", id="0s"
        ),
        pytest.param(
            {"preemptible": "no"},
            "preemptible is not true or false (got 'no'). Allowed: true or false",
            id="text for a switch",
        ),
        pytest.param(
            {"budget_usd": 0},
            "budget_usd pays for nothing (got 0). Allowed: USD, over 0, such as 12.50",
            id="a budget of nothing",
        ),
        pytest.param(
            {"budget_usd": "12"},
            "budget_usd is not an amount (got '12'). Allowed: USD, over 0, such as 12.50",
            id="a budget as text",
        ),
        pytest.param(
            {"work": "make coffee"},
            "work names no model, size or task (got 'make coffee'). Allowed: words with a model "
            "and a method, such as 'fine-tune a 7B model with LoRA'",
            id="work that is not understood",
        ),
        pytest.param({"team": ""}, "team is empty", id="an empty name"),
    ],
)
def test_one_mistake(variables, want_message):
    """A mistake is named with its field, what came, what is allowed and the nearest name."""
    with pytest.raises(InvalidInput) as error:
        request(**variables)
    assert str(error.value).startswith(want_message)


def test_several_mistakes_are_listed_at_once():
    """An unknown name and a wrong value are reported together."""
    with pytest.raises(InvalidInputs) as error:
        request(gpus=2, nodes=0)
    assert [e.field for e in error.value.errors] == ["gpus", "nodes"]


def test_env_variables_need_a_worker_that_has_them():
    """`env.NAME` is only known where `env` is."""
    with pytest.raises(InvalidInput, match=r"^env\.FOO is not a known name"):
        parse_request({"env.FOO": "x"}, other_known=())


@pytest.mark.parametrize(
    ("queue", "gpu_priority", "want_priority"),
    [
        pytest.param("critical", None, 1_000_000, id="by queue"),
        pytest.param("default", None, 1_000, id="Prefect's own queue"),
        pytest.param(None, None, 1_000, id="no queue counts as Prefect's own"),
        pytest.param("low", "high", 10_000, id="the run's own wish wins"),
        pytest.param("urgent", "high", 10_000, id="the run's own wish mends an unknown queue"),
    ],
)
def test_priority(queue, gpu_priority, want_priority):
    """A run has its queue's points, or those it was moved to."""
    made = workload(request(gpu_priority=gpu_priority), queue)
    assert (made.priority, made.hold) == (want_priority, None)


def test_an_unknown_queue_holds_the_run():
    """The hold says which queue, what was meant, and both remedies."""
    hold = workload(request(), queue="hihg").hold
    assert hold == Hold(
        reason=Reason.UNKNOWN_QUEUE,
        summary=(
            "Held: the policy does not define a priority for queue 'hihg'. Did you mean 'high'?"
        ),
        resolution="You can add 'hihg' to the priorities in the policy or set "
        "`gpu_priority` to one of critical, high, low, medium.",
    )


def test_the_graver_hold_wins():
    """What a person must mend comes before what passes by itself."""
    ending = Hold(reason=Reason.PREVIOUS_ATTEMPT_ENDING, summary="s", resolution="r")
    assert workload(request(), hold=ending).hold == ending
    unknown = workload(request(), queue="urgent", hold=ending).hold
    assert unknown is not None
    assert unknown.reason == Reason.UNKNOWN_QUEUE


@pytest.mark.parametrize(
    ("variables", "want"),
    [
        pytest.param({}, (1000, None), id="a whole GPU"),
        pytest.param({"gpu_fraction": 1}, (1000, None), id="all of it"),
        pytest.param({"gpu_fraction": 0.25}, (250, None), id="a quarter"),
        pytest.param({"gpu_fraction": 1 / 3}, (333, None), id="a third"),
        pytest.param({"gpu_fraction": 0.0001}, (1, None), id="next to nothing"),
        pytest.param({"mig_profile": " 3G.40GB "}, (500, "3g.40gb"), id="an instance"),
        pytest.param({"mig_profile": "1g.10gb"}, (250, "1g.10gb"), id="of any GPU that has it"),
        pytest.param(
            {"mig_profile": "1g.10gb+me", "gpu_type": "a100-80gb"},
            (125, "1g.10gb+me"),
            id="of one GPU type",
        ),
        pytest.param({"mig_profile": "5g.99gb"}, (1000, "5g.99gb"), id="of no known GPU"),
    ],
)
def test_parts_of_gpus(variables, want):
    """An instance counts for the most that it may be of a GPU."""
    found = workload(request(**variables))
    assert (found.shape.gpu_share_milli, found.shape.mig_profile) == want


def test_an_unknown_priority_is_refused():
    """A wish that means nothing is the person's mistake, not the queue's."""
    message = (
        "gpu_priority is not a queue of the policy (got 'hihg'). Did you mean 'high'? "
        "Allowed: critical, high, low, medium."
    )
    with pytest.raises(InvalidInput, match=f"^{re.escape(message)}$"):
        workload(request(gpu_priority="hihg"))


def test_too_many_gpus_for_the_policy():
    """The limit counts GPUs over all nodes."""
    policy = make_policy(limits={"max_gpus_per_run": 8})
    assert workload(request(gpu_count=4, nodes=2), policy=policy).shape.total_gpus == 8
    with pytest.raises(
        InvalidInput, match=r"^gpu_count × nodes exceeds the limit .*\(got 9\).*at most 8"
    ):
        workload(request(gpu_count=3, nodes=3), policy=policy)


def test_the_policy_fills_what_the_run_leaves_open():
    """Minimum run time and limits come from the policy, the run's own constraints win."""
    policy = make_policy(
        preemption={"min_runtime": "5m"},
        limits={"max_duration": "2h", "max_failures": 4},
        kubernetes={"pending_timeout": "7m"},
    )
    assert workload(request(), policy=policy).min_runtime_s == 300
    assert run_limits(request(), policy) == RunLimits(
        max_duration_s=7_200, max_failures=4, max_interruptions=None, start_timeout_s=420
    )
    own = request(max_duration="1h", max_failures=1, max_interruptions=2)
    assert run_limits(own, policy) == RunLimits(
        max_duration_s=3_600, max_failures=1, max_interruptions=2, start_timeout_s=420
    )


def test_a_longer_duration_than_the_policy_allows():
    """The policy's bound is a bound for all."""
    policy = make_policy(limits={"max_duration": "2h"})
    with pytest.raises(
        InvalidInput, match=r"^max_duration exceeds the limit .*'3h 00m'.*at most 2h 00m"
    ):
        run_limits(request(max_duration="3h"), policy)


def test_every_variable_is_described():
    """The UI shows each description: a few sentences, as in Prefect's own work pools."""
    properties = GpuRequest.model_json_schema()["properties"]
    assert {"expected_duration", "checkpoint_interval", "gpu_type"} < set(properties)
    for name, schema in properties.items():
        sentences = re.split(r"(?<=\.) ", schema["description"])
        assert len(sentences) <= 4, name
        for sentence in sentences:
            assert re.fullmatch(r"[A-Z].*\.", sentence), sentence


@pytest.mark.parametrize("name", ["expected_duration", "max_duration", "checkpoint_interval"])
def test_the_schema_lets_durations_be_numbers_or_text(name):
    """Prefect checks values by this schema before we see them."""
    kinds = [k["type"] for k in GpuRequest.model_json_schema()["properties"][name]["anyOf"]]
    assert kinds[:2] == ["string", "integer"]


def test_schema_defaults_parse_to_the_defaults():
    """What the UI fills in means the same as nothing."""
    properties = GpuRequest.model_json_schema()["properties"]
    filled = {name: schema["default"] for name, schema in properties.items()}
    assert parse_request(filled, ()) == GpuRequest()


@pytest.mark.parametrize(
    ("deadline", "expected"),
    [
        pytest.param("6h", NOW + timedelta(hours=6), id="a duration counts from submission"),
        pytest.param(90, NOW + timedelta(seconds=90), id="whole seconds too"),
        pytest.param("2026-09-02T18:00Z", datetime(2026, 9, 2, 18, tzinfo=UTC), id="a moment"),
        pytest.param(
            "2026-09-02T18:00+02:00", datetime(2026, 9, 2, 16, tzinfo=UTC), id="with an offset"
        ),
        pytest.param(None, None, id="none"),
    ],
)
def test_the_deadline_is_one_moment(deadline, expected):
    """However it was said."""
    assert workload(request(deadline=deadline)).deadline_at == expected


@pytest.mark.parametrize(
    ("deadline", "problem"),
    [
        pytest.param("2026-09-02T18:00", "has no time zone", id="whose midnight?"),
        pytest.param("2026-13-02", "is not a deadline", id="no such month"),
        pytest.param("tomorrow", "is not a deadline", id="neither"),
        pytest.param(-5, "is out of range", id="before it was submitted"),
    ],
)
def test_a_deadline_that_cannot_be_read_is_refused(deadline, problem):
    """With what would have been understood."""
    with pytest.raises(InvalidInput, match=f"deadline {problem}"):
        request(deadline=deadline)


def test_the_workload_knows_whose_it_is():
    """Fair share, budgets and the line are about these."""
    made = workload(request(team="vision", project="p", user="ada", sweep="lr"), queue="high")
    assert (made.team, made.project, made.user) == ("vision", "p", "ada")
    assert (made.queue, made.group) == ("high", "lr")


def test_the_user_is_who_was_named_and_otherwise_who_made_the_run():
    """A service may submit for a person."""
    assert workload(request(user="ada"), user="service").user == "ada"
    assert workload(request(), user="grace").user == "grace"


def test_tags_hold_a_run_back_and_move_it_up():
    """They are what people can set in Prefect's UI."""
    untouched, held, first = (
        workload(request(), tags=tags) for tags in (("mine",), ("gpu:hold",), ("gpu:first",))
    )
    assert (untouched.hold, untouched.priority_override) == (None, 0)
    assert held.hold is not None
    assert held.hold.reason is Reason.HELD
    assert first.priority_override == 1


def test_a_graver_hold_comes_before_a_persons():
    """Taking the tag away would not help."""
    full = Hold(reason=Reason.DEPLOYMENT_LIMIT, summary="", resolution="")
    assert workload(request(), tags=("gpu:hold",), hold=full).hold is full
    unknown = workload(request(), queue="nope", tags=("gpu:hold",)).hold
    assert unknown is not None
    assert unknown.reason is Reason.UNKNOWN_QUEUE
