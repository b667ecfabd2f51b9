"""The price of a device for an hour."""

from gpu_core.decisions.catalog.offerings import Catalog, Offering
from gpu_core.decisions.model.cluster import ON_DEMAND
from gpu_core.decisions.model.errors import InvalidInput
from gpu_core.decisions.model.units import micro_usd
from gpu_core.decisions.model.workload import WHOLE_GPU_MILLI


def device_price(device: str, usd_per_hour: float | None, catalog: Catalog) -> int:
    """The price of this device for an hour, in micro-USD.

    Args:
        device: A GPU type, or `cpu`.
        usd_per_hour: What a person says; None: the catalog's cheapest on-demand price.

    Raises:
        InvalidInput: It is no amount over 0, or the catalog has no price of the device.
    """
    if usd_per_hour is not None:
        stated = micro_usd(usd_per_hour, "usd_per_hour")
        if not stated:
            raise InvalidInput(
                "usd_per_hour", "is too small", got=usd_per_hour, allowed="0.000001 or more"
            )
        return stated
    offering = cheapest_gpu(catalog, device)
    if offering is None:
        raise InvalidInput(
            "usd_per_hour",
            "is missing",
            allowed="USD per hour of the device, 0.000001 or more, such as 0.05",
            remedy=f"please specify a price, because no on-demand price was found in the catalog "
            f"for {device}",
        )
    return catalog.micro_usd_per_gpu_hour(offering)


def cheapest_gpu(catalog: Catalog, gpu_type: str) -> Offering | None:
    """The on-demand offering with the cheapest whole GPU of this type, at a price with a source."""
    return min(
        (
            offering
            for offering in catalog.offerings.values()
            if offering.key.capacity_type == ON_DEMAND
            and offering.price.source is not None
            and catalog.is_available(offering)
            and catalog.instance_type(offering).gpu_type == gpu_type
            and catalog.instance_type(offering).gpu_share_milli == WHOLE_GPU_MILLI
        ),
        key=lambda o: (catalog.micro_usd_per_gpu_hour(o), str(o.key)),
        default=None,
    )
