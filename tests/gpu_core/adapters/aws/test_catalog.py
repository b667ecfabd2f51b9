"""What AWS offers: instance types and spot history from moto, the rest from stubbed answers."""

import json
from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from typing import Any

import boto3
import pytest
from botocore.exceptions import ClientError, NoCredentialsError, ReadTimeoutError
from botocore.stub import Stubber
from moto import mock_aws

from gpu_core.adapters.aws.catalog import Look, look_at_aws
from gpu_core.adapters.aws.instance_types import instance_type_of
from gpu_core.adapters.files.catalog_file import shipped_catalog
from gpu_core.decisions.catalog.offerings import InstanceType, TypeKey
from gpu_core.decisions.catalog.refresh import refreshed
from gpu_core.decisions.model.pydantic_errors import InvalidInputs
from gpu_core.testing.builders.catalog import make_key

NOW = datetime(2026, 11, 21, 12, tzinfo=UTC)
REGION = "us-east-1"

G5 = TypeKey("aws", "g5.xlarge")
KNOWN = {G5: InstanceType(key=G5, gpu_type="a10g", gpu_count=1)}


class FakeAws:
    """Clients whose answers a test gives, one after the other for each operation."""

    def __init__(self) -> None:
        self._answers: dict[str, list[Any]] = {}
        self.asked: list[tuple[str, dict[str, Any]]] = []

    def answers(self, operation: str, *answers: Any) -> "FakeAws":
        self._answers[operation] = list(answers)
        return self

    def client(self, service: str, region: str) -> "FakeAws":
        return self

    def get_paginator(self, operation: str) -> "FakePaginator":
        return FakePaginator(self, operation)

    def get_spot_placement_scores(self, **arguments: Any) -> Any:
        return next(self.pages("get_spot_placement_scores", arguments))

    def pages(self, operation: str, arguments: dict[str, Any]) -> Iterator[Any]:
        self.asked.append((operation, arguments))
        given = self._answers.setdefault(operation, [])
        while given:
            answer = given.pop(0)
            if isinstance(answer, Exception):
                raise answer
            yield answer


class FakePaginator:
    """All answers that are left of one operation."""

    def __init__(self, aws: FakeAws, operation: str) -> None:
        self._aws, self._operation = aws, operation

    def paginate(self, **arguments: Any) -> Iterator[Any]:
        return self._aws.pages(self._operation, arguments)


def product(name: str, usd: str, unit: str = "Hrs") -> str:
    """An entry of the price list, as AWS writes it: JSON as text."""
    dimension = {"unit": unit, "pricePerUnit": {"USD": usd}}
    return json.dumps(
        {
            "product": {"attributes": {"instanceType": name}},
            "terms": {"OnDemand": {"X.Y": {"priceDimensions": {"X.Y.Z": dimension}}}},
        }
    )


def spot_row(zone: str, usd: str, hour: int = 1, name: str = "g5.xlarge") -> dict[str, Any]:
    return {
        "InstanceType": name,
        "AvailabilityZone": "us-east-1a",
        "AvailabilityZoneId": zone,
        "SpotPrice": usd,
        "Timestamp": datetime(2026, 11, 21, hour, tzinfo=UTC),
    }


def client_error(code: str) -> Exception:
    return ClientError({"Error": {"Code": code}}, "AnOperation")


def look(aws: FakeAws, **changes: Any) -> Look:
    return look_at_aws([REGION], NOW, KNOWN, client=aws.client, **changes)


# moto's EC2 takes two seconds to load: one process of several loads it.
WITH_MOTO = pytest.mark.xdist_group("moto's EC2")


@pytest.fixture(scope="module")
def of_moto() -> Iterator[Look]:
    """A look at moto, which has AWS's real instance types."""
    with pytest.MonkeyPatch.context() as patch, mock_aws():
        patch.setenv("AWS_ACCESS_KEY_ID", "x")
        patch.setenv("AWS_SECRET_ACCESS_KEY", "x")
        yield look_at_aws([REGION], NOW, {})


