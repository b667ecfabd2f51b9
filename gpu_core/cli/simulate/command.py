"""`prefect-gpu simulate`: the outcome of these jobs under another policy."""

import json
import time
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

from gpu_core.adapters.files.policy_file import load_policy
from gpu_core.adapters.files.text_file import is_file
from gpu_core.adapters.traces.clusters import shorthand_nodes
from gpu_core.adapters.traces.json_lines import read_json_lines
from gpu_core.adapters.traces.kueue import GeneratedWorkload, read_generator
from gpu_core.adapters.traces.microsoft import read_muri, read_philly
from gpu_core.adapters.traces.node_events import read_node_events
from gpu_core.adapters.traces.openb import (
    read_openb_nodes,
    read_openb_order,
    read_openb_pods,
    read_openb_shapes,
)
from gpu_core.adapters.traces.table import read_table
from gpu_core.cli.shared.tables import print_table
from gpu_core.cli.shared.terminal import wrapped
from gpu_core.cli.simulate.offered_load import run_offering
from gpu_core.cli.simulate.options import SimulateOptions
from gpu_core.cli.simulate.table import simulation_table
from gpu_core.decisions.model.cluster import Flavor, Node
from gpu_core.decisions.model.errors import InvalidInput
from gpu_core.decisions.policy.ordering import OrderKey
from gpu_core.decisions.policy.policy import Policy
from gpu_core.decisions.policy.run_times import RunTimePolicy
from gpu_core.decisions.scheduling.cycle.planner import Planner
from gpu_core.decisions.scheduling.plan.plan import Plan
from gpu_core.decisions.simulation.cluster.engine import SimulationOptions, simulate
from gpu_core.decisions.simulation.cluster.run_time_oracle import (
    LearnedRunTimes,
    NoisyRunTimes,
    NoRunTimes,
    RunTimeOracle,
    StatedRunTimes,
    TrueRunTimes,
)
from gpu_core.decisions.simulation.cluster.trace import Trace, TraceJob
from gpu_core.decisions.simulation.policies.fitting import fitting
from gpu_core.decisions.simulation.policies.metrics import Metrics, Spread, metrics, spread
from gpu_core.decisions.simulation.policies.named_policies import (
    DEFAULT_POLICY,
    RESUMABLE_POLICY,
    named_policy,
)
from gpu_core.decisions.simulation.policies.resuming import gain_text, share_that_resumes


@dataclass(frozen=True, slots=True, kw_only=True)
class PolicyReplay:
    """One policy's row."""

    policy: str
    metrics: Metrics
    cycles: int
    cpu_s: float
    cycle_s: Spread | None


def replay_policies(options: SimulateOptions) -> tuple[PolicyReplay, ...]:
    """What was the replay like under each of the policies?

    Raises:
        InvalidInput: Something that was asked for cannot be used.
    """
    return _replay_trace(_trace(options), options)


def _replay_trace(trace: Trace, options: SimulateOptions) -> tuple[PolicyReplay, ...]:
    policies = [(text, _policy(text)) for text in options.policies]
    always = []
    if options.format == "ledger":
        always = [RESUMABLE_POLICY] if share_that_resumes(trace.jobs) else []
        always.append(DEFAULT_POLICY)
    policies += [(name, named_policy(name)) for name in always if name not in options.policies]
    if options.format == "kueue":
        stated = read_generator(options.workload)
        policies = [(text, _with_rules(policy, stated)) for text, policy in policies]
    entitlements = None if options.entitlements is None else _weights(options.entitlements)
    return tuple(_replay(trace, name, policy, options, entitlements) for name, policy in policies)


def run_simulate(options: SimulateOptions) -> int:
    """Replay, and print a table or JSON. Returns the exit code."""
    if options.order is not None:
        return run_offering(_trace(options), options.policies, _policy, as_json=options.as_json)
    trace = _trace(options)
    rows = _replay_trace(trace, options)
    if options.as_json:
        print(json.dumps([asdict(row) for row in rows], indent=2))
    else:
        print_table(simulation_table([(row.policy, row.metrics, row.cpu_s) for row in rows]))
        replayed = {row.policy: row.metrics for row in rows}
        found = fitting(replayed)
        gain = gain_text(trace.jobs, replayed) if options.format == "ledger" else None
        for text in (None if found is None else found.text, gain):
            if text is not None:
                print(wrapped(text))
    return 0


class TimedPlanner(Planner):
    """The planner; `cycle_s` has the CPU seconds of each call of `plan`."""

    def __init__(self, policy: Policy, nodes: Sequence[Node]) -> None:
        super().__init__(policy, nodes)
        self.cycle_s: list[float] = []

    def plan(self, *args: Any, **kwargs: Any) -> Plan:
        """As `Planner.plan`."""
        began_s = time.process_time()
        plan = super().plan(*args, **kwargs)
        self.cycle_s.append(time.process_time() - began_s)
        return plan


