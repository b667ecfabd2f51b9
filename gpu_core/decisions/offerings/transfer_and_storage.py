"""The cost of a run apart from its machines: moving data to them, and storing it there."""

from gpu_core.decisions.catalog.offerings import Catalog, OfferingKey
from gpu_core.decisions.offerings.constraints import Constraints

# 365.25 days in 12 months.
_SECONDS_PER_MONTH = 2_629_800


def transfer_micro_usd(catalog: Catalog, constraints: Constraints, key: OfferingKey) -> int | None:
    """The cost of bringing the data to this offering; None: unknown.

    Nothing within a region. Between regions of a provider its price for that, from one provider
    to another the first one's price for data that leaves it. Arriving costs nothing (AWS EC2
    prices, data transfer, read 2026-11).
    """
    if not constraints.data_gib or constraints.data_at is None:
        return 0
    source = constraints.data_at
    if (source.provider, source.region) == (key.provider, key.region):
        return 0
    prices = catalog.transfer.get(source.provider)
    if prices is None:
        return None
    is_leaving = source.provider != key.provider
    per_gib = (
        prices.out_micro_usd_per_gib if is_leaving else prices.between_regions_micro_usd_per_gib
    )
    return None if per_gib is None else round(per_gib * constraints.data_gib)


def storage_micro_usd(
    catalog: Catalog, key: OfferingKey, stored_gib: float, wall_s: float
) -> int | None:
    """The cost of keeping this much while the job runs; None: unknown."""
    if not stored_gib:
        return 0
    prices = catalog.transfer.get(key.provider)
    if prices is None or prices.storage_micro_usd_per_gib_month is None:
        return None
    return round(prices.storage_micro_usd_per_gib_month * stored_gib * wall_s / _SECONDS_PER_MONTH)
