"""The options to run a job on one offering, with each number of nodes."""

import math
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime

from gpu_core.decisions.catalog.offerings import Catalog, Offering, TypeKey
from gpu_core.decisions.catalog.plausible import doubtful_spot
from gpu_core.decisions.model.cluster import SPOT
from gpu_core.decisions.model.units import SECONDS_PER_HOUR, format_usd
from gpu_core.decisions.offerings.constraints import Conditions, Constraints
from gpu_core.decisions.offerings.estimates import NoRun, Run
from gpu_core.decisions.offerings.interruption_overhead import Overhead, interruption_chance
from gpu_core.decisions.offerings.options import Cost, Option, Refusal, RefusalReason
from gpu_core.decisions.offerings.transfer_and_storage import storage_micro_usd, transfer_micro_usd
from gpu_core.decisions.requests.requirements.estimates.memory import checkpoint_bytes, weight_bytes
from gpu_core.decisions.requests.requirements.jobs.job import Job

_BYTES_PER_GIB = 1024**3

# Inference writes down how far it is, not the model.
_PROGRESS_MARK_S = 1.0

_CENTURY_S = 100 * 365 * 86_400


@dataclass(frozen=True, slots=True, kw_only=True)
class RankingInput:
    """All that offerings are judged by."""

    job: Job
    catalog: Catalog
    constraints: Constraints
    conditions: Conditions
    overhead: Overhead
    runs: Mapping[TypeKey, tuple[Run, ...] | NoRun]
    """The estimates of the job on each instance type: the same in all places."""
    siblings: Mapping[TypeKey, tuple[Offering, ...]]
    """All offerings of each instance type."""
    now: datetime


def evaluate(setting: RankingInput, offering: Offering) -> tuple[Option, ...] | Refusal:
    """The ways to run the job on this offering. `Refusal`: there is none."""
    if not setting.catalog.is_available(offering):
        return _not_there(offering)
    source = offering.price.source
    if source is None:
        return _from_memory(offering)
    usual = doubtful_spot(offering, setting.siblings[_type_of(offering)], setting.now)
    if usual is not None:
        return _doubtful(offering, usual)
    runs = setting.runs[setting.catalog.instance_type(offering).key]
    if isinstance(runs, NoRun):
        return Refusal(
            key=offering.key,
            reason=runs.reason,
            summary=runs.summary,
            times_too_large=runs.times_too_large,
        )
    results = [_option(setting, offering, run, source) for run in runs]
    options = tuple(result for result in results if isinstance(result, Option))
    return options or next(result for result in results if isinstance(result, Refusal))


def _option(setting: RankingInput, offering: Offering, run: Run, source: str) -> Option | Refusal:
    conditions, is_spot = setting.conditions, offering.key.capacity_type == SPOT
    kind, nodes, work = setting.catalog.instance_type(offering), run.nodes, run.work
    rate = conditions.storage_gb_per_s * 1e9 * nodes
    saved = checkpoint_bytes(setting.job)
    load_s = setting.job.model.parameters * weight_bytes(setting.job) / rate
    begin_s = conditions.startup_s + load_s
    life_s = conditions.spot_mean_life_s
    save_s = max(saved / rate, _PROGRESS_MARK_S)
    factor = setting.overhead(save_s, begin_s + saved / rate, life_s) if is_spot else 1.0
    if math.isinf(factor):
        return Refusal(
            key=offering.key,
            reason=RefusalReason.NEVER_ENDS,
            summary=f"the time to save ({save_s:,.0f}s) is too long for the lifetime of an "
            f"instance ({life_s:,.0f}s)",
        )
    if work.high_s * factor > _CENTURY_S:
        return Refusal(
            key=offering.key,
            reason=RefusalReason.NEVER_ENDS,
            summary="could take more than 100 years",
        )
    walls = [begin_s + s * factor for s in (work.low_s, work.likely_s, work.high_s)]
    computes = [_compute_micro_usd(offering, nodes, wall_s) for wall_s in walls]
    stored_gib = (setting.constraints.data_gib or 0) + (
        conditions.kept_checkpoints * saved / _BYTES_PER_GIB
    )
    return Option(
        key=offering.key,
        gpu_type=kind.gpu_type,
        nodes=nodes,
        gpus=kind.gpu_count * nodes,
        fit=run.fit,
        work=work,
        wall_low_s=walls[0],
        wall_s=walls[1],
        wall_high_s=walls[2],
        fallback_s=begin_s + work.high_s if is_spot else 0.0,
        overhead=factor,
        interruption_chance=interruption_chance(walls[1], life_s) if is_spot else 0.0,
        cost=Cost(
            compute_low=computes[0],
            compute=computes[1],
            compute_high=computes[2],
            storage=storage_micro_usd(setting.catalog, offering.key, stored_gib, walls[1]),
            transfer=transfer_micro_usd(setting.catalog, setting.constraints, offering.key),
        ),
        priced_at=offering.price.seen_until,
        is_price_age_known=offering.price.is_age_known,
        price_source=source,
    )


def _compute_micro_usd(offering: Offering, nodes: int, wall_s: float) -> int:
    return round(offering.price.micro_usd_per_hour * nodes * wall_s / SECONDS_PER_HOUR)


def _type_of(offering: Offering) -> TypeKey:
    return TypeKey(offering.key.provider, offering.key.instance_type)


def _from_memory(offering: Offering) -> Refusal:
    price = format_usd(offering.price.micro_usd_per_hour)
    return Refusal(
        key=offering.key,
        reason=RefusalReason.UNKNOWN_PRICE,
        summary=f"the price ({price} per hour) does not have a source. Refresh the catalog or "
        "provide your own price with --prices",
    )


def _doubtful(offering: Offering, usual_micro_usd: int) -> Refusal:
    price, seen = offering.price.micro_usd_per_hour, offering.price.seen_until.date().isoformat()
    if not offering.price.is_age_known:
        seen += " or later"
    return Refusal(
        key=offering.key,
        reason=RefusalReason.DOUBTFUL_PRICE,
        summary=f"the price on {seen} was {format_usd(price)} per hour, compared to "
        f"{format_usd(usual_micro_usd)} in other zones. To use this offering, refresh the catalog",
    )


def _not_there(offering: Offering) -> Refusal:
    if offering.is_offered:
        return Refusal(
            key=offering.key,
            reason=RefusalReason.NO_SPOT_CAPACITY,
            summary=(
                "spot is not available here, because the spot price is equal to the on-demand price"
            ),
        )
    seen = offering.price.seen_until.date().isoformat()
    return Refusal(
        key=offering.key, reason=RefusalReason.NOT_OFFERED, summary=f"was last offered on {seen}"
    )
