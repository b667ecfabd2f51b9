"""A month of real arrivals on capacity that comes and goes, against a fixed cluster.

    python -m benchmarks.month --data DIR [--spot NAME ...] [--days N] [--out results.json]

The simulator replays the jobs with the planner, the placement and the rules for interrupted runs
that the worker uses. What is assumed:

- **Jobs**: Philly, October 2017 (`queueing/philly_oct2017.csv`), run times unchanged, no deadlines,
  all of one priority. The trace has no GPU type: each job takes any. No run time is stated; the
  planner learns them from jobs of the same team that have finished.
- **Cap**: the GPU-hours that arrive in the month are 70% of what the cap could do in it.
- **Fixed cluster**: as many GPUs as would ever be in use at once if no run waited, for the whole
  month, on-demand. It is not charged for the people who run it, nor we for ours. Next to it stands
  a fixed cluster of the cap, which has the waits of neither. What the same machines save at the
  on-demand price is what elasticity gives; the rest is what spot gives.
- **Commitments**: the catalog has no price of a commitment with a source. A fixed cluster that is
  committed for a year costs less than the month where its discount is larger than what is saved.
- **Machines**: p3.8xlarge (4 × V100 16 GB) in us-west-2 at the shipped catalog's prices, constant
  over the month. The spot traces are of V100s in that region, and this is the only V100 machine
  for which the catalog has spot prices there. Larger jobs are gangs with equal parts.
- **Spot**: two zones, `us-west-2a` and `b` of the traces, priced as usw2-az1 and az2 (which zone is
  called a differs between accounts). In a zone all spot machines go at once, two minutes after a
  notice, and none comes until the trace has spot again. The traces are of machines with one V100
  (`v100_1`) and with eight (`v100_8`); a machine with four is between them, so both are replayed.
  They last 27 days and then begin again. `none`: no spot, which shows what elasticity alone saves.
- **Which first**: spot where it can be had, as the policy says of jobs without a deadline, in zone
  a before b; otherwise on-demand. An interrupted job leaves that zone alone for a while, and all
  of spot after three interruptions in a row. All that is not named here is the policy's default.
- **Machines come** 4 minutes after they are asked for, paid from then on, and go after 10 minutes
  without work. The 4 minutes, and 5 for a restart, are those that Wu et al. measured for launch and
  set-up ("Can't Be Late", NSDI'24, section 6). Images are there.
- **Checkpoints**: every 10 minutes (the policy's default), standing still for 6 s (asynchronous,
  7B parameters, PyTorch DCP), and at the notice.
- **Window**: costs, GPU-hours and utilization are of the month's 31 days; waits, recoveries and
  failures of all its jobs, to their end.

That spot of 2022, as it was for one instance of one account at a time, is there for hundreds at
once, at prices of 2025, is assumed and not measured. That jobs recover and do not fail follows from
the rules of the replay: it has no failures but interruptions.

Each target is the mission's. Availability is not simulated. The results also show for how much of
the window any spot is up, independent of the demand, which is about what the share of spot can
be; and the waits of the jobs that came while all that was asked for was within the cap.
"""

import argparse
import math
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import accumulate, groupby
from pathlib import Path
from statistics import fmean

from benchmarks import report
from benchmarks.month_results import MonthResults, lines, month_results
from gpu_core.adapters.files.catalog_file import shipped_catalog
from gpu_core.adapters.traces.microsoft import read_philly
from gpu_core.adapters.traces.spot import read_spot_trace
from gpu_core.decisions.catalog.offerings import OfferingKey, TypeKey
from gpu_core.decisions.kubernetes.nodes.virtual_nodes import planned_nodes
from gpu_core.decisions.model.cluster import ON_DEMAND, SPOT, Node
from gpu_core.decisions.model.units import MICRO_USD_PER_USD
from gpu_core.decisions.policy.policy import Policy, parse_policy
from gpu_core.decisions.scheduling.cycle.planner import Planner
from gpu_core.decisions.simulation.cluster.engine import SimulationOptions, simulate
from gpu_core.decisions.simulation.cluster.outcomes import Simulation
from gpu_core.decisions.simulation.cluster.run_time_oracle import LearnedRunTimes
from gpu_core.decisions.simulation.cluster.trace import NodeEvent, Trace, TraceJob, interruption
from gpu_core.decisions.simulation.spot.trace import SpotTrace
from gpu_core.decisions.spot.node_avoidance import zone_of

_DAY_S = 86_400.0
_MONTH_DAYS = 31
_LOAD = 0.7
_NODE_START_S = 4 * 60.0
_NODE_IDLE_S = 10 * 60.0
_RESTART_S = 5 * 60.0
_NOTICE_S = 120.0
_CHECKPOINT_STALL_S = 6.0
# So long after the month the last jobs still find spot coming and going.
_SPOT_DAYS = 2 * _MONTH_DAYS

