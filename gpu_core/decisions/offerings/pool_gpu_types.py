"""The GPU types of a pool for a run that says in words what it does, the best first.

The ranking is that of `choose`, over what the pool itself has at the policy's prices.
"""

from collections.abc import Collection
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from functools import lru_cache
from types import MappingProxyType
from typing import NamedTuple

from gpu_core.decisions.catalog.offerings import (
    Catalog,
    InstanceType,
    Offering,
    OfferingKey,
    Price,
    TypeKey,
)
from gpu_core.decisions.model.cluster import Flavor
from gpu_core.decisions.model.errors import InvalidInput, ended
from gpu_core.decisions.model.reasons import Reason
from gpu_core.decisions.model.units import format_duration, format_usd
from gpu_core.decisions.model.workload import Hold, Workload
from gpu_core.decisions.offerings.constraints import Conditions, Constraints
from gpu_core.decisions.offerings.estimates import NoRun, runs_on
from gpu_core.decisions.offerings.options import Option
from gpu_core.decisions.offerings.rank import OfferingChoice, choose
from gpu_core.decisions.policy.policy import Policy
from gpu_core.decisions.requests.requirements.jobs.job import Job
from gpu_core.decisions.requests.requirements.reading.job_request import JobRequest, job_of
from gpu_core.decisions.requests.requirements.reading.text_line import NoEstimate

_POOL = "pool"

# The nodes of a pool are there, or their start-up is the same for all.
_CONDITIONS = Conditions(startup_s=0.0)


# Only the time that is left counts: runs of a sweep are ranked once.
_START = datetime(2000, 1, 1, tzinfo=UTC)


class PoolOffer(NamedTuple):
    """One kind of GPU of the pool."""

    gpu_type: str
    capacity_type: str
    micro_usd_per_gpu_hour: int | None
    """None: it has no price."""


class Ranking(NamedTuple):
    """The GPU types that a run may use."""

    gpu_types: tuple[str, ...]
    """Best first; empty: none holds it."""
    reason: str


def with_gpu_types(
    workload: Workload,
    work: str | None,
    flavors: Collection[Flavor],
    policy: Policy,
    *,
    named: Collection[str] = (),
) -> Workload:
    """The workload with the GPU types that can hold its work, best first.

    Only for whole GPUs on one node whose owner named no type. Work that none of them holds is held
    as `ExceedsCluster`.

    Args:
        workload: As its request made it; the GPU types that it has are all that it is permitted.
        work: What it does, in words; None: not stated.
        named: The GPU types that its owner named; empty: the owner left them open.
    """
    shape = workload.shape
    is_open = not named and shape.is_whole
    if work is None or not is_open or not shape.gpu_count or shape.nodes > 1 or not flavors:
        return workload
    offers = tuple(
        PoolOffer(*flavor, policy.price_micro_usd_per_gpu_hour(*flavor))
        for flavor in sorted(flavors)
        if shape.capacity_type in (None, flavor.capacity_type)
        and (not shape.gpu_types or flavor.gpu_type in shape.gpu_types)
    )
    due = workload.deadline_at
    left = None if due is None else max(due - workload.submitted_at, timedelta(seconds=1))
    try:
        ranking = rank_gpu_types(work, shape.gpu_count, offers, left, workload.budget_micro_usd)
    except NoEstimate as error:
        which = "as permitted" if shape.gpu_types else "any"
        reason = f"{which} because its work cannot be estimated: {error}"
        return replace(workload, gpu_type_reason=reason)
    if ranking is None:
        return workload
    if ranking.gpu_types:
        reason = f"{ranking.reason}; {policy.prices_day}"
        ranked = shape._replace(gpu_types=ranking.gpu_types)
        return replace(workload, shape=ranked, gpu_type_reason=reason)
    which = "that it is permitted" if shape.gpu_types else "of this pool"
    hold = Hold(
        reason=Reason.EXCEEDS_CLUSTER,
        summary=ended(f"No GPU {which} is suitable for its work: {ranking.reason}"),
        resolution="You can request more GPUs, reduce the work or set `gpu_type` explicitly.",
    )
    return replace(workload, hold=workload.hold or hold)


