"""The offerings that can run a job, best first, and why the others cannot."""

from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime

from gpu_core.decisions.catalog.offerings import Catalog, Offering, TypeKey
from gpu_core.decisions.model.errors import InvalidInput
from gpu_core.decisions.model.units import count, format_duration, format_usd
from gpu_core.decisions.offerings.constraints import (
    Conditions,
    Constraints,
    Goal,
    check_conditions,
    check_constraints,
)
from gpu_core.decisions.offerings.estimates import runs_on
from gpu_core.decisions.offerings.evaluate import RankingInput, evaluate
from gpu_core.decisions.offerings.interruption_overhead import Overhead, daly_overhead
from gpu_core.decisions.offerings.options import Certainty, Option, Refusal, RefusalReason
from gpu_core.decisions.requests.requirements.estimates.duration import ObservedThroughput
from gpu_core.decisions.requests.requirements.jobs.job import Job, check_job

_CERTAINTIES = tuple(Certainty)


@dataclass(frozen=True, slots=True, kw_only=True)
class RankedOffering:
    """An offering that can run the job as asked for."""

    option: Option
    certainty: Certainty


@dataclass(frozen=True, slots=True, kw_only=True)
class OfferingChoice:
    """The offerings to choose from, and those that are refused."""

    candidates: tuple[RankedOffering, ...]
    """Best first: the safe ones before the likely ones, then by the goal."""
    refused: tuple[Refusal, ...]
    """By reason."""
    cheapest_in_time: Option | None
    """The cheapest that meets the deadline, at any budget."""
    cheapest: Option | None
    """The cheapest, at any deadline."""
    fastest: Option | None
    """The fastest, at any budget."""
    types_without_spot: tuple[TypeKey, ...]
    """Instance types that could run it, of which no spot price is known anywhere."""

    @property
    def is_feasible(self) -> bool:
        """Can it be done as asked for?"""
        return bool(self.candidates)


def choose(
    job: Job,
    catalog: Catalog,
    offerings: Sequence[Offering],
    constraints: Constraints,
    now: datetime,
    *,
    conditions: Conditions | None = None,
    overhead: Overhead = daly_overhead,
    observed: ObservedThroughput | None = None,
) -> OfferingChoice:
    """The offerings that can run the job as asked for, and the best of them.

    Args:
        offerings: Those of the catalog that are asked about.
        conditions: What is thought of starts, saves and interruptions; None: the usual.
        overhead: How much longer it takes with checkpoints and interruptions.

    Raises:
        InvalidInput: The job or a constraint is contradictory, or no offering has enough memory.
        InvalidInputs: Several of these.
    """
    check_job(job)
    check_constraints(constraints, now)
    setting = RankingInput(
        job=job,
        catalog=catalog,
        constraints=constraints,
        conditions=check_conditions(conditions or Conditions()),
        overhead=overhead,
        runs={
            key: runs_on(job, catalog.instance_types[key], constraints, observed)
            for key in {catalog.instance_type(offering).key for offering in offerings}
        },
        siblings=_by_type(catalog),
        now=now,
    )
    results = [evaluate(setting, offering) for offering in offerings]
    refused = [result for result in results if isinstance(result, Refusal)]
    ways = [result for result in results if not isinstance(result, Refusal)]
    if not ways:
        _refuse_what_fits_nowhere(job, constraints, refused)
    judged = [_best_way(options, constraints, now) for options in ways]
    candidates = [result for result in judged if isinstance(result, RankedOffering)]
    refused += [result for result in judged if isinstance(result, Refusal)]
    options = [option for way in ways for option in way]
    return OfferingChoice(
        candidates=tuple(sorted(candidates, key=lambda c: _place(c, constraints.goal))),
        refused=tuple(sorted(refused, key=lambda r: (r.reason, str(r.key)))),
        cheapest_in_time=_best(_in_time(options, constraints, now), Goal.COST),
        cheapest=_best(options, Goal.COST),
        fastest=_best(options, Goal.TIME),
        types_without_spot=_types_without_spot(catalog, candidates),
    )


def _types_without_spot(
    catalog: Catalog, candidates: Iterable[RankedOffering]
) -> tuple[TypeKey, ...]:
    fitting = {TypeKey(c.option.key.provider, c.option.key.instance_type) for c in candidates}
    return tuple(key for key in catalog.types_without_spot() if key in fitting)


def _by_type(catalog: Catalog) -> dict[TypeKey, tuple[Offering, ...]]:
    siblings: dict[TypeKey, list[Offering]] = defaultdict(list)
    for key, offering in catalog.offerings.items():
        siblings[TypeKey(key.provider, key.instance_type)].append(offering)
    return {key: tuple(offerings) for key, offerings in siblings.items()}


