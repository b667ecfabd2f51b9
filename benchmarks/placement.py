"""How much of a real cluster is allocated? `python -m benchmarks.placement --data DIR`.

OpenB (Alibaba, cluster-trace-gpu-v2023): pods come one after the other to 1,213 nodes with 6,212
GPUs until they have asked for 130% of them. A pod that fits nowhere when it comes is lost; none
ends, none moves. This is the protocol of FGD (Weng et al., ATC'23), whose published results are
shown next to ours: for this very order where they are known, and the mean of ten orders.
The mix of requests is learned from the pods that have come so far.
"""

import argparse
import csv
import json
import time
from dataclasses import asdict, dataclass
from pathlib import Path

from gpu_core.decisions.model.cluster import Node
from gpu_core.decisions.model.workload import WHOLE_GPU_MILLI, Shape
from gpu_core.decisions.policy.placement import Strategy
from gpu_core.decisions.simulation.cluster.offered_load import by_strategy, offer

# Allocated % at 130% arrivals, from the published runs of the FGD repository, by order.
_FGD_SAME_ORDER = {
    ("default", 42): 95.29,
    ("default", 43): 95.32,
    ("default", 44): 95.44,
    ("cpu250", 42): 93.51,
    ("gpushare40", 42): 94.24,
    ("gpuspec33", 42): 94.39,
    ("multigpu50", 42): 97.16,
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """One order of one list of pods."""

    workload: str
    seed: int
    pods: int
    at_100_percent: float | None
    """Allocated GPUs when as much as the cluster has was asked for, in %."""
    at_130_percent: float
    """The same when all pods have come."""
    failed: int
    pods_per_s: float
    """Offered pods per second of processor time, on one core, with those that failed."""
    fgd_same_order_percent: float | None
    fgd_mean_percent: float
    best_fit_mean_percent: float


def main() -> None:
    """Print the measurement."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--data", type=Path, required=True, help="the folder with openb/")
    parser.add_argument("--workload", help="one list of pods (all that have an order)")
    parser.add_argument("--seed", type=int, help="one order (all)")
    parser.add_argument("--json", action="store_true", help="one JSON array instead of a table")
    arguments = parser.parse_args()
    openb = arguments.data / "openb"
    rows = [
        run(openb, workload, seed)
        for workload, seed in _orders(openb)
        if arguments.workload in (None, workload) and arguments.seed in (None, seed)
    ]
    if arguments.json:
        print(json.dumps([asdict(row) for row in rows]))
        return
    print("workload    seed  at 100%  at 130%  failed   pods/s  FGD same  FGD mean  BestFit mean")
    for row in rows:
        same = "-" if row.fgd_same_order_percent is None else f"{row.fgd_same_order_percent:.2f}"
        print(
            f"{row.workload:12}{row.seed:4}{row.at_100_percent:10.2f}{row.at_130_percent:10.2f}"
            f"{row.failed:8,}{row.pods_per_s:9,.0f}{same:>10}{row.fgd_mean_percent:10.2f}"
            f"{row.best_fit_mean_percent:14.2f}"
        )


def run(openb: Path, workload: str, seed: int) -> Row:
    """Offer all pods in this order; the processor time is of everything but reading the files."""
    nodes, pods = _nodes(openb), _pods(openb, workload, seed)
    gpus = sum(len(node.gpu_ids) for node in nodes)
    began = time.process_time()
    found = offer(pods, gpus, by_strategy(nodes, Strategy.FRAGMENTATION_AWARE))
    elapsed_s = time.process_time() - began
    published = _published(openb)
    return Row(
        workload=workload,
        seed=seed,
        pods=len(pods),
        at_100_percent=found.allocated_at_100_percent,
        at_130_percent=found.allocated_percent,
        failed=found.failed,
        pods_per_s=len(pods) / elapsed_s,
        fgd_same_order_percent=_FGD_SAME_ORDER.get((workload, seed)),
        fgd_mean_percent=published[workload, "06-FGD"],
        best_fit_mean_percent=published[workload, "05-BestFit"],
    )


def _orders(openb: Path) -> list[tuple[str, int]]:
    names = [path.stem.partition("_seed") for path in (openb / "orders").glob("*_seed*.txt")]
    return sorted((workload, int(seed)) for workload, _, seed in names)


def _nodes(openb: Path) -> list[Node]:
    with (openb / "openb_node_list_gpu_node.csv").open(newline="") as lines:
        return [
            Node(
                name=row["sn"],
                gpu_type=row["model"],
                gpu_ids=tuple(str(gpu) for gpu in range(int(row["gpu"]))),
                cpu_milli=int(row["cpu_milli"]),
                memory_mib=int(row["memory_mib"]),
                is_shareable=True,
            )
            for row in csv.DictReader(lines)
        ]


def _pods(openb: Path, workload: str, seed: int) -> list[Shape]:
    with (openb / f"openb_pod_list_{workload}.csv").open(newline="") as lines:
        pods = [_shape(row) for row in csv.DictReader(lines)]
    numbers = (openb / "orders" / f"{workload}_seed{seed}.txt").read_text().split()
    return [pods[int(number)] for number in numbers]


def _shape(row: dict[str, str]) -> Shape:
    gpu_count = int(row["num_gpu"])
    return Shape(
        gpu_count=gpu_count,
        gpu_types=tuple(filter(None, (row.get("gpu_spec") or "").split("|"))),
        gpu_share_milli=int(row["gpu_milli"]) if gpu_count else WHOLE_GPU_MILLI,
        cpu_milli=int(row["cpu_milli"]),
        memory_mib=int(row["memory_mib"]),
    )


def _published(openb: Path) -> dict[tuple[str, str], float]:
    with (openb / "fgd_expected_summary.csv").open(newline="") as lines:
        return {
            (row["workload"], row["policy"]): float(row["alloc_at_130_mean"])
            for row in csv.DictReader(lines)
        }


if __name__ == "__main__":
    main()
