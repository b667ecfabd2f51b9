"""Reads AWS's current offer: GPU instance types, on-demand and spot prices, placement scores.

Each part of a look stands for itself. Failures are reported, and the rest is still found.
"""

import json
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

import boto3
from botocore.config import Config
from botocore.exceptions import (
    BotoCoreError,
    ClientError,
    ConnectTimeoutError,
    EndpointConnectionError,
    NoCredentialsError,
    PartialCredentialsError,
    ReadTimeoutError,
)

from gpu_core.adapters.aws.instance_types import instance_type_of
from gpu_core.decisions.catalog.offerings import InstanceType, OfferingKey, TypeKey
from gpu_core.decisions.catalog.refresh import CoveredPlaces, Observation
from gpu_core.decisions.model.cluster import ON_DEMAND, SPOT
from gpu_core.decisions.model.errors import sentences
from gpu_core.decisions.model.units import micro_usd

PROVIDER = "aws"

ClientFactory = Callable[[str, str], Any]
"""From a service's name and a region to a boto3 client."""

# The price list has few endpoints; the one in us-east-1 knows all regions (AWS Price List API).
_PRICING_REGION = "us-east-1"

# What Karpenter's AWS provider asks for (its pricing.go, read 2026-11): Linux, nothing installed.
_PRODUCT = {
    "preInstalledSw": "NA",
    "operatingSystem": "Linux",
    "capacitystatus": "Used",
    "marketoption": "OnDemand",
}
_VIRTUAL = {"tenancy": "Shared", "productFamily": "Compute Instance"}
_BARE_METAL = {"tenancy": "Dedicated", "productFamily": "Compute Instance (bare metal)"}

# All NVIDIA GPUs are in these families (65 of 1,395 instance types, 2026-11).
_GPU_FAMILIES = ["g*", "p*"]

_SPOT_PRODUCTS = ["Linux/UNIX", "Linux/UNIX (Amazon VPC)"]

# What reading an answer of another form than AWS describes ends in.
_ODD_ANSWER = (KeyError, ValueError, TypeError, AttributeError)

_NO_RIGHT = frozenset({"UnauthorizedOperation", "AccessDenied", "AccessDeniedException"})


@dataclass(frozen=True, slots=True, kw_only=True)
class Failure:
    """A part that could not be read, or only in part."""

    part: str
    problem: str
    tried: str
    remedy: str

    def __str__(self) -> str:
        return sentences(f"{self.part}: {self.problem}", f"the call was {self.tried}", self.remedy)


@dataclass(frozen=True, slots=True, kw_only=True)
class PlacementScore:
    """AWS's estimate that a spot request succeeds, from 1 to 10."""

    region: str
    zone: str
    gpu_type: str
    score: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Look:
    """The catalog that was read, and the parts that could not be read."""

    observation: Observation
    placement_scores: tuple[PlacementScore, ...]
    failures: tuple[Failure, ...]


def look_at_aws(
    regions: Sequence[str],
    now: datetime,
    known: Mapping[TypeKey, InstanceType],
    *,
    with_placement_scores: bool = False,
    timeout_s: int = 20,
    client: ClientFactory | None = None,
) -> Look:
    """The offerings of AWS in these regions.

    Args:
        regions: Such as `us-east-1`.
        now: Spot prices are those of this moment.
        known: Instance types of an earlier look; they stand in where AWS does not list its own.
        with_placement_scores: Ask for these too. AWS limits how many are asked for in a day.
        client: Makes the clients; by default boto3's, with its own credentials.
    """
    look = _Looking(client or _client_factory(timeout_s), dict(known), timeout_s)
    for region in regions:
        look.find_instance_types(region)
        if not look.types:
            # Without a name there is nothing to ask a price for; that AWS listed none is reported.
            continue
        look.find_on_demand_prices(region)
        look.find_spot_prices(region, now)
        if with_placement_scores:
            look.find_placement_scores(region)
    return look.result()


