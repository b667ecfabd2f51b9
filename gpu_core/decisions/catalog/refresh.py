"""The change of the catalog after a look at current offerings: all of it, or nothing."""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from types import MappingProxyType

from gpu_core.decisions.catalog.offerings import (
    Catalog,
    InstanceType,
    Offering,
    OfferingKey,
    Price,
    TypeKey,
    is_zone_name,
)
from gpu_core.decisions.catalog.plausible import current_prices, implausible
from gpu_core.decisions.model.errors import InvalidInput
from gpu_core.decisions.model.pydantic_errors import refuse
from gpu_core.decisions.model.units import format_usd

DOUBTFUL_FACTOR = 10
"""A price that moves this much is more often a wrong unit or a lost digit than a market."""

MOST_PRICES = 400
"""Prices kept of one offering: over a year of daily changes."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CoveredPlaces:
    """The places that one read has covered in full: an offering not found there is not offered."""

    provider: str
    region: str
    capacity_type: str

    def covers(self, key: OfferingKey) -> bool:
        """Would it have found this offering?"""
        return (key.provider, key.region, key.capacity_type) == (
            self.provider,
            self.region,
            self.capacity_type,
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Observation:
    """The result of one read of a provider. Parts that could not be read are not in `scopes`."""

    instance_types: Mapping[TypeKey, InstanceType]
    micro_usd_per_hour: Mapping[OfferingKey, int]
    scopes: Collection[CoveredPlaces]
    source: str


@dataclass(frozen=True, slots=True, kw_only=True)
class OfferingChange:
    """One offering that is other than before. None: it had, or has, no price."""

    key: OfferingKey
    before_micro_usd_per_hour: int | None
    after_micro_usd_per_hour: int | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Refreshed:
    """The catalog after a look, and what is other than before."""

    catalog: Catalog
    changes: tuple[OfferingChange, ...]


def refreshed(
    catalog: Catalog, seen: Observation, now: datetime, *, accepts_large_changes: bool = False
) -> Refreshed:
    """The catalog, with what the provider shows now.

    Prices that changed are added to their history. An offering that the provider should have shown
    and did not is kept, and no longer offered. Offerings that were not asked about stay as they
    are.

    Args:
        accepts_large_changes: A person has confirmed the prices that are refused otherwise.

    Raises:
        InvalidInput: A price is implausible, or it moved tenfold or contradicts the other prices
            of its type, and is not confirmed. Nothing of the look is taken over then.
        InvalidInputs: There are several of these.
    """
    refuse(_nonsense(catalog, seen, now))
    if not accepts_large_changes:
        refuse(_doubtful(catalog, seen))
    offerings = dict(catalog.offerings)
    for key, price in seen.micro_usd_per_hour.items():
        offerings[key] = _with_price(offerings.get(key), key, price, now, seen.source)
    for key, offering in catalog.offerings.items():
        if key not in seen.micro_usd_per_hour and any(s.covers(key) for s in seen.scopes):
            offerings[key] = replace(offering, is_offered=False)
    providers = {scope.provider for scope in seen.scopes}
    after = replace(
        catalog,
        instance_types=MappingProxyType({**catalog.instance_types, **seen.instance_types}),
        offerings=MappingProxyType(offerings),
        sources=MappingProxyType({**catalog.sources, **dict.fromkeys(providers, seen.source)}),
    )
    return Refreshed(catalog=after, changes=_changes(catalog, after))


def change_rows(changes: Sequence[OfferingChange]) -> list[dict[str, str]]:
    """The changes as rows of a table; one row says so where there are none."""

    def cell(micro_usd: int | None) -> str:
        return "not offered" if micro_usd is None else format_usd(micro_usd)

    return [
        {
            "offering": str(change.key),
            "before": cell(change.before_micro_usd_per_hour),
            "now": cell(change.after_micro_usd_per_hour),
        }
        for change in changes
    ] or [{"offering": "none changed", "before": "", "now": ""}]


def _with_price(
    old: Offering | None, key: OfferingKey, micro_usd: int, now: datetime, source: str
) -> Offering:
    new = Price(micro_usd_per_hour=micro_usd, seen_from=now, seen_until=now, source=source)
    if old is None:
        return Offering(key=key, prices=(new,))
    if old.price.micro_usd_per_hour == micro_usd:
        still = replace(old.price, seen_until=now, source=source)
        return replace(old, prices=(*old.prices[:-1], still), is_offered=True)
    return replace(old, prices=(*old.prices, new)[-MOST_PRICES:], is_offered=True)


def _nonsense(catalog: Catalog, seen: Observation, now: datetime) -> list[InvalidInput]:
    errors = []
    known = {**catalog.instance_types, **seen.instance_types}
    for key, micro_usd in seen.micro_usd_per_hour.items():
        if micro_usd <= 0:
            errors.append(
                InvalidInput(str(key), "has no price", got=micro_usd, allowed="more than 0")
            )
        if TypeKey(key.provider, key.instance_type) not in known:
            errors.append(InvalidInput(str(key), "has an unknown instance type"))
        if key.zone is not None and is_zone_name(key.zone, key.region):
            errors.append(
                InvalidInput(
                    str(key),
                    "must specify a zone ID instead of a zone name",
                    got=key.zone,
                    allowed="an id: use1-az4",
                )
            )
        old = catalog.offerings.get(key)
        if old is not None and old.price.seen_until > now:
            errors.append(
                InvalidInput(
                    str(key),
                    "has a date in the future",
                    got=now.isoformat(),
                    allowed=f"{old.price.seen_until.isoformat()} or later",
                    remedy="please check the system clock",
                )
            )
    return errors


def _doubtful(catalog: Catalog, seen: Observation) -> list[InvalidInput]:
    known = current_prices(catalog)
    prices = {**known, **seen.micro_usd_per_hour}
    types = {**catalog.instance_types, **seen.instance_types}
    errors = []
    for key, after in seen.micro_usd_per_hour.items():
        before = known.get(key)
        if before == after:
            continue  # it is in the catalog: a person has accepted it
        error = _moved(key, before, after) or implausible(key, after, prices, types)
        if error is not None:
            errors.append(error)
    return errors


def _moved(key: OfferingKey, before: int | None, after: int) -> InvalidInput | None:
    if before is None or max(before, after) < DOUBTFUL_FACTOR * min(before, after):
        return None
    return InvalidInput(
        str(key),
        f"moved from {format_usd(before)} to {format_usd(after)} per hour",
        allowed=f"less than {DOUBTFUL_FACTOR} times up or down",
        remedy="please verify the price and then use --accept-large-changes",
    )


def _changes(before: Catalog, after: Catalog) -> tuple[OfferingChange, ...]:
    def price(catalog: Catalog, key: OfferingKey) -> int | None:
        offering = catalog.offerings.get(key)
        if offering is None or not offering.is_offered:
            return None
        return offering.price.micro_usd_per_hour

    changes = (
        OfferingChange(
            key=key,
            before_micro_usd_per_hour=price(before, key),
            after_micro_usd_per_hour=price(after, key),
        )
        for key in sorted(after.offerings, key=str)
    )
    return tuple(c for c in changes if c.before_micro_usd_per_hour != c.after_micro_usd_per_hour)
