"""The one answer to what a run pays for an hour: rates, price sheet, catalog, then the policy.

The first source that knows the GPU counts for all of it, so that no price is made of two.
"""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from datetime import datetime
from fractions import Fraction
from math import ceil
from typing import Any, NamedTuple

from gpu_core.decisions.catalog.offerings import Catalog, InstanceType, Offering, OfferingKey, Price
from gpu_core.decisions.model.attempts import Attempt
from gpu_core.decisions.model.cluster import (
    INSTANCE_TYPE_LABEL,
    REGION_LABEL,
    ZONE_ID_LABEL,
    ZONE_LABEL,
    Machine,
    Node,
)
from gpu_core.decisions.model.prices import PriceChange, Rates
from gpu_core.decisions.policy.policy import Policy

_GPU, _CPU_CORE, _GIB = Fraction("0.95"), Fraction("0.031611"), Fraction("0.004237")
"""OpenCost's default prices per hour (configs/default.json): only their proportions count here."""


_NOTHING = Catalog()


@dataclass(frozen=True, slots=True, kw_only=True)
class PricedCapacity:
    """The capacity that is paid for: its GPUs, machine, place and terms. None: unknown."""

    gpu_type: str | None
    """The GPU type; None: no GPU."""
    capacity_type: str
    instance_type: str | None = None
    region: str | None = None
    zone: str | None = None
    """The zone's id where the provider has ids, such as `use1-az4`."""

    @classmethod
    def of_node(cls, node: Node) -> "PricedCapacity":
        """The capacity that a node's owner pays for."""
        labels = node.labels
        return cls(
            gpu_type=node.gpu_type,
            capacity_type=node.capacity_type,
            instance_type=labels.get(INSTANCE_TYPE_LABEL),
            region=labels.get(REGION_LABEL),
            zone=labels.get(ZONE_ID_LABEL) or labels.get(ZONE_LABEL),
        )


class _Listed(NamedTuple):
    """A price in a list of offerings."""

    source: str
    key: OfferingKey
    machine: InstanceType
    price: Price


class MachinePrice(NamedTuple):
    """The price of an hour of a whole machine, and its source."""

    micro_usd_per_hour: int
    source: str
    as_of: datetime | None


@dataclass(frozen=True, slots=True, kw_only=True)
class PriceBook:
    """The sources of prices, in order: `policy.rates`, your sheet, the catalog, then
    `policy.prices`."""

    policy: Policy
    sheet: Catalog = _NOTHING
    """Your own prices of offerings; they count before those of the catalog."""
    catalog: Catalog = _NOTHING
    """The one that `refresh-catalog` keeps; without it, nodes have no prices of their own."""

    def rates(self, capacity: PricedCapacity, at: datetime) -> Rates | None:
        """The rates for an hour of it at this time; None: unpriced, which is never free."""
        found = self._own(capacity) or self._of_catalog(capacity, at)
        if found is not None or capacity.gpu_type is None:
            return found
        price = self.policy.price_micro_usd_per_gpu_hour(capacity.gpu_type, capacity.capacity_type)
        if price is None:
            return None
        return Rates(gpu_micro_usd_per_hour=price, source="policy", as_of=self.policy.prices_as_of)

    def machine_price(
        self, capacity: PricedCapacity, machine: Machine, at: datetime
    ) -> MachinePrice | None:
        """The price of the whole machine for an hour at this time; None: unpriced.

        By `rates`, with the catalog's own price of the machine where that is what counts: the parts
        of it together cost no more.
        """
        rates = self.rates(capacity, at)
        if rates is None or (rates.gpu_micro_usd_per_hour is None and machine.gpus):
            return None
        if self._own(capacity) is None:
            listed = self._listed(capacity, at)
            if listed is not None:
                return MachinePrice(listed.price.micro_usd_per_hour, rates.source, rates.as_of)
        whole = (
            machine.gpus * (rates.gpu_micro_usd_per_hour or 0)
            + Fraction(machine.cpu_milli or 0, 1000) * (rates.cpu_micro_usd_per_hour or 0)
            + Fraction(machine.memory_mib or 0, 1024) * (rates.gib_micro_usd_per_hour or 0)
        )
        return MachinePrice(ceil(whole), rates.source, rates.as_of)

    def _own(self, capacity: PricedCapacity) -> Rates | None:
        table = self.policy.own_rates(capacity.capacity_type)
        if table is None:
            return None
        gpu = None if capacity.gpu_type is None else table.gpu.get(capacity.gpu_type)
        is_known = gpu is not None if capacity.gpu_type else table.cpu_core is not None
        if not is_known:
            return None
        return Rates(
            gpu_micro_usd_per_hour=gpu,
            cpu_micro_usd_per_hour=table.cpu_core,
            gib_micro_usd_per_hour=table.memory_gib,
            source="policy rates",
            as_of=self.policy.prices_as_of,
        )

    def _of_catalog(self, capacity: PricedCapacity, at: datetime) -> Rates | None:
        listed = self._listed(capacity, at)
        if listed is None:
            return None
        return split(
            listed.price.micro_usd_per_hour,
            listed.machine,
            source=f"{listed.source}: {listed.key}",
            as_of=listed.price.seen_from,
        )

    def _listed(self, capacity: PricedCapacity, at: datetime) -> "_Listed | None":
        """The price of the whole machine, by the sheet or the catalog."""
        for source, catalog in (("price sheet", self.sheet), ("catalog", self.catalog)):
            offering = _offering(catalog, capacity)
            price = None if offering is None else _price_at(offering, at)
            if offering is not None and price is not None:
                return _Listed(source, offering.key, catalog.instance_type(offering), price)
        return None