_MACHINE = TypeKey("aws", "p3.8xlarge")
_GPUS_PER_NODE = 4
_REGION = "us-west-2"
_ZONES = {"a": "usw2-az1", "b": "usw2-az2"}
_SPOT = ("v100_8", "v100_1", "none")


@dataclass(frozen=True, slots=True, kw_only=True)
class Market:
    """What one machine costs."""

    gpu_type: str
    on_demand_micro_usd_per_hour: int
    spot_micro_usd_per_hour: Mapping[str, int]
    """By zone, as the traces call it."""

    def micro_usd_per_hour(self, node: Node) -> int:
        """What does this machine cost?"""
        zone = zone_of(node)
        if zone is None:
            return self.on_demand_micro_usd_per_hour
        return self.spot_micro_usd_per_hour[zone]


@dataclass(frozen=True, slots=True, kw_only=True)
class Demand:
    """What the jobs of a month ask for."""

    mean_gpus: float
    """GPU-hours that arrive, by the hours of the month."""
    peak_gpus: int
    """In use at once if no run waited."""

    @property
    def cap_gpus(self) -> int:
        """GPUs that there may be at once."""
        return _in_whole_nodes(self.mean_gpus / _LOAD)

    @property
    def fixed_gpus(self) -> int:
        """GPUs of the fixed cluster."""
        return _in_whole_nodes(self.peak_gpus)


def market() -> Market:
    """The machine's prices in the shipped catalog."""
    catalog = shipped_catalog()
    machine = catalog.instance_types[_MACHINE]
    assert machine.gpu_count == _GPUS_PER_NODE

    def price(zone: str | None, capacity_type: str) -> int:
        key = OfferingKey(*_MACHINE, _REGION, zone, capacity_type)
        return catalog.offerings[key].price.micro_usd_per_hour

    return Market(
        gpu_type=machine.gpu_type,
        on_demand_micro_usd_per_hour=price(None, ON_DEMAND),
        spot_micro_usd_per_hour={name: price(zone, SPOT) for name, zone in _ZONES.items()},
    )


def demand(jobs: Sequence[TraceJob], window_s: float) -> Demand:
    """What do these jobs, submitted in this window, ask for?"""
    gpu_s = sum(job.duration_s * job.total_gpus for job in jobs)
    return Demand(
        mean_gpus=gpu_s / window_s,
        peak_gpus=math.ceil(max(accumulate(gpus for _, gpus, _ in _changes(jobs)))),
    )


def arrived_within(jobs: Iterable[TraceJob], cap_gpus: float) -> frozenset[str]:
    """Which jobs came while all that would run if no run waited was within the cap?"""
    changes = _changes(jobs)
    asked_gpus = accumulate(gpus for _, gpus, _ in changes)
    return frozenset(
        job_id
        for (_, gpus, job_id), asked in zip(changes, asked_gpus, strict=True)
        if gpus > 0 and asked <= cap_gpus
    )


def spot_up_share(traces: Iterable[SpotTrace], window_s: float) -> float:
    """For what part of the window is spot up in any zone? No more of the work can be on it."""
    zones = [(trace.is_up(), trace.tick_s) for trace in traces]
    if not zones:
        return 0.0
    ticks = math.ceil(window_s / zones[0][1])
    return fmean(any(is_up[tick % len(is_up)] for is_up, _ in zones) for tick in range(ticks))


def pool_policy(market: Market, cap_gpus: int, zones: Iterable[str]) -> Policy:
    """The defaults, with prices, how often jobs save, and what machines may come."""
    spot = [
        {"name": f"1-spot-{zone}", "capacity_type": SPOT, "zone": zone} for zone in sorted(zones)
    ]
    kinds = [*spot, {"name": "2-on-demand", "capacity_type": ON_DEMAND}]
    common = {
        "gpu_type": market.gpu_type,
        "gpus_per_node": _GPUS_PER_NODE,
        "max_nodes": cap_gpus // _GPUS_PER_NODE,
    }
    usd_per_gpu_hour = {
        ON_DEMAND: market.on_demand_micro_usd_per_hour,
        SPOT: fmean(market.spot_micro_usd_per_hour.values()),
    }
    return parse_policy(
        {
            "version": 1,
            "prices": {
                market.gpu_type: {
                    terms: price / MICRO_USD_PER_USD / _GPUS_PER_NODE
                    for terms, price in usd_per_gpu_hour.items()
                }
            },
            "kubernetes": {"provisioned": [kind | common for kind in kinds]},
        }
    )


