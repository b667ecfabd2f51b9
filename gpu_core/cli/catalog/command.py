"""`prefect-gpu catalog`: offerings with their prices, and their refresh from the provider."""

import json
from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from gpu_core.adapters.aws.catalog import PROVIDER, Look, look_at_aws
from gpu_core.adapters.files.catalog_file import load_catalog, save_catalog
from gpu_core.cli.catalog.table import changes_table, offerings_table, scores_table, types_table
from gpu_core.cli.shared.tables import print_table
from gpu_core.cli.shared.terminal import print_notice, terminal_width
from gpu_core.decisions.catalog.gpu_types import GPU_TYPES, GpuType
from gpu_core.decisions.catalog.offerings import Catalog, Offering
from gpu_core.decisions.catalog.refresh import Refreshed, refreshed
from gpu_core.decisions.catalog.selection import Selection, selected
from gpu_core.decisions.model.units import MICRO_USD_PER_USD

_WITH_PLACE_COLUMNS = 70


def show(
    path: Path,
    own_sheets: Sequence[Path],
    selection: Selection,
    *,
    with_all: bool,
    as_json: bool,
) -> int:
    """Print a row for each GPU type, or each offering.

    Raises:
        InvalidInput: A file cannot be used, or the catalog has nothing of a name.
    """
    catalog = load_catalog(path, own_sheets)
    offerings = selected(catalog, selection)
    if as_json:
        print(json.dumps(_document(catalog, offerings), indent=2))
        return 0
    if with_all:
        print_table(offerings_table(catalog, offerings))
    else:
        columns = terminal_width()
        has_room = columns is None or columns >= _WITH_PLACE_COLUMNS
        print_table(types_table(catalog, offerings, has_room=has_room))
    return 0


def refresh(
    path: Path,
    regions: Sequence[str],
    *,
    accepts_large_changes: bool,
    with_placement_scores: bool,
    timeout_s: int,
    as_json: bool,
) -> int:
    """Look at what AWS offers now, and keep it. 1: nothing could be read.

    Raises:
        InvalidInput: A price is implausible or needs a confirmation; the file is unchanged.
    """
    catalog = load_catalog(path)
    now = datetime.now(UTC)
    look = look_at_aws(
        regions,
        now,
        catalog.instance_types,
        with_placement_scores=with_placement_scores,
        timeout_s=timeout_s,
    )
    after = refreshed(catalog, look.observation, now, accepts_large_changes=accepts_large_changes)
    found_anything = bool(look.observation.micro_usd_per_hour)
    if found_anything:
        save_catalog(path, after.catalog, PROVIDER, now)
    _report(path, after, look, as_json=as_json)
    return 0 if found_anything else 1


def _report(path: Path, after: Refreshed, look: Look, *, as_json: bool) -> None:
    for failure in look.failures:
        print_notice(f"prefect-gpu catalog refresh: {failure}")
    prices = len(look.observation.micro_usd_per_hour)
    if as_json:
        print(json.dumps(_refresh_document(path, after, look), indent=2))
        return
    if after.changes:
        print_table(changes_table(after.changes))
    if look.placement_scores:
        print_table(scores_table(look.placement_scores))
    text = f"{prices} prices found, {len(after.changes)} offerings changed"
    print(f"{text}; saved to {path}." if prices else "The catalog was not updated.")


def _refresh_document(path: Path, after: Refreshed, look: Look) -> dict[str, Any]:
    return {
        "path": str(path),
        "prices_found": len(look.observation.micro_usd_per_hour),
        "changes": [
            {
                **change.key._asdict(),
                "before_usd_per_hour": _usd(change.before_micro_usd_per_hour),
                "after_usd_per_hour": _usd(change.after_micro_usd_per_hour),
            }
            for change in after.changes
        ],
        "placement_scores": [
            {"region": s.region, "zone": s.zone, "gpu_type": s.gpu_type, "score": s.score}
            for s in look.placement_scores
        ],
        "failures": [
            {"part": f.part, "problem": f.problem, "tried": f.tried, "remedy": f.remedy}
            for f in look.failures
        ],
    }


def _document(catalog: Catalog, offerings: Sequence[Offering]) -> dict[str, Any]:
    shown = {catalog.instance_type(offering).gpu_type for offering in offerings}
    return {
        "sources": dict(catalog.sources),
        "gpu_types": [_gpu_row(GPU_TYPES[name]) for name in sorted(shown & set(GPU_TYPES))],
        "instance_types_without_spot_price": [key.name for key in catalog.types_without_spot()],
        "offerings": [_offering_row(catalog, offering) for offering in offerings],
    }


def _gpu_row(gpu: GpuType) -> dict[str, Any]:
    return {
        "gpu_type": gpu.name,
        "memory_gib": gpu.memory_gib,
        "dense_tflops": {str(precision): tflops for precision, tflops in gpu.dense_tflops.items()},
        "bandwidth_gb_per_s": gpu.bandwidth_gb_per_s,
        "power_w": gpu.power_w,
        "nvlink_gb_per_s": gpu.nvlink_gb_per_s,
        "mig_profiles": list(gpu.mig_profiles),
        "source": gpu.source,
        "read_on": gpu.read_on.isoformat(),
    }


def _offering_row(catalog: Catalog, offering: Offering) -> dict[str, Any]:
    kind, is_known = catalog.instance_type(offering), offering.price.source is not None
    return {
        **offering.key._asdict(),
        "gpu_type": kind.gpu_type,
        "gpu_count": kind.gpu_count,
        "gpu_share_milli": kind.gpu_share_milli,
        "gpu_memory_mib": kind.gpu_memory_mib,
        "price_usd_per_hour": _usd(offering.price.micro_usd_per_hour) if is_known else None,
        "price_usd_per_gpu_hour": _usd(catalog.micro_usd_per_gpu_hour(offering))
        if is_known
        else None,
        "source": offering.price.source,
        "is_date_exact": offering.price.is_date_exact,
        "seen_from": offering.price.seen_from.isoformat(),
        "seen_until": offering.price.seen_until.isoformat(),
        "is_available": catalog.is_available(offering),
    }


def _usd(micro: int | None) -> float | None:
    return None if micro is None else micro / MICRO_USD_PER_USD
