"""A GPU type, team or queue that was probably misspelled."""

import pytest

from gpu_core.decisions.checks.files.misspelled_names import misspelled_names
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
                "virtual_gpus.gpu_type: 'a100-80g' has no price and is not in the catalog. "
                "Did you mean 'a100-80gb'?"
            ],
            id="close to a priced type",
        ),
        pytest.param(
            {"prices": PRICES, **virtual("inhouse1")},
            [
                "virtual_gpus.gpu_type: 'inhouse1' has no price and is not in the catalog. "
                "Did you mean 'inhouse-1'?"
            ],
            id="close to a priced type of one's own",
        ),
        pytest.param(
            virtual("a100"),
            [
                "virtual_gpus.gpu_type: 'a100' has no price and is not in the catalog. "
                "Did you mean 'a100-40gb' or 'a100-80gb'?"
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
                "kubernetes.provisioned.0.gpu_type: 'l4-' has no price and is not in the catalog. "
                "Did you mean 'l4'?"
            ],
            id="of nodes that are still to come",
        ),
        pytest.param(
            {"prices": {"a100-80gbs": {"on-demand": 3.6}}},
            ["prices.a100-80gbs: 'a100-80gbs' is not in the catalog. Did you mean 'a100-80gb'?"],
            id="a type that is priced under a wrong name",
        ),
        pytest.param(
            {
                "prices": PRICES,
                "quotas": {"teams": {"vision": {"nominal_quota": {"a100-80g/spot": 8, "*": 1}}}},
            },
            [
                "quotas.teams.vision.nominal_quota.a100-80g/spot: 'a100-80g' has no price and is "
                "not in the catalog. Did you mean 'a100-80gb'?"
            ],
            id="in a quota",
        ),
        pytest.param(
            {
                **virtual("our-own"),
                "quotas": {"teams": {"vision": {"nominal_quota": {"house": 8, "our-own": 1}}}},
            },
            [
                "quotas.teams.vision.nominal_quota.house: 'house' has no price and is not in the "
                "catalog. Add prices.house if the pool has it."
            ],
            id="a quota of a type that nothing else names",
        ),
        pytest.param(
            {"prices": PRICES, **virtual("h100-90gb")},
            [
                "virtual_gpus.gpu_type: 'h100-90gb' has no price and is not in the catalog. "
                "Did you mean 'h100-80gb'?"
            ],
            id="the same product in the catalog is nearer than another one with a price",
        ),
        pytest.param(
            {"scale": {"offers": [{"gpu_type": "l40ss", "gpus_per_node": 4}]}},
            [
                "scale.offers.0.gpu_type: 'l40ss' has no price and is not in the catalog. "
                "Did you mean 'l40s'?"
            ],
            id="of an offer",
        ),
    ],
)
def test_misspelled_types(fields: dict[str, object], want: list[str]) -> None:
    policy = parse_policy({"version": 1, **fields})
    found = misspelled_names(policy, {"virtual_gpus.gpu_type": 3}, None)
    assert [f"{finding.path}: {finding.message}" for finding in found] == want
    assert all(finding.line == 3 for finding in found if finding.path.startswith("virtual"))


def team_sections(
    quotas: list[str], permissions: list[str], weights: list[str], budgets: list[str]
) -> dict[str, object]:
    return {
        "quotas": {"teams": {name: {"nominal_quota": {"*": 8}} for name in quotas}},
        "permissions": {"teams": {name: {"max_gpus_per_run": 8} for name in permissions}},
        "fair_share": {"weights": dict.fromkeys(weights, 2)},
        "budgets": [
            {"name": f"b{i}", "scope": "team", "of": name, "period": "month", "usd": 10}
            for i, name in enumerate(budgets)
        ],
    }


@pytest.mark.parametrize(
    ("fields", "want"),
    [
        pytest.param(
            team_sections(["vision", "speech"], ["vision"], ["speech"], ["vision"]),
            [],
            id="the same names everywhere",
        ),
        pytest.param(
            team_sections(["vision"], ["vison"], [], []),
            ["permissions.teams.vison: 'vison' is close to the team 'vision' of quotas.teams"],
            id="a letter is missing",
        ),
        pytest.param(
            team_sections(["vision"], [], ["Vision"], []),
            ["fair_share.weights.Vision: 'Vision' is close to the team 'vision' of quotas.teams"],
            id="another case",
        ),
        pytest.param(
            team_sections(["speech"], ["speech"], [], ["speach"]),
            ["budgets.0.of: 'speach' is close to the team 'speech' of quotas.teams"],
            id="of a budget",
        ),
        pytest.param(
            team_sections([], ["vision"], ["visoin"], []),
            ["fair_share.weights.visoin: 'visoin' is close to the team 'vision' of "
             "permissions.teams"],
            id="without quotas",
        ),
        pytest.param(
            team_sections(["vision-1"], ["vision-2"], [], []), [], id="other numbers, other teams"
        ),
        pytest.param(
            team_sections(["vision", "visions"], [], ["visions"], []),
            [],
            id="two alike names in one section are two teams",
        ),
        pytest.param(team_sections(["vision"], ["audio"], ["robots"], []), [], id="unlike names"),
    ],
)  # fmt: skip
def test_misspelled_teams(fields: dict[str, object], want: list[str]) -> None:
    found = misspelled_names(parse_policy({"version": 1, **fields}), {}, None)
    assert [f"{finding.path}: {finding.message}" for finding in found] == [
        f"{text}. Did you mean that?" for text in want
    ]


@pytest.mark.parametrize(
    ("names", "want"),
    [
        pytest.param(["critical", "high", "medium", "low"], [], id="the usual queues"),
        pytest.param(["medium", "hgh"], ["hgh"], id="a letter is missing"),
        pytest.param(["medium", "HIGH"], ["HIGH"], id="another case"),
        pytest.param(["medium", "high", "higher"], [], id="the usual queue is there, too"),
        pytest.param(["medium", "interactive", "night"], [], id="queues of one's own"),
    ],
)
def test_misspelled_queues(names: list[str], want: list[str]) -> None:
    points = {name: 10 - index for index, name in enumerate(names)}
    found = misspelled_names(parse_policy({"version": 1, "priorities": points}), {}, None)
    assert [finding.path for finding in found] == [f"priorities.{name}" for name in want]
