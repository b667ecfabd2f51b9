"""The catalog, its changes and placement scores as tables for people."""

from collections.abc import Sequence

from rich.table import Table
from rich.text import Text

from gpu_core.adapters.aws_catalog import PlacementScore
from gpu_core.decisions.catalog.offerings import Catalog, Offering
from gpu_core.decisions.catalog.refresh import Change, change_rows
from gpu_core.decisions.units import format_usd
from gpu_core.decisions.workload import WHOLE_GPU_MILLI

_NOTHING = "–"


def catalog_table(catalog: Catalog, offerings: Sequence[Offering]) -> Table:
    """A row for each offering; those that cannot be had now say so instead of a price."""
    sources = "; ".join(f"{name}: {source}" for name, source in sorted(catalog.sources.items()))
    table = Table(title="Catalog", title_justify="left", caption=Text(sources))
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


def _cells(catalog: Catalog, offering: Offering) -> tuple[str, ...]:
    kind = catalog.instance_type(offering)
    is_available = catalog.is_available(offering)
    share = kind.gpu_share_milli
    return (
        kind.gpu_type,
        f"{kind.key.provider} {kind.key.name}",
        offering.key.zone or offering.key.region,
        offering.key.capacity_type,
        str(kind.gpu_count) if share == WHOLE_GPU_MILLI else f"{share / WHOLE_GPU_MILLI:g}",
        format_usd(catalog.micro_usd_per_gpu_hour(offering)) if is_available else "none there",
        format_usd(offering.price.micro_usd_per_hour) if is_available else _NOTHING,
        offering.price.seen_until.date().isoformat(),
    )