@WITH_MOTO
@pytest.mark.parametrize(
    ("name", "want"),
    [
        pytest.param("g5.xlarge", ("a10g", 1, 1000, 22888, None), id="one A10G"),
        pytest.param("p4de.24xlarge", ("a100-80gb", 8, 1000, 81920, 400), id="eight A100s"),
        pytest.param("p5en.48xlarge", ("h200", 8, 1000, 144384, 3200), id="eight H200s"),
        pytest.param(
            "g6f.large", ("l4", 1, 125, 2861, None), id="an eighth of an L4, counted as 0"
        ),
        pytest.param("p6-b300.48xlarge", ("b300", 8, 1000, 275040, 6400), id="an unlisted GPU"),
    ],
)
def test_instance_types_of_aws(of_moto: Look, name: str, want: tuple[Any, ...]) -> None:
    found = of_moto.observation.instance_types[TypeKey("aws", name)]
    assert want == (
        found.gpu_type,
        found.gpu_count,
        found.gpu_share_milli,
        found.gpu_memory_mib,
        found.network_gbps,
    )


@WITH_MOTO
def test_spot_prices_are_found_where_the_price_list_cannot_be_read(of_moto: Look) -> None:
    """moto has no price list: one part fails, and the others are still found."""
    assert [failure.part for failure in of_moto.failures] == ["on-demand prices in us-east-1"]
    assert of_moto.observation.micro_usd_per_hour[make_key("g5.xlarge", "use1-az6")] == 10
    assert [scope.capacity_type for scope in of_moto.observation.scopes] == ["spot"]


@WITH_MOTO
def test_the_filler_prices_of_moto_are_refused_beside_the_shipped_catalog(of_moto: Look) -> None:
    """A B200 for $0.00001 an hour won every plan: it is refused, also where its key is new."""
    shipped = shipped_catalog()
    with pytest.raises(InvalidInputs) as caught:
        refreshed(shipped, of_moto.observation, NOW)
    found = of_moto.observation.micro_usd_per_hour
    assert found.keys() - shipped.offerings.keys()
    refused = {error.field: str(error) for error in caught.value.errors}
    assert refused.keys() == {str(key) for key in found}
    spot = refused["aws g5.2xlarge us-east-1 use1-az6 spot"]
    assert "has an invalid price (got '$0.000010')" in spot


def test_other_accelerators_are_left_out() -> None:
    assert instance_type_of({"InstanceType": "trn1.2xlarge", "NeuronInfo": {}}) is None
    amd = {"Gpus": [{"Manufacturer": "AMD", "Name": "Radeon Pro V520"}]}
    assert instance_type_of({"InstanceType": "g4ad.xlarge", "GpuInfo": amd}) is None


def test_prices_are_read_from_the_price_list() -> None:
    aws = FakeAws().answers(
        "get_products",
        {"PriceList": [product("g5.xlarge", "1.0060000000"), product("m5.large", "0.096")]},
        {"PriceList": [product("g5.xlarge", "0.0000000000")]},
    )
    observation = look(aws).observation
    assert observation.micro_usd_per_hour == {make_key("g5.xlarge"): 1_006_000}
    arguments = next(asked for operation, asked in aws.asked if operation == "get_products")
    fields = {row["Field"]: row["Value"] for row in arguments["Filters"]}
    assert fields["regionCode"] == REGION
    assert fields["operatingSystem"] == "Linux"


def test_of_several_spot_prices_the_newest_counts_in_each_zone() -> None:
    aws = FakeAws().answers(
        "describe_spot_price_history",
        {"SpotPriceHistory": [spot_row("use1-az1", "0.5", hour=9), spot_row("use1-az2", "0.4")]},
        {"SpotPriceHistory": [spot_row("use1-az1", "0.7", hour=3)]},
    )
    assert look(aws).observation.micro_usd_per_hour == {
        make_key("g5.xlarge", "use1-az1"): 500_000,
        make_key("g5.xlarge", "use1-az2"): 400_000,
    }


def test_placement_scores_are_asked_for_on_request() -> None:
    score = {"Region": REGION, "AvailabilityZoneId": "use1-az1", "Score": 9}
    aws = FakeAws().answers("get_spot_placement_scores", {"SpotPlacementScores": [score]})
    assert look(aws).placement_scores == ()
    (found,) = look(aws, with_placement_scores=True).placement_scores
    assert (found.gpu_type, found.zone, found.score) == ("a10g", "use1-az1", 9)


