"""GPU types for runs that say in words what they do."""

from datetime import timedelta

import pytest

from gpu_core.decisions.model.cluster import Flavor
from gpu_core.decisions.model.reasons import Reason
from gpu_core.decisions.model.workload import Hold
from gpu_core.decisions.offerings.pool_gpu_types import with_gpu_types
from gpu_core.decisions.requests.variables.job_variables import parse_request
from gpu_core.testing.builders.workloads import NOW, ago, make_policy, make_workload

LORA = "fine-tune a 7B model with LoRA on 100M tokens"
BIG = "fine-tune a 70B model with LoRA on 100M tokens"
POLICY = make_policy(
    prices={
        "a100-80gb": {"on-demand": 3.6, "spot": 1.5},
        "l40s": {"on-demand": 1.8},
        "t4": {"on-demand": 0.36},
    }
)
A100, A100_SPOT = Flavor("a100-80gb", "on-demand"), Flavor("a100-80gb", "spot")
L40S, T4, L4 = (Flavor(gpu_type, "on-demand") for gpu_type in ("l40s", "t4", "l4"))


def types(work, flavors, gpus=1, **fields):
    workload = make_workload(gpus=gpus, **fields)
    named = fields.get("gpu_types", ())
    return with_gpu_types(workload, work, flavors, POLICY, named=named).shape.gpu_types


@pytest.mark.parametrize(
    ("flavors", "fields", "want"),
    [
        # A100 on spot: 7 h 15 min, $10.89; on on-demand 7 h 07 min; L40S: 6 h 08 min, $11.06.
        pytest.param([L40S, A100_SPOT], {}, ("a100-80gb", "l40s"), id="cheapest for all of it"),
        pytest.param([L40S, A100], {}, ("l40s", "a100-80gb"), id="dearer on on-demand"),
        pytest.param([T4, A100], {}, ("a100-80gb",), id="the T4 has no bf16"),
        pytest.param([L4, A100], {}, ("a100-80gb", "l4"), id="without a price last"),
        pytest.param([Flavor("weird", "on-demand")], {}, (), id="it is unknown"),
        pytest.param([L40S, A100], {"gpu_types": ("t4",)}, ("t4",), id="its owner chose"),
        pytest.param([L40S, A100], {"nodes": 2}, (), id="a gang"),
        pytest.param([L40S, A100], {"gpus": 0}, (), id="no GPU"),
        pytest.param(
            [A100_SPOT, L40S], {"capacity_type": "spot"}, ("a100-80gb",), id="on spot only"
        ),
        pytest.param(
            [L40S, A100],
            {"deadline_at": NOW + timedelta(hours=6.5)},
            ("l40s",),
            id="only one is in time",
        ),
        pytest.param(
            [L40S, A100],
            {"deadline_at": NOW + timedelta(minutes=1)},
            ("l40s", "a100-80gb"),
            id="none is in time: all that hold it",
        ),
        pytest.param([], {}, (), id="no node yet"),
    ],
)
def test_which_types_and_in_which_order(flavors, fields, want):
    assert types(LORA, flavors, **fields) == want
    assert types(LORA, flavors[::-1], **fields) == want


def test_without_words_nothing_is_chosen():
    assert types(None, [L40S, A100]) == ()


def test_it_says_what_each_would_cost():
    found = with_gpu_types(make_workload(), LORA, [L40S, A100], POLICY)
    assert found.gpu_type_reason is not None
    assert found.gpu_type_reason.startswith("l40s ($")
    assert "on on-demand, 6h 08m)" in found.gpu_type_reason


@pytest.mark.parametrize(
    ("fields", "want"),
    [
        pytest.param({"prices_as_of": "2026-09-01"}, "; prices of 2026-09-01", id="a day"),
        pytest.param({}, "; prices of an unknown day", id="no day"),
    ],
)
def test_it_says_of_which_day_the_prices_are(fields, want):
    policy = make_policy(prices={"l40s": {"on-demand": 1.8}}, **fields)
    reason = with_gpu_types(make_workload(), LORA, [L40S], policy).gpu_type_reason
    assert reason is not None
    assert reason.endswith(want)


def test_what_no_gpu_holds_is_held_with_the_reason_for_each():
    found = with_gpu_types(make_workload(), BIG, [L40S, A100], POLICY)
    assert found.hold is not None
    assert found.hold.reason == Reason.EXCEEDS_CLUSTER
    assert "a100-80gb requires 136.1 GiB on the GPU" in found.hold.summary
    assert types(BIG, [L40S, A100], gpus=4) != ()


def test_a_person_s_hold_stays():
    hold = Hold(reason=Reason.HELD, summary="Held.", resolution="Release it.")
    assert with_gpu_types(make_workload(hold=hold), BIG, [A100], POLICY).hold == hold


def test_equal_runs_are_ranked_alike_whenever_they_were_submitted():
    due = timedelta(hours=6.5)
    found = {
        types(LORA, [L40S, A100], submitted_at=moment, deadline_at=moment + due)
        for moment in (NOW, ago(10**6))
    }
    assert found == {("l40s",)}


@pytest.mark.parametrize(
    "work",
    [
        "fine-tune a 7B model for 24 hours",
        "fine-tune a 7B model in fp8",
        "fine-tune a 7B on an RTX 4090",
        "train resnet-50 on 500 widgets",
        "serve a llama 3 70b",
        "fine-tune a 7B, not on a100, 10M tokens",
    ],
)
def test_work_without_an_estimate_keeps_no_run_from_its_gpus(work):
    """The version before took it: a run may wait or be half done with it."""
    assert parse_request({"work": work}, ()).work == work
    found = with_gpu_types(make_workload(), work, [L40S, A100], POLICY)
    assert (found.shape.gpu_types, found.hold) == ((), None)
    assert found.gpu_type_reason.startswith("any because its work cannot be estimated: text ")


@pytest.mark.parametrize(
    ("permitted", "work", "want"),
    [
        pytest.param(("a100-80gb", "l40s"), LORA, ("l40s", "a100-80gb"), id="cheapest for all"),
        pytest.param(("a100-80gb", "h100"), LORA, ("a100-80gb",), id="not those it may not use"),
        pytest.param(("t4", "a100-80gb"), LORA, ("a100-80gb",), id="the T4 has no bf16"),
        pytest.param(("h100",), LORA, ("h100",), id="the pool has none of them: as permitted"),
        pytest.param(("t4", "l40s"), "train resnet-50 on 500 widgets", ("t4", "l40s"), id="unread"),
    ],
)
def test_the_work_ranks_the_types_that_the_team_is_permitted(permitted, work, want):
    """Those are the policy's answer to a request that names none."""
    workload = make_workload(gpu_types=permitted)
    found = with_gpu_types(workload, work, [T4, A100, L40S], POLICY)
    assert found.shape.gpu_types == want
    assert found.hold is None


def test_work_that_no_permitted_type_holds_is_held():
    """Although others of the pool hold it."""
    found = with_gpu_types(make_workload(gpu_types=("t4",)), LORA, [T4, A100], POLICY)
    assert found.hold is not None
    assert found.hold.summary.startswith(
        "No GPU that it is permitted is suitable for its work: t4 "
    )


def test_a_gpu_in_the_words_does_not_restrict_the_run():
    """The job variable gpu_type does."""
    assert types("fine-tune a 7B on h100, 10M tokens", [A100]) == ("a100-80gb",)
