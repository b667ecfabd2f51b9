"""Nominal quotas and the GPUs of a fixed pool."""

import pytest

from gpu_core.decisions.checks.doctor.quotas import quota_findings
from gpu_core.decisions.policy.policy import parse_policy
from gpu_core.decisions.policy.quotas import QuotaPolicy


def quotas(**teams: dict[str, float]) -> QuotaPolicy | None:
    named = {name: {"nominal_quota": quota} for name, quota in teams.items()}
    return parse_policy({"version": 1, "quotas": {"teams": named}}).quotas


@pytest.mark.parametrize(
    ("section", "gpus", "want"),
    [
        pytest.param(None, {"l4": 8}, [], id="no quotas"),
        pytest.param(quotas(a={"*": 4}, b={"*": 4}), {"l4": 8}, [], id="exactly as many"),
        pytest.param(quotas(a={"*": 4}, b={"*": 4}), {}, [], id="no GPU is there"),
        pytest.param(
            quotas(a={"*": 4}, b={"*": 4.5}),
            {"l4": 8},
            ["nominal quotas are 8.5 GPUs in all, and the pool has 8 GPUs"],
            id="half a GPU too many",
        ),
        pytest.param(
            quotas(a={"l4": 2, "l4/spot": 3, "t4": 1}),
            {"l4": 4, "t4": 4},
            ["nominal quotas are 5 GPUs of type l4, and the pool has 4"],
            id="of one type",
        ),
        pytest.param(
            quotas(a={"a100-80gb": 2}),
            {"l4": 8},
            ["nominal quotas are 2 GPUs of type a100-80gb, and the pool has 0"],
            id="of a type that is not there",
        ),
        pytest.param(quotas(a={"l4": 1}, b={}), {"l4": 1}, [], id="a team without GPUs of its own"),
    ],
)
def test_quotas_over_the_pool(
    section: QuotaPolicy | None, gpus: dict[str, int], want: list[str]
) -> None:
    found = quota_findings(section, sum(gpus.values()), gpus)
    assert [finding.message for finding in found] == want


def test_the_total_alone_is_compared_where_the_types_are_not_known() -> None:
    found = quota_findings(quotas(a={"a100-80gb": 2}), 1, {})
    assert [f.message for f in found] == [
        "nominal quotas are 2 GPUs in all, and the pool has 1 GPU"
    ]
