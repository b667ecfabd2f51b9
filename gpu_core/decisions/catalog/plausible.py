"""Is a price plausible, compared with the prices of the same hardware elsewhere?

A wrong unit, a lost digit or a filler in a price list wins every comparison, so that such a price
is refused where it enters and not recommended.
"""

from collections.abc import Iterable, Mapping
from datetime import datetime, timedelta
from statistics import median

from gpu_core.decisions.catalog.offerings import (
    Catalog,
    InstanceType,
    Offering,
    OfferingKey,
    TypeKey,
)
from gpu_core.decisions.model.cluster import ON_DEMAND, SPOT
from gpu_core.decisions.model.errors import InvalidInput
from gpu_core.decisions.model.units import MICRO_USD_PER_USD, format_usd

# Of the on-demand price of the same instance type. Spot: AWS advertises savings of up to 90%
# (aws.amazon.com/ec2/spot, read 2026-11), and half of the rest is left as a margin; the cheapest of
# the shipped catalog is at 10%. Reserved: savings plans save up to 72% (aws.amazon.com/savings-
# plans). On-demand prices of two regions differ by less than 2 in the shipped catalog.
_ALLOWED_SHARES: Mapping[str, tuple[float, float]] = {
    SPOT: (0.05, 2.0),
    "reserved": (0.25, 2.0),
    ON_DEMAND: (1 / 3, 3.0),
}

# Where no on-demand price is known, of the median of the same terms elsewhere.
_ALLOWED_OF_SIBLINGS = (0.1, 10.0)

LEAST_MICRO_USD_PER_GPU_HOUR = 10_000
"""For any comparison. The cheapest GPU of the shipped catalog, a T4 on spot, is
at $0.17; a hundredth of a dollar is a wrong unit."""

OUTLIER_SHARE = 0.5
"""Of the median of its siblings: an old spot price under it is doubtful."""

_FRESH = timedelta(days=7)
_LEAST_SIBLINGS = 3

Prices = Mapping[OfferingKey, int]


def implausible(
    key: OfferingKey, micro_usd: int, prices: Prices, types: Mapping[TypeKey, InstanceType]
) -> InvalidInput | None:
    """The error for a price that is too low or too high to be true; None: it is plausible."""
    kind = types.get(TypeKey(key.provider, key.instance_type))
    # Fillers agree with each other: what is only compared with its siblings has a floor, too.
    least = LEAST_MICRO_USD_PER_GPU_HOUR * (kind.gpu_count if kind is not None else 1)
    compared = _reference(key, prices)
    if compared is None:
        low, high, reference_text = float(least), float("inf"), "the minimum price of a GPU"
    else:
        reference, (least_share, most_share), what = compared
        low, high = max(least, reference * least_share), reference * most_share
        reference_text = f"{what} is {format_usd(round(reference))}"
    if low <= micro_usd <= high:
        return None
    allowed = f"{format_usd(round(low))} or more"
    if low <= high < float("inf"):
        allowed = (
            f"{format_usd(round(low))} to {format_usd(round(high))} per hour, as {reference_text}"
        )
    return InvalidInput(
        str(key),
        "has an invalid price",
        # A filler of $0.00001 is not shown as $0.0000.
        got=format_usd(micro_usd) if micro_usd >= 100 else f"${micro_usd / MICRO_USD_PER_USD:f}",
        allowed=allowed,
        remedy="please verify the price and then use --accept-large-changes",
    )


def _reference(key: OfferingKey, prices: Prices) -> tuple[float, tuple[float, float], str] | None:
    """The reference price to compare with, the allowed shares of it, and its name."""
    on_demand = _of_type(key, prices, ON_DEMAND)
    if on_demand:
        shares = _ALLOWED_SHARES.get(key.capacity_type, _ALLOWED_SHARES[ON_DEMAND])
        return median(on_demand), shares, "on-demand"
    siblings = _of_type(key, prices, key.capacity_type)
    if siblings:
        return median(siblings), _ALLOWED_OF_SIBLINGS, "the median elsewhere"
    return None


def _of_type(key: OfferingKey, prices: Prices, capacity_type: str) -> list[int]:
    """Other prices of the same instance type on these terms; those of its own region first."""
    same = {
        other: price
        for other, price in prices.items()
        if other != key
        and (other.provider, other.instance_type) == (key.provider, key.instance_type)
        and other.capacity_type == capacity_type
    }
    near = [price for other, price in same.items() if other.region == key.region]
    return near or list(same.values())


def doubtful_spot(offering: Offering, siblings: Iterable[Offering], now: datetime) -> int | None:
    """Is this an old spot price far under those of the other zones? Their median; None: no.

    Args:
        siblings: All offerings of the same instance type.
        now: A price that was seen in the last week counts as it is.
    """
    if offering.key.capacity_type != SPOT or now - offering.price.seen_until <= _FRESH:
        return None
    others = [
        sibling.price.micro_usd_per_hour
        for sibling in siblings
        if sibling.key.capacity_type == SPOT
        and sibling.key != offering.key
        and sibling.price.source is not None
    ]
    if len(others) < _LEAST_SIBLINGS:
        return None
    usual = round(median(others))
    return usual if offering.price.micro_usd_per_hour < OUTLIER_SHARE * usual else None


def current_prices(catalog: Catalog) -> dict[OfferingKey, int]:
    """The newest price of each offering; what is from memory is no price."""
    return {
        key: offering.price.micro_usd_per_hour
        for key, offering in catalog.offerings.items()
        if offering.price.source is not None
    }
