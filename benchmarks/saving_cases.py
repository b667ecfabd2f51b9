"""The changes that a generated history could be improved by, with what each truly saves."""

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, replace
from datetime import UTC, date, datetime
from itertools import chain

from benchmarks.saved_work import SavedHistory, best_saving, young_s
from benchmarks.saving_histories import FIRST_DAY, History, Work
from benchmarks.shared_work import SharedHistory, Sharing, part_of, true_saving
from gpu_core.decisions.costs.usage.usage_cost import Window
from gpu_core.decisions.model.cluster import ON_DEMAND, SPOT
from gpu_core.decisions.optimization.proposals.kinds import ProposalKind
from gpu_core.decisions.optimization.proposals.proposal import JobValue
from gpu_core.decisions.optimization.proposals.run_facts import Record, RunFact, run_facts

_SPOT_PRICE, _PRICE = 1_200_000, 3_000_000
_LATER = datetime(2027, 6, 1, tzinfo=UTC)
_TRIALS = 0.25
"""Part of the runs of a deployment that were on another configuration."""

Days = Callable[[date, int], Iterable[Record]]


@dataclass(frozen=True, kw_only=True)
class Case:
    """A change of one deployment.

    Attributes:
        kind: What is changed.
        true_saving: What the best such change saves in many runs; 0: nothing.
        before: The runs of so many days as they are.
        after: The same with the change, which sets a job variable to this value.
    """

    kind: ProposalKind
    deployment: str
    true_saving: float
    before: Days
    after: Callable[[JobValue, date, int], Iterable[Record]]


@dataclass(frozen=True, kw_only=True)
class Scene:
    """A ledger: deployments that may be changed, and what the runs of others show."""

    cases: tuple[Case, ...]
    others: tuple[Days, ...]

    def records(self, first: date, days: int) -> list[Record]:
        """All runs of so many days."""
        parts = (*(case.before for case in self.cases), *self.others)
        return list(chain.from_iterable(part(first, days) for part in parts))


def scene(seed: int) -> Scene:
    """One deployment for spot, five for another configuration, and one for each newer kind."""
    history = History(seed)
    checkpoint_s = 900.0 if history.chance() < 0.5 else None
    usual = Work(
        deployment="train/spot",
        runs_per_weekday=8,
        hours=0.5 + 3 * history.chance(),
        spread=0.3,
        gpu_type="a10g",
        gpu_count=2,
        capacity_type=ON_DEMAND,
        price_micro_usd=_PRICE,
        checkpoint_s=checkpoint_s,
    )
    per_hour = 0.02 + 0.1 * history.chance()
    spot = replace(usual, capacity_type=SPOT, price_micro_usd=_SPOT_PRICE, per_hour=per_hour)
    on_spot = replace(spot, deployment="train/others", checkpoint_s=900.0, runs_per_weekday=6)
    sharing, shows_parts = _sharing(seed)
    return Scene(
        cases=(
            _on_another(ProposalKind.SPOT, history, usual, spot, 0.0, _spot_saving(spot)),
            *(_configuration(history, usual, number) for number in range(5)),
            _saves(seed),
            sharing,
        ),
        others=(lambda first, days: history.days(on_spot, first, days), shows_parts),
    )


def facts_of(records: Iterable[Record]) -> tuple[RunFact, ...]:
    """All of these runs that are over."""
    return run_facts(records, Window(datetime(2026, 1, 1, tzinfo=UTC), _LATER), _LATER)


def _on_another(
    kind: ProposalKind,
    history: History,
    usual: Work,
    changed: Work,
    trials: float,
    true_saving: float,
) -> Case:
    """Another configuration, on which some runs were already."""

    def before(first: date, days: int) -> Iterator[Record]:
        for work, part in ((usual, 1 - trials), (changed, trials)):
            some = replace(work, runs_per_weekday=usual.runs_per_weekday * part)
            yield from history.days(some, first, days)

    return Case(
        kind=kind,
        deployment=usual.deployment,
        true_saving=true_saving,
        before=before,
        after=lambda _, first, days: history.days(changed, first, days),
    )


