"""Predicted savings against the truth, on generated histories.

    python -m benchmarks.savings --out bench-results/savings.json

In each history some deployments have a change that saves money, others have none. Every proposal is
applied: the days after it are generated with the change, and measured as an applied proposal is.
Saves, neighbors on a GPU and machines come from other models than those that predict.
"""

import argparse
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, time, timedelta
from pathlib import Path
from statistics import median

import numpy as np

from benchmarks.machine_days import Demand, Machines, best_saving, intervals, saving
from benchmarks.report import circumstances, write
from benchmarks.saving_cases import Case, facts_of, scene
from benchmarks.saving_histories import FIRST_DAY, LEARNING_DAYS
from gpu_core.decisions.catalog.offerings import Catalog
from gpu_core.decisions.optimization.proposals.kinds import ProposalKind
from gpu_core.decisions.optimization.proposals.period import Period
from gpu_core.decisions.optimization.proposals.proposal import Proposal
from gpu_core.decisions.optimization.proposals.propose import optimize
from gpu_core.decisions.optimization.proposals.reserved_proposals import MachineHistory
from gpu_core.decisions.optimization.proposals.verification import verify_saving
from gpu_core.decisions.policy.policy import parse_policy

_LEAST_PLANTED = 0.1
_DAY = FIRST_DAY + timedelta(days=LEARNING_DAYS)
_PERIOD = Period.before(_DAY)
_GOALS = "goals: in the interval 0.75 to 0.90, sign 0.98, planted 0.80, width 0.20, from noise 0"


@dataclass(frozen=True, kw_only=True)
class Outcome:
    """One proposal."""

    kind: ProposalKind
    true_saving: float
    low: float
    expected: float
    high: float
    measured: float


@dataclass(kw_only=True)
class Tally:
    """What became of some histories. Counts are by kind."""

    outcomes: list[Outcome] = field(default_factory=list)
    planted: Counter[ProposalKind] = field(default_factory=Counter)
    found: Counter[ProposalKind] = field(default_factory=Counter)
    noise: Counter[ProposalKind] = field(default_factory=Counter)
    from_noise: Counter[ProposalKind] = field(default_factory=Counter)
    not_close: int = 0

    def count(self, kind: ProposalKind, true_saving: float, is_proposed: bool) -> None:
        """Count a change that could be proposed."""
        if true_saving > _LEAST_PLANTED:
            self.planted[kind] += 1
            self.found[kind] += is_proposed
        elif not true_saving:
            self.noise[kind] += 1
            self.from_noise[kind] += is_proposed

    def measure(self, proposal: Proposal, true_saving: float, measured: float | None) -> None:
        """Note what a proposal saved; None: it cannot be measured."""
        if measured is None:
            return
        predicted = proposal.saving
        self.outcomes.append(
            Outcome(
                kind=proposal.kind,
                true_saving=true_saving,
                low=predicted.low,
                expected=predicted.expected,
                high=predicted.high,
                measured=measured,
            )
        )


def judge(seed: int, tally: Tally) -> None:
    """Make one history, propose, apply, measure."""
    made = scene(seed)
    demand = _demand(seed)
    machines = Machines(demand, (seed, 4))
    found_machines = machines.days(_PERIOD.first, _PERIOD.days)
    found = optimize(
        made.records(FIRST_DAY, LEARNING_DAYS),
        _PERIOD,
        datetime.combine(_DAY, time(23), UTC),
        policy=parse_policy({"version": 1}, source="bench"),
        catalog=Catalog(),
        machines=MachineHistory(
            intervals=intervals(found_machines, _PERIOD.first),
            recorded_since=_PERIOD.window.start,
            book=demand.book,
        ),
        seed=seed,
    )
    tally.not_close += not found.calibration.is_close
    proposals = {(each.kind, each.deployment): each for each in found.proposals}
    for case in made.cases:
        proposal = proposals.get((case.kind, case.deployment))
        tally.count(case.kind, case.true_saving, proposal is not None)
        if proposal is not None:
            tally.measure(proposal, case.true_saving, _measured(case, proposal))
    by_hand = [each for each in found.proposals if each.is_by_hand]
    true_saving = best_saving(demand)
    tally.count(ProposalKind.RESERVED, true_saving, bool(by_hand))
    for proposal in by_hand:
        days = machines.days(_DAY, proposal.verify_days)
        committed = int(proposal.changes[0].proposed or 0)
        tally.measure(proposal, true_saving, saving(days, committed, demand.ratio))


def _measured(case: Case, proposal: Proposal) -> float | None:
    (change,) = proposal.changes
    after = case.after(change.proposed, _DAY, proposal.verify_days)
    return verify_saving(proposal, facts_of(after)).saving


def _demand(seed: int) -> Demand:
    """Machines of one kind. In every third history none is there often enough for a commitment."""
    rng = np.random.default_rng((seed, 5))
    always, more = (
        (0, 0.0) if seed % 3 == 0 else (int(rng.integers(0, 4)), float(rng.uniform(1, 5)))
    )
    return Demand(
        always=always,
        shift=int(rng.integers(1, 7)),
        shift_hours=float(rng.uniform(6, 11)),
        more=more,
        ratio=float(rng.uniform(0.4, 0.75)),
    )


def main() -> None:
    """Judge many histories and write the figures."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--histories", type=int, default=100)
    parser.add_argument("--first-seed", type=int, default=1)
    parser.add_argument("--out", type=Path, default=None)
    options = parser.parse_args()
    around = circumstances()
    tally = Tally()
    for seed in range(options.first_seed, options.first_seed + options.histories):
        judge(seed, tally)
    results = {
        "histories": options.histories,
        "first_seed": options.first_seed,
        "histories_whose_replay_is_not_close": tally.not_close,
        "by_kind": {kind.value: _row(tally, [kind]) for kind in ProposalKind},
        "all": _row(tally, list(ProposalKind)),
    }
    for name, row in {**results["by_kind"], "all": results["all"]}.items():
        print(name, row)
    print(f"replay not close: {tally.not_close} of {options.histories}; {_GOALS}")
    if options.out is not None:
        write(options.out, around, results)


def _row(tally: Tally, kinds: Sequence[ProposalKind]) -> dict[str, float | None]:
    outcomes = [outcome for outcome in tally.outcomes if outcome.kind in kinds]
    planted = sum(tally.planted[kind] for kind in kinds)
    return {
        **_figures(outcomes),
        "planted": planted,
        "planted_proposed": sum(tally.found[k] for k in kinds) / planted if planted else None,
        "noise": sum(tally.noise[kind] for kind in kinds),
        "from_noise": sum(tally.from_noise[kind] for kind in kinds),
    }


def _figures(outcomes: Sequence[Outcome]) -> dict[str, float | None]:
    if not outcomes:
        return {"proposals": 0}
    return {
        "proposals": len(outcomes),
        "in_interval": float(np.mean([o.low <= o.measured <= o.high for o in outcomes])),
        "below": float(np.mean([o.measured < o.low for o in outcomes])),
        "sign_right": float(np.mean([o.measured > 0 for o in outcomes])),
        "median_width": median(o.high - o.low for o in outcomes),
        "mean_error": float(np.mean([o.measured - o.expected for o in outcomes])),
    }


if __name__ == "__main__":
    main()
