"""The catalog, its changes and placement scores as tables for people."""

from collections import defaultdict
from collections.abc import Sequence

from rich.table import Table
from rich.text import Text

from gpu_core.adapters.aws.catalog import PlacementScore
from gpu_core.cli.shared.tables import simple_table
from gpu_core.decisions.catalog.gpu_types import GPU_TYPES
from gpu_core.decisions.catalog.offerings import Catalog, Offering
from gpu_core.decisions.catalog.refresh import OfferingChange, change_rows
from gpu_core.decisions.model.cluster import ON_DEMAND, RESERVED, SPOT
from gpu_core.decisions.model.units import format_usd
from gpu_core.decisions.model.workload import WHOLE_GPU_MILLI

_NOTHING = "–"


def types_table(catalog: Catalog, offerings: Sequence[Offering], *, has_room: bool = True) -> Table:
    """A row for each GPU type with its lowest prices; parts of a GPU are left out.

    Args:
        has_room: False leaves out where the lowest price is, as the terminal is narrow.
    """
    terms = [
        t for t in (ON_DEMAND, SPOT, RESERVED) if any(o.key.capacity_type == t for o in offerings)
    ]
    table = simple_table(
        "GPU types, lowest price per GPU-hour", _summary_caption(catalog, offerings)
    )
    table.add_column("GPU type", no_wrap=True)
    for heading in ("GiB", *terms):
        table.add_column(heading, justify="right", no_wrap=True)
    if has_room:
        table.add_column("Cheapest", overflow="fold")
    by_type = defaultdict[str, list[Offering]](list)
    for offering in offerings:
        by_type[catalog.instance_type(offering).gpu_type].append(offering)
    for gpu_type, found in sorted(by_type.items()):
        cells = _type_cells(catalog, gpu_type, found, terms)
        table.add_row(*map(Text, cells if has_room else cells[:-1]))
    return table


def _type_cells(
    catalog: Catalog, gpu_type: str, offerings: Sequence[Offering], terms: Sequence[str]
) -> tuple[str, ...]:
    known = GPU_TYPES.get(gpu_type)
    priced = sorted(
        (o for o in offerings if _has_price(catalog, o)), key=catalog.micro_usd_per_gpu_hour
    )
    lowest: dict[str, int] = {}
    for offering in priced:
        lowest.setdefault(offering.key.capacity_type, catalog.micro_usd_per_gpu_hour(offering))
    prices = (format_usd(lowest[term]) if term in lowest else _NOTHING for term in terms)
    cheapest = _NOTHING
    if priced:
        key = priced[0].key
        cheapest = f"{key.instance_type} {key.zone or key.region} {key.capacity_type}"
    return (gpu_type, str(known.memory_gib) if known else _NOTHING, *prices, cheapest)


def _has_price(catalog: Catalog, offering: Offering) -> bool:
    """Is it a whole GPU that is available now, at a price with a source?"""
    is_whole = catalog.instance_type(offering).gpu_share_milli == WHOLE_GPU_MILLI
    return is_whole and catalog.is_available(offering) and offering.price.source is not None


def _summary_caption(catalog: Catalog, offerings: Sequence[Offering]) -> str:
    days = sorted(o.price.seen_until.date() for o in offerings)
    seen = f"Prices last seen {days[0]} to {days[-1]}. " if days else ""
    lines = [f"{seen}Use --all to list all offerings, including their location and date."]
    return "\n".join((*lines, *_sources(catalog)))


def offerings_table(catalog: Catalog, offerings: Sequence[Offering]) -> Table:
    """A row for each offering; those that are unavailable now say so instead of a price."""
    table = simple_table("Offerings", _caption(catalog, offerings))
    table.add_column("GPU type", no_wrap=True)
    table.add_column("Offering", overflow="fold")
    for heading in ("GPUs", "$/GPU-hour"):
        table.add_column(heading, justify="right", no_wrap=True)
    table.add_column("$/hour", justify="right", overflow="fold")
    table.add_column("Seen", justify="right", no_wrap=True)
    for offering in offerings:
        table.add_row(*map(Text, _cells(catalog, offering)))
    return table


def _sources(catalog: Catalog) -> tuple[str, ...]:
    return tuple(f"{name}: {source}" for name, source in sorted(catalog.sources.items()))


def changes_table(changes: Sequence[OfferingChange]) -> Table:
    """A row for each offering that is other than before."""
    table = Table(title="Changes")
    table.add_column("Offering", overflow="fold")
    for heading in ("Before", "Now"):
        table.add_column(heading, justify="right")
    for row in change_rows(changes):
        table.add_row(*map(Text, row.values()))
    return table


def scores_table(scores: Sequence[PlacementScore]) -> Table:
    """A row for each zone and GPU type, the most promising first."""
    table = Table(title="Spot placement scores, 1 to 10")
    for heading in ("GPU type", "Region", "Zone"):
        table.add_column(heading)
    table.add_column("Score", justify="right")
    for score in sorted(scores, key=lambda s: (-s.score, s.gpu_type, s.zone)):
        table.add_row(score.gpu_type, score.region, score.zone, str(score.score))
    return table


def _caption(catalog: Catalog, offerings: Sequence[Offering]) -> str:
    lines = list(_sources(catalog))
    if not all(offering.price.is_age_known for offering in offerings):
        lines.append("≥ indicates the earliest possible date if the exact date is unknown.")
    shown = {catalog.instance_type(offering).key for offering in offerings}
    without = [key.name for key in catalog.types_without_spot() if key in shown]
    if without:
        lines.append(f"No spot price found in the catalog for {', '.join(without)}.")
    return "\n".join(lines)


def _cells(catalog: Catalog, offering: Offering) -> tuple[str, ...]:
    kind = catalog.instance_type(offering)
    is_available = catalog.is_available(offering)
    price = offering.price
    if price.source is None:
        per_gpu, per_hour = "unknown", f"{format_usd(price.micro_usd_per_hour)} from memory"
    elif is_available:
        per_gpu = format_usd(catalog.micro_usd_per_gpu_hour(offering))
        per_hour = format_usd(price.micro_usd_per_hour)
    else:
        per_gpu, per_hour = "none there", _NOTHING
    share = kind.gpu_share_milli
    place = offering.key.zone or offering.key.region
    return (
        kind.gpu_type,
        f"{kind.key.provider} {kind.key.name} {place} {offering.key.capacity_type}",
        str(kind.gpu_count) if share == WHOLE_GPU_MILLI else f"{share / WHOLE_GPU_MILLI:g}",
        per_gpu,
        per_hour,
        f"{'' if price.is_age_known else '≥ '}{price.seen_until.date().isoformat()}",
    )
