"""Is every input read or refused, at once? `python -m benchmarks.job_variables`.

Job variables of all kinds, each set from its own seed, are read as both worker types read them.
An input is lost if it ends with another error than a refusal, or if the refusal is not one that can
be shown: too long, or with characters that a page or database does not take. Ends with 1 if an
input was lost or took over a second of the processor's time, which a busy machine does not change.
"""

import argparse
import json
import random
import sys
import time
import traceback
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from gpu_core.decisions.policy.policy import Policy
from tests.support.job_variables import generated, read

LONGEST_S = 1.0
LONGEST_MESSAGE = 20_000


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """What became of all inputs."""

    inputs: int
    read: int
    refused: int
    lost: tuple[str, ...]
    """The seed and the error of each of the first ten."""
    slowest_s: float
    slowest_seed: int

    @property
    def is_good(self) -> bool:
        """Was none lost, and none slow?"""
        return not self.lost and self.slowest_s <= LONGEST_S


def measure(inputs: int, first_seed: int) -> Outcome:
    """What becomes of so many inputs?"""
    policy = Policy(version=1)
    read_count = refused = 0
    lost: list[str] = []
    slowest_s, slowest_seed = 0.0, first_seed
    for seed in range(first_seed, first_seed + inputs):
        variables = generated(random.Random(seed))
        began_s = time.perf_counter()
        try:
            why = read(variables, policy)
        except Exception:  # what else it may be is what is measured
            lost.append(f"seed {seed}: {traceback.format_exc(limit=-3)}")
            continue
        # Processor time takes long to read, and is at most the time that passed.
        if time.perf_counter() - began_s > slowest_s:
            took_s = _processor_s(variables, policy)
            if took_s > slowest_s:
                slowest_s, slowest_seed = took_s, seed
        read_count += why is None
        refused += why is not None
        if why is not None and not is_presentable(why):
            lost.append(f"seed {seed}: {why[:200]!r} ({len(why)} characters)")
    return Outcome(
        inputs=inputs,
        read=read_count,
        refused=refused,
        lost=tuple(lost[:10]),
        slowest_s=slowest_s,
        slowest_seed=slowest_seed,
    )


def _processor_s(variables: Mapping[str, Any], policy: Policy) -> float:
    """How much of the processor's time does it take to read these?"""
    began_s = time.process_time()
    read(variables, policy)
    return time.process_time() - began_s


def is_presentable(message: str) -> bool:
    """Can this be a state's message: of printable lines, and not longer than a page?"""
    return len(message) < LONGEST_MESSAGE and all(
        line.isprintable() for line in message.split("\n")
    )


def main() -> int:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--inputs", type=int, default=100_000)
    parser.add_argument("--seed", type=int, default=1, help="of the first input")
    parser.add_argument("--out", type=Path, help="also write the result there, as JSON")
    arguments = parser.parse_args()
    outcome = measure(arguments.inputs, arguments.seed)
    print(
        f"{outcome.inputs:,} inputs: {outcome.read:,} read, {outcome.refused:,} refused, "
        f"{len(outcome.lost)} lost; the slowest took {outcome.slowest_s:.3f} s "
        f"(seed {outcome.slowest_seed})"
    )
    for line in outcome.lost:
        print(line)
    if arguments.out:
        arguments.out.parent.mkdir(parents=True, exist_ok=True)
        arguments.out.write_text(json.dumps(asdict(outcome), indent=2))
    return 0 if outcome.is_good else 1


if __name__ == "__main__":
    sys.exit(main())
