"""Price sheets: what one provider offers, as people and the refresh write it down.

The shipped snapshot, a refreshed catalog and the user's own prices are all of this one form.
"""

from collections import defaultdict
from collections.abc import Collection, Mapping, Sequence
from datetime import UTC, date, datetime, time
from types import MappingProxyType
from typing import Annotated, Any

from pydantic import Field

from gpu_core.decisions.catalog.offerings import (
    Catalog,
    InstanceType,
    Offering,
    OfferingKey,
    Price,
    TransferPrices,
    TypeKey,
    is_zone_name,
)
from gpu_core.decisions.model.errors import InvalidInput
from gpu_core.decisions.model.pydantic_errors import parsed_by, validated
from gpu_core.decisions.model.section import CapacityType, Name, Section, Version
from gpu_core.decisions.model.units import MICRO_USD_PER_USD, micro_usd, require_aware
from gpu_core.decisions.model.workload import WHOLE_GPU_MILLI

_MOMENT_HELP = "a date such as 2026-11-21, or a time with its zone such as 2026-11-21T08:00:00Z"


def _usd(value: object, field: str) -> int:
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise InvalidInput(field, "is not a price", got=value, allowed="a number of USD")
    return micro_usd(value, field)


def _usd_above_zero(value: object, field: str) -> int:
    amount = _usd(value, field)
    if not amount:
        raise InvalidInput(
            field,
            "is zero",
            got=value,
            allowed="more than 0",
            remedy="the price must not be 0. Please specify the hourly cost or remove the line",
        )
    return amount


def _moment(value: object, field: str) -> datetime:
    if isinstance(value, str):
        try:
            value = datetime.fromisoformat(value) if len(value) > 10 else date.fromisoformat(value)
        except ValueError:
            raise InvalidInput(field, "is not a date", got=value, allowed=_MOMENT_HELP) from None
    if isinstance(value, datetime):
        return require_aware(value, field)
    if isinstance(value, date):
        return datetime.combine(value, time(), UTC)
    raise InvalidInput(field, "is not a date", got=value, allowed=_MOMENT_HELP)


Moment = Annotated[datetime, parsed_by(_moment)]
Usd = Annotated[int, parsed_by(_usd)]
UsdAboveZero = Annotated[int, parsed_by(_usd_above_zero)]
Positive = Annotated[float, Field(gt=0, allow_inf_nan=False)]


class SheetPrice(Section):
    """One price in one place; several with the same place are its history."""

    region: Name
    zone: Name | None = None
    capacity_type: CapacityType
    micro_usd_per_hour: UsdAboveZero = Field(alias="usd_per_hour")
    seen_from: Moment | None = Field(default=None, alias="as_of")
    seen_until: Moment | None = Field(default=None, alias="until")
    is_offered: bool = True
    source: Name | None = None
    """The source of this price; None: the sheet's source."""
    from_memory: bool = False
    """It was read nowhere, and counts as unknown."""
    as_of_is_earliest: bool = False
    """The day is unknown, and `as_of` is the earliest that it can be."""


class SheetType(Section):
    """One instance type with its prices."""

    gpu_type: Name
    gpu_count: Annotated[int, Field(ge=1, le=1024)]
    gpu_share_milli: Annotated[int, Field(ge=1, le=WHOLE_GPU_MILLI)] = WHOLE_GPU_MILLI
    gpu_memory_mib: Annotated[int, Field(ge=1)] | None = None
    vcpus: Annotated[int, Field(ge=1)] | None = None
    memory_gib: Positive | None = None
    network_gbps: Positive | None = None
    prices: Sequence[SheetPrice] = ()


class SheetTransfer(Section):
    """The prices of storing and moving data."""

    storage: Usd | None = Field(default=None, alias="storage_usd_per_gib_month")
    between_regions: Usd | None = Field(default=None, alias="between_regions_usd_per_gib")
    out: Usd | None = Field(default=None, alias="out_usd_per_gib")


class PriceSheet(Section):
    """The offerings of one provider."""

    version: Version
    provider: Name
    source: Name
    as_of: Moment
    """The date of every price that states none of its own."""
    transfer: SheetTransfer = SheetTransfer()
    instance_types: Mapping[Name, SheetType]


def parse_sheet(
    data: object, source: str = "prices", lines: Mapping[str, int] | None = None
) -> Catalog:
    """The catalog that a price sheet describes.

    Args:
        data: Plain Python data, as a YAML or JSON reader gives it.
        source: Where it comes from, for the errors: a file's path.
        lines: The line of each dotted field path in that file, for the errors.

    Raises:
        InvalidInput: One field cannot be used.
        InvalidInputs: Several cannot; the message has a line for each.
    """
    return _catalog(validated(PriceSheet, data, source, lines, _contradictions))


def to_sheet(catalog: Catalog, provider: str, as_of: datetime) -> dict[str, Any]:
    """The price sheet of what this provider offers.

    `parse_sheet` reads the same catalog from it.
    """
    source = catalog.sources.get(provider, "unknown")
    prices: dict[str, list[dict[str, Any]]] = defaultdict(list)
    for key, offering in sorted(catalog.offerings.items(), key=lambda item: _sort_key(item[0])):
        if key.provider == provider:
            prices[key.instance_type] += _price_rows(offering, source)
    types = {key.name: t for key, t in catalog.instance_types.items() if key.provider == provider}
    transfer = catalog.transfer.get(provider, TransferPrices())
    return {
        "version": 1,
        "provider": provider,
        "source": source,
        "as_of": as_of.isoformat(),
        "transfer": _without_none(
            storage_usd_per_gib_month=_as_usd(transfer.storage_micro_usd_per_gib_month),
            between_regions_usd_per_gib=_as_usd(transfer.between_regions_micro_usd_per_gib),
            out_usd_per_gib=_as_usd(transfer.out_micro_usd_per_gib),
        ),
        "instance_types": {
            name: _type_row(types[name]) | {"prices": prices[name]} for name in sorted(types)
        },
    }


