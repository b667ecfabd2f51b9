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
            help="Path to a catalog file. If the file does not exist, the built-in catalog will "
            "be used."
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
    with_all: Annotated[bool, flag("If set, list all offerings.", name="--all")] = False,
    as_json: AsJson = False,
) -> int:
    """List the lowest price for each GPU type."""
    from gpu_core.cli.catalog.command import show as run_show

    return run_show(
        options.catalog, options.prices, options.selection, with_all=with_all, as_json=as_json
    )


def refresh(
    *,
    catalog: Annotated[
        Path, Parameter(help="The path where the catalog should be saved.")
    ] = DEFAULT_CATALOG,
    region: Annotated[
        tuple[str, ...],
        repeated("The AWS region to retrieve offerings from. Defaults to us-east-1"),
    ] = ("us-east-1",),
    accept_large_changes: Annotated[
        bool,
        flag(
            "If set, accept prices that differ from the previous price by a factor of 10 or "
            "more. Please verify these prices first."
        ),
    ] = False,
    placement_scores: Annotated[
        bool,
        flag(
            "If set, also retrieve spot placement scores. The number of requests per day is "
            "limited by AWS."
        ),
    ] = False,
    timeout: Annotated[str, Parameter(help="The timeout for each request to the AWS API.")] = "20s",
    as_json: AsJson = False,
) -> int:
    """Update the GPU catalog with current AWS offerings and prices.

    Retrieves instance types, on-demand prices and spot prices from the AWS API. If some of them
    cannot be retrieved, a warning is displayed and the previous values are retained. If an
    implausible price is found, the catalog is not updated.
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