def split(
    micro_usd_per_hour: int, machine: InstanceType, *, source: str, as_of: datetime | None
) -> Rates:
    """The rates of a GPU, a core and a GiB of this machine.

    Together they cost no more than the machine.

    Its price is split in the proportions of OpenCost's default prices (OpenCost specification
    v0.1, appendix A). Rates are whole micro-USD, rounded down: what is left, under a micro-dollar
    for each of them, is a part of the machine's idle cost. A machine whose CPU or memory is
    unknown is paid for by its GPUs.
    """
    if machine.vcpus is None or machine.memory_gib is None:
        per_gpu = micro_usd_per_hour // machine.gpu_count
        return Rates(gpu_micro_usd_per_hour=per_gpu, source=source, as_of=as_of)
    memory_gib = Fraction(str(machine.memory_gib))
    whole = machine.gpu_count * _GPU + machine.vcpus * _CPU_CORE + memory_gib * _GIB
    scale = micro_usd_per_hour / whole
    return Rates(
        gpu_micro_usd_per_hour=int(scale * _GPU),
        cpu_micro_usd_per_hour=int(scale * _CPU_CORE),
        gib_micro_usd_per_hour=int(scale * _GIB),
        source=source,
        as_of=as_of,
    )


def price_fields(rates: Rates | None) -> Mapping[str, Any]:
    """The fields of an attempt that begins at these rates."""
    return {
        "price_micro_usd_per_gpu_hour": rates and rates.gpu_micro_usd_per_hour,
        "price_micro_usd_per_cpu_hour": rates and rates.cpu_micro_usd_per_hour,
        "price_micro_usd_per_gib_hour": rates and rates.gib_micro_usd_per_hour,
        "price_source": rates and rates.source,
        "price_as_of": rates and rates.as_of,
    }


def with_price_of_now(attempt: Attempt, rates: Rates | None, now: datetime) -> Attempt:
    """The attempt with one more price, if what it pays has changed; else the same attempt.

    The new price counts from the time that its source gives, but never for a time that an earlier
    change has priced already. An attempt that an older version wrote keeps its price, which is
    that of a part; and one that has a price never becomes unpriced.
    """
    last = attempt.price_changes[-1]
    is_old = attempt.price_source is None and attempt.price_micro_usd_per_gpu_hour is not None
    if rates is None or is_old or _amounts(rates) == _amounts(last.rates):
        return attempt
    since = min(now, rates.as_of) if rates.as_of is not None else now
    if since <= last.since:
        since = now
    if since <= last.since:
        return attempt
    change = PriceChange(since=since, rates=rates)
    return replace(attempt, later_prices=(*(attempt.later_prices or ()), change))


def _amounts(rates: Rates) -> tuple[int | None, int | None, int | None]:
    return (
        rates.gpu_micro_usd_per_hour,
        rates.cpu_micro_usd_per_hour,
        rates.gib_micro_usd_per_hour,
    )


def _offering(catalog: Catalog, capacity: PricedCapacity) -> Offering | None:
    """The one offering that it must be; None: none, or the zone does not say which."""
    found = [
        offering
        for key, offering in catalog.offerings.items()
        if key.instance_type == capacity.instance_type
        and key.capacity_type == capacity.capacity_type
        and capacity.region in (None, key.region)
        and key.zone in (None, capacity.zone)
    ]
    in_zone = [offering for offering in found if offering.key.zone is not None]
    candidates = in_zone or found
    return candidates[0] if len(candidates) == 1 else None


def _price_at(offering: Offering, at: datetime) -> Price | None:
    """The price that was valid then; None: it was first seen later, or is from memory."""
    earlier = [p for p in offering.prices if p.seen_from <= at and p.source is not None]
    return earlier[-1] if earlier else None
