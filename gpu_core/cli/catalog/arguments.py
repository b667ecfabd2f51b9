"""The options of `prefect-gpu catalog`."""

import argparse
from pathlib import Path
from typing import TYPE_CHECKING

from gpu_core.decisions.catalog import DEFAULT_CATALOG

if TYPE_CHECKING:
    from gpu_core.decisions.catalog.selection import Selection


def add_catalog(commands: "argparse._SubParsersAction[argparse.ArgumentParser]") -> None:
    """Add the command with its parts."""
    catalog = commands.add_parser(
        "catalog",
        help="what GPUs can be had, where and at which price",
        description="Show the catalog of offerings, or look at what AWS offers now.",
    )
    parts = catalog.add_subparsers(dest="part", required=True, metavar="PART")
    _add_show(parts)
    _add_refresh(parts)


def add_catalog_options(command: argparse.ArgumentParser) -> None:
    """Which catalog a command reads, and which part of it counts."""
    command.add_argument(
        "--catalog",
        type=Path,
        default=DEFAULT_CATALOG,
        help="the refreshed catalog; where there is none, the one of the package counts",
    )
    command.add_argument(
        "--prices",
        type=Path,
        action="append",
        default=[],
        help="a sheet of your own prices, YAML or JSON; may be repeated",
    )
    command.add_argument("--gpu-type", action="append", default=[], help="only this; repeatable")
    command.add_argument("--region", action="append", default=[], help="only here; repeatable")
    command.add_argument(
        "--capacity-type",
        action="append",
        default=[],
        help="only on-demand, spot or reserved; repeatable",
    )
    command.add_argument("--provider", action="append", default=[], help="only this; repeatable")
    command.add_argument("--json", action="store_true", help="print JSON")


def selection_of(options: argparse.Namespace) -> "Selection":
    """Which part of the catalog counts, by the options above."""
    from gpu_core.decisions.catalog.selection import Selection

    return Selection(
        gpu_types=tuple(options.gpu_type),
        regions=tuple(options.region),
        capacity_types=tuple(options.capacity_type),
        providers=tuple(options.provider),
    )


def _add_show(parts: "argparse._SubParsersAction[argparse.ArgumentParser]") -> None:
    command = parts.add_parser("show", help="what can be had, by GPU type and price")
    add_catalog_options(command)
    command.set_defaults(run=_show)


def _add_refresh(parts: "argparse._SubParsersAction[argparse.ArgumentParser]") -> None:
    command = parts.add_parser(
        "refresh",
        help="look at what AWS offers now, and keep it",
        description=(
            "Read instance types, on-demand and spot prices from AWS. What cannot be read is "
            "told, and the rest is kept. Nothing is kept if a price is nonsense."
        ),
    )
    command.add_argument(
        "--catalog",
        type=Path,
        default=DEFAULT_CATALOG,
        help=f"where it is kept (default: {DEFAULT_CATALOG})",
    )
    command.add_argument(
        "--region", action="append", help="look here; repeatable (default: us-east-1)"
    )
    command.add_argument(
        "--accept-large-changes",
        action="store_true",
        help="take over prices that moved tenfold: you have looked them up",
    )
    command.add_argument(
        "--placement-scores",
        action="store_true",
        help="ask how likely spot requests succeed; AWS limits this per day",
    )
    command.add_argument("--timeout", default="20s", help="of one call to AWS (default: 20s)")
    command.add_argument("--json", action="store_true", help="print JSON")
    command.set_defaults(run=_refresh)


def _show(options: argparse.Namespace) -> int:
    from gpu_core.cli.catalog.command import show

    return show(
        options.catalog,
        options.prices,
        selection_of(options),
        as_json=options.json,
    )


def _refresh(options: argparse.Namespace) -> int:
    from gpu_core.cli.catalog.command import refresh
    from gpu_core.decisions.model.errors import InvalidInput
    from gpu_core.decisions.model.units import parse_duration_s

    timeout_s = parse_duration_s(options.timeout, "timeout")
    if timeout_s < 1:
        raise InvalidInput("timeout", "is too small", got=options.timeout, allowed="1s or more")
    return refresh(
        options.catalog,
        options.region or ["us-east-1"],
        accepts_large_changes=options.accept_large_changes,
        with_placement_scores=options.placement_scores,
        timeout_s=timeout_s,
        as_json=options.json,
    )
