"""Do learned upper run times hold on a real month? `python -m benchmarks.run_times --data DIR`.

Every job of Philly, October 2017, is estimated when it is submitted, from the jobs of its virtual
cluster and GPU count that had finished by then as if each started at once. Again for each job
that is still running after one minute, ten minutes, an hour, six hours and a day.
"""

import argparse
import heapq
import json
from collections.abc import Iterator
from pathlib import Path

from benchmarks.philly import Job, read_jobs
from gpu_core.decisions.policy.run_times import RunTimePolicy
from gpu_core.decisions.scheduling.forecasting.run_times import (
    RunKind,
    RunTimeHistory,
    expected_end_s,
    remaining_s,
)

CHECKPOINTS_S = (60, 600, 3_600, 21_600, 86_400)


def main() -> None:
    """Print the measurement."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--data", type=Path, required=True, help="the folder with queueing/")
    parser.add_argument("--json", action="store_true", help="one JSON object instead of a table")
    arguments = parser.parse_args()
    figures = measure(read_jobs(arguments.data))
    if arguments.json:
        print(json.dumps(figures))
        return
    for name, (under, total) in figures.items():
        print(f"{name:28} {under / total:6.1%} of {total:,}")


def measure(jobs: list[Job]) -> dict[str, tuple[int, int]]:
    """How many durations were under their upper estimate, of how many, by moment and method?"""
    policy, history = RunTimePolicy(), RunTimeHistory()
    figures: dict[str, list[int]] = {}
    for job, elapsed_s in _moments(jobs):
        kind = RunKind(team=job.team, gpus=job.gpus)
        if elapsed_s == job.duration_s:
            history.observe(kind, job.duration_s)
            continue
        estimates = {
            "history": remaining_s(None, elapsed_s, history, kind, policy),
            "log-normal": expected_end_s(history.learned(kind, policy), elapsed_s),
        }
        for method, rest_s in estimates.items():
            if rest_s is None:
                continue
            counted = figures.setdefault(f"after {elapsed_s:6,.0f} s, {method}", [0, 0])
            counted[0] += job.duration_s <= elapsed_s + rest_s
            counted[1] += 1
    return {name: (under, total) for name, (under, total) in sorted(figures.items())}


def _moments(jobs: list[Job]) -> Iterator[tuple[Job, float]]:
    """Every job at its submission, at each checkpoint that it lives to see, and at its end."""
    due: list[tuple[float, int, float]] = []
    for job in jobs:
        lived = [float(s) for s in (0, *CHECKPOINTS_S) if s < job.duration_s]
        for elapsed_s in (*lived, job.duration_s):
            heapq.heappush(due, (job.submit_s + elapsed_s, job.job_id, elapsed_s))
    by_id = {job.job_id: job for job in jobs}
    while due:
        _, job_id, elapsed_s = heapq.heappop(due)
        yield by_id[job_id], elapsed_s


if __name__ == "__main__":
    main()
