"""The catalog, its changes and placement scores as tables for people."""

from collections.abc import Sequence

from rich.table import Table
from rich.text import Text

from gpu_core.adapters.aws.catalog import PlacementScore
from gpu_core.decisions.catalog.offerings import Catalog, Offering
from gpu_core.decisions.catalog.refresh import Change, change_rows
from gpu_core.decisions.model.units import format_usd
from gpu_core.decisions.model.workload import WHOLE_GPU_MILLI

_NOTHING = "–"


def catalog_table(catalog: Catalog, offerings: Sequence[Offering]) -> Table:
    """A row for each offering; those that cannot be had now say so instead of a price."""
    table = Table(title="Catalog", title_justify="left", caption=Text(_caption(catalog, offerings)))
    table.caption_justify = "left"
    for heading in ("GPU type", "Instance type", "Where", "Capacity"):
        table.add_column(heading, overflow="fold")
    for heading in ("GPUs", "$/GPU-hour", "$/hour", "Seen"):
        table.add_column(heading, justify="right")
    for offering in offerings:
        table.add_row(*map(Text, _cells(catalog, offering)))
    return table


def changes_table(changes: Sequence[Change]) -> Table:
    """A row for each offering that is other than before."""
    table = Table(title="Changes", title_justify="left")
    table.add_column("Offering", overflow="fold")
    for heading in ("Before", "Now"):
        table.add_column(heading, justify="right")
    for row in change_rows(changes):
        table.add_row(*map(Text, row.values()))
    return table


def scores_table(scores: Sequence[PlacementScore]) -> Table:
    """A row for each zone and GPU type, the most promising first."""
    table = Table(title="Spot placement scores, 1 to 10", title_justify="left")
    for heading in ("GPU type", "Region", "Zone"):
        table.add_column(heading)
    table.add_column("Score", justify="right")
    for score in sorted(scores, key=lambda s: (-s.score, s.gpu_type, s.zone)):
        table.add_row(score.gpu_type, score.region, score.zone, str(score.score))
    return table


def _caption(catalog: Catalog, offerings: Sequence[Offering]) -> str:
    lines = [f"{name}: {source}" for name, source in sorted(catalog.sources.items())]
    if not all(offering.price.is_age_known for offering in offerings):
        lines.append("≥: the day is unknown, and that is the earliest that it can be.")
    shown = {catalog.instance_type(offering).key for offering in offerings}
    without = [key.name for key in catalog.types_without_spot() if key in shown]
    if without:
        lines.append(f"No spot price is known of {', '.join(without)}.")
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
    return (
        kind.gpu_type,
        f"{kind.key.provider} {kind.key.name}",
        offering.key.zone or offering.key.region,
        offering.key.capacity_type,
        str(kind.gpu_count) if share == WHOLE_GPU_MILLI else f"{share / WHOLE_GPU_MILLI:g}",
        per_gpu,
        per_hour,
        f"{'' if price.is_age_known else '≥ '}{price.seen_until.date().isoformat()}",
    )
