"""The scheduling table: published or measured references, and ours.

    python -m benchmarks.scheduling --data DIR [--only NAME ...] [--out results.json]

The references are mean waits (Philly) or mean completion times (Muri) in seconds. Philly: the
values that AccaSim and an event-driven check agree on, 640 GPUs that may spread. `on nodes`: 80
nodes of 8, where a gang has equal parts; the reference is Helios' rule, whole nodes and the rest,
which differs for the seven jobs of 12 GPUs. Muri: Zhao et al., SIGCOMM 2022, 64 GPUs. The
rows with noisy estimates and without run times are not published: there the column has our goal,
2,700, 2,000 and 600 s.
"""

import argparse
import csv
import json
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory

import yaml

from gpu_core.cli.simulate.command import PolicyReplay, replay_policies
from gpu_core.cli.simulate.options import SimulateOptions

_DAY_S = 86_400
_OCTOBER_S = 31 * _DAY_S


@dataclass(frozen=True, slots=True, kw_only=True)
class Case:
    """One row of the table."""

    name: str
    file: str
    nodes: str
    policy: str
    run_times: str
    restart_s: int = 0
    tick_s: int | None = None
    reference_s: float | None = None
    """None: there is nothing to compare with."""
    ordering: tuple[str, ...] | None = None
    """Instead of the named policy's keys; fair shares are weighted by the teams' nodes."""

    @property
    def is_philly(self) -> bool:
        return self.file.startswith("philly")


_OCTOBER, _POOL, _WHOLE_NODES = "philly_oct2017.csv", "count:640", "80x8"

CASES = (
    Case(
        name="october fifo",
        file=_OCTOBER,
        nodes=_POOL,
        policy="fifo",
        run_times="none",
        reference_s=6484.60,
    ),
    Case(
        name="october sjf",
        file=_OCTOBER,
        nodes=_POOL,
        policy="sjf",
        run_times="true",
        reference_s=2007.34,
    ),
    Case(
        name="october easy",
        file=_OCTOBER,
        nodes=_POOL,
        policy="easy",
        run_times="true",
        reference_s=5476.6,
    ),
    Case(
        name="october on nodes, fifo",
        file=_OCTOBER,
        nodes=_WHOLE_NODES,
        policy="fifo",
        run_times="none",
        reference_s=12_739.3,
    ),
    Case(
        name="october on nodes, greedy",
        file=_OCTOBER,
        nodes=_WHOLE_NODES,
        policy="greedy",
        run_times="none",
        reference_s=2743.8,
    ),
    Case(
        name="october on nodes, sjf",
        file=_OCTOBER,
        nodes=_WHOLE_NODES,
        policy="sjf",
        run_times="true",
        reference_s=1901.2,
    ),
    Case(
        name="october on nodes, easy",
        file=_OCTOBER,
        nodes=_WHOLE_NODES,
        policy="easy",
        run_times="true",
    ),
    Case(
        name="october on nodes, auto",
        file=_OCTOBER,
        nodes=_WHOLE_NODES,
        policy="auto",
        run_times="none",
        reference_s=12_739.3,
    ),
    Case(
        name="october noisy estimates",
        file=_OCTOBER,
        nodes=_POOL,
        policy="sjf-easy",
        run_times="noisy",
        reference_s=2700.0,
    ),
    Case(
        name="october greedy",
        file=_OCTOBER,
        nodes=_POOL,
        policy="greedy",
        run_times="none",
        reference_s=3706.8,
    ),
    Case(
        name="october fair share, greedy",
        file=_OCTOBER,
        nodes=_POOL,
        policy="greedy",
        ordering=("fair-share", "submitted"),
        run_times="none",
        reference_s=3706.8,
    ),
    Case(
        name="october fair share, easy, learned",
        file=_OCTOBER,
        nodes=_POOL,
        policy="easy",
        ordering=("fair-share", "submitted"),
        run_times="learned",
        reference_s=3706.8,
    ),
    Case(
        name="october preemptive without run times",
        file=_OCTOBER,
        nodes=_POOL,
        policy="las",
        run_times="none",
        restart_s=30,
        reference_s=2000.0,
    ),
    Case(
        name="october preemptive without run times, gangs first",
        file=_OCTOBER,
        nodes=_POOL,
        policy="mlfq",
        run_times="none",
        restart_s=30,
        reference_s=600.0,
    ),
    Case(
        name="muri trace1 srsf",
        file="muri_trace1.csv",
        nodes="count:64",
        policy="srsf",
        run_times="true",
        reference_s=980_141,
    ),
    Case(
        name="muri trace3 srsf",
        file="muri_trace3.csv",
        nodes="count:64",
        policy="srsf",
        run_times="true",
        reference_s=185_022,
    ),
)