def _client_factory(timeout_s: int) -> ClientFactory:
    config = Config(
        connect_timeout=timeout_s,
        read_timeout=timeout_s,
        retries={"mode": "standard", "max_attempts": 3},
    )

    def client(service: str, region: str) -> Any:
        untyped: Any = boto3
        return untyped.client(service, region_name=region, config=config)

    return client


@dataclass(slots=True)
class _Looking:
    """The results of one refresh so far."""

    client: ClientFactory
    types: dict[TypeKey, InstanceType]
    timeout_s: int
    in_region: dict[str, frozenset[str]] = field(default_factory=dict)
    prices: dict[OfferingKey, int] = field(default_factory=dict)
    scopes: list[CoveredPlaces] = field(default_factory=list)
    scores: list[PlacementScore] = field(default_factory=list)
    failures: list[Failure] = field(default_factory=list)
    zone_ids: dict[str, dict[str, str]] = field(default_factory=dict)
    """By region: the ids of its zones by their names in this account."""

    def find_instance_types(self, region: str) -> None:
        found: dict[TypeKey, InstanceType] = {}

        def read() -> None:
            families = [{"Name": "instance-type", "Values": _GPU_FAMILIES}]
            for page in self._pages("ec2", region, "describe_instance_types", Filters=families):
                for row in page["InstanceTypes"]:
                    instance_type = instance_type_of(row)
                    if instance_type is not None:
                        found[instance_type.key] = instance_type

        self._try(f"GPU instance types in {region}", "ec2:DescribeInstanceTypes", read)
        self.types |= found
        self.in_region[region] = frozenset(key.name for key in found)

    def find_on_demand_prices(self, region: str) -> None:
        """Find these for the instance types that are known by now."""

        def read() -> None:
            for kind in (_VIRTUAL, _BARE_METAL):
                filters = _PRODUCT | kind | {"regionCode": region}
                pages = self._pages(
                    "pricing",
                    _PRICING_REGION,
                    "get_products",
                    ServiceCode="AmazonEC2",
                    Filters=[
                        {"Type": "TERM_MATCH", "Field": name, "Value": value}
                        for name, value in filters.items()
                    ],
                )
                for page in pages:
                    self._take_products(region, page["PriceList"])

        part = f"on-demand prices in {region}"
        if self._try(part, "pricing:GetProducts", read):
            self._cover(region, ON_DEMAND)

    def find_spot_prices(self, region: str, now: datetime) -> None:
        newest: dict[OfferingKey, tuple[datetime, str]] = {}

        def read() -> None:
            pages = self._pages(
                "ec2",
                region,
                "describe_spot_price_history",
                InstanceTypes=self._names(region),
                ProductDescriptions=_SPOT_PRODUCTS,
                StartTime=now,
            )
            for page in pages:
                for row in page["SpotPriceHistory"]:
                    zone = row.get("AvailabilityZoneId") or self._zone_id(region, row)
                    key = OfferingKey(PROVIDER, row["InstanceType"], region, zone, SPOT)
                    dated = (row["Timestamp"], row["SpotPrice"])
                    newest[key] = max(newest.get(key, dated), dated)

        part = f"spot prices in {region}"
        is_whole = self._try(part, "ec2:DescribeSpotPriceHistory", read)
        self.prices |= {key: micro_usd(usd, str(key)) for key, (_, usd) in newest.items()}
        if is_whole:
            self._cover(region, SPOT)

    def _zone_id(self, region: str, row: Mapping[str, Any]) -> str:
        """The id of the zone that a row names: names differ between accounts, ids do not."""
        if region not in self.zone_ids:
            answer = self.client("ec2", region).describe_availability_zones()
            self.zone_ids[region] = {
                zone["ZoneName"]: zone["ZoneId"] for zone in answer["AvailabilityZones"]
            }
        zone_id: str = self.zone_ids[region][row["AvailabilityZone"]]
        return zone_id

    def find_placement_scores(self, region: str) -> None:
        # AWS scores a set of instance types and advises three or more: one set for a GPU type.
        by_gpu: dict[str, list[str]] = {}
        for name in self._names(region):
            by_gpu.setdefault(self.types[TypeKey(PROVIDER, name)].gpu_type, []).append(name)

        def read() -> None:
            for gpu_type, names in sorted(by_gpu.items()):
                answer = self.client("ec2", region).get_spot_placement_scores(
                    InstanceTypes=names,
                    TargetCapacity=1,
                    SingleAvailabilityZone=True,
                    RegionNames=[region],
                )
                self.scores += [
                    PlacementScore(
                        region=row["Region"],
                        zone=row["AvailabilityZoneId"],
                        gpu_type=gpu_type,
                        score=row["Score"],
                    )
                    for row in answer["SpotPlacementScores"]
                ]

        self._try(f"spot placement scores in {region}", "ec2:GetSpotPlacementScores", read)

    def result(self) -> Look:
        return Look(
            observation=Observation(
                instance_types=self.types,
                micro_usd_per_hour=self.prices,
                scopes=tuple(self.scopes),
                source="AWS: describe_instance_types, price list, spot price history",
            ),
            placement_scores=tuple(self.scores),
            failures=tuple(self.failures),
        )

    def _take_products(self, region: str, products: Collection[str]) -> None:
        names = set(self._names(region))
        for text in products:
            product = json.loads(text)
            name = product["product"]["attributes"]["instanceType"]
            usd = _usd_per_hour(product)
            if name in names and usd is not None:
                key = OfferingKey(PROVIDER, name, region, None, ON_DEMAND)
                self.prices[key] = micro_usd(usd, str(key))

    def _names(self, region: str) -> list[str]:
        """The region's GPU instance types; all that are known where it did not list them."""
        listed = self.in_region.get(region)
        return sorted(listed or {key.name for key in self.types if key.provider == PROVIDER})

    def _cover(self, region: str, capacity_type: str) -> None:
        # An answer with nothing in it is more often a filter that fits nothing than the end of
        # all offers: it must not take everything out of the catalog.
        scope = CoveredPlaces(provider=PROVIDER, region=region, capacity_type=capacity_type)
        if any(scope.covers(key) for key in self.prices):
            self.scopes.append(scope)

    def _pages(
        self, service: str, region: str, operation: str, **arguments: Any
    ) -> Iterator[Mapping[str, Any]]:
        client = self.client(service, region)
        yield from client.get_paginator(operation).paginate(**arguments)

    def _try(self, part: str, action: str, read: Callable[[], None]) -> bool:
        """Read this part; False: it failed, whole or in part, and is reported."""
        try:
            read()
        except (BotoCoreError, ClientError, *_ODD_ANSWER) as error:
            problem, remedy = _explained(error, action, self.timeout_s)
            self.failures.append(Failure(part=part, problem=problem, tried=action, remedy=remedy))
            return False
        return True