def _spot_saving(spot: Work) -> float:
    """The expected saving on spot, from many runs with the true rate of interruptions."""
    history = History(12345)
    facts = facts_of(history.run(spot, FIRST_DAY) for _ in range(4000))
    cost = sum(fact.cost_micro_usd or 0 for fact in facts)
    before = sum(fact.work_gpu_h + fact.startup_s * fact.gpus / 3600 for fact in facts) * _PRICE
    return 1 - cost / before


def _configuration(history: History, usual: Work, number: int) -> Case:
    """Half the GPUs for longer, or another type at half the price; of the last two nothing."""
    saving = 0.0 if number >= 3 else float(-0.2 + 0.6 * history.chance())
    work = replace(
        usual,
        deployment=f"train/{number}",
        hours=0.5 + 3 * history.chance(),
        # No run is on spot of this type, so that its price there is unknown.
        gpu_type="a100-40gb",
        gpu_count=4,
        checkpoint_s=None,
    )
    slower = work.faster(2 * (1 - saving))
    if number % 2:
        kind, changed = ProposalKind.GPU_COUNT, replace(slower, gpu_count=2)
    else:
        kind = ProposalKind.GPU_TYPE
        changed = replace(slower, gpu_type="l4", price_micro_usd=_PRICE // 2)
    return _on_another(kind, history, work, changed, _TRIALS, saving)


def _saves(seed: int) -> Case:
    """Runs that save too seldom, too often, or about as often as is best."""
    history = SavedHistory((seed, 1), "saves")
    work = Work(
        deployment="train/saves",
        runs_per_weekday=6,
        hours=2 + 4 * history.chance(),
        spread=0.3,
        gpu_type="h100-80gb",
        gpu_count=2,
        capacity_type=SPOT,
        price_micro_usd=_PRICE,
        per_hour=0.1 + 0.4 * history.chance(),
        stall_s=5 + 25 * history.chance(),
    )
    times = (1.0, 1 / (4 + 16 * history.chance()), 3 + 7 * history.chance())[seed % 3]
    work = replace(work, checkpoint_s=young_s(work) * times)
    return Case(
        kind=ProposalKind.CHECKPOINT_INTERVAL,
        deployment=work.deployment,
        true_saving=0.0 if times == 1 else best_saving(work),
        before=lambda first, days: history.days(work, first, days),
        after=lambda value, first, days: history.days(
            replace(work, checkpoint_s=float(value or 0)), first, days
        ),
    )


def _sharing(seed: int) -> tuple[Case, Days]:
    """Runs that need little of a GPU, or nearly all of its memory; and runs that hold parts."""
    history = SharedHistory((seed, 2), "light")
    work = Work(
        deployment="train/light",
        runs_per_weekday=8,
        hours=0.5 + 2 * history.chance(),
        spread=0.3,
        gpu_type="a100-80gb",
        gpu_count=1,
        capacity_type=ON_DEMAND,
        price_micro_usd=_PRICE,
    )
    # Every fourth history's runs use most of the memory, and do not fit into a part.
    sharing = Sharing(
        busy=0.03 + 0.25 * history.chance(),
        neighbors_busy=0.1 + 0.8 * history.chance(),
        parts=2 if history.chance() < 0.5 else 4,
        memory_gib=75.0 if seed % 4 == 0 else 10.0,
    )
    parts = SharedHistory((seed, 3), "parts")
    small = replace(work, deployment="others/parts", runs_per_weekday=2)

    def shows_parts(first: date, days: int) -> Iterator[Record]:
        for run, attempts in parts.days(small, first, days):
            yield run, tuple(part_of(attempt, sharing.share_milli) for attempt in attempts)

    case = Case(
        kind=ProposalKind.SHARING,
        deployment=work.deployment,
        true_saving=0.0 if seed % 4 == 0 else max(0.0, true_saving(sharing)),
        before=lambda first, days: history.alone(work, sharing, first, days),
        after=lambda _, first, days: history.shared(work, sharing, first, days),
    )
    return case, shows_parts