@lru_cache(maxsize=10_000)
def rank_gpu_types(
    work: str,
    gpu_count: int,
    offers: tuple[PoolOffer, ...],
    left: timedelta | None,
    budget_micro_usd: int | None,
) -> Ranking | None:
    """The GPU types that hold this work, the best first.

    By the expected cost of all of it, of those that meet deadline and budget, if any does; types
    without a price last, by name.

    Args:
        left: From its submission to its deadline; None: it has none.
        budget_micro_usd: None: any.

    Returns:
        None: the work needs no GPU, or nothing is offered.

    Raises:
        NoEstimate: Nothing is known of the work.
        InvalidInput: The words cannot be understood.
    """
    job = job_of(work, JobRequest()).job
    if job is None or not offers:
        return None
    priced = [offer for offer in offers if offer.micro_usd_per_gpu_hour is not None]
    # What the text says of GPUs, time and money is not asked: the run has variables for them.
    constraints = Constraints(
        deadline_at=None if left is None else _START + left, budget_micro_usd=budget_micro_usd
    )
    options = _options(job, gpu_count, priced, constraints)
    types = list(dict.fromkeys(option.gpu_type for option in options))
    rest = {offer.gpu_type for offer in offers} - {offer.gpu_type for offer in priced}
    runs = {
        t: runs_on(job, _instance_type(t, gpu_count), constraints, None) for t in _types(offers)
    }
    unpriced = [t for t in sorted(rest) if not isinstance(runs[t], NoRun)]
    if types or unpriced:
        return Ranking((*types, *unpriced), _reason_text(options, types, unpriced))
    refused = [f"{t} {run.summary}" for t, run in runs.items() if isinstance(run, NoRun)]
    return Ranking((), "; ".join(refused))


def _types(offers: Collection[PoolOffer]) -> list[str]:
    return sorted({offer.gpu_type for offer in offers})


def _options(
    job: Job, gpu_count: int, priced: list[PoolOffer], constraints: Constraints
) -> list[Option]:
    """The options that can run it, best first; if none meets the request, all that can run it."""
    for wanted in (constraints, Constraints()):
        choice = _choice(job, gpu_count, priced, wanted)
        if choice is not None and choice.candidates:
            return [candidate.option for candidate in choice.candidates]
    return []


def _choice(
    job: Job, gpu_count: int, priced: list[PoolOffer], constraints: Constraints
) -> OfferingChoice | None:
    catalog = _catalog(gpu_count, priced)
    try:
        return choose(
            job,
            catalog,
            tuple(catalog.offerings.values()),
            constraints,
            _START,
            conditions=_CONDITIONS,
        )
    except InvalidInput:
        return None  # no type has the memory


def _catalog(gpu_count: int, priced: list[PoolOffer]) -> Catalog:
    kinds = [_instance_type(gpu_type, gpu_count) for gpu_type in _types(priced)]
    offerings = [
        Offering(
            key=OfferingKey(_POOL, offer.gpu_type, _POOL, None, offer.capacity_type),
            prices=(
                Price(
                    micro_usd_per_hour=(offer.micro_usd_per_gpu_hour or 0) * gpu_count,
                    seen_from=_START,
                    seen_until=_START,
                    source=_POOL,
                ),
            ),
        )
        for offer in priced
    ]
    return Catalog(
        instance_types=MappingProxyType({kind.key: kind for kind in kinds}),
        offerings=MappingProxyType({offering.key: offering for offering in offerings}),
    )


def _instance_type(gpu_type: str, gpu_count: int) -> InstanceType:
    return InstanceType(key=TypeKey(_POOL, gpu_type), gpu_type=gpu_type, gpu_count=gpu_count)


def _reason_text(options: list[Option], types: list[str], unpriced: list[str]) -> str:
    best = {option.gpu_type: option for option in reversed(options)}
    ranked = [f"{gpu_type} ({_cost(best[gpu_type])})" for gpu_type in types]
    return ", ".join([*ranked, *(f"{gpu_type} (unpriced)" for gpu_type in unpriced)])


def _cost(option: Option) -> str:
    cost, wall = format_usd(option.cost.total), format_duration(option.wall_s)
    return f"{cost} on {option.key.capacity_type}, {wall}"