def _weighted(case: Case, data: Path, folder: Path) -> str:
    """A policy file: the named policy with the case's keys, and each team's nodes as its weight."""
    with (data / "queueing" / "philly_vc_nodes.csv").open(newline="") as file:
        weights = {row["vc"]: float(row["node num"]) for row in csv.DictReader(file)}
    path = folder / f"{case.policy}.yaml"
    policy = {
        "version": 1,
        "ordering": {"keys": list(case.ordering or ())},
        "fair_share": {"weights": weights},
        "backfill": {"mode": case.policy},
        "preemption": {"enabled": False},
    }
    path.write_text(yaml.safe_dump(policy))
    return str(path)


def run_case(case: Case, data: Path, folder: Path) -> PolicyReplay:
    """Replay one row; files that it needs go into this folder."""
    policy = case.policy if case.ordering is None else _weighted(case, data, folder)
    options = SimulateOptions(
        nodes=case.nodes,
        workload=str(data / "queueing" / case.file),
        format="philly" if case.is_philly else "muri",
        policies=(policy,),
        run_times=case.run_times,
        restart_s=case.restart_s,
        tick_s=case.tick_s,
        horizon_s=_OCTOBER_S if case.is_philly else None,
        entitlements=data / "queueing" / "philly_vc_nodes.csv" if case.is_philly else None,
    )
    return replay_policies(options)[0]


def results(case: Case, row: PolicyReplay) -> dict[str, float]:
    """The results of a row that are compared with their ranges: never times."""
    found = row.metrics
    values = {
        "mean_wait_s": None if found.wait_s is None else found.wait_s.mean,
        "gang_p95_wait_s": None if found.gang_wait_s is None else found.gang_wait_s.p95,
        "mean_completion_s": found.mean_completion_s,
        "utilization": found.utilization,
        "jain": found.jain if case.is_philly else None,
        "share_error_gpu_h": found.share_error_gpu_h,
        "shortfall_gpu_h": found.shortfall_gpu_h,
    }
    return {name: value for name, value in values.items() if value is not None}


def main() -> None:
    """Run the rows, print each as it comes, and write the results."""
    parser = argparse.ArgumentParser(description="The scheduling table.")
    parser.add_argument("--data", type=Path, required=True, help="the folder of the traces")
    parser.add_argument("--only", nargs="*", help="rows whose names begin like one of these")
    parser.add_argument("--out", type=Path, help="write the results here, as JSON")
    options = parser.parse_args()
    found = {}
    for case in CASES:
        if options.only and not case.name.startswith(tuple(options.only)):
            continue
        with TemporaryDirectory() as folder:
            row = run_case(case, options.data, Path(folder))
        found[case.name] = results(case, row)
        _print(case, row)
        if options.out:
            options.out.write_text(json.dumps(found, indent=2) + "\n")


def _print(case: Case, row: PolicyReplay) -> None:
    values = results(case, row)
    ours = values["mean_wait_s" if case.is_philly else "mean_completion_s"]
    reference = "-" if case.reference_s is None else f"{case.reference_s:,.2f}"
    rest = "  ".join(f"{name} {value:,.3f}" for name, value in values.items())
    p99_ms = 0.0 if row.cycle_s is None else row.cycle_s.p99 * 1000
    print(
        f"{case.name:38} reference {reference:>12}  ours {ours:>14,.2f} | {rest} | "
        f"{row.metrics.preemptions:,} preemptions, {row.cpu_s:.1f} s CPU, p99 {p99_ms:.2f} ms",
        flush=True,
    )


if __name__ == "__main__":
    main()