def _replay(
    trace: Trace,
    name: str,
    policy: Policy,
    options: SimulateOptions,
    entitlements: Mapping[str, float] | None,
) -> PolicyReplay:
    planner = TimedPlanner(policy, trace.nodes)
    began_s = time.process_time()
    simulation = simulate(trace, planner, _knowledge(options), _simulation_options(policy, options))
    cpu_s = time.process_time() - began_s
    return PolicyReplay(
        policy=name,
        metrics=metrics(
            simulation,
            gpus=trace.gpus,
            horizon_s=options.horizon_s,
            entitlements=entitlements,
            micro_usd_per_gpu_hour=_prices(policy),
        ),
        cycles=simulation.cycles,
        cpu_s=cpu_s,
        cycle_s=spread(planner.cycle_s),
    )


def _simulation_options(policy: Policy, options: SimulateOptions) -> SimulationOptions:
    preemption = policy.preemption
    needs_usage = OrderKey.FAIR_SHARE in policy.ordering.keys
    return SimulationOptions(
        restart_s=options.restart_s,
        grace_s=preemption.grace_period_s,
        min_runtime_s=preemption.min_runtime_s if preemption.enabled else 0,
        max_protection_s=preemption.max_protection_s,
        tick_s=options.tick_s,
        usage_half_life_s=policy.fair_share.half_life_s if needs_usage else None,
    )


def _knowledge(options: SimulateOptions) -> RunTimeOracle:
    match options.run_times:
        case "true":
            return TrueRunTimes()
        case "noisy":
            return NoisyRunTimes(options.seed)
        case "stated":
            return StatedRunTimes()
        case "learned":
            return LearnedRunTimes(RunTimePolicy())
        case _:
            return NoRunTimes()


def _policy(text: str) -> Policy:
    path = Path(text)
    return load_policy(path) if is_file(path) else named_policy(text)


def _with_rules(policy: Policy, stated: GeneratedWorkload) -> Policy:
    """The workload's quotas and rules of preemption hold where the policy has none of its own."""
    changes: dict[str, Any] = {}
    if policy.quotas is None:
        changes["quotas"] = stated.quotas
    if stated.preempts is not None and "enabled" not in policy.preemption.model_fields_set:
        changes["preemption"] = policy.preemption.model_copy(update={"enabled": stated.preempts})
    return policy.model_copy(update=changes)


def _trace(options: SimulateOptions) -> Trace:
    path = Path(options.nodes)
    nodes = read_openb_nodes(path) if is_file(path) else shorthand_nodes(options.nodes)
    return Trace(
        jobs=_with_checkpoints(_jobs(options, nodes), options),
        nodes=nodes,
        events=() if options.events is None else read_node_events(options.events, nodes),
    )


def _with_checkpoints(jobs: tuple[TraceJob, ...], options: SimulateOptions) -> tuple[TraceJob, ...]:
    interval_s, stall_s = options.checkpoint_interval_s, options.checkpoint_stall_s
    if interval_s is None:
        if stall_s:
            raise InvalidInput("checkpoint-cost", "has no effect without checkpoint-interval")
        return jobs
    return tuple(
        replace(job, checkpoint_interval_s=interval_s, checkpoint_stall_s=stall_s)
        if job.checkpoint_interval_s is None
        else job
        for job in jobs
    )


def _jobs(options: SimulateOptions, nodes: Sequence[Node]) -> tuple[TraceJob, ...]:
    path = Path(options.workload)
    if options.order is not None and options.format != "openb":
        raise InvalidInput("order", "has no effect", got=options.format, allowed="format openb")
    largest_node_gpus = max((len(node.gpu_ids) for node in nodes), default=0)
    if not largest_node_gpus:
        raise InvalidInput("nodes", "have no GPU")
    match options.format:
        case "philly":
            return read_philly(path, largest_node_gpus)
        case "muri":
            return read_muri(path, largest_node_gpus)
        case "openb":
            if options.order is not None:
                return read_openb_order(options.order, read_openb_shapes(path))
            return read_openb_pods(path)
        case "kueue":
            return read_generator(options.workload).jobs
        case "ledger":
            # SQLAlchemy takes longer to load than a small replay takes.
            from gpu_core.adapters.traces.ledger import read_ledger

            return read_ledger(options.workload)
        case _:
            return read_json_lines(path)


def _weights(path: Path) -> dict[str, float]:
    """The file's first column is the team, `node num` or `weight` its weight."""
    rows: list[Any] = list(read_table(path, ("vc", "node num")))
    weights = {row.text("vc"): row.number("node num") for row in rows}
    if not sum(weights.values()):
        raise InvalidInput(str(path), "has no weight over 0", remedy="give a team a weight")
    return weights


def _prices(policy: Policy) -> dict[Flavor, int]:
    return {
        Flavor(gpu_type, capacity_type): price
        for gpu_type, prices in policy.prices.items()
        for capacity_type, price in prices.items()
        if price is not None
    }
