"""Predicted savings against the truth, on generated histories.

    python -m benchmarks.savings --out bench-results/savings.json

In each history some deployments have a change that saves money, others have none: their runs were
on two configurations that cost the same. Every proposal is applied: the days after it are
generated with the change, and measured as an applied proposal is.
"""

import argparse
from dataclasses import dataclass, replace
from datetime import UTC, datetime, time, timedelta
from pathlib import Path
from statistics import median

import numpy as np

from benchmarks.report import circumstances, write
from benchmarks.saving_histories import FIRST_DAY, LEARNING_DAYS, History, Work
from gpu_core.decisions.catalog.offerings import Catalog
from gpu_core.decisions.costs.usage.usage_cost import Window
from gpu_core.decisions.optimization.proposals.period import Period
from gpu_core.decisions.optimization.proposals.propose import optimize
from gpu_core.decisions.optimization.proposals.run_facts import Record, run_facts
from gpu_core.decisions.optimization.proposals.verification import verify_saving
from gpu_core.decisions.policy.policy import parse_policy

_SPOT_PRICE, _PRICE = 1_200_000, 3_000_000
_LATER = datetime(2027, 6, 1, tzinfo=UTC)
_LEAST_PLANTED = 0.1


@dataclass(frozen=True, kw_only=True)
class Case:
    """One deployment of a history: what it is, and what it would be.

    Attributes:
        trials: Part of its runs that were on the other configuration.
    """

    work: Work
    changed: Work
    trials: float
    true_saving: float


@dataclass(frozen=True, kw_only=True)
class Outcome:
    """One proposal."""

    kind: str
    true_saving: float
    low: float
    expected: float
    high: float
    measured: float


def cases(history: History) -> list[Case]:
    """Six deployments: one for spot, three with planted savings or losses, two with noise only."""
    hours = 0.5 + 3 * history.chance()
    per_hour = 0.02 + 0.1 * history.chance()
    checkpoint_s = 900.0 if history.chance() < 0.5 else None
    usual = Work(
        deployment="train/spot",
        runs_per_weekday=8,
        hours=hours,
        spread=0.3,
        gpu_type="a10g",
        gpu_count=2,
        capacity_type="on-demand",
        price_micro_usd=_PRICE,
        checkpoint_s=checkpoint_s,
    )
    spot = replace(usual, capacity_type="spot", price_micro_usd=_SPOT_PRICE, per_hour=per_hour)
    found = [Case(work=usual, changed=spot, trials=0.0, true_saving=_spot_saving(spot))]
    for number in range(5):
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
        # Half the GPUs for longer, or another type at another price.
        if number % 2:
            changed = replace(work.faster(2 * (1 - saving)), gpu_count=2)
        else:
            price = round(_PRICE * 0.5)
            changed = replace(work.faster(2 * (1 - saving)), gpu_type="l4", price_micro_usd=price)
        found.append(Case(work=work, changed=changed, trials=0.25, true_saving=saving))
    return found


def _spot_saving(spot: Work) -> float:
    """The expected saving on spot, from many runs with the true rate of interruptions."""
    rng_history = History(12345)
    records = [rng_history.run(spot, FIRST_DAY) for _ in range(4000)]
    facts = run_facts(records, _everything(), _LATER)
    cost = sum(fact.cost_micro_usd or 0 for fact in facts)
    before = sum((fact.work_gpu_h + fact.startup_s * fact.gpus / 3600) for fact in facts) * _PRICE
    return 1 - cost / before


def _everything() -> Window:
    return Window(datetime(2026, 1, 1, tzinfo=UTC), _LATER)


def judged(seed: int) -> tuple[list[Outcome], int, int, int]:
    """One history: its proposals, planted savings, those found, and proposals from noise."""
    history = History(seed)
    found_cases = cases(history)
    records: list[Record] = []
    for case in found_cases:
        records += history.days(
            replace(case.work, runs_per_weekday=case.work.runs_per_weekday * (1 - case.trials)),
            FIRST_DAY,
            LEARNING_DAYS,
        )
        if case.trials:
            trial = replace(case.changed, runs_per_weekday=case.work.runs_per_weekday * case.trials)
            records += history.days(trial, FIRST_DAY, LEARNING_DAYS)
    on_spot = found_cases[0].changed
    others = replace(on_spot, deployment="train/others", checkpoint_s=900.0, runs_per_weekday=6)
    records += history.days(others, FIRST_DAY, LEARNING_DAYS)
    day = FIRST_DAY + timedelta(days=LEARNING_DAYS)
    found = optimize(
        records,
        Period.before(day),
        datetime.combine(day, time(23), UTC),
        policy=parse_policy({"version": 1}, source="bench"),
        catalog=Catalog(),
        seed=seed,
    )
    by_name = {case.work.deployment: case for case in found_cases}
    outcomes = []
    for proposal in found.proposals:
        case = by_name[proposal.deployment]
        after = list(history.days(case.changed, day, proposal.verify_days))
        measured = verify_saving(proposal, run_facts(after, _everything(), _LATER)).saving
        if measured is not None:
            saving = proposal.saving
            outcomes.append(
                Outcome(
                    kind=proposal.kind.value,
                    true_saving=case.true_saving,
                    low=saving.low,
                    expected=saving.expected,
                    high=saving.high,
                    measured=measured,
                )
            )
    proposed = {proposal.deployment for proposal in found.proposals}
    planted = {c.work.deployment for c in found_cases if c.true_saving > _LEAST_PLANTED}
    noise = {c.work.deployment for c in found_cases if not c.true_saving}
    return outcomes, len(planted), len(planted & proposed), len(noise & proposed)


def main() -> None:
    """Judge many histories and write the figures."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--histories", type=int, default=100)
    parser.add_argument("--out", type=Path, default=None)
    options = parser.parse_args()
    around = circumstances()
    outcomes: list[Outcome] = []
    planted = found = from_noise = 0
    for seed in range(1, options.histories + 1):
        more, of_planted, of_found, of_noise = judged(seed)
        outcomes += more
        planted, found, from_noise = planted + of_planted, found + of_found, from_noise + of_noise
    results = {
        "histories": options.histories,
        "proposals": len(outcomes),
        "proposals_from_noise": from_noise,
        "planted_proposed": found / planted,
        "by_kind": {
            kind: _figures([o for o in outcomes if o.kind == kind])
            for kind in sorted({outcome.kind for outcome in outcomes})
        },
        "all": _figures(outcomes),
    }
    for name, value in results.items():
        print(f"{name}: {value}")
    print("aims: in the interval 0.75 to 0.90, sign 0.98, planted 0.80, width 0.20, from noise 0")
    if options.out is not None:
        write(options.out, around, results)


def _figures(outcomes: list[Outcome]) -> dict[str, float]:
    inside = [outcome.low <= outcome.measured <= outcome.high for outcome in outcomes]
    signs = [outcome.measured > 0 for outcome in outcomes]
    return {
        "proposals": len(outcomes),
        "in_interval": float(np.mean(inside)),
        "sign_right": float(np.mean(signs)),
        "median_width": median(outcome.high - outcome.low for outcome in outcomes),
        "mean_error": float(np.mean([o.measured - o.expected for o in outcomes])),
    }


if __name__ == "__main__":
    main()
