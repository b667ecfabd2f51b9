"""What teams held beyond their quota: by flavor, over time, with quotas that follow the cluster."""

from datetime import timedelta
from fractions import Fraction
from typing import Any

import pytest

from gpu_core.decisions.costs.capacity.capacity_intervals import CapacityInterval
from gpu_core.decisions.costs.usage.usage_cost import Window
from gpu_core.decisions.model.attempts import Attempt
from gpu_core.decisions.model.errors import InvalidInput
from gpu_core.decisions.optimization.questions.borrowing import (
    Quotas,
    borrowed_gpu_hours,
    quotas_required,
)
from gpu_core.decisions.policy.quotas import QuotaPolicy
from gpu_core.testing.builders.attempts import NOON, at, make_attempt

DAY = Window(NOON - timedelta(hours=12), NOON + timedelta(hours=12))


def held(team: str, begin: float, end: float | None, gpus: int = 1, **fields: Any) -> Any:
    """A team with an attempt from one hour after noon to another; None: it still runs."""
    attempt: Attempt = make_attempt(
        f"{team}-{begin}",
        admitted_at=at(begin),
        released_at=None if end is None else at(end),
        gpu_ids=tuple(f"GPU-{n}" for n in range(gpus)),
        **fields,
    )
    return team, attempt


def machine(gpus: int, since: float, until: float) -> CapacityInterval:
    """A machine with A10Gs."""
    return CapacityInterval(
        interval_id=f"{since}", host="h", pool="gpus", node="n", capacity_type="on-demand",
        gpu_type="a10g", gpus=gpus, since=at(since), until=at(until), seen_at=at(until),
    )  # fmt: skip


def quotas(*machines: CapacityInterval, **teams: Any) -> Quotas:
    """Of these teams."""
    return Quotas(QuotaPolicy.model_validate({"teams": teams}), machines)


STATED = quotas(a={"nominal_quota": {"*": 2, "*/spot": 1}}, b={"nominal_quota": {"*": 0}})


@pytest.mark.parametrize(
    ("attempts", "want"),
    [
        pytest.param([held("a", 0, 3, gpus=2)], {}, id="within its quota"),
        pytest.param([held("a", 0, 3, gpus=3)], {"a": 3}, id="one more than its quota"),
        pytest.param(
            [held("a", 0, 4, gpus=2), held("a", 1, 2, gpus=2)], {"a": 2}, id="two for an hour"
        ),
        pytest.param(
            [held("a", 0, 1, gpus=2, capacity_type="spot"), held("a", 0, 1)],
            *({"a": 1},),
            id="the idle quota of one flavor is none of another",
        ),
        pytest.param([held("b", 0, None)], {"b": 6}, id="what it still holds counts up to now"),
        pytest.param([held("b", -20, -11)], {"b": 1}, id="what was before the time does not count"),
        pytest.param([held("c", 0, 1)], {"c": 1}, id="a team without a quota borrows it all"),
        pytest.param(
            [held("c", 0, 1, gpus=0, gpu_type=None)], {}, id="a run without GPUs borrows none"
        ),
    ],
)
def test_what_a_team_holds_beyond_its_quota(attempts: Any, want: dict[str, int]) -> None:
    assert borrowed_gpu_hours(attempts, STATED, DAY, at(6)) == want


def test_a_quota_that_is_a_part_of_the_cluster_follows_its_machines() -> None:
    """Of 10 GPUs 3 are reserved by default, of 20 GPUs 6."""
    found = quotas(machine(10, 0, 2), machine(10, 1, 2), a={})
    assert borrowed_gpu_hours([held("a", 0, 2, gpus=5)], found, DAY, at(6)) == {"a": Fraction(2)}


@pytest.mark.parametrize("none", [None, quotas()])
def test_without_quotas_the_question_has_no_answer(none: Quotas | None) -> None:
    with pytest.raises(InvalidInput, match="a different policy with --policy"):
        quotas_required(none)
