"""Offerings: instance types, and the price of each by zone and capacity type."""

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from types import MappingProxyType
from typing import NamedTuple

from gpu_core.decisions.model.cluster import ON_DEMAND, SPOT
from gpu_core.decisions.model.workload import WHOLE_GPU_MILLI

_ROUNDING_MICRO_USD = 100


class TypeKey(NamedTuple):
    """The key of an instance type; other providers may have the same name."""

    provider: str
    name: str


class OfferingKey(NamedTuple):
    """The key of an offering: an instance type, its place and its terms."""

    provider: str
    instance_type: str
    region: str
    zone: str | None
    """The zone; None: one price for the whole region."""
    capacity_type: str

    def __str__(self) -> str:
        """As people write it: `aws g5.xlarge us-east-1 use1-az4 spot`."""
        return " ".join(part for part in self if part is not None)


def is_zone_name(zone: str, region: str) -> bool:
    """Is this the name of a zone of AWS, such as `us-east-1a`, and not its id, such as `use1-az4`?

    A name means another zone in each account (docs.aws.amazon.com, "Availability Zone IDs for your
    AWS resources", read 2026-11), so that only ids can be compared.
    """
    return re.fullmatch(rf"{re.escape(region)}[a-z]", zone) is not None


@dataclass(frozen=True, slots=True, kw_only=True)
class InstanceType:
    """One kind of machine with GPUs, rented or owned. None: unknown."""

    key: TypeKey
    gpu_type: str
    gpu_count: int
    """GPUs that a run sees; a part of a GPU counts as one."""
    gpu_share_milli: int = WHOLE_GPU_MILLI
    """How much of a GPU each of them is, in thousandths."""
    gpu_memory_mib: int | None = None
    """Of one GPU as the run sees it."""
    vcpus: int | None = None
    memory_gib: float | None = None
    network_gbps: float | None = None
    """To other machines, 10^9 bits per second, sustained."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Price:
    """A price for a time: from when it was first seen to when it was last seen."""

    micro_usd_per_hour: int
    """Of the whole instance."""
    seen_from: datetime
    seen_until: datetime
    source: str | None
    """Its source. None: it has none, and counts as unknown."""
    is_date_exact: bool = True
    """False: the day is unknown, and `seen_from` is the earliest that it can be."""

    @property
    def is_age_known(self) -> bool:
        """Is `seen_until` the day on which it was seen last?"""
        return self.is_date_exact or self.seen_until > self.seen_from


@dataclass(frozen=True, slots=True, kw_only=True)
class Offering:
    """One instance type in one place on one kind of terms, with the history of its price."""

    key: OfferingKey
    prices: tuple[Price, ...]
    """Oldest first, one at least; neighbors differ."""
    is_offered: bool = True
    """False: it was there once, and the last look did not find it."""

    @property
    def price(self) -> Price:
        """The newest price."""
        return self.prices[-1]


@dataclass(frozen=True, slots=True, kw_only=True)
class TransferPrices:
    """The prices of a provider for keeping and moving data. None: unknown."""

    storage_micro_usd_per_gib_month: int | None = None
    between_regions_micro_usd_per_gib: int | None = None
    out_micro_usd_per_gib: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Catalog:
    """All known offerings."""

    instance_types: Mapping[TypeKey, InstanceType] = field(
        default_factory=lambda: MappingProxyType({})
    )
    offerings: Mapping[OfferingKey, Offering] = field(default_factory=lambda: MappingProxyType({}))
    transfer: Mapping[str, TransferPrices] = field(default_factory=lambda: MappingProxyType({}))
    """By provider."""
    sources: Mapping[str, str] = field(default_factory=lambda: MappingProxyType({}))
    """The sources of each provider's figures."""

    def instance_type(self, offering: Offering) -> InstanceType:
        """The instance type of an offering."""
        return self.instance_types[TypeKey(offering.key.provider, offering.key.instance_type)]

    def types_without_spot(self) -> tuple[TypeKey, ...]:
        """The rented instance types for which no spot price is known in any place."""
        known: dict[str, set[TypeKey]] = {ON_DEMAND: set(), SPOT: set()}
        for key, offering in self.offerings.items():
            if key.capacity_type in known and offering.price.source is not None:
                known[key.capacity_type].add(TypeKey(key.provider, key.instance_type))
        return tuple(sorted(known[ON_DEMAND] - known[SPOT]))

    def micro_usd_per_gpu_hour(self, offering: Offering) -> int:
        """The price of one of its GPUs for an hour, with the machine around it."""
        return round(offering.price.micro_usd_per_hour / self.instance_type(offering).gpu_count)

    def on_demand(self, key: OfferingKey) -> Offering | None:
        """The on-demand offering of the same instance type in the same place; None: none."""
        for zone in (key.zone, None):
            found = self.offerings.get(key._replace(zone=zone, capacity_type=ON_DEMAND))
            if found is not None:
                return found
        return None

    def is_available(self, offering: Offering) -> bool:
        """Is it available?

        Where the price for spot is that for on-demand, or more, there is no spot capacity: price
        lists fill the gap with the on-demand price, rounded to a hundredth of a cent (AWS's spot
        prices as public lists have them, read 2026-11).
        """
        if not offering.is_offered:
            return False
        if offering.key.capacity_type != SPOT:
            return True
        on_demand = self.on_demand(offering.key)
        if on_demand is None or on_demand.price.source is None:
            return True
        saved = on_demand.price.micro_usd_per_hour - offering.price.micro_usd_per_hour
        return saved >= _ROUNDING_MICRO_USD


def combined(catalogs: Iterable[Catalog]) -> Catalog:
    """All of these catalogs in one; a later one replaces what an earlier one says of a key."""
    types: dict[TypeKey, InstanceType] = {}
    offerings: dict[OfferingKey, Offering] = {}
    transfer: dict[str, TransferPrices] = {}
    sources: dict[str, str] = {}
    for catalog in catalogs:
        types |= catalog.instance_types
        offerings |= catalog.offerings
        transfer |= catalog.transfer
        sources |= catalog.sources
    return Catalog(
        instance_types=MappingProxyType(types),
        offerings=MappingProxyType(offerings),
        transfer=MappingProxyType(transfer),
        sources=MappingProxyType(sources),
    )
