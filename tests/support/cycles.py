"""What a worker's log says of its scheduling cycles, where its lines are JSON."""

import json
from collections.abc import Sequence

_LOGGER = '"prefect.gpu.cycle"'


def cycles_in(log: str) -> list[dict]:
    """The lines about cycles; one of them may be about several cycles."""
    return [json.loads(line) for line in log.splitlines() if _LOGGER in line]


def longest(cycles: Sequence[dict]) -> str:
    """The line about the cycle that took the longest, with the time of each of its steps."""
    cycle = max(cycles, key=lambda cycle: cycle["duration_s"])
    steps = sorted(cycle["steps_s"].items(), key=lambda step: -step[1])
    return f"{cycle['duration_s']} s, {cycle['cpu_s']} s of CPU; " + ", ".join(
        f"{step} {seconds} s" for step, seconds in steps if seconds >= 0.1
    )
