"""Catalogs and their sheets."""

from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any

from gpu_core.decisions.catalog.offerings import Catalog, OfferingKey
from gpu_core.decisions.catalog.sheet import parse_sheet

SEEN = datetime(2026, 9, 1, tzinfo=UTC)


def make_sheet(**types: Any) -> dict[str, Any]:
    """A sheet of these instance types; a key's `_` stands for the `.` of real names."""
    return {
        "version": 1,
        "provider": "aws",
        "source": "a test",
        "as_of": "2026-09-01",
        "instance_types": {name.replace("_", "."): row for name, row in types.items()},
    }


def make_row(
    on_demand: float | None = 10.0,
    spot: Mapping[str, float] | None = None,
    gpu_type: str = "a100-80gb",
    **changes: Any,
) -> dict[str, Any]:
    """An instance type with 8 A100s in us-east-1, with spot prices by zone."""
    prices: list[dict[str, Any]] = []
    if on_demand is not None:
        prices.append(
            {"region": "us-east-1", "capacity_type": "on-demand", "usd_per_hour": on_demand}
        )
    prices += [
        {"region": "us-east-1", "zone": zone, "capacity_type": "spot", "usd_per_hour": usd}
        for zone, usd in (spot or {}).items()
    ]
    return {"gpu_type": gpu_type, "gpu_count": 8, "prices": prices, **changes}


def make_catalog(**types: Any) -> Catalog:
    """The catalog of such a sheet."""
    return parse_sheet(make_sheet(**types))


def make_key(name: str, zone: str | None = None, region: str = "us-east-1") -> OfferingKey:
    """On-demand without a zone, else spot."""
    return OfferingKey("aws", name, region, zone, "spot" if zone else "on-demand")