def spot_events(nodes: Sequence[Node], trace: SpotTrace, until_s: float) -> Iterator[NodeEvent]:
    """When do these machines of one zone come and go? The trace is repeated after its end.

    Args:
        nodes: They can be had as the replay begins.
        trace: Of the zone.
        until_s: Where to stop.
    """
    is_up = trace.is_up()
    ticks = (is_up[tick % len(is_up)] for tick in range(math.ceil(until_s / trace.tick_s)))
    tick, was_up = 0, True
    for up, alike in groupby(ticks):
        at_s = float(tick * trace.tick_s)
        for node in nodes if up is not was_up else ():
            if up:
                yield NodeEvent(at_s=at_s, name=node.name, node=node)
            else:
                yield from interruption(node, at_s, min(_NOTICE_S, at_s))
        tick, was_up = tick + len(list(alike)), up


def replay_month(
    jobs: Sequence[TraceJob], policy: Policy, cap_gpus: int, traces: Mapping[str, SpotTrace]
) -> Simulation:
    """What becomes of these jobs?

    Args:
        jobs: Their gangs fit on the machines.
        policy: As `pool_policy` makes it.
        cap_gpus: GPUs that there may be at once.
        traces: Of spot, by zone.
    """
    nodes = planned_nodes(policy.kubernetes.provisioned, (), ())
    events = [
        event
        for zone, trace in traces.items()
        for event in spot_events(
            [node for node in nodes if zone_of(node) == zone], trace, _SPOT_DAYS * _DAY_S
        )
    ]
    interval_s = policy.checkpoints.interval_s
    saving = [
        replace(job, checkpoint_interval_s=interval_s, checkpoint_stall_s=_CHECKPOINT_STALL_S)
        for job in jobs
    ]
    return simulate(
        Trace(jobs=tuple(saving), nodes=nodes, events=tuple(events)),
        Planner(policy, nodes),
        LearnedRunTimes(policy.run_times),
        SimulationOptions(
            restart_s=_RESTART_S,
            grace_s=policy.preemption.grace_period_s,
            min_runtime_s=policy.preemption.min_runtime_s,
            max_protection_s=policy.preemption.max_protection_s,
            node_start_s=_NODE_START_S,
            node_idle_s=_NODE_IDLE_S,
            max_gpus=cap_gpus,
            capacity_policy=policy,
        ),
    )


def run(jobs: Sequence[TraceJob], days: float, traces: Mapping[str, SpotTrace]) -> MonthResults:
    """What was the month like, with this spot?"""
    window_s = days * _DAY_S
    prices, asked = market(), demand(jobs, window_s)
    policy = pool_policy(prices, asked.cap_gpus, traces)
    began_s = time.process_time()
    simulation = replay_month(jobs, policy, asked.cap_gpus, traces)
    return month_results(
        simulation,
        window_s=window_s,
        mean_gpus=asked.mean_gpus,
        cap_gpus=asked.cap_gpus,
        fixed_gpus=asked.fixed_gpus,
        on_demand_micro_usd_per_gpu_hour=prices.on_demand_micro_usd_per_hour / _GPUS_PER_NODE,
        micro_usd_per_hour=prices.micro_usd_per_hour,
        within_cap=arrived_within(jobs, asked.cap_gpus),
        spot_up_share=spot_up_share(traces.values(), window_s),
        cpu_s=time.process_time() - began_s,
    )


def main() -> None:
    """Replay the month with each kind of spot, print each as it comes, and write the results."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--data", type=Path, required=True, help="the folder of the traces")
    parser.add_argument("--spot", nargs="*", choices=_SPOT, default=_SPOT, help="which (all)")
    parser.add_argument("--days", type=int, default=_MONTH_DAYS, help="only the first ones")
    parser.add_argument("--out", type=Path, help="write the results here, as JSON")
    options = parser.parse_args()
    circumstances = report.circumstances()
    october = read_philly(options.data / "queueing" / "philly_oct2017.csv", _GPUS_PER_NODE)
    jobs = [job for job in october if job.submit_s < options.days * _DAY_S]
    found = {}
    for spot in options.spot:
        results = run(jobs, options.days, _traces(options.data, spot))
        print(f"\nSpot as of {spot}" if spot != "none" else "\nWithout spot", flush=True)
        print("\n".join(lines(results)), flush=True)
        found[spot] = results.document()
    if options.out:
        report.write(options.out, circumstances, found)


def _traces(data: Path, spot: str) -> dict[str, SpotTrace]:
    if spot == "none":
        return {}
    name = "aws-2022-10-26_us-west-2{}_{}.json"
    return {zone: read_spot_trace(data / "spot" / name.format(zone, spot)) for zone in _ZONES}


def _changes(jobs: Iterable[TraceJob]) -> list[tuple[float, float, str]]:
    """When do how many GPUs more, or fewer, run for whom, if no run waits?"""
    return sorted(
        change
        for job in jobs
        for change in (
            (job.submit_s, job.total_gpus, job.job_id),
            (job.submit_s + job.duration_s, -job.total_gpus, job.job_id),
        )
    )


def _in_whole_nodes(gpus: float) -> int:
    return math.ceil(gpus / _GPUS_PER_NODE) * _GPUS_PER_NODE


if __name__ == "__main__":
    main()
