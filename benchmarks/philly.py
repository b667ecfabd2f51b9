"""Philly, October 2017: 47,192 jobs of a real GPU cluster, as `queueing/philly_oct2017.csv`."""

import csv
from pathlib import Path
from typing import NamedTuple


class Job(NamedTuple):
    """One job: submitted at second `submit_s` of the month, alone for `duration_s`."""

    job_id: int
    submit_s: float
    duration_s: float
    gpus: int
    team: str


def read_jobs(data: Path) -> list[Job]:
    """All jobs of the month, in the file's order.

    Args:
        data: The folder that holds `queueing/`.
    """
    with (data / "queueing" / "philly_oct2017.csv").open(newline="") as file:
        return [
            Job(
                int(row["job_id"]),
                float(row["submit_s"]),
                float(row["duration_s"]),
                int(row["num_gpus"]),
                row["vc"],
            )
            for row in csv.DictReader(file)
        ]