def _usd_per_hour(product: Mapping[str, Any]) -> str | None:
    for term in product["terms"].get("OnDemand", {}).values():
        for dimension in term["priceDimensions"].values():
            usd: str | None = dimension["pricePerUnit"].get("USD")
            if dimension["unit"] == "Hrs" and usd is not None and float(usd) > 0:
                return usd
    return None


def _explained(error: Exception, action: str, timeout_s: int) -> tuple[str, str]:
    """An error with its remedy."""
    match error:
        case NoCredentialsError() | PartialCredentialsError():
            return (
                "no AWS credentials were found",
                "set AWS_PROFILE or assign a role to the machine",
            )
        case ClientError() if error.response["Error"]["Code"] in _NO_RIGHT:
            return "AWS denied the request", f"allow {action} for this role"
        case ClientError():
            return f"AWS answered {error.response['Error']['Code']}", "try again later"
        case ConnectTimeoutError() | ReadTimeoutError():
            return (
                f"the request to AWS timed out after {timeout_s} seconds",
                "try again with a longer timeout",
            )
        case EndpointConnectionError():
            return "unable to connect to AWS", "check the network connection and the region name"
        case KeyError() | ValueError() | TypeError() | AttributeError():
            return f"unexpected response from AWS ({error!r})", (
                "please report this issue and include the response"
            )
        case _:
            return str(error), "check the AWS settings of this machine"
