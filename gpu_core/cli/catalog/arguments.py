"""The options of `prefect-gpu catalog`."""

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from cyclopts import Group, Parameter

from gpu_core.cli.shared.options import AsJson, flag, repeated
from gpu_core.decisions.catalog import DEFAULT_CATALOG

if TYPE_CHECKING:
    from gpu_core.decisions.catalog.selection import Selection

_CATALOG = Group("Catalog", sort_key=4)


@Parameter(name="*", group=_CATALOG)
@dataclass(frozen=True, kw_only=True)
class CatalogOptions:
    """Options for the catalog that a command reads, and for the part of it that counts."""

    catalog: Annotated[
        Path,
        Parameter(
            help="Path to the refreshed catalog. If not provided, the catalog of the package "
            "will be used."
        ),
    ] = DEFAULT_CATALOG
    prices: Annotated[
        tuple[Path, ...], repeated("Path to a YAML or JSON file with custom prices")
    ] = ()
    gpu_type: Annotated[tuple[str, ...], repeated("Filter by GPU type")] = ()
    region: Annotated[tuple[str, ...], repeated("Filter by region")] = ()
    capacity_type: Annotated[
        tuple[str, ...], repeated("Filter by capacity type: on-demand, spot or reserved")
    ] = ()
    provider: Annotated[tuple[str, ...], repeated("Filter by provider")] = ()

    @property
    def selection(self) -> "Selection":
        """The part of the catalog that the options select."""
        from gpu_core.decisions.catalog.selection import Selection

        return Selection(
            gpu_types=self.gpu_type,
            regions=self.region,
            capacity_types=self.capacity_type,
            providers=self.provider,
        )


DEFAULT_OPTIONS = CatalogOptions()


def show(
    *,
    options: CatalogOptions = DEFAULT_OPTIONS,
    with_all: Annotated[bool, flag("Whether to list all offerings.", name="--all")] = False,
    as_json: AsJson = False,
) -> int:
    """Show the lowest price of each GPU type, or every offering with --all."""
    from gpu_core.cli.catalog.command import show as run_show

    return run_show(
        options.catalog, options.prices, options.selection, with_all=with_all, as_json=as_json
    )


def refresh(
    *,
    catalog: Annotated[Path, Parameter(help="Path to write the catalog to.")] = DEFAULT_CATALOG,
    region: Annotated[
        tuple[str, ...], repeated("The AWS region to read. Defaults to us-east-1")
    ] = ("us-east-1",),
    accept_large_changes: Annotated[
        bool,
        flag("Whether to accept prices that changed by a factor of ten. Verify the prices first."),
    ] = False,
    placement_scores: Annotated[
        bool,
        flag("Whether to fetch spot placement scores. AWS limits the number of requests per day."),
    ] = False,
    timeout: Annotated[str, Parameter(help="Timeout for each AWS API call.")] = "20s",
    as_json: AsJson = False,
) -> int:
    """Read what AWS offers now, and keep it.

    Reads instance types, on-demand and spot prices. Reports what cannot be read and keeps the
    rest. Changes nothing if a price is implausible.
    """
    from gpu_core.cli.catalog.command import refresh as run_refresh
    from gpu_core.decisions.model.errors import InvalidInput
    from gpu_core.decisions.model.units import parse_duration_s

    timeout_s = parse_duration_s(timeout, "timeout")
    if timeout_s < 1:
        raise InvalidInput("timeout", "is too small", got=timeout, allowed="1s or more")
    return run_refresh(
        catalog,
        list(region),
        accepts_large_changes=accept_large_changes,
        with_placement_scores=placement_scores,
        timeout_s=timeout_s,
        as_json=as_json,
    )