def test_questions_and_answers_have_the_form_that_aws_describes(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """botocore checks both against AWS's own description of its services."""
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "x")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "x")
    untyped: Any = boto3
    clients = {name: untyped.client(name, region_name=REGION) for name in ("ec2", "pricing")}
    stubs = {name: Stubber(client) for name, client in clients.items()}
    stubs["ec2"].add_response("describe_instance_types", {"InstanceTypes": []})
    for _ in ("virtual", "bare metal"):
        stubs["pricing"].add_response("get_products", {"PriceList": [product("g5.xlarge", "1.0")]})
    stubs["ec2"].add_response(
        "describe_spot_price_history", {"SpotPriceHistory": [spot_row("use1-az1", "0.5")]}
    )
    score = {"Region": REGION, "AvailabilityZoneId": "use1-az1", "Score": 9}
    stubs["ec2"].add_response("get_spot_placement_scores", {"SpotPlacementScores": [score]})
    with stubs["ec2"], stubs["pricing"]:
        seen = look_at_aws(
            [REGION],
            NOW,
            KNOWN,
            with_placement_scores=True,
            client=lambda service, _: clients[service],
        )
    for stub in stubs.values():
        stub.assert_no_pending_responses()
    assert (seen.failures, len(seen.observation.scopes)) == ((), 2)


def access_denied() -> Exception:
    return client_error("UnauthorizedOperation")


def throttled() -> Exception:
    return client_error("RequestLimitExceeded")


def timeout() -> Exception:
    return ReadTimeoutError(endpoint_url="https://ec2")


@pytest.mark.parametrize(
    ("error", "want_line"),
    [
        pytest.param(
            access_denied,
            "spot prices in us-east-1: AWS denied the request. The call was "
            "ec2:DescribeSpotPriceHistory. Allow ec2:DescribeSpotPriceHistory for this role.",
            id="a right is missing",
        ),
        pytest.param(
            timeout,
            "spot prices in us-east-1: the request to AWS timed out after 20 seconds. The call "
            "was ec2:DescribeSpotPriceHistory. Try again with a longer timeout.",
            id="no answer",
        ),
        pytest.param(
            NoCredentialsError,
            "spot prices in us-east-1: no AWS credentials were found. The call was "
            "ec2:DescribeSpotPriceHistory. Set AWS_PROFILE or assign a role to the machine.",
            id="no credentials",
        ),
        pytest.param(
            throttled,
            "spot prices in us-east-1: AWS answered RequestLimitExceeded. The call was "
            "ec2:DescribeSpotPriceHistory. Try again later.",
            id="too many calls",
        ),
        pytest.param(
            lambda: KeyError("SpotPrice"),
            "spot prices in us-east-1: unexpected response from AWS "
            "(KeyError('SpotPrice')). The call was ec2:DescribeSpotPriceHistory. Please report "
            "this issue and include the response.",
            id="an answer of another form",
        ),
    ],
)
def test_what_failed_is_reported_and_what_was_read_before_is_kept(
    error: Callable[[], Exception], want_line: str
) -> None:
    aws = (
        FakeAws()
        .answers("get_products", {"PriceList": [product("g5.xlarge", "1.0")]})
        .answers(
            "describe_spot_price_history",
            {"SpotPriceHistory": [spot_row("use1-az1", "0.5")]},
            error(),
        )
    )
    seen = look(aws)
    assert [str(failure) for failure in seen.failures] == [want_line]
    # Half of an answer gives prices, and says nothing about what it did not come to.
    assert make_key("g5.xlarge", "use1-az1") in seen.observation.micro_usd_per_hour
    assert [scope.capacity_type for scope in seen.observation.scopes] == ["on-demand"]


def test_a_price_list_of_another_form_is_reported() -> None:
    aws = FakeAws().answers("get_products", {"PriceList": ['["no", "product"]']})
    (failure,) = look(aws).failures
    assert failure.part == "on-demand prices in us-east-1"
    assert failure.problem.startswith("unexpected response from AWS")


def test_an_empty_answer_takes_nothing_out_of_the_catalog() -> None:
    assert look(FakeAws()).observation.scopes == ()


def test_without_any_instance_type_no_price_is_asked_for() -> None:
    aws = FakeAws().answers("describe_instance_types", access_denied())
    seen = look_at_aws([REGION], NOW, {}, client=aws.client)
    assert [failure.part for failure in seen.failures] == ["GPU instance types in us-east-1"]
    assert [operation for operation, _ in aws.asked] == ["describe_instance_types"]
