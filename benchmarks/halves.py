"""How long do runs wait in each half of Philly's October 2017, on whole nodes?

    python -m benchmarks.halves --data DIR [--half 2] [--policy fifo --policy auto ...]
        [--run-times learned] [--nodes 60x8] [--restart-s 30]

Constants are fitted on 1 to 15 October (`--half 1`); the rest is reported. On 80 nodes of 8 GPUs a
job of more than 8 is a gang. Each policy is compared with the first one. The goals of the default
are a mean wait of at most 0.7 times FIFO's, and for jobs over 8 GPUs a p95 of at most 1.1 times.
"""

import argparse
import csv
from pathlib import Path
from tempfile import TemporaryDirectory

from gpu_core.cli.simulate.command import PolicyReplay, replay_policies
from gpu_core.cli.simulate.options import SimulateOptions

_FIRST_S = 15 * 86_400
_FILE = "philly_oct2017.csv"


def half_file(data: Path, half: int, folder: Path) -> Path:
    """A file in the folder with the jobs of this half of the month.

    Args:
        data: The folder that holds `queueing/`.
        half: 1: until 15 October; 2: those after.
    """
    path = folder / _FILE
    with (data / "queueing" / _FILE).open(newline="") as file, path.open("w", newline="") as out:
        rows = csv.DictReader(file)
        writer = csv.DictWriter(out, rows.fieldnames or ())
        writer.writeheader()
        is_first = half == 1
        writer.writerows(row for row in rows if (float(row["submit_s"]) < _FIRST_S) == is_first)
    return path


def waits_s(row: PolicyReplay) -> tuple[float, float]:
    """The mean wait, and the wait of jobs over 8 GPUs at p95; 0: there is no such job."""
    found = row.metrics
    return (
        0.0 if found.wait_s is None else found.wait_s.mean,
        0.0 if found.gang_wait_s is None else found.gang_wait_s.p95,
    )


def main() -> None:
    """Replay the half under each policy, and print one below the other."""
    parser = argparse.ArgumentParser(description="Waits in a half of October 2017.")
    parser.add_argument("--data", type=Path, required=True, help="the folder with queueing/")
    parser.add_argument("--half", type=int, choices=(1, 2), default=2)
    parser.add_argument("--policy", action="append", help="a name or a file (fifo and auto)")
    parser.add_argument("--run-times", default="none", help="as in prefect-gpu simulate")
    parser.add_argument("--nodes", default="80x8", help="60x8: more is asked for than there is")
    parser.add_argument("--restart-s", type=int, default=0, help="what a preemption costs")
    options = parser.parse_args()
    first: tuple[float, float] | None = None
    for policy in options.policy or ("fifo", "auto"):
        with TemporaryDirectory() as folder:
            (row,) = replay_policies(
                SimulateOptions(
                    nodes=options.nodes,
                    workload=str(half_file(options.data, options.half, Path(folder))),
                    format="philly",
                    policies=(policy,),
                    run_times=options.run_times,
                    restart_s=options.restart_s,
                )
            )
        found = waits_s(row)
        first = first or found
        parts = " and ".join(
            f"{s / of:.2f}" if of else "-" for s, of in zip(found, first, strict=True)
        )
        print(
            f"{policy:12} mean wait {found[0]:>9,.0f} s, p95 over 8 GPUs {found[1]:>9,.0f} s "
            f"({parts} of the first); {row.metrics.preemptions:,} preemptions, {row.cpu_s:.0f} s",
            flush=True,
        )


if __name__ == "__main__":
    main()
