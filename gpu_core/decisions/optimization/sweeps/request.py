"""The request for a sweep: its budget, its trials and the metric that compares them."""

import hashlib
import json
import re
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal
from itertools import product

from gpu_core.decisions.model.errors import InvalidInput
from gpu_core.decisions.model.section import parse_budget
from gpu_core.decisions.model.units import MICRO_USD_PER_USD
from gpu_core.decisions.optimization.sweeps.rungs import MOST_RUNGS, MetricGoal, SweepPlan

MOST_TRIALS = 1_000
_NAME = re.compile(r"[a-z0-9]+(-[a-z0-9]+)*")
_LONGEST_NAME = 60

Parameters = Mapping[str, object]


@dataclass(frozen=True, slots=True, kw_only=True)
class SweepRequest:
    """A sweep that may begin, or continue."""

    name: str
    deployment: str
    """`flow/deployment` of the trials."""
    metric: str
    plan: SweepPlan
    trials: tuple[Parameters, ...]
    """The parameters of each, in the order in which they start."""
    kept: frozenset[int]
    """Numbers of trials, from 1, that are promoted whatever their metric."""
    places: int
    """How many trials may have dollars left at the same time."""

    @property
    def artifact_key(self) -> str:
        """Of the sweep's page."""
        return f"gpu-sweep-{self.name}"

    def key(self, parameters: Parameters) -> str:
        """Prefect's key of a trial: the same parameters of one sweep start once.

        1.0 and 1 are the same: a browser sends the one as the other.
        """
        text = _text(parameters)
        return f"gpu-sweep/{self.name}/{hashlib.sha256(text.encode()).hexdigest()[:32]}"


def sweep_request(
    *,
    name: str,
    deployment: str,
    metric: str,
    budget_usd: float,
    first_rung_usd: float,
    grid: Mapping[str, Sequence[object]] | None = None,
    trials: Sequence[Parameters] | None = None,
    rungs: int = 3,
    reduction: int = 3,
    goal: MetricGoal = MetricGoal.HIGHER,
    waits_for_rung: bool = False,
    keep: Sequence[int] = (),
    parallel: int = 4,
) -> SweepRequest:
    """Can a sweep be made of this?

    Args:
        name: Lower-case letters, digits and single hyphens, 60 characters at most.
        deployment: `flow/deployment` of the trials.
        metric: The name of the metric in MLflow.
        budget_usd: Of all trials together, over 0; it pays for one trial to the last rung at least.
        first_rung_usd: What a trial may cost before it is compared for the first time, over 0.
        grid: Parameters with their values; every combination is a trial. This or `trials`.
        trials: The parameters of each trial.
        rungs: See `SweepPlan`.
        reduction: See `SweepPlan`. One trial at least has to come to the last rung.
        goal: Which values of the metric are better.
        waits_for_rung: See `SweepPlan`.
        keep: Numbers of trials, from 1, that are promoted whatever their metric.
        parallel: How many trials may have dollars left at the same time, 1 or more.

    Raises:
        InvalidInput: One of them cannot be used.
    """
    if not _NAME.fullmatch(name) or len(name) > _LONGEST_NAME:
        raise InvalidInput(
            "name", "cannot be the name of a sweep", got=name,
            allowed=f"lower-case letters, digits and hyphens between them, {_LONGEST_NAME} at most",
        )  # fmt: skip
    for field, text in (("deployment", deployment), ("metric", metric)):
        if not text.strip():
            raise InvalidInput(field, "is empty", got=text, allowed="its name")
    if parallel < 1:
        raise InvalidInput("parallel", "is out of range", got=parallel, allowed="1 or more")
    found = _trials(grid, trials)
    plan = SweepPlan(
        budget_micro_usd=parse_budget(budget_usd, "budget_usd"),
        first_rung_micro_usd=parse_budget(first_rung_usd, "first_rung_usd"),
        rungs=rungs,
        reduction=reduction,
        goal=goal,
        waits_for_rung=waits_for_rung,
    )
    _refuse_too_small(plan, len(found))
    unknown = [number for number in keep if not 1 <= number <= len(found)]
    if unknown:
        raise InvalidInput(
            "keep", "has a number that no trial has",
            got=unknown[0], allowed=f"1 to {len(found)}, as the report shows them",
        )  # fmt: skip
    return SweepRequest(
        name=name,
        deployment=deployment,
        metric=metric,
        plan=plan,
        trials=found,
        kept=frozenset(keep),
        places=parallel,
    )