def verdict(choice: OfferingChoice, constraints: Constraints, now: datetime) -> str:
    """Can it be done, and what is nearest to it if not? One or two sentences."""
    if choice.candidates:
        best = choice.candidates[0]
        sure = (
            "" if best.certainty is Certainty.SAFE else ", but the upper estimate exceeds a limit"
        )
        return f"Take {_described(best.option, now)}{sure} ({price_age(best.option, now)})."
    if choice.fastest is None or choice.cheapest is None:
        return "No suitable offering found. See the reasons for more information."
    by = "" if constraints.deadline_at is None else f" by {shown_moment(constraints.deadline_at)}"
    if choice.cheapest_in_time is None:
        fastest = _described(choice.fastest, now)
        return f"No offering can complete the work{by}. The fastest offering is {fastest}."
    in_time = " that meets the deadline" if by else ""
    within = f"within the budget of {format_usd(constraints.budget_micro_usd)}"
    cheapest = _described(choice.cheapest_in_time, now)
    none = f"No offering can complete the work{by} {within}."
    nearest = f"The cheapest offering{in_time} is {cheapest}."
    if choice.cheapest.key == choice.cheapest_in_time.key:
        return f"{none} {nearest}"
    return f"{none} {nearest} The cheapest offering overall is {_described(choice.cheapest, now)}."


def _best_way(
    options: Sequence[Option], constraints: Constraints, now: datetime
) -> RankedOffering | Refusal:
    """The best number of nodes; where none is feasible, why the closest one is not."""
    candidates = [
        RankedOffering(option=option, certainty=option.certainty(constraints, now))
        for option in options
    ]
    possible = [c for c in candidates if c.certainty is not Certainty.NO]
    if possible:
        return min(possible, key=lambda candidate: _place(candidate, constraints.goal))
    violations = [
        violation
        for option in sorted(options, key=lambda option: option.rank(Goal.TIME))
        if (violation := option.violation(constraints, now)) is not None
    ]
    # In time but too dear is nearer than too late.
    return next((v for v in violations if v.reason is RefusalReason.OVER_BUDGET), violations[0])


def _place(candidate: RankedOffering, goal: Goal) -> tuple[int, tuple[float, float, str, int]]:
    return (_CERTAINTIES.index(candidate.certainty), candidate.option.rank(goal))


def _in_time(options: Iterable[Option], constraints: Constraints, now: datetime) -> list[Option]:
    deadline = constraints.deadline_at
    return [o for o in options if deadline is None or o.ends_at(now) <= deadline]


def _best(options: Sequence[Option], goal: Goal) -> Option | None:
    return min(options, key=lambda option: option.rank(goal), default=None)


# Offerings with one of these might hold the job, if something else were asked for.
_OTHER_THAN_MEMORY = frozenset(
    (
        RefusalReason.UNKNOWN_NETWORK,
        RefusalReason.NEVER_ENDS,
        RefusalReason.OTHER_GPU_TYPE,
        RefusalReason.OTHER_GPU_COUNT,
    )
)


def _refuse_what_fits_nowhere(
    job: Job, constraints: Constraints, refused: Sequence[Refusal]
) -> None:
    """Nothing could run it: where that is for want of memory, it is the model that is wrong."""
    too_large = [refusal for refusal in refused if refusal.times_too_large is not None]
    others = {refusal.reason for refusal in refused if refusal.times_too_large is None}
    if not too_large or others & _OTHER_THAN_MEMORY:
        return
    nearest = min(too_large, key=lambda refusal: refusal.times_too_large or 0)
    nodes = "" if constraints.max_nodes == 1 else f", on up to {constraints.max_nodes} nodes"
    raise InvalidInput(
        "model",
        f"fits on no offering{nodes}",
        got=job.model.name,
        allowed=f"the nearest is {nearest.key}, which {nearest.summary}",
        remedy="use more nodes, LoRA or QLoRA, a smaller batch or shorter sequences",
    )


def _described(option: Option, now: datetime) -> str:
    done = shown_moment(option.ends_at(now))
    cost, wall = format_usd(option.cost.total), format_duration(option.wall_s)
    return f"{option.key} ({option.size}): {cost}, {wall}, done by {done}"


def price_age(option: Option, now: datetime) -> str:
    """The day of the price, as a part of a sentence."""
    days, day = (now - option.priced_at).days, option.priced_at.date().isoformat()
    if not option.is_price_age_known:
        return f"price of {day} or later, at most {count(days, 'day')} old"
    return f"price of {day}" + (f", {count(days, 'day')} old" if days > 0 else "")


def shown_moment(at: datetime) -> str:
    """A moment as people read it."""
    return at.strftime("%Y-%m-%d %H:%M UTC")