def _catalog(sheet: PriceSheet) -> Catalog:
    types: dict[TypeKey, InstanceType] = {}
    offerings: dict[OfferingKey, Offering] = {}
    for name, row in sheet.instance_types.items():
        key = TypeKey(sheet.provider, name)
        types[key] = InstanceType(key=key, **row.model_dump(exclude={"prices"}))
        offerings |= _offerings(key, row, sheet)
    return Catalog(
        instance_types=MappingProxyType(types),
        offerings=MappingProxyType(offerings),
        transfer=MappingProxyType(
            {
                sheet.provider: TransferPrices(
                    storage_micro_usd_per_gib_month=sheet.transfer.storage,
                    between_regions_micro_usd_per_gib=sheet.transfer.between_regions,
                    out_micro_usd_per_gib=sheet.transfer.out,
                )
            }
        ),
        sources=MappingProxyType({sheet.provider: sheet.source}),
    )


def _offerings(key: TypeKey, row: SheetType, sheet: PriceSheet) -> dict[OfferingKey, Offering]:
    by_key: dict[OfferingKey, list[SheetPrice]] = defaultdict(list)
    for price in row.prices:
        by_key[_key(key, price)].append(price)
    return {
        offering_key: Offering(
            key=offering_key,
            prices=tuple(
                sorted((_price(price, sheet) for price in history), key=lambda p: p.seen_from)
            ),
            is_offered=all(price.is_offered for price in history),
        )
        for offering_key, history in by_key.items()
    }


def _key(key: TypeKey, price: SheetPrice) -> OfferingKey:
    return OfferingKey(key.provider, key.name, price.region, price.zone, price.capacity_type)


def _price(row: SheetPrice, sheet: PriceSheet) -> Price:
    seen_from = row.seen_from or sheet.as_of
    return Price(
        micro_usd_per_hour=row.micro_usd_per_hour,
        seen_from=seen_from,
        seen_until=row.seen_until or seen_from,
        source=None if row.from_memory else row.source or sheet.source,
        is_date_exact=not row.as_of_is_earliest,
    )


def _contradictions(sheet: PriceSheet, _damaged: Collection[str]) -> list[InvalidInput]:
    errors = []
    for name, row in sheet.instance_types.items():
        seen: set[tuple[OfferingKey, datetime]] = set()
        for index, price in enumerate(row.prices):
            field = f"instance_types.{name}.prices.{index}"
            dated = _price(price, sheet)
            at = (_key(TypeKey(sheet.provider, name), price), dated.seen_from)
            if at in seen:
                errors.append(
                    InvalidInput(
                        field,
                        "is specified more than once",
                        remedy="please specify a different `as_of` date or remove it",
                    )
                )
            seen.add(at)
            if price.zone is not None and is_zone_name(price.zone, price.region):
                errors.append(
                    InvalidInput(
                        f"{field}.zone",
                        "is the name of a zone",
                        got=price.zone,
                        allowed="its id, such as use1-az4: names differ between accounts",
                    )
                )
            if price.from_memory and price.source is not None:
                errors.append(
                    InvalidInput(
                        f"{field}.from_memory",
                        "contradicts the source",
                        got=price.source,
                        allowed="one of the two",
                        remedy="please remove `from_memory` if the price was retrieved from this "
                        "source",
                    )
                )
            if dated.seen_until < dated.seen_from:
                errors.append(
                    InvalidInput(
                        f"{field}.until",
                        "is before as_of",
                        got=dated.seen_until.isoformat(),
                        allowed=f"{dated.seen_from.isoformat()} or later",
                    )
                )
    return errors


def _sort_key(key: OfferingKey) -> tuple[str, str, str]:
    return (key.region, key.capacity_type, key.zone or "")


def _type_row(row: InstanceType) -> dict[str, Any]:
    return _without_none(
        gpu_type=row.gpu_type,
        gpu_count=row.gpu_count,
        gpu_share_milli=None if row.gpu_share_milli == WHOLE_GPU_MILLI else row.gpu_share_milli,
        gpu_memory_mib=row.gpu_memory_mib,
        vcpus=row.vcpus,
        memory_gib=row.memory_gib,
        network_gbps=row.network_gbps,
    )


def _price_rows(offering: Offering, sheet_source: str) -> list[dict[str, Any]]:
    return [
        _without_none(
            region=offering.key.region,
            zone=offering.key.zone,
            capacity_type=offering.key.capacity_type,
            usd_per_hour=_as_usd(price.micro_usd_per_hour),
            as_of=price.seen_from.isoformat(),
            until=None if price.seen_until == price.seen_from else price.seen_until.isoformat(),
            is_offered=None if offering.is_offered else False,
            source=None if price.source == sheet_source else price.source,
            from_memory=True if price.source is None else None,
            as_of_is_earliest=None if price.is_date_exact else True,
        )
        for price in offering.prices
    ]


def _as_usd(micro: int | None) -> float | None:
    return None if micro is None else micro / MICRO_USD_PER_USD


def _without_none(**values: Any) -> dict[str, Any]:
    return {name: value for name, value in values.items() if value is not None}
