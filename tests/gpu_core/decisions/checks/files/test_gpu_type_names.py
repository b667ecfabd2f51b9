"""A GPU type that was probably misspelt."""

import pytest

from gpu_core.decisions.checks.files.gpu_type_names import misspelt_gpu_types
from gpu_core.decisions.policy.policy import parse_policy

PRICES = {"a100-80gb": {"on-demand": 3.6}, "inhouse-1": {"on-demand": 1}}


def virtual(gpu_type: str) -> dict[str, object]:
    return {"virtual_gpus": {"gpu_type": gpu_type, "count": 8}}


@pytest.mark.parametrize(
    ("fields", "want"),
    [
        pytest.param({}, [], id="no GPU type is named"),
        pytest.param({"prices": PRICES, **virtual("a100-80gb")}, [], id="a priced type"),
        pytest.param({"prices": PRICES, **virtual("l4")}, [], id="a type of the catalog, unpriced"),
        pytest.param(virtual("our-own"), [], id="a type of one's own, unlike all others"),
        pytest.param(
            {"prices": PRICES, **virtual("a100-80g")},
            [
                "virtual_gpus.gpu_type: 'a100-80g' has no price and is not in the catalog; "
                "did you mean 'a100-80gb'?"
            ],
            id="close to a priced type",
        ),
        pytest.param(
            {"prices": PRICES, **virtual("inhouse1")},
            [
                "virtual_gpus.gpu_type: 'inhouse1' has no price and is not in the catalog; "
                "did you mean 'inhouse-1'?"
            ],
            id="close to a priced type of one's own",
        ),
        pytest.param(
            virtual("a100"),
            [
                "virtual_gpus.gpu_type: 'a100' has no price and is not in the catalog; "
                "did you mean 'a100-40gb' or 'a100-80gb'?"
            ],
            id="one model with two sizes",
        ),
        pytest.param(
            {
                "kubernetes": {
                    "provisioner": "karpenter",
                    "provisioned": [
                        {"name": "a", "gpu_type": "l4-", "gpus_per_node": 4, "max_nodes": 1}
                    ],
                }
            },
            [
                "kubernetes.provisioned.0.gpu_type: 'l4-' has no price and is not in the catalog; "
                "did you mean 'l4'?"
            ],
            id="of nodes that are still to come",
        ),
    ],
)
def test_misspelt_types(fields: dict[str, object], want: list[str]) -> None:
    policy = parse_policy({"version": 1, **fields})
    found = misspelt_gpu_types(policy, {"virtual_gpus.gpu_type": 3}, None)
    assert [f"{finding.path}: {finding.message}" for finding in found] == want
    assert all(finding.line == 3 for finding in found if finding.path.startswith("virtual"))
