"""Are the victims the least that could be preempted? `python -m benchmarks.victims`.

Small random pools with one preemptor, against every legal set of victims; and pools of up to 16
nodes, where each victim is put back alone. A victim is needless if the preemptor fits without its
preemption; a preemption is missed if a legal set exists and none was preempted. Beside our numbers
stand those of the rule before: victims were chosen node by node, and own and lent GPUs apart.
"""

import argparse
import json
import math
import sys
from dataclasses import asdict, dataclass
from pathlib import Path

from gpu_core.decisions.scheduling.cycle.planner import plan_cycle
from gpu_core.decisions.scheduling.plan.plan import Preempt
from gpu_core.testing.builders.workloads import NOW
from tests.gpu_core.decisions.scheduling.eviction.victim_oracle import Oracle, contest

_BEFORE = {
    "with a victim that was not needed": "334 of 1,827 on 6 to 16 nodes",
    "missed, of those that a legal set exists for": "22 of 1,332",
    "loss, in times of the cheapest set, at most": "78",
}


@dataclass(slots=True, kw_only=True)
class Found:
    """What was counted."""

    pools: int = 0
    preemptions: int = 0
    needless: int = 0
    possible: int = 0
    """Pools in which a legal set of victims exists and one is needed."""
    missed: int = 0
    dearest_ratio: float = 1.0

    @property
    def rows(self) -> dict[str, str]:
        """Our numbers, under the names of those before."""
        numbers = (
            f"{self.needless:,} of {self.preemptions:,}",
            f"{self.missed:,} of {self.possible:,}",
            f"{self.dearest_ratio:g}",
        )
        return dict(zip(_BEFORE, numbers, strict=True))


def small(seed: int, found: Found) -> None:
    """Counts a pool against every set of victims."""
    oracle = Oracle(contest(seed))
    chosen = _victims(oracle)
    best_loss, best = next(oracle.sets(), (None, None))
    found.pools += 1
    _count_needless(oracle, chosen, found)
    if best_loss is None or not best:
        return
    found.possible += 1
    found.missed += not chosen
    if chosen:
        ours, least = oracle.loss(chosen)[0], best_loss[0]
        ratio = ours / least if least else math.inf if ours else 1.0
        found.dearest_ratio = max(found.dearest_ratio, ratio)


def large(seed: int, found: Found) -> None:
    """Counts a pool of up to 16 nodes, which has too many sets to try all."""
    oracle = Oracle(contest(seed, most_running=40, most_nodes=16))
    found.pools += 1
    _count_needless(oracle, _victims(oracle), found)


def _count_needless(oracle: Oracle, chosen: frozenset[str], found: Found) -> None:
    found.preemptions += bool(chosen)
    found.needless += any(oracle.is_enough(chosen - {victim}) for victim in chosen)


def _victims(oracle: Oracle) -> frozenset[str]:
    plan = plan_cycle(oracle.pool.snapshot, oracle.pool.policy, NOW)
    return frozenset(c.workload_id for c in plan.commands if isinstance(c, Preempt))


def main() -> int:
    """Measure and print. Ends with 1 if a victim was needless, or a preemption missed."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--pools", type=int, default=20_000, help="half of them small")
    parser.add_argument("--out", type=Path, help="also write the result there, as JSON")
    options = parser.parse_args()
    found = Found()
    for seed in range(options.pools // 2):
        small(seed, found)
        large(seed, found)
    print(f"{f'preemptions in {found.pools:,} pools':48}{'ours':>16}  before")
    for name, ours in found.rows.items():
        print(f"{name:48}{ours:>16}  {_BEFORE[name]}")
    if options.out is not None:
        options.out.parent.mkdir(parents=True, exist_ok=True)
        options.out.write_text(json.dumps(asdict(found), indent=2) + "\n")
    return 1 if found.needless or found.missed or found.dearest_ratio > 1 else 0


if __name__ == "__main__":
    sys.exit(main())