def _trials(
    grid: Mapping[str, Sequence[object]] | None, trials: Sequence[Parameters] | None
) -> tuple[Parameters, ...]:
    if (grid is None) == (trials is None):
        raise InvalidInput(
            "trials", "and grid are both given" if grid is not None else "and grid are missing",
            remedy="give the parameters of each trial, or a grid of their values",
        )  # fmt: skip
    field = "trials" if grid is None else "grid"
    if grid is not None:
        empty = [name for name, values in grid.items() if not values]
        if empty:
            raise InvalidInput(f"grid.{empty[0]}", "has no values", allowed="1 value or more")
    found = tuple(trials or ()) if grid is None else _combinations(grid)
    if not 1 <= len(found) <= MOST_TRIALS:
        raise InvalidInput(
            field, "is out of range", got=f"{len(found):,} trials", allowed=f"1 to {MOST_TRIALS:,}"
        )
    texts = Counter(_text(each) for each in found)
    twice = next((text for text, number in texts.items() if number > 1), None)
    if twice is not None:
        raise InvalidInput(
            field, "has a trial twice", got=twice,
            remedy="to repeat a trial, give it another seed",
        )  # fmt: skip
    return found


def _text(parameters: Parameters) -> str:
    return json.dumps(_with_whole_numbers(parameters), sort_keys=True, default=str)


def _with_whole_numbers(value: object) -> object:
    if isinstance(value, float) and value.is_integer():
        return int(value)
    if isinstance(value, Mapping):
        return {name: _with_whole_numbers(each) for name, each in value.items()}
    if isinstance(value, list | tuple):
        return [_with_whole_numbers(each) for each in value]
    return value


def _combinations(grid: Mapping[str, Sequence[object]]) -> tuple[Parameters, ...]:
    number = 1
    for values in grid.values():
        number *= len(values)
        if number > MOST_TRIALS:
            raise InvalidInput(
                "grid", "has too many combinations",
                got=f"over {MOST_TRIALS:,}", allowed=f"{MOST_TRIALS:,} at most",
            )  # fmt: skip
    return tuple(dict(zip(grid, values, strict=True)) for values in product(*grid.values()))


def _refuse_too_small(plan: SweepPlan, trials: int) -> None:
    """No trial would come to the last rung."""
    most = next(n for n in range(1, MOST_RUNGS + 1) if plan.reduction**n > MOST_TRIALS)
    if plan.rungs > most:
        raise InvalidInput(
            "rungs", f"need more than {MOST_TRIALS:,} trials, as one in {plan.reduction} comes on",
            got=plan.rungs, allowed=f"1 to {most}",
            remedy="give fewer rungs or a smaller reduction",
        )  # fmt: skip
    needed = plan.reduction**plan.last_rung
    if trials < needed:
        raise InvalidInput(
            "trials", f"are too few for {plan.rungs} rungs, of one in {plan.reduction} each",
            got=trials, allowed=f"{needed} or more",
            remedy="give more trials, or fewer rungs",
        )  # fmt: skip
    last = plan.rung_micro_usd(plan.last_rung)
    if plan.budget_micro_usd < last:
        raise InvalidInput(
            "budget_usd", "does not pay for one trial up to the last rung",
            got=_usd(plan.budget_micro_usd), allowed=f"{_usd(last)} or more",
            remedy="give more dollars, fewer rungs or a smaller first_rung_usd",
        )  # fmt: skip


def _usd(micro_usd: int) -> str:
    """All of it: rounded to cents a refused amount would look like the allowed one."""
    return f"${Decimal(micro_usd) / MICRO_USD_PER_USD:,f}"
